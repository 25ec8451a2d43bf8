package format

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/streamd-io/streamd/messages"
)

// AppendText parses the text of a scalar and appends it to c; when it returns
// false the text does not fit and nothing was appended. Numbers are decimal,
// booleans true or false in any case, dates and timestamps ISO-8601, binary is
// base64. Strings must be valid UTF-8. It does not allocate.
func AppendText(c *messages.Column, s []byte) bool {
	switch t := c.Type(); t.Kind {
	case messages.String:
		if !utf8.Valid(s) {
			return false
		}
		c.AppendBytes(s)
		return true
	case messages.Boolean:
		v, ok := parseBool(s)
		if ok {
			c.AppendBool(v)
		}
		return ok
	case messages.TinyInt, messages.SmallInt, messages.Int, messages.BigInt:
		v, ok := ParseInt(s)
		return ok && AppendInt(c, v)
	case messages.Float, messages.Double:
		return appendFloatText(c, s)
	case messages.Decimal:
		v, ok := ParseDecimal(s, t.Precision, t.Scale)
		if ok {
			c.AppendDecimal(v)
		}
		return ok
	case messages.Date:
		v, ok := ParseDate(s)
		if ok {
			c.AppendInt32(v)
		}
		return ok
	case messages.Timestamp, messages.TimestampNTZ:
		v, zoned, ok := ParseTimestamp(s)
		if ok = ok && !(zoned && t.Kind == messages.TimestampNTZ); ok {
			c.AppendInt64(v)
		}
		return ok
	case messages.Binary:
		return AppendBase64(c, s)
	}
	return false
}

func parseBool(s []byte) (v, ok bool) {
	fold := func(word string) bool {
		if len(s) != len(word) {
			return false
		}
		for i := range s {
			if s[i]|0x20 != word[i] {
				return false
			}
		}
		return true
	}
	if fold("true") {
		return true, true
	}
	return false, fold("false")
}

// ParseInt reads an optional sign and digits.
func ParseInt(s []byte) (int64, bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative || len(s) > 0 && s[0] == '+' {
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, false
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	var v uint64
	for _, c := range s {
		c -= '0'
		if c > 9 || v > (limit-uint64(c))/10 {
			return 0, false
		}
		v = v*10 + uint64(c)
	}
	if negative {
		return -int64(v), true
	}
	return int64(v), true
}

// AppendInt appends v to a column of an integer type if it is in range.
func AppendInt(c *messages.Column, v int64) bool {
	ok := true
	switch c.Type().Kind {
	case messages.BigInt:
		c.AppendInt64(v)
	case messages.Int:
		if ok = v == int64(int32(v)); ok {
			c.AppendInt32(int32(v))
		}
	case messages.SmallInt:
		if ok = v == int64(int16(v)); ok {
			c.AppendInt16(int16(v))
		}
	case messages.TinyInt:
		if ok = v == int64(int8(v)); ok {
			c.AppendInt8(int8(v))
		}
	default:
		ok = false
	}
	return ok
}

func appendFloatText(c *messages.Column, s []byte) bool {
	bits := 64
	if c.Type().Kind == messages.Float {
		bits = 32
	}
	v, ok := SpecialFloat(s)
	if !ok {
		for _, b := range s { // ParseFloat takes more than SQL does
			if (b < '0' || b > '9') && b != '.' && b != '-' && b != '+' && b|0x20 != 'e' {
				return false
			}
		}
		var err error
		if v, err = strconv.ParseFloat(unsafe.String(unsafe.SliceData(s), len(s)), bits); err != nil {
			return false
		}
	}
	if bits == 32 {
		c.AppendFloat32(float32(v))
	} else {
		c.AppendFloat64(v)
	}
	return true
}

// SpecialFloat reads the names of the values that have no digits, as
// AppendFloat writes them.
func SpecialFloat(s []byte) (v float64, ok bool) {
	switch string(s) {
	case "NaN":
		return math.NaN(), true
	case "Infinity", "+Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	default:
		return 0, false
	}
}

// AppendBase64 decodes s into a binary column.
func AppendBase64(c *messages.Column, s []byte) bool {
	data := c.AppendData()
	from := len(data)
	data = slices.Grow(data, base64.StdEncoding.DecodedLen(len(s)))
	n, err := base64.StdEncoding.Decode(data[from:cap(data)], s)
	if err != nil {
		return false
	}
	c.CloseData(data[:from+n])
	return true
}

// AppendScalar appends the text of value i of c, which is not NULL, in the form
// AppendText reads. ok is false for types that are not scalar.
func AppendScalar(dst []byte, c *messages.Column, i int) (out []byte, ok bool) {
	switch t := c.Type(); t.Kind {
	case messages.String:
		return append(dst, c.Bytes(i)...), true
	case messages.Boolean:
		return strconv.AppendBool(dst, c.Bool(i)), true
	case messages.TinyInt:
		return strconv.AppendInt(dst, int64(c.Int8s()[i]), 10), true
	case messages.SmallInt:
		return strconv.AppendInt(dst, int64(c.Int16s()[i]), 10), true
	case messages.Int:
		return strconv.AppendInt(dst, int64(c.Int32s()[i]), 10), true
	case messages.BigInt:
		return strconv.AppendInt(dst, c.Int64s()[i], 10), true
	case messages.Float:
		return AppendFloat(dst, float64(c.Float32s()[i]), 32), true
	case messages.Double:
		return AppendFloat(dst, c.Float64s()[i], 64), true
	case messages.Decimal:
		return AppendDecimal(dst, c.Decimals()[i], t.Scale), true
	case messages.Date:
		return AppendDate(dst, c.Int32s()[i]), true
	case messages.Timestamp, messages.TimestampNTZ:
		return AppendTimestamp(dst, c.Int64s()[i], t.Kind == messages.Timestamp), true
	case messages.Binary:
		return base64.StdEncoding.AppendEncode(dst, c.Bytes(i)), true
	}
	return dst, false
}

// AppendFloat appends the shortest text that reads back as the same value of
// the given size: 32 or 64 bits.
func AppendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(dst, v, form, -1, bits)
}
