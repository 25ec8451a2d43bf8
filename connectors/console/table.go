package console

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
)

// minWidth is the least width of a column, so that short tables stay legible.
const minWidth = 3

// table is a printed table in the making. It keeps the first rows as text and
// counts the others.
type table struct {
	limit, cut int
	header     []string
	rows       [][]string
	ops        []messages.RowKind // of rows
	deletes    bool               // some row is a delete: show what each row does
	total      int
	whole      bool // it is a whole result, which is printed even if it is empty
	buf        []byte
	// keys are the columns of a group, of which only the latest row counts, nil:
	// every row does. at holds the places of the groups, also of those that are
	// only counted.
	keys []int
	at   map[string]int
}

func newTable(s *messages.Schema, limit, cut int) *table {
	t := &table{limit: limit, cut: cut}
	for _, f := range s.Fields {
		t.header = append(t.header, clean(f.Name))
	}
	return t
}

// latestBy makes the table show each group once.
func (t *table) latestBy(keys []int) {
	if len(keys) > 0 {
		t.keys, t.at = keys, map[string]int{}
	}
}

// place finds the place of a row: that of an earlier one of its group, or the
// next. The values of a key are told apart by their lengths.
func (t *table) place(b *messages.Batch, r int) (at int, known bool) {
	if t.keys == nil {
		return t.total, false
	}
	t.buf = t.buf[:0]
	for _, c := range t.keys {
		from := len(t.buf)
		t.buf = appendValue(t.buf, b.Column(c), r)
		null := byte(0)
		if b.Column(c).IsNull(r) {
			null = 1
		}
		t.buf = append(binary.AppendUvarint(t.buf, uint64(len(t.buf)-from)), null)
	}
	if at, known = t.at[string(t.buf)]; !known {
		at = t.total
		t.at[string(t.buf)] = at
	}
	return at, known
}

func (t *table) add(b *messages.Batch) {
	t.whole = t.whole || b.Frame() != 0
	kinds := b.Kinds()
	for i := range b.Rows() {
		r, kind := b.Row(i), messages.Insert
		if kinds != nil {
			kind = kinds[r]
		}
		if kind == messages.UpdateBefore {
			continue // the row that follows shows the new values
		}
		t.deletes = t.deletes || kind == messages.Delete
		at, known := t.place(b, r)
		if !known {
			t.total++
		}
		if at >= t.limit {
			continue
		}
		row := make([]string, b.Columns())
		for c := range row {
			t.buf = appendValue(t.buf[:0], b.Column(c), r)
			row[c] = t.shorten(clean(string(t.buf)))
		}
		if known {
			if t.ops[at] == messages.Insert && kind == messages.UpdateAfter {
				kind = messages.Insert // the one before was not shown
			}
			t.rows[at], t.ops[at] = row, kind
			continue
		}
		t.rows = append(t.rows, row)
		t.ops = append(t.ops, kind)
	}
}

func (t *table) shorten(s string) string {
	if t.cut == 0 || utf8.RuneCountInString(s) <= t.cut {
		return s
	}
	return string([]rune(s)[:t.cut-3]) + "..."
}

// clean escapes what would break the table or drive the terminal.
func clean(s string) string {
	if strings.IndexFunc(s, isControl) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case isControl(r):
			b.WriteString(`\u` + strings.ToUpper(strconv.FormatInt(0x10000|int64(r), 16)[1:]))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 }

// append writes header line, table and what was left out.
func (t *table) append(dst []byte, query string, e messages.Epoch) []byte {
	const rule = "-------------------------------------------\n"
	dst = append(dst, rule...)
	dst = append(dst, "Query: "...)
	dst = append(dst, clean(query)...)
	dst = append(dst, "  Epoch: "...)
	dst = strconv.AppendUint(dst, uint64(e), 10)
	dst = append(append(dst, '\n'), rule...)
	header, rows := t.header, t.rows
	if t.deletes {
		header = append([]string{"op"}, header...)
		rows = make([][]string, len(t.rows))
		for i, r := range t.rows {
			rows[i] = append([]string{opName(t.ops[i])}, r...)
		}
	}
	widths := make([]int, len(header))
	for c := range header {
		widths[c] = max(minWidth, utf8.RuneCountInString(header[c]))
		for _, r := range rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(r[c]))
		}
	}
	dst = line(dst, widths)
	dst = t.cells(dst, header, widths)
	dst = line(dst, widths)
	for _, r := range rows {
		dst = t.cells(dst, r, widths)
	}
	dst = line(dst, widths)
	if t.total > t.limit {
		dst = append(dst, "only showing "...)
		dst = strconv.AppendInt(dst, int64(t.limit), 10)
		dst = append(dst, " of "...)
		dst = strconv.AppendInt(dst, int64(t.total), 10)
		dst = append(dst, " rows\n"...)
	}
	return append(dst, '\n')
}

func opName(k messages.RowKind) string {
	switch k {
	case messages.Delete:
		return "delete"
	case messages.UpdateAfter:
		return "update"
	default:
		return "insert"
	}
}

func line(dst []byte, widths []int) []byte {
	dst = append(dst, '+')
	for _, w := range widths {
		dst = append(dst, bytes.Repeat([]byte{'-'}, w)...)
		dst = append(dst, '+')
	}
	return append(dst, '\n')
}

// cells writes a row, aligned to the right when values are cut, as Spark does.
func (t *table) cells(dst []byte, row []string, widths []int) []byte {
	dst = append(dst, '|')
	for c, v := range row {
		pad := bytes.Repeat([]byte{' '}, widths[c]-utf8.RuneCountInString(v))
		if t.cut > 0 {
			dst = append(append(dst, pad...), v...)
		} else {
			dst = append(append(dst, v...), pad...)
		}
		dst = append(dst, '|')
	}
	return append(dst, '\n')
}

// appendValue writes a value as Spark's show does.
func appendValue(dst []byte, c *messages.Column, i int) []byte {
	if c.IsNull(i) {
		return append(dst, "NULL"...)
	}
	switch c.Type().Kind {
	case messages.Float:
		return appendFloat(dst, float64(c.Float32s()[i]), 32)
	case messages.Double:
		return appendFloat(dst, c.Float64s()[i], 64)
	case messages.Binary:
		return appendBinary(dst, c.Bytes(i))
	case messages.Timestamp, messages.TimestampNTZ:
		return appendTime(dst, c.Int64s()[i])
	case messages.Interval:
		v := c.Intervals()[i]
		dst = strconv.AppendInt(dst, int64(v.Months), 10)
		dst = append(dst, " months "...)
		dst = strconv.AppendInt(dst, int64(v.Days), 10)
		dst = append(dst, " days "...)
		dst = strconv.AppendFloat(dst, float64(v.Nanos)/1e9, 'f', -1, 64)
		return append(dst, " seconds"...)
	}
	if dst, ok := format.AppendScalar(dst, c, i); ok {
		return dst
	}
	return appendNested(dst, c, i)
}

func appendNested(dst []byte, c *messages.Column, i int) []byte {
	switch t := c.Type(); t.Kind {
	case messages.Array:
		dst = append(dst, '[')
		for j := c.Offsets()[i]; j < c.Offsets()[i+1]; j++ {
			if j > c.Offsets()[i] {
				dst = append(dst, ", "...)
			}
			dst = appendValue(dst, c.Child(0), int(j))
		}
		return append(dst, ']')
	case messages.Map:
		dst = append(dst, '{')
		for j := c.Offsets()[i]; j < c.Offsets()[i+1]; j++ {
			if j > c.Offsets()[i] {
				dst = append(dst, ", "...)
			}
			dst = appendValue(dst, c.Child(0).Child(0), int(j))
			dst = append(dst, " -> "...)
			dst = appendValue(dst, c.Child(0).Child(1), int(j))
		}
		return append(dst, '}')
	case messages.Struct:
		dst = append(dst, '{')
		for k := range t.Fields {
			if k > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendValue(dst, c.Child(k), i)
		}
		return append(dst, '}')
	}
	return append(dst, "NULL"...)
}

func appendBinary(dst, v []byte) []byte {
	const hexDigits = "0123456789ABCDEF"
	dst = append(dst, '[')
	for i, b := range v {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return append(dst, ']')
}

// appendTime writes date and time without the zeros at the end of the fraction.
func appendTime(dst []byte, v int64) []byte {
	dst = format.AppendClock(dst, v, ' ', 6)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	if dst[len(dst)-1] == '.' {
		return dst[:len(dst)-1]
	}
	return dst
}

// appendFloat writes at least one digit behind the point, and an exponent where
// the number is very large or small, as Java does.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	case a == 0 || a >= 1e-3 && a < 1e7:
		from := len(dst)
		dst = strconv.AppendFloat(dst, v, 'f', -1, bits)
		if bytes.IndexByte(dst[from:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	s := strconv.FormatFloat(v, 'E', -1, bits)
	mantissa, exp, _ := strings.Cut(s, "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exp) // FormatFloat wrote it
	return append(dst, mantissa+"E"+strconv.Itoa(n)...)
}
