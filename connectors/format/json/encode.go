package json

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// encoder belongs to one goroutine.
type encoder struct {
	fields    []field
	unit      unit
	omitNulls bool
}

// field is a member made ready for writing.
type field struct {
	name   []byte // quoted, with the colon
	column int
}

func newEncoder(c format.Config) (format.Encoder, error) {
	e := &encoder{unit: unitOf(c.Options), omitNulls: c.Options.Enum("null_fields") == "omit"}
	for i, f := range c.Schema.Fields {
		if i < len(c.Skip) && c.Skip[i] {
			continue
		}
		if err := check(f.Name, f.Type); err != nil {
			return nil, err
		}
		for j, other := range c.Schema.Fields[:i] {
			if other.Name == f.Name && (j >= len(c.Skip) || !c.Skip[j]) {
				return nil, fault.New(fault.Config, "two columns are called %s: an object of JSON has each name once; rename one with AS", f.Name)
			}
		}
		e.fields = append(e.fields, field{append(appendString(nil, f.Name), ':'), i})
	}
	return e, nil
}

// Encode implements format.Encoder.
func (e *encoder) Encode(dst []byte, b *messages.Batch, i int) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for k := range e.fields {
		f := &e.fields[k]
		c := b.Column(f.column)
		if e.omitNulls && c.IsNull(i) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.name...)
		var err error
		if dst, err = e.value(dst, c, i); err != nil {
			return dst, fault.Wrap(fault.BadRow, err, "column %s", b.Schema().Fields[f.column].Name)
		}
	}
	return append(dst, '}'), nil
}

func (e *encoder) value(dst []byte, c *messages.Column, i int) ([]byte, error) {
	if c.IsNull(i) {
		return append(dst, "null"...), nil
	}
	t := c.Type()
	switch t.Kind {
	case messages.Boolean:
		return strconv.AppendBool(dst, c.Bool(i)), nil
	case messages.TinyInt:
		return strconv.AppendInt(dst, int64(c.Int8s()[i]), 10), nil
	case messages.SmallInt:
		return strconv.AppendInt(dst, int64(c.Int16s()[i]), 10), nil
	case messages.Int:
		return strconv.AppendInt(dst, int64(c.Int32s()[i]), 10), nil
	case messages.BigInt:
		return strconv.AppendInt(dst, c.Int64s()[i], 10), nil
	case messages.Float:
		return appendFloat(dst, float64(c.Float32s()[i]), 32), nil
	case messages.Double:
		return appendFloat(dst, c.Float64s()[i], 64), nil
	case messages.Decimal:
		return format.AppendDecimal(dst, c.Decimals()[i], t.Scale), nil
	case messages.String:
		return appendString(dst, c.Str(i)), nil
	case messages.Binary:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, c.Bytes(i))
		return append(dst, '"'), nil
	case messages.Date:
		dst = append(dst, '"')
		dst = format.AppendDate(dst, c.Int32s()[i])
		return append(dst, '"'), nil
	case messages.Timestamp, messages.TimestampNTZ:
		return e.timestamp(dst, t.Kind, c.Int64s()[i]), nil
	case messages.Array:
		return e.array(dst, c, i)
	case messages.Map:
		return e.entries(dst, c, i)
	case messages.Struct:
		return e.structure(dst, c, i)
	}
	return dst, fault.New(fault.BadRow, "type %s has no JSON form", t)
}

func (e *encoder) timestamp(dst []byte, k messages.Kind, v int64) []byte {
	if e.unit != iso && k == messages.Timestamp {
		q := v / int64(e.unit)
		if v%int64(e.unit) < 0 {
			q-- // cut off towards the past, as for instants after 1970
		}
		return strconv.AppendInt(dst, q, 10)
	}
	dst = append(dst, '"')
	dst = format.AppendTimestamp(dst, v, k == messages.Timestamp)
	return append(dst, '"')
}

func (e *encoder) array(dst []byte, c *messages.Column, i int) ([]byte, error) {
	off := c.Offsets()
	dst = append(dst, '[')
	for j := off[i]; j < off[i+1]; j++ {
		if j > off[i] {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = e.value(dst, c.Child(0), int(j)); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (e *encoder) entries(dst []byte, c *messages.Column, i int) ([]byte, error) {
	off := c.Offsets()
	keys, values := c.Child(0).Child(0), c.Child(0).Child(1)
	dst = append(dst, '{')
	for j := off[i]; j < off[i+1]; j++ {
		if j > off[i] {
			dst = append(dst, ',')
		}
		if keys.IsNull(int(j)) {
			return dst, fault.New(fault.BadRow, "the key of a map is NULL")
		}
		dst = e.key(dst, keys, int(j))
		dst = append(dst, ':')
		var err error
		if dst, err = e.value(dst, values, int(j)); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// key writes a map's key, which newEncoder has checked to be a scalar, as a
// string. Timestamps are always ISO-8601 here.
func (e *encoder) key(dst []byte, c *messages.Column, i int) []byte {
	switch c.Type().Kind {
	case messages.Timestamp:
		dst = append(dst, '"')
		dst = format.AppendTimestamp(dst, c.Int64s()[i], true)
		return append(dst, '"')
	case messages.String, messages.Date, messages.TimestampNTZ:
		dst, _ = e.value(dst, c, i) // these kinds give no error
		return dst
	}
	dst = append(dst, '"')
	dst, _ = e.value(dst, c, i) // scalar kinds give no error
	return append(dst, '"')
}

func (e *encoder) structure(dst []byte, c *messages.Column, i int) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	fields := c.Type().Fields
	for k := range fields {
		f := c.Child(k)
		if e.omitNulls && f.IsNull(i) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendString(dst, fields[k].Name)
		dst = append(dst, ':')
		var err error
		if dst, err = e.value(dst, f, i); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// appendFloat writes what is no JSON number as a string.
func appendFloat(dst []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		dst = append(dst, '"')
		dst = format.AppendFloat(dst, v, bits)
		return append(dst, '"')
	}
	return format.AppendFloat(dst, v, bits)
}

const hexDigits = "0123456789abcdef"

// appendString writes s in quotes. Bytes that are not UTF-8 become U+FFFD, so
// that the document is always valid.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if special[c] {
				dst = append(dst, s[from:i]...)
				dst = appendEscape(dst, c)
				from = i + 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\ufffd"...)
			from = i + 1
		}
		i += size
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
