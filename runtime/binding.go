package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Error classes of statements that define sources and sinks.
const (
	classOption  = "INVALID_OPTION"
	className    = "ALREADY_EXISTS"
	classUnknown = "TABLE_OR_VIEW_NOT_FOUND"
	classNotYet  = "NOT_YET_SUPPORTED"
)

// commonSource and commonSink are the options that every connector takes.
var commonSource = []option.Option{
	{Name: "connector", Kind: option.String, Required: true, Doc: "The outside system: nats, file, socket, rate, ..."},
	{Name: "format", Kind: option.String, Doc: "How records are encoded: json, csv, text."},
	{Name: "on_error", Kind: option.Enum, Default: "fail", Values: []string{"fail", "null", "drop", "dead_letter"}, Doc: "What to do with a record that cannot be decoded."},
	{Name: "dead_letter", Kind: option.String, Doc: "The sink that takes bad records with on_error = 'dead_letter'."},
	{Name: "max_rows_per_second", Kind: option.Int, Min: 1, Doc: "How many rows a query takes from the source per second, over all partitions; more waits outside. Records that give several rows count as those."},
}

var commonSink = append([]option.Option{
	{Name: "connector", Kind: option.String, Required: true, Doc: "The outside system: nats, file, console, ..."},
	{Name: "format", Kind: option.String, Doc: "How rows are encoded: json, csv, text."},
}, deliveryOptions...)

// deliveryOptions are those of a sink built by a Go program, too.
var deliveryOptions = []option.Option{
	{Name: "guarantee", Kind: option.Enum, Values: []string{"at_least_once", "exactly_once", "transactional"}, Doc: "What the sink promises about each row; by default the best that costs no latency."},
	{Name: "visibility", Kind: option.Enum, Default: "auto", Values: []string{"auto", "at_once", "epoch"}, Doc: "Whether readers see rows when they are produced or after their epoch has committed."},
}

// definition is a CREATE SOURCE, CREATE TABLE or CREATE SINK that has been
// checked as far as it can be without a query.
type definition struct {
	name      string
	span      sql.Span
	connector connectors.Connector
	format    *format.Format
	options   option.Values // common, connector and format options together
	schema    *messages.Schema
	metadata  map[int]string
	watermark *plan.WatermarkDecl
	streaming bool
	broken    bool // its options are wrong, its columns are known
	// source and sink are given by Go programs instead of a connector.
	source func() (connectors.Source, func(needed []bool) func() (*connectors.Rows, error))
	sink   connectors.Sink
}

func given(opts []sql.Option) []option.Given {
	out := make([]option.Given, len(opts))
	for i, o := range opts {
		out[i] = option.Given{Key: o.Key, Value: o.Value, Pos: o.KeySpan.Start}
	}
	return out
}

// optionErrors gives option faults the place of their key.
func optionErrors(at sql.Span, opts []sql.Option, errs []*option.Error) []*sql.Error {
	var out []*sql.Error
	for _, e := range errs {
		span := at
		for _, o := range opts {
			if o.KeySpan.Start == e.Pos {
				span = o.KeySpan
			}
		}
		out = append(out, &sql.Error{Class: classOption, Msg: e.Text, Hint: e.Hint, Span: span})
	}
	return out
}

// lookup finds the value of a key among options as written, before they have
// been checked.
func lookup(opts []sql.Option, key string) (sql.Option, bool) {
	i := slices.IndexFunc(opts, func(o sql.Option) bool { return option.Fold(o.Key) == option.Fold(key) })
	if i < 0 {
		return sql.Option{}, false
	}
	return opts[i], true
}

// define checks the connector, the format and all options of a definition.
func (s *Session) define(d *definition, using *sql.Ident, opts []sql.Option, sink bool) []*sql.Error {
	name, span := "", d.span
	if using != nil {
		name, span = using.Name, using.Span
		opts = append([]sql.Option{{Key: "connector", Value: name, KeySpan: span, ValueSpan: span}}, opts...)
	} else if o, ok := lookup(opts, "connector"); ok {
		name, span = o.Value, o.ValueSpan
	}
	if name == "" {
		return []*sql.Error{configError(span, classOption, "option connector is missing: WITH (connector = '...')")}
	}
	c, err := s.registry.Connector(name)
	if err != nil {
		errs := []*sql.Error{configError(span, classOption, "%v", err)}
		if o, ok := lookup(opts, "format"); ok {
			if _, err := s.registry.Format(o.Value); err != nil {
				errs = append(errs, configError(o.ValueSpan, classOption, "%v", err))
			}
		}
		return errs
	}
	d.connector = c
	common, own, what := commonSource, c.SourceOptions, c.Name+" source"
	if sink {
		common, own, what = commonSink, c.SinkOptions, c.Name+" sink"
	}
	if sink && c.Sink == nil || !sink && c.Source == nil {
		return []*sql.Error{configError(span, classOption, "connector %s has no %s", c.Name, strings.TrimPrefix(what, c.Name+" "))}
	}
	all := append(slices.Clone(common), own...)
	var formatErr []*sql.Error
	if o, ok := lookup(opts, "format"); ok {
		f, err := s.registry.Format(o.Value)
		if err != nil {
			formatErr = []*sql.Error{configError(o.ValueSpan, classOption, "%v", err)}
		}
		d.format = &f
		for _, fo := range f.Options {
			if !slices.ContainsFunc(all, func(o option.Option) bool { return o.Name == fo.Name }) {
				all = append(all, fo)
			}
		}
	}
	if !sink {
		if opts, err = sparkStart(all, opts); err != nil {
			o, _ := lookup(opts, sparkStartOption)
			return append(formatErr, configError(o.ValueSpan, classOption, "%v", err))
		}
	}
	v, errs := option.Parse(what, all, given(opts))
	d.options = v
	return append(formatErr, optionErrors(d.span, opts, errs)...)
}

// sparkStartOption is Spark's name of the option start.
const sparkStartOption = "startingOffsets"

// sparkStart lets Spark's startingOffsets set the option start, where the connector
// has that.
func sparkStart(known []option.Option, opts []sql.Option) ([]sql.Option, error) {
	o, ok := lookup(opts, sparkStartOption)
	if !ok || !slices.ContainsFunc(known, func(k option.Option) bool { return k.Name == "start" }) {
		return opts, nil
	}
	if strings.HasPrefix(strings.TrimSpace(o.Value), "{") {
		return opts, fmt.Errorf("%s: offsets per partition are not supported; write earliest or latest here, or start = 'seq:17' or 'time:2026-01-31T00:00:00Z'", o.Key)
	}
	out := slices.Clone(opts)
	for i := range out {
		if option.Fold(out[i].Key) == option.Fold(sparkStartOption) {
			out[i].Key = "start"
		}
	}
	return out, nil
}

// valueError places an error of a connector at the option that it is about, which
// such errors begin with.
func valueError(d *definition, opts []sql.Option, err error) *sql.Error {
	span := d.span
	if name, _, ok := strings.Cut(err.Error(), ":"); ok {
		o, found := lookup(opts, name)
		if !found && name == "start" {
			o, found = lookup(opts, sparkStartOption)
		}
		if found {
			span = o.ValueSpan
		}
	}
	return configError(span, classOption, "%v", err)
}

// columns turns column definitions into a schema and checks them.
func (d *definition) columns(cols []sql.ColumnDef) []*sql.Error {
	if len(cols) == 0 {
		return nil
	}
	var errs []*sql.Error
	d.schema = &messages.Schema{}
	d.metadata = map[int]string{}
	for i, c := range cols {
		t, err := expr.TypeOf(c.Type)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if d.schema.Index(c.Name.Name) >= 0 {
			errs = append(errs, configError(c.Name.Span, "COLUMN_ALREADY_EXISTS", "column %s is defined twice", c.Name.Name))
		}
		if c.IsMetadata && d.connector.Name != "" {
			errs = append(errs, d.metadataColumn(i, c, t)...)
		}
		d.schema.Fields = append(d.schema.Fields, messages.Field{Name: c.Name.Name, Type: t})
	}
	return errs
}

func (d *definition) metadataColumn(i int, c sql.ColumnDef, t messages.Type) []*sql.Error {
	names := make([]string, len(d.connector.Metadata))
	for k, m := range d.connector.Metadata {
		names[k] = m.Name
		if option.Fold(m.Name) != option.Fold(c.Metadata) {
			continue
		}
		if !m.Type.Equal(t) {
			return []*sql.Error{configError(c.Span, "DATATYPE_MISMATCH", "metadata %s is %s, the column is declared as %s", m.Name, m.Type, t)}
		}
		d.metadata[i] = m.Name
		return nil
	}
	e := configError(c.Span, classOption, "connector %s has no metadata %q", d.connector.Name, c.Metadata)
	if n, ok := option.Nearest(c.Metadata, names); ok {
		e.Hint = "did you mean " + n + "?"
	} else if len(names) > 0 {
		e.Hint = "known: " + strings.Join(names, ", ")
	}
	return []*sql.Error{e}
}

// watermarkDecl checks WATERMARK FOR.
func (d *definition) watermarkDecl(w *sql.WatermarkDef) []*sql.Error {
	if w == nil {
		return nil
	}
	if d.schema == nil {
		return []*sql.Error{configError(w.Span, classOption, "WATERMARK needs a column list")}
	}
	i := d.schema.Index(w.Column.String())
	if i < 0 {
		return []*sql.Error{configError(w.Column.Span, "UNRESOLVED_COLUMN.WITH_SUGGESTION", "there is no column %s; columns: %s", w.Column, d.schema)}
	}
	if k := d.schema.Fields[i].Type.Kind; k != messages.Timestamp && k != messages.TimestampNTZ {
		return []*sql.Error{configError(w.Column.Span, "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE", "the watermark column %s is %s, it must be a timestamp", w.Column, d.schema.Fields[i].Type)}
	}
	d.watermark = &plan.WatermarkDecl{Column: d.schema.Fields[i].Name}
	if w.Delay != nil {
		delay, err := delayOf(w.Delay.Value)
		if err != nil {
			return []*sql.Error{configError(w.Delay.Span, "ILLEGAL_ARGUMENT", "%v", err)}
		}
		d.watermark.Delay = delay
	}
	return nil
}

// monthDays is how many days a month counts for in a delay, as in Spark.
const monthDays = 31

// delayOf turns an interval into a watermark delay.
func delayOf(v sql.Interval) (time.Duration, error) {
	d := time.Duration(int64(v.Months)*monthDays+int64(v.Days))*24*time.Hour + time.Duration(v.Micros)*time.Microsecond
	if d < 0 {
		return 0, fmt.Errorf("the delay of a watermark must not be negative")
	}
	return d, nil
}

// env is what connectors are lent.
func (s *Session) env() connectors.Env {
	return connectors.Env{Log: s.cfg.Log, Clock: s.sys.Clock(), Stdout: s.cfg.Stdout, BaseDir: s.cfg.BaseDir}
}

// maxRows is how many rows per second a query takes from a source, 0: no limit.
func (d *definition) maxRows() int64 {
	if !d.options.Declared("max_rows_per_second") { // given by a Go program
		return 0
	}
	return d.options.Int("max_rows_per_second")
}

// onError is the policy of a source.
func (d *definition) onError() connectors.OnError {
	if d.source != nil {
		return connectors.FailOnError
	}
	p, err := connectors.ParseOnError(d.options.Enum("on_error"))
	if err != nil {
		return connectors.FailOnError // the value was checked as an Enum
	}
	return p
}

// handle is a table's plan.Handle.
type handle struct {
	d      *definition
	source connectors.Source
	rows   func(needed []bool) func() (*connectors.Rows, error)
}

// Source returns the configured source.
func (h *handle) Source() connectors.Source { return h.source }

// Rows returns a factory of collectors that decode the needed columns.
func (h *handle) Rows(needed []bool) func() (*connectors.Rows, error) { return h.rows(needed) }

// open makes the source of a definition. It does not connect.
func (s *Session) open(ctx context.Context, d *definition) (*handle, error) {
	if d.source != nil {
		src, rows := d.source()
		return &handle{d: d, source: src, rows: rows}, nil
	}
	decoder := func(needed []bool) func() (format.Decoder, error) {
		if d.format == nil {
			return nil
		}
		return func() (format.Decoder, error) {
			return d.format.Decoder(format.Config{Schema: d.schema, Skip: d.skip(needed), Metadata: d.skip(nil), Options: d.options})
		}
	}
	if d.format != nil && d.schema != nil { // columns that the format cannot read are no surprise for later
		if _, err := decoder(nil)(); err != nil {
			return nil, err
		}
	}
	src, err := d.connector.Source(ctx, connectors.SourceConfig{
		Options: d.options, Decoder: decoder(nil), OnError: d.onError(), Schema: d.schema, MetadataColumns: d.metadata, Env: s.env(),
	})
	if err != nil {
		return nil, err
	}
	h := &handle{d: d, source: src}
	h.rows = func(needed []bool) func() (*connectors.Rows, error) {
		dec := decoder(needed)
		return func() (*connectors.Rows, error) {
			var x format.Decoder
			if dec != nil {
				var err error
				if x, err = dec(); err != nil {
					return nil, err
				}
			}
			return connectors.NewRows(src.Schema(), x, d.onError()), nil
		}
	}
	return h, nil
}

// skip says which columns a decoder leaves out: metadata and what is not needed.
func (d *definition) skip(needed []bool) []bool {
	skip := make([]bool, d.schema.Len())
	for i := range skip {
		_, meta := d.metadata[i]
		skip[i] = meta || needed != nil && !needed[i]
	}
	return skip
}

// openSink makes the sink of a definition for rows of the given schema. It does
// not connect.
func (s *Session) openSink(ctx context.Context, d *definition, schema *messages.Schema) (connectors.Sink, error) {
	if d.sink != nil {
		return d.sink, nil
	}
	cfg := connectors.SinkConfig{Options: d.options, Schema: schema, Env: s.env()}
	if d.format != nil {
		if d.format.Encoder == nil {
			return nil, fmt.Errorf("format %s cannot write", d.format.Name)
		}
		cfg.Format = *d.format
		cfg.FormatConfig = format.Config{Schema: schema, Options: d.options}
		cfg.Encoder = func(sc *messages.Schema) (format.Encoder, error) {
			return d.format.Encoder(format.Config{Schema: sc, Options: d.options})
		}
	}
	return d.connector.Sink(ctx, cfg)
}
