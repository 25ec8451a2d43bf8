package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
)

// Values in state: a fixed-width value of at most 8 bytes is a word, all others
// are bytes. Both are canonical: equal values have equal forms, so that forms
// can be compared, hashed and grouped by.

// isWord reports whether values of the kind fit a word.
func isWord(k messages.Kind) bool {
	switch k {
	case messages.Boolean, messages.TinyInt, messages.SmallInt, messages.Int, messages.BigInt, messages.Float, messages.Double,
		messages.Date, messages.Timestamp, messages.TimestampNTZ:
		return true
	default:
		return false
	}
}

// wordOf returns value i of the column, which is not NULL.
func wordOf(c *messages.Column, i int) uint64 {
	switch c.Type().Kind {
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return uint64(c.Int64s()[i])
	case messages.Int, messages.Date:
		return uint64(c.Int32s()[i])
	case messages.SmallInt:
		return uint64(c.Int16s()[i])
	case messages.TinyInt:
		return uint64(c.Int8s()[i])
	case messages.Boolean:
		if c.Bool(i) {
			return 1
		}
		return 0
	case messages.Float:
		return uint64(math.Float32bits(operator.NormalFloat32(c.Float32s()[i])))
	case messages.Double:
		return math.Float64bits(operator.NormalFloat64(c.Float64s()[i]))
	default:
		panic(fmt.Sprintf("aggregate: %s is not a word", c.Type()))
	}
}

// appendWord appends a value made by wordOf.
func appendWord(c *messages.Column, w uint64) {
	switch c.Type().Kind {
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		c.AppendInt64(int64(w))
	case messages.Int, messages.Date:
		c.AppendInt32(int32(w))
	case messages.SmallInt:
		c.AppendInt16(int16(w))
	case messages.TinyInt:
		c.AppendInt8(int8(w))
	case messages.Boolean:
		c.AppendBool(w != 0)
	case messages.Float:
		c.AppendFloat32(math.Float32frombits(uint32(w)))
	case messages.Double:
		c.AppendFloat64(math.Float64frombits(w))
	default:
		panic(fmt.Sprintf("aggregate: %s is not a word", c.Type()))
	}
}

// encodeValue appends value i of the column: 0 for NULL, otherwise 1 and the
// value.
func encodeValue(b []byte, c *messages.Column, i int) []byte {
	if c.IsNull(i) {
		return append(b, 0)
	}
	b = append(b, 1)
	switch k := c.Type().Kind; {
	case isWord(k):
		return binary.LittleEndian.AppendUint64(b, wordOf(c, i))
	case k == messages.String || k == messages.Binary:
		v := c.Bytes(i)
		return append(binary.AppendUvarint(b, uint64(len(v))), v...)
	case k == messages.Decimal:
		d := c.Decimals()[i]
		b = binary.LittleEndian.AppendUint64(b, d.Lo)
		return binary.LittleEndian.AppendUint64(b, uint64(d.Hi))
	case k == messages.Interval:
		v := c.Intervals()[i]
		b = binary.LittleEndian.AppendUint32(b, uint32(v.Months))
		b = binary.LittleEndian.AppendUint32(b, uint32(v.Days))
		return binary.LittleEndian.AppendUint64(b, uint64(v.Nanos))
	case k == messages.Struct:
		for f := range c.Type().Fields {
			b = encodeValue(b, c.Child(f), i)
		}
		return b
	case k == messages.Array || k == messages.Map:
		off := c.Offsets()
		b = binary.AppendUvarint(b, uint64(off[i+1]-off[i]))
		for j := off[i]; j < off[i+1]; j++ {
			b = encodeValue(b, c.Child(0), int(j))
		}
		return b
	default:
		panic(fmt.Sprintf("aggregate: no encoding for %s", c.Type()))
	}
}

// decodeValue appends the value at the start of b to the column and returns
// what follows it.
func decodeValue(b []byte, c *messages.Column) []byte {
	null := b[0] == 0
	b = b[1:]
	if null {
		c.AppendNull()
		return b
	}
	switch k := c.Type().Kind; {
	case isWord(k):
		appendWord(c, binary.LittleEndian.Uint64(b))
		return b[8:]
	case k == messages.String || k == messages.Binary:
		n, size := binary.Uvarint(b)
		end := size + int(n)
		c.AppendBytes(b[size:end])
		return b[end:]
	case k == messages.Decimal:
		c.AppendDecimal(messages.Decimal128{Lo: binary.LittleEndian.Uint64(b), Hi: int64(binary.LittleEndian.Uint64(b[8:]))})
		return b[16:]
	case k == messages.Interval:
		c.AppendInterval(messages.IntervalValue{
			Months: int32(binary.LittleEndian.Uint32(b)), Days: int32(binary.LittleEndian.Uint32(b[4:])),
			Nanos: int64(binary.LittleEndian.Uint64(b[8:])),
		})
		return b[16:]
	case k == messages.Struct:
		for f := range c.Type().Fields {
			b = decodeValue(b, c.Child(f))
		}
		c.CloseStruct()
		return b
	case k == messages.Array || k == messages.Map:
		n, size := binary.Uvarint(b)
		b = b[size:]
		for range n {
			b = decodeValue(b, c.Child(0))
		}
		c.CloseList()
		return b
	default:
		panic(fmt.Sprintf("aggregate: no encoding for %s", c.Type()))
	}
}

// valueLen returns the length of the encoded value at the start of b.
func valueLen(b []byte, t *messages.Type) int {
	if b[0] == 0 {
		return 1
	}
	switch k := t.Kind; {
	case isWord(k):
		return 9
	case k == messages.String || k == messages.Binary:
		n, size := binary.Uvarint(b[1:])
		return 1 + size + int(n)
	case k == messages.Struct:
		n := 1
		for f := range t.Fields {
			n += valueLen(b[n:], &t.Fields[f].Type)
		}
		return n
	case k == messages.Array:
		count, size := binary.Uvarint(b[1:])
		n := 1 + size
		for range count {
			n += valueLen(b[n:], t.Elem)
		}
		return n
	case k == messages.Map:
		count, size := binary.Uvarint(b[1:])
		n := 1 + size
		for range count {
			n++ // the entry itself is a struct and never NULL
			n += valueLen(b[n:], t.Key)
			n += valueLen(b[n:], t.Elem)
		}
		return n
	default:
		return 17
	}
}
