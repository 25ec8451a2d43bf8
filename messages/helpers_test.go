package messages

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The model of a column is a []any: nil is NULL, lists and structs are []any,
// everything else the Go value. It shares no code with Column.

var flatTypes = []Type{
	T(Null), T(Boolean), T(TinyInt), T(SmallInt), T(Int), T(BigInt), T(Float), T(Double), DecimalType(20, 3),
	T(String), T(Binary), T(Date), T(Timestamp), T(TimestampNTZ), T(Interval),
}

func randomType(r *rand.Rand, depth int) Type {
	if k := r.IntN(len(flatTypes) + 3*depth); k < len(flatTypes) {
		return flatTypes[k]
	}
	switch r.IntN(3) {
	case 0:
		return ArrayType(randomType(r, depth-1))
	case 1:
		return MapType(T(String), randomType(r, depth-1))
	default:
		fields := make([]Field, r.IntN(4))
		for i := range fields {
			fields[i] = Field{fmt.Sprintf("f%d", i), randomType(r, depth-1)}
		}
		return StructType(fields...)
	}
}

func randomValue(r *rand.Rand, t Type) any {
	if t.Kind == Null || r.IntN(5) == 0 {
		return nil
	}
	switch t.Kind {
	case Boolean:
		return r.IntN(2) == 1
	case TinyInt:
		return int8(r.Uint32())
	case SmallInt:
		return int16(r.Uint32())
	case Int, Date:
		return int32(r.Uint32())
	case BigInt, Timestamp, TimestampNTZ:
		return int64(r.Uint64())
	case Float:
		return r.Float32()
	case Double:
		return r.Float64()
	case Decimal:
		return Decimal128{r.Uint64(), int64(r.Uint64())}
	case Interval:
		return IntervalValue{int32(r.Uint32()), int32(r.Uint32()), int64(r.Uint64())}
	case String, Binary:
		return string(make([]byte, r.IntN(3))) + fmt.Sprint(r.IntN(1000))[r.IntN(2):]
	case Struct:
		v := make([]any, len(t.Fields))
		for i := range v {
			v[i] = randomValue(r, t.Fields[i].Type)
		}
		return v
	default:
		v := make([]any, r.IntN(4))
		for i := range v {
			v[i] = randomValue(r, childType(t))
		}
		return v
	}
}

func childType(t Type) Type {
	if t.Kind == Map {
		return StructType(Field{"key", *t.Key}, Field{"value", *t.Elem})
	}
	return *t.Elem
}

func appendValue(c *Column, v any) {
	switch v := v.(type) {
	case nil:
		c.AppendNull()
	case bool:
		c.AppendBool(v)
	case int8:
		c.AppendInt8(v)
	case int16:
		c.AppendInt16(v)
	case int32:
		c.AppendInt32(v)
	case int64:
		c.AppendInt64(v)
	case float32:
		c.AppendFloat32(v)
	case float64:
		c.AppendFloat64(v)
	case Decimal128:
		c.AppendDecimal(v)
	case IntervalValue:
		c.AppendInterval(v)
	case string:
		switch len(v) % 3 {
		case 0:
			c.AppendString(v)
		case 1:
			c.AppendBytes([]byte(v))
		default:
			c.CloseData(append(c.AppendData(), v...))
		}
	case []any:
		for i, e := range v {
			if c.Type().Kind == Struct {
				appendValue(c.Child(i), e)
			} else {
				appendValue(c.Child(0), e)
			}
		}
		if c.Type().Kind == Struct {
			c.CloseStruct()
		} else {
			c.CloseList()
		}
	}
}

func readValue(c *Column, i int) any {
	if c.IsNull(i) {
		return nil
	}
	switch c.Type().Kind {
	case Boolean:
		return c.Bool(i)
	case TinyInt:
		return c.Int8s()[i]
	case SmallInt:
		return c.Int16s()[i]
	case Int, Date:
		return c.Int32s()[i]
	case BigInt, Timestamp, TimestampNTZ:
		return c.Int64s()[i]
	case Float:
		return c.Float32s()[i]
	case Double:
		return c.Float64s()[i]
	case Decimal:
		return c.Decimals()[i]
	case Interval:
		return c.Intervals()[i]
	case String, Binary:
		return string(c.Bytes(i))
	case Struct:
		v := make([]any, len(c.Type().Fields))
		for f := range v {
			v[f] = readValue(c.Child(f), i)
		}
		return v
	default:
		off := c.Offsets()
		v := make([]any, 0, off[i+1]-off[i])
		for j := off[i]; j < off[i+1]; j++ {
			v = append(v, readValue(c.Child(0), int(j)))
		}
		return v
	}
}

func readColumn(c *Column) []any {
	out := []any{}
	for i := range c.Len() {
		out = append(out, readValue(c, i))
	}
	return out
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}
