package csv

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

type decoder struct {
	dialect
	schema *messages.Schema
	cols   []int // columns in the order of the payload's fields without a header
	skip   []bool
	// fields maps a field's position to its column, -1 for a field to ignore.
	fields []int
	line   []byte // the header that fields was made from
	text   []byte // a field taken out of its quotes
}

func newDecoder(c format.Config) (format.Decoder, error) {
	d, err := dialectOf(c.Options)
	if err != nil {
		return nil, err
	}
	cols, err := columnsOf(c)
	if err != nil {
		return nil, err
	}
	return &decoder{dialect: d, schema: c.Schema, cols: cols, skip: c.Skip, fields: cols}, nil
}

// Header implements format.HeaderDecoder.
func (d *decoder) Header(line []byte) (bool, error) {
	if !d.header {
		return false, nil
	}
	line = bytes.TrimPrefix(trimEnd(line), []byte("\xef\xbb\xbf"))
	if d.line != nil && bytes.Equal(line, d.line) {
		return true, nil
	}
	var names []string
	for rest, more := line, true; more; {
		name, _, after, again, problem := d.next(rest)
		if problem != "" {
			return false, fault.New(fault.Config, "format csv: header %q: %s", line, problem)
		}
		names = append(names, string(name))
		rest, more = after, again
	}
	fields := make([]int, len(names))
	for i := range fields {
		fields[i] = -1
	}
	for _, col := range d.cols {
		if d.skipped(col) {
			continue
		}
		i := position(names, d.schema.Fields[col].Name)
		if i < 0 {
			return false, fault.New(fault.Config, "format csv: the header %q has no column %s; rename the column, or set header = 'false'", line, d.schema.Fields[col].Name)
		}
		fields[i] = col
	}
	d.fields, d.line = fields, append([]byte{}, line...)
	return true, nil
}

func position(names []string, name string) int {
	folded := -1
	for i, n := range names {
		n = strings.TrimSpace(n)
		if n == name {
			return i
		}
		if folded < 0 && strings.EqualFold(n, name) {
			folded = i
		}
	}
	return folded
}

func (d *decoder) skipped(col int) bool { return col < len(d.skip) && d.skip[col] }

// Continues implements format.LineJoiner: the record goes on when the line ends
// inside quotes.
func (d *decoder) Continues(line []byte, open bool) bool {
	if bytes.IndexByte(line, d.quote) < 0 && (!open || d.escape == d.quote || bytes.IndexByte(line, d.escape) < 0) {
		return open
	}
	start := !open // at the start of a field
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case open && c == d.escape && d.escape != d.quote:
			i++
		case open && c == d.quote:
			if d.escape == d.quote && i+1 < len(line) && line[i+1] == d.quote {
				i++
			} else {
				open = false
			}
		case !open && c == d.quote && start:
			open = true
		}
		start = !open && c == d.delim
	}
	return open
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}

// Decode implements format.Decoder.
func (d *decoder) Decode(dst *messages.Builder, payload []byte, fill func(*messages.Builder)) error {
	payload = trimEnd(payload)
	if len(payload) == 0 && len(d.fields) != 1 {
		return nil
	}
	n := 0
	for rest, more := payload, true; more; n++ {
		text, quoted, after, again, problem := d.next(rest)
		if problem != "" {
			return fault.New(fault.BadRow, "field %d: %s", n+1, problem)
		}
		rest, more = after, again
		if n >= len(d.fields) || d.fields[n] < 0 || d.skipped(d.fields[n]) {
			continue
		}
		if err := d.field(dst.Column(d.fields[n]), d.fields[n], text, quoted); err != nil {
			return err
		}
	}
	if n != len(d.fields) {
		return fault.New(fault.BadRow, "the record has %d fields, %d are expected", n, len(d.fields))
	}
	if fill != nil {
		fill(dst)
	}
	dst.EndRow()
	return nil
}

func (d *decoder) field(c *messages.Column, col int, text []byte, quoted bool) error {
	if !quoted && string(text) == d.null {
		c.AppendNull()
		return nil
	}
	k := c.Type().Kind
	if k != messages.String {
		text = bytes.TrimSpace(text)
	}
	if format.AppendText(c, text) {
		return nil
	}
	name := d.schema.Fields[col].Name
	if k == messages.String {
		return fault.New(fault.BadRow, "field %s: the text is not valid UTF-8", name)
	}
	return fault.New(fault.BadRow, "field %s: %s is not a %s", name, preview(text), c.Type())
}

func preview(b []byte) string {
	const limit = 40
	if len(b) > limit {
		return strconv.Quote(string(b[:limit])) + "..."
	}
	return strconv.Quote(string(b))
}

// next takes the first field off rest. more tells whether another one follows
// in after. text is valid until the next call.
func (d *decoder) next(rest []byte) (text []byte, quoted bool, after []byte, more bool, problem string) {
	if len(rest) > 0 && rest[0] == d.quote {
		return d.quoted(rest[1:])
	}
	i := bytes.IndexByte(rest, d.delim)
	if i >= 0 {
		text, after, more = rest[:i], rest[i+1:], true
	} else {
		text = rest
	}
	if bytes.IndexByte(text, d.quote) >= 0 {
		return nil, false, nil, false, "a quote stands inside a field that does not begin with one"
	}
	if bytes.IndexByte(text, '\n') >= 0 {
		return nil, false, nil, false, "a line break stands outside quotes"
	}
	return text, false, after, more, ""
}

// quoted is next behind an opening quote.
func (d *decoder) quoted(rest []byte) (text []byte, quoted bool, after []byte, more bool, problem string) {
	d.text = d.text[:0]
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch {
		case c == d.escape && i+1 < len(rest) && (rest[i+1] == d.quote || rest[i+1] == d.escape):
			i++
			d.text = append(d.text, rest[i])
		case c == d.quote:
			after = rest[i+1:]
			if len(after) == 0 {
				return d.text, true, nil, false, ""
			}
			if after[0] != d.delim {
				return nil, false, nil, false, "text follows the closing quote"
			}
			return d.text, true, after[1:], true, ""
		default:
			d.text = append(d.text, c)
		}
	}
	return nil, false, nil, false, "the closing quote is missing"
}
