package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// DataFrame is a table that may be unbounded: a plan, not data. Its methods
// return new frames; nothing is read until WriteStream. The first error is kept
// and returned there, or by Err.
type DataFrame struct {
	s    *Session
	node plan.Node
	err  error
}

// SQL is the result table of a SELECT statement.
func (s *Session) SQL(query string) *DataFrame {
	st, err := sql.ParseStatement(query)
	if err != nil {
		return s.failed("SQL", query, err)
	}
	sel, ok := st.(*sql.SelectStatement)
	if !ok {
		return &DataFrame{s: s, err: fault.New(fault.Config, "SQL takes a SELECT; use Exec for other statements")}
	}
	cat, fail := s.snapshot()
	n, errs := plan.FromSelect(sel.Query, cat, plan.Options{})
	if err := scriptError("SQL", query, append(*fail, errs...)); err != nil {
		return &DataFrame{s: s, err: err}
	}
	return &DataFrame{s: s, node: n}
}

// Table is a source, table or view that has been defined.
func (s *Session) Table(name string) *DataFrame { return s.SQL("SELECT * FROM " + Col(name).text) }

// snapshot is the session's catalog as it is now. The second value collects what
// goes wrong while handles are made.
func (s *Session) snapshot() (*planCatalog, *[]*sql.Error) {
	s.mu.Lock()
	c := s.catalog.clone()
	s.mu.Unlock()
	var errs []*sql.Error
	return &planCatalog{
		catalog: c, handles: map[*definition]*handle{},
		open: func(d *definition) (*handle, error) { return s.open(s.ctx, d) },
		fail: func(d *definition, err error) {
			errs = append(errs, configError(sql.Span{}, classOption, "%s: %v", d.name, err))
		},
	}, &errs
}

func (s *Session) failed(name, text string, err error) *DataFrame {
	if e, ok := err.(*sql.Error); ok { //nolint:errorlint // the parser returns its own type
		err = scriptError(name, text, []*sql.Error{e})
	}
	return &DataFrame{s: s, err: err}
}

// From makes a frame of a source built by a Go program. The name identifies it
// in plans and checkpoints.
func (s *Session) From(name string, src connectors.Source) *DataFrame {
	h := goHandle(src)
	t := &plan.Table{Name: name, Schema: src.Schema(), Streaming: true, Handle: h}
	return &DataFrame{s: s, node: plan.NewScan(t)}
}

// Register makes a source built by a Go program known to SQL. watermarkColumn may
// be empty; delay is an interval such as "10 seconds".
func (s *Session) Register(name string, src connectors.Source, watermarkColumn, delay string) error {
	s.defining.Lock()
	defer s.defining.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.catalog.taken(name) {
		return fault.New(fault.Config, "source %s exists already", name)
	}
	d := &definition{name: name, streaming: true, schema: src.Schema()}
	if watermarkColumn != "" {
		if src.Schema().Index(watermarkColumn) < 0 {
			return fault.New(fault.Config, "source %s has no column %s", name, watermarkColumn)
		}
		at, err := parseDelay(delay)
		if err != nil {
			return err
		}
		d.watermark = &plan.WatermarkDecl{Column: watermarkColumn, Delay: at}
	}
	d.source = func() (connectors.Source, func([]bool) func() (*connectors.Rows, error)) {
		return src, goHandle(src).rows
	}
	s.catalog.addSource(d)
	return nil
}

// Delivery is what a query asks of a sink built by a Go program, with the values of
// the sink options of these names: Guarantee at_least_once, exactly_once or
// transactional, Visibility at_once or epoch. Empty fields leave the choice to the
// planner, which takes the best that costs no latency.
type Delivery struct{ Guarantee, Visibility string }

func (d Delivery) options() (option.Values, error) {
	var asked []option.Given
	for _, o := range []option.Given{{Key: "guarantee", Value: d.Guarantee}, {Key: "visibility", Value: d.Visibility}} {
		if o.Value != "" {
			asked = append(asked, o)
		}
	}
	values, errs := option.Parse("sink", deliveryOptions, asked)
	if len(errs) > 0 {
		return values, fault.New(fault.Config, "%v", errs[0])
	}
	return values, nil
}

// RegisterSink makes a sink built by a Go program known to SQL.
func (s *Session) RegisterSink(name string, sink connectors.Sink) error {
	return s.RegisterSinkAs(name, sink, Delivery{})
}

// RegisterSinkAs is RegisterSink for a sink that is to be written to in a certain way.
func (s *Session) RegisterSinkAs(name string, sink connectors.Sink, d Delivery) error {
	values, err := d.options()
	if err != nil {
		return err
	}
	s.defining.Lock()
	defer s.defining.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.catalog.sinks[key(name)] != nil {
		return fault.New(fault.Config, "sink %s exists already", name)
	}
	s.catalog.addSink(&definition{name: name, sink: sink, options: values})
	return nil
}

func goHandle(src connectors.Source) *handle {
	return &handle{source: src, rows: func([]bool) func() (*connectors.Rows, error) {
		return func() (*connectors.Rows, error) {
			return connectors.NewRows(src.Schema(), nil, connectors.FailOnError), nil
		}
	}}
}

// Err returns what is wrong with the frame.
func (df *DataFrame) Err() error { return df.err }

// Schema returns the names and types of the columns, nil if the frame is wrong.
func (df *DataFrame) Schema() *messages.Schema {
	if df.err != nil {
		return nil
	}
	return plan.Schema(df.node)
}

// then builds the next frame from this one.
func (df *DataFrame) then(what string, f func(plan.Node) (plan.Node, []*sql.Error)) *DataFrame {
	if df.err != nil {
		return df
	}
	n, errs := f(df.node)
	if len(errs) > 0 {
		parts := make([]string, len(errs))
		for i, e := range errs {
			parts[i] = e.Error()
		}
		err := fault.New(fault.Config, "%s: %s", what, strings.Join(parts, "; "))
		return &DataFrame{s: df.s, err: fault.WithClass(err, errs[0].Class)}
	}
	return &DataFrame{s: df.s, node: n}
}

// parse turns columns into select items; wrong ones give an error that shows the
// text.
func parse(cols []Column) ([]sql.SelectItem, []*sql.Error) {
	var items []sql.SelectItem
	var errs []*sql.Error
	for _, c := range cols {
		it, err := sql.ParseSelectItem(c.item())
		if err != nil {
			errs = append(errs, configError(sql.Span{}, "PARSE_SYNTAX_ERROR", "%s: %v", c.item(), err))
			continue
		}
		items = append(items, it)
	}
	return items, errs
}

// Select computes columns; Expr("*") stands for all.
func (df *DataFrame) Select(cols ...Column) *DataFrame {
	return df.then("select", func(n plan.Node) (plan.Node, []*sql.Error) {
		items, errs := parse(cols)
		if len(errs) > 0 {
			return nil, errs
		}
		return plan.NewSelect(n, items, plan.Options{})
	})
}

// Filter keeps the rows for which the condition is true.
func (df *DataFrame) Filter(cond Column) *DataFrame {
	return df.then("filter", func(n plan.Node) (plan.Node, []*sql.Error) {
		items, errs := parse([]Column{cond})
		if len(errs) > 0 {
			return nil, errs
		}
		return plan.NewFilter(n, items[0].Expr, plan.Options{})
	})
}

// WithColumn adds a column, or replaces the one of that name.
func (df *DataFrame) WithColumn(name string, c Column) *DataFrame {
	return df.then("withColumn", func(n plan.Node) (plan.Node, []*sql.Error) {
		items, errs := parse([]Column{c})
		if len(errs) > 0 {
			return nil, errs
		}
		return plan.NewWithColumn(n, name, items[0].Expr, plan.Options{})
	})
}

// Drop leaves columns out.
func (df *DataFrame) Drop(names ...string) *DataFrame {
	return df.then("drop", func(n plan.Node) (plan.Node, []*sql.Error) { return plan.NewDrop(n, names...), nil })
}

// WithWatermark declares the event time: rows come at most delay later than the
// newest one. delay is an interval such as "10 seconds"; a month counts as 31
// days.
func (df *DataFrame) WithWatermark(column, delay string) *DataFrame {
	d, err := parseDelay(delay)
	if err != nil {
		return &DataFrame{s: df.s, err: err}
	}
	return df.then("withWatermark", func(n plan.Node) (plan.Node, []*sql.Error) { return plan.NewWatermark(n, column, d) })
}

// parseDelay reads the delay of a watermark.
func parseDelay(text string) (time.Duration, error) {
	v, err := sql.ParseInterval(text)
	if err != nil {
		return 0, fault.WithClass(fault.New(fault.Config, "watermark delay %q: %v", text, err), "ANALYSIS_ERROR")
	}
	d, err := delayOf(v)
	if err != nil {
		return 0, fault.WithClass(fault.New(fault.Config, "watermark delay %q: %v", text, err), "ILLEGAL_ARGUMENT")
	}
	return d, nil
}

// Union has the rows of both frames, by position.
func (df *DataFrame) Union(o *DataFrame) *DataFrame {
	if df.err == nil && o.err != nil {
		return o
	}
	return df.then("union", func(n plan.Node) (plan.Node, []*sql.Error) { return plan.NewUnion(n, o.node) })
}

// GroupBy groups rows, by columns or by Window.
func (df *DataFrame) GroupBy(cols ...Column) *Grouped { return &Grouped{df: df, by: cols} }

// Grouped is a grouped frame.
type Grouped struct {
	df *DataFrame
	by []Column
}

// Agg computes aggregates per group; the grouping columns come first.
func (g *Grouped) Agg(aggs ...Column) *DataFrame {
	return g.df.then("agg", func(n plan.Node) (plan.Node, []*sql.Error) {
		groups, errs := parse(g.by)
		items, more := parse(aggs)
		if errs = append(errs, more...); len(errs) > 0 {
			return nil, errs
		}
		by := make([]sql.Expr, len(groups))
		for i := range groups {
			by[i] = groups[i].Expr
		}
		return plan.NewAggregate(n, by, append(slices.Clone(groups), items...), plan.Options{})
	})
}

// Count counts the rows of each group in a column called count.
func (g *Grouped) Count() *DataFrame { return g.Agg(Count().As("count")) }

// Write says where the rows of a query go and how.
type Write struct {
	// Name is the query's name, its identity across runs. Empty means the sink's.
	Name string
	// Sink is the name of a sink defined with CREATE SINK or RegisterSink; To is
	// a sink built by the program. Both empty: the console.
	Sink string
	To   connectors.Sink
	// Delivery is what is asked of To; a sink with a name has its own.
	Delivery Delivery
	// Mode is append (also when empty), update or complete.
	Mode string
	// Options are query options such as {"epoch_interval": "100ms"}.
	Options map[string]string
	// EpochInterval is the time between checkpoints; 0 means the option, or 1 s.
	EpochInterval time.Duration
}

func (w *Write) options() []sql.Option {
	m := maps.Clone(w.Options)
	if m == nil {
		m = map[string]string{}
	}
	if w.Mode != "" {
		m["output_mode"] = w.Mode
	}
	if w.EpochInterval != 0 {
		m["epoch_interval"] = w.EpochInterval.String()
	}
	var opts []sql.Option
	for _, k := range slices.Sorted(maps.Keys(m)) {
		opts = append(opts, sql.Option{Key: k, Value: m[k]})
	}
	return opts
}

// WriteStream starts a query that writes the frame's rows. It returns at once;
// the query runs until it is stopped, ends or fails.
func (df *DataFrame) WriteStream(ctx context.Context, w Write) (*Query, error) {
	if df.err != nil {
		return nil, df.err
	}
	sc := &script{s: df.s, ctx: ctx}
	cat, _ := df.s.snapshot()
	sc.catalog = cat.catalog
	p := &prepared{name: w.Name, node: df.node, options: w.options()}
	switch {
	case w.To != nil:
		values, err := w.Delivery.options()
		if err != nil {
			return nil, err
		}
		p.sink = &definition{name: "sink", sink: w.To, options: values}
	case w.Sink != "":
		d, err := sc.catalog.sink(sql.Name{Parts: []sql.Ident{{Name: w.Sink}}})
		if err != nil {
			return nil, fault.WithClass(fault.New(fault.Config, "%v", err), err.Class)
		}
		p.sink = d
		if p.name == "" {
			p.name = w.Sink
		}
	}
	if p.name == "" {
		return nil, fault.New(fault.Config, "the query needs a name (Write.Name): its checkpoint is found under it")
	}
	sc.query(p)
	if err := scriptError(fmt.Sprintf("query %q", p.name), "", sc.errs); err != nil {
		return nil, err
	}
	return df.s.startPrepared(p)
}
