package expr

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/streamd-io/streamd/messages"
)

// appendValue writes value i of c, which is not NULL, as CAST(... AS STRING) does.
// Binary becomes hexadecimal, which only texts for people need.
func appendValue(dst []byte, c *messages.Column, i int, z zone) []byte {
	switch t := c.Type(); t.Kind {
	case messages.Boolean:
		return strconv.AppendBool(dst, c.Bool(i))
	case messages.TinyInt:
		return strconv.AppendInt(dst, int64(c.Int8s()[i]), 10)
	case messages.SmallInt:
		return strconv.AppendInt(dst, int64(c.Int16s()[i]), 10)
	case messages.Int:
		return strconv.AppendInt(dst, int64(c.Int32s()[i]), 10)
	case messages.BigInt:
		return strconv.AppendInt(dst, c.Int64s()[i], 10)
	case messages.Float:
		return appendFloat(dst, float64(c.Float32s()[i]), 32)
	case messages.Double:
		return appendFloat(dst, c.Float64s()[i], 64)
	case messages.Decimal:
		return appendDecimal(dst, c.Decimals()[i], t.Scale)
	case messages.String:
		return append(dst, c.Bytes(i)...)
	case messages.Binary:
		return hex.AppendEncode(dst, c.Bytes(i))
	case messages.Date:
		return appendDate(dst, c.Int32s()[i])
	case messages.Timestamp:
		return appendLocal(dst, z.local(c.Int64s()[i]))
	case messages.TimestampNTZ:
		return appendLocal(dst, c.Int64s()[i])
	case messages.Interval:
		return appendInterval(dst, c.Intervals()[i])
	default:
		return appendNested(dst, c, i, z)
	}
}

func appendNested(dst []byte, c *messages.Column, i int, z zone) []byte {
	item := func(dst []byte, c *messages.Column, i int) []byte {
		if c.IsNull(i) {
			return append(dst, "null"...)
		}
		return appendValue(dst, c, i, z)
	}
	switch c.Type().Kind {
	case messages.Struct:
		dst = append(dst, '{')
		for f := range c.Type().Fields {
			if f > 0 {
				dst = append(dst, ", "...)
			}
			dst = item(dst, c.Child(f), i)
		}
		return append(dst, '}')
	case messages.Array:
		dst = append(dst, '[')
		from, to := span(c, i)
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ", "...)
			}
			dst = item(dst, c.Child(0), j)
		}
		return append(dst, ']')
	case messages.Map:
		dst = append(dst, '{')
		from, to := span(c, i)
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ", "...)
			}
			dst = append(item(dst, c.Child(0).Child(0), j), " -> "...)
			dst = item(dst, c.Child(0).Child(1), j)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// span returns the range of child values of list i.
func span(c *messages.Column, i int) (from, to int) {
	off := c.Offsets()
	return int(off[i]), int(off[i+1])
}

// compareFloat orders floats as SQL does: -0.0 equals 0.0, NaN equals itself and is
// larger than everything else.
func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	}
	return -1
}

// Compare orders value i of a and value j of b, which have the same type: negative,
// 0 or positive. NULL comes before everything and equals NULL, as in ORDER BY ...
// NULLS FIRST; maps have no order and compare as 0 only when they have equal entries.
func Compare(a *messages.Column, i int, b *messages.Column, j int) int {
	switch an, bn := a.IsNull(i), b.IsNull(j); {
	case an && bn:
		return 0
	case an:
		return -1
	case bn:
		return 1
	}
	switch a.Type().Kind {
	case messages.Boolean:
		return cmp.Compare(bit(a.Bool(i)), bit(b.Bool(j)))
	case messages.TinyInt:
		return cmp.Compare(a.Int8s()[i], b.Int8s()[j])
	case messages.SmallInt:
		return cmp.Compare(a.Int16s()[i], b.Int16s()[j])
	case messages.Int, messages.Date:
		return cmp.Compare(a.Int32s()[i], b.Int32s()[j])
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return cmp.Compare(a.Int64s()[i], b.Int64s()[j])
	case messages.Float:
		return compareFloat(float64(a.Float32s()[i]), float64(b.Float32s()[j]))
	case messages.Double:
		return compareFloat(a.Float64s()[i], b.Float64s()[j])
	case messages.Decimal:
		return decCmp(a.Decimals()[i], b.Decimals()[j])
	case messages.String, messages.Binary:
		return bytes.Compare(a.Bytes(i), b.Bytes(j))
	case messages.Interval:
		return compareInterval(a.Intervals()[i], b.Intervals()[j])
	case messages.Struct:
		for f := range a.Type().Fields {
			if r := Compare(a.Child(f), i, b.Child(f), j); r != 0 {
				return r
			}
		}
		return 0
	default:
		return compareLists(a, i, b, j)
	}
}

func compareLists(a *messages.Column, i int, b *messages.Column, j int) int {
	af, at := span(a, i)
	bf, bt := span(b, j)
	for af < at && bf < bt {
		if r := Compare(a.Child(0), af, b.Child(0), bf); r != 0 {
			return r
		}
		af++
		bf++
	}
	return cmp.Compare(at-af, bt-bf)
}

func compareInterval(a, b messages.IntervalValue) int {
	if r := cmp.Compare(a.Months, b.Months); r != 0 {
		return r
	}
	x, _ := intervalMicros(a)
	y, _ := intervalMicros(b)
	return cmp.Compare(x, y)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
