package expr

import (
	"encoding/hex"
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

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
