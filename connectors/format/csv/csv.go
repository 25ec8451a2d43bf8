// Package csv reads and writes rows as delimited text (RFC 4180).
//
// A record is one row. Its fields belong to the columns in order, or, when
// files have a header, to the columns the header names (exactly, else without
// regard to case); fields the header gives other names are ignored. A record
// with more or fewer fields is bad, and so is a field that does not fit its
// column. A field in quotes may hold delimiters, quotes and line breaks. An
// empty record is no row, unless there is only one column: then it is a NULL.
//
// A field equal to null_value and not in quotes is NULL. Numbers, booleans and
// times may have spaces around them. Dates and timestamps are ISO-8601, binary
// is base64; arrays, maps and structs have no form here.
package csv

import (
	"strings"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Format returns the record of the format.
func Format() format.Format {
	return format.Format{
		Name:      "csv",
		Doc:       "Delimited text as in RFC 4180, one record per row.",
		Extension: ".csv",
		Options: []option.Option{
			{Name: "header", Kind: option.Bool, Default: "false", Doc: "Whether files begin with a line of column names; a source finds its columns by them (default false)."},
			{Name: "delimiter", Default: ",", Doc: "Character between fields, \\t for a tab (default a comma)."},
			{Name: "quote", Default: `"`, Doc: "Character around fields that hold delimiters or line breaks (default a double quote)."},
			{Name: "escape", Default: "", Doc: "Character before a quote inside quotes; empty means that the quote is doubled (default empty)."},
			{Name: "null_value", Default: "", Doc: "Text of a field that is NULL, when it is not in quotes (default empty)."},
		},
		Decoder: newDecoder,
		Encoder: newEncoder,
		Header:  header,
	}
}

// dialect is what the options say.
type dialect struct {
	header               bool
	delim, quote, escape byte // escape equals quote when quotes are doubled
	null                 string
}

func dialectOf(o option.Values) (d dialect, err error) {
	d.header, d.null = o.Bool("header"), o.String("null_value")
	if d.delim, err = oneByte("delimiter", o.String("delimiter")); err != nil {
		return d, err
	}
	if d.quote, err = oneByte("quote", o.String("quote")); err != nil {
		return d, err
	}
	d.escape = d.quote
	if e := o.String("escape"); e != "" {
		if d.escape, err = oneByte("escape", e); err != nil {
			return d, err
		}
	}
	if d.delim == d.quote || d.delim == d.escape {
		return d, fault.New(fault.Config, "format csv: delimiter, quote and escape must differ")
	}
	if strings.IndexByte(d.null, d.quote) >= 0 || strings.IndexByte(d.null, d.delim) >= 0 || strings.ContainsAny(d.null, "\r\n") {
		return d, fault.New(fault.Config, "format csv: null_value %q must not hold delimiters, quotes or line breaks", d.null)
	}
	return d, nil
}

func oneByte(name, text string) (byte, error) {
	if text == `\t` {
		return '\t', nil
	}
	if len(text) != 1 || text[0] == '\n' || text[0] == '\r' || text[0] >= 0x80 || text[0] == 0 {
		return 0, fault.New(fault.Config, "format csv: %s %q must be one ASCII character", name, text)
	}
	return text[0], nil
}

// columnsOf lists the columns that are fields of the payload.
func columnsOf(c format.Config) ([]int, error) {
	var cols []int
	for i, f := range c.Schema.Fields {
		if i < len(c.Metadata) && c.Metadata[i] {
			continue
		}
		switch f.Type.Kind {
		case messages.Array, messages.Map, messages.Struct, messages.Interval, messages.Null:
			return nil, fault.New(fault.Config, "format csv: column %s: type %s has no CSV form; use to_json or its single fields", f.Name, f.Type)
		}
		cols = append(cols, i)
	}
	return cols, nil
}

func header(c format.Config) ([]byte, error) {
	d, err := dialectOf(c.Options)
	if err != nil || !d.header {
		return nil, err
	}
	cols, err := columnsOf(c)
	if err != nil {
		return nil, err
	}
	var line []byte
	for k, i := range cols {
		if k > 0 {
			line = append(line, d.delim)
		}
		line = d.appendField(line, []byte(c.Schema.Fields[i].Name), true)
	}
	return line, nil
}

type encoder struct {
	dialect
	cols []int
	text []byte
}

func newEncoder(c format.Config) (format.Encoder, error) {
	d, err := dialectOf(c.Options)
	if err != nil {
		return nil, err
	}
	cols, err := columnsOf(c)
	if err != nil {
		return nil, err
	}
	return &encoder{dialect: d, cols: cols}, nil
}

// Encode implements format.Encoder.
func (e *encoder) Encode(dst []byte, b *messages.Batch, i int) ([]byte, error) {
	for k, col := range e.cols {
		if k > 0 {
			dst = append(dst, e.delim)
		}
		c := b.Column(col)
		if c.IsNull(i) {
			dst = append(dst, e.null...)
			continue
		}
		e.text, _ = format.AppendScalar(e.text[:0], c, i) // columnsOf lets only scalars through
		dst = e.appendField(dst, e.text, c.Type().Kind == messages.String || string(e.text) == e.null)
	}
	return dst, nil
}

// appendField appends a field, in quotes where it would be misread without.
// Only check may need them.
func (d *dialect) appendField(dst, s []byte, check bool) []byte {
	if !check || !d.needsQuotes(s) {
		return append(dst, s...)
	}
	dst = append(dst, d.quote)
	for _, c := range s {
		if c == d.quote || c == d.escape {
			dst = append(dst, d.escape)
		}
		dst = append(dst, c)
	}
	return append(dst, d.quote)
}

func (d *dialect) needsQuotes(s []byte) bool {
	if string(s) == d.null || len(s) == 0 {
		return true
	}
	for _, c := range s {
		if c == d.delim || c == d.quote || c == d.escape || c == '\n' || c == '\r' {
			return true
		}
	}
	return false
}
