package json

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
)

// value reads one value into c.
func (d *decoder) value(f *node, c *messages.Column) bool {
	switch d.space() {
	case 0:
		if d.pos >= len(d.in) {
			return d.unexpected("a value")
		}
	case 'n':
		if !d.literal("null") {
			return false
		}
		c.AppendNull()
		return true
	}
	switch f.typ.Kind {
	case messages.String:
		return d.anyText(c)
	case messages.Struct:
		return d.structure(f, c)
	case messages.Array:
		return d.array(f, c)
	case messages.Map:
		return d.entries(f, c)
	case messages.Boolean:
		return d.boolean(f, c)
	case messages.Null:
		if !d.skip() {
			return false
		}
		c.AppendNull()
		return true
	}
	switch b := d.in[d.pos]; {
	case b == '"':
		raw, escaped, ok := d.str()
		if !ok {
			return false
		}
		if f.typ.Kind.IsInteger() || d.unit != iso && f.typ.Kind == messages.Timestamp {
			d.pos -= len(raw) + 2
			return d.mismatch(f)
		}
		return d.text(f, c, raw, escaped)
	case b == '-' || b >= '0' && b <= '9':
		text, integer, ok := d.number()
		if !ok {
			return false
		}
		if !d.numeric(f, c, text, integer) {
			d.failPos -= len(text) // where the number starts
			return false
		}
		return true
	}
	return d.mismatch(f)
}

// mismatch fails because the value at pos is not of the type of f.
func (d *decoder) mismatch(f *node) bool {
	pos := d.pos
	if !d.skip() {
		return false
	}
	text := preview(d.in[pos:d.pos])
	d.pos = pos
	want := f.typ.String()
	if f.typ.Kind == messages.Timestamp && d.unit == iso {
		want = "timestamp; a number needs option timestamp_format"
	}
	return d.fail(text + " is not a " + want)
}

func (d *decoder) boolean(f *node, c *messages.Column) bool {
	switch d.in[d.pos] {
	case 't':
		if !d.literal("true") {
			return false
		}
		c.AppendBool(true)
		return true
	case 'f':
		if !d.literal("false") {
			return false
		}
		c.AppendBool(false)
		return true
	}
	return d.mismatch(f)
}

// anyText reads a string, or the JSON text of any other value.
func (d *decoder) anyText(c *messages.Column) bool {
	if d.in[d.pos] != '"' {
		from := d.pos
		if !d.skip() {
			return false
		}
		return d.appendText(c, d.in[from:d.pos], false)
	}
	raw, escaped, ok := d.str()
	return ok && d.appendText(c, raw, escaped)
}

func (d *decoder) appendText(c *messages.Column, raw []byte, escaped bool) bool {
	if !utf8.Valid(raw) {
		return d.fail("a string is not valid UTF-8")
	}
	if escaped {
		c.CloseData(unescape(c.AppendData(), raw))
	} else {
		c.AppendBytes(raw)
	}
	return true
}

// text reads the value of a string, or of a map's key, into c.
func (d *decoder) text(f *node, c *messages.Column, raw []byte, escaped bool) bool {
	if f.typ.Kind == messages.String {
		return d.appendText(c, raw, escaped)
	}
	if escaped {
		d.scratch = unescape(d.scratch[:0], raw)
		raw = d.scratch
	}
	ok := false
	switch f.typ.Kind {
	case messages.Timestamp, messages.TimestampNTZ:
		var v int64
		var zoned bool
		if v, zoned, ok = format.ParseTimestamp(raw); ok && (f.typ.Kind == messages.Timestamp || !zoned) {
			c.AppendInt64(v)
			return true
		}
		ok = false
	case messages.Date:
		var v int32
		if v, ok = format.ParseDate(raw); ok {
			c.AppendInt32(v)
		}
	case messages.Binary:
		ok = format.AppendBase64(c, raw)
	case messages.Decimal:
		var v messages.Decimal128
		if v, ok = format.ParseDecimal(raw, f.typ.Precision, f.typ.Scale); ok {
			c.AppendDecimal(v)
		}
	case messages.Float, messages.Double:
		ok = appendSpecial(f.typ.Kind, c, raw)
	case messages.Boolean:
		if ok = string(raw) == "true" || string(raw) == "false"; ok {
			c.AppendBool(raw[0] == 't')
		}
	case messages.TinyInt, messages.SmallInt, messages.Int, messages.BigInt:
		ok = appendInteger(c, raw)
	}
	if !ok {
		return d.fail(strconv.Quote(preview(raw)) + " is not a " + f.typ.String())
	}
	return true
}

// numeric reads a number into c.
func (d *decoder) numeric(f *node, c *messages.Column, text []byte, integer bool) bool {
	ok := false
	switch k := f.typ.Kind; {
	case k.IsInteger():
		ok = integer && appendInteger(c, text)
	case k == messages.Double:
		var v float64
		if v, ok = parseFloat(text, 64); ok {
			c.AppendFloat64(v)
		}
	case k == messages.Float:
		var v float64
		if v, ok = parseFloat(text, 32); ok {
			c.AppendFloat32(float32(v))
		}
	case k == messages.Decimal:
		var v messages.Decimal128
		if v, ok = format.ParseDecimal(text, f.typ.Precision, f.typ.Scale); ok {
			c.AppendDecimal(v)
		}
	case k == messages.Timestamp && d.unit != iso && integer:
		var v int64
		if v, ok = format.ParseInt(text); ok && v <= math.MaxInt64/int64(d.unit) && v >= math.MinInt64/int64(d.unit) {
			c.AppendInt64(v * int64(d.unit))
			return true
		}
		return d.fail(preview(text) + " is out of the range of timestamp")
	case k == messages.Timestamp && d.unit == iso:
		return d.fail(preview(text) + " is not a timestamp; a number needs option timestamp_format")
	}
	if ok {
		return true
	}
	if integer && f.typ.Kind.IsNumeric() {
		return d.fail(preview(text) + " is out of the range of " + f.typ.String())
	}
	return d.fail(preview(text) + " is not a " + f.typ.String())
}

func appendInteger(c *messages.Column, text []byte) bool {
	v, ok := format.ParseInt(text)
	return ok && format.AppendInt(c, v)
}

// parseFloat reads a number that number has accepted; one that is too large
// for the type is refused.
func parseFloat(s []byte, bits int) (float64, bool) {
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(s), len(s)), bits)
	return v, err == nil
}

// appendSpecial reads the strings that stand for what JSON numbers cannot hold.
func appendSpecial(k messages.Kind, c *messages.Column, s []byte) bool {
	v, ok := format.SpecialFloat(s)
	if !ok {
		return false
	}
	if k == messages.Float {
		c.AppendFloat32(float32(v))
	} else {
		c.AppendFloat64(v)
	}
	return true
}

// distinct reports whether the map entries of e from index from on have
// different keys. order is scratch.
func distinct(e *messages.Column, from int, order *[]int32) bool {
	if e.Len()-from < 2 {
		return true
	}
	keys := e.Child(0)
	idx := (*order)[:0]
	for i := from; i < e.Len(); i++ {
		idx = append(idx, int32(i))
	}
	*order = idx
	slices.SortFunc(idx, func(a, b int32) int { return bytes.Compare(keyBytes(keys, a), keyBytes(keys, b)) })
	for i := range len(idx) - 1 {
		if bytes.Equal(keyBytes(keys, idx[i]), keyBytes(keys, idx[i+1])) {
			return false
		}
	}
	return true
}

// keyBytes returns bytes that are equal for equal keys.
func keyBytes(c *messages.Column, i int32) []byte {
	k := c.Type().Kind
	if k.HasOffsets() {
		return c.Bytes(int(i))
	}
	if k == messages.Boolean {
		if c.Bool(int(i)) {
			return []byte{1}
		}
		return []byte{0}
	}
	w := k.Width()
	return c.FixedBytes()[int(i)*w : (int(i)+1)*w]
}
