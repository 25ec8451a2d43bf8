package operatortest

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/streamd-io/streamd/messages"
)

// Append appends a Go value, written as in a Case, to a column.
func Append(c *messages.Column, v any) {
	if v == nil {
		c.AppendNull()
		return
	}
	switch k := c.Type().Kind; k {
	case messages.Boolean:
		c.AppendBool(v.(bool))
	case messages.TinyInt:
		c.AppendInt8(int8(integer(v)))
	case messages.SmallInt:
		c.AppendInt16(int16(integer(v)))
	case messages.Int, messages.Date:
		c.AppendInt32(int32(integer(v)))
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		c.AppendInt64(integer(v))
	case messages.Float:
		c.AppendFloat32(float32(float(v)))
	case messages.Double:
		c.AppendFloat64(float(v))
	case messages.Decimal:
		if d, ok := v.(messages.Decimal128); ok {
			c.AppendDecimal(d)
			return
		}
		n := integer(v)
		c.AppendDecimal(messages.Decimal128{Lo: uint64(n), Hi: n >> 63})
	case messages.Interval:
		c.AppendInterval(v.(messages.IntervalValue))
	case messages.String, messages.Binary:
		c.AppendString(v.(string))
	case messages.Array, messages.Map:
		for _, e := range v.([]any) {
			Append(c.Child(0), e)
		}
		c.CloseList()
	case messages.Struct:
		for f, e := range v.([]any) {
			Append(c.Child(f), e)
		}
		c.CloseStruct()
	default:
		panic(fmt.Sprintf("operatortest: no value of type %s", c.Type()))
	}
}

// Value returns value i of a column as a Go value that Append takes.
func Value(c *messages.Column, i int) any {
	if c.IsNull(i) {
		return nil
	}
	switch c.Type().Kind {
	case messages.Boolean:
		return c.Bool(i)
	case messages.TinyInt:
		return int64(c.Int8s()[i])
	case messages.SmallInt:
		return int64(c.Int16s()[i])
	case messages.Int, messages.Date:
		return int64(c.Int32s()[i])
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return c.Int64s()[i]
	case messages.Float:
		return float64(c.Float32s()[i])
	case messages.Double:
		return c.Float64s()[i]
	case messages.Decimal:
		return c.Decimals()[i]
	case messages.Interval:
		return c.Intervals()[i]
	case messages.String, messages.Binary:
		return string(c.Bytes(i))
	case messages.Array, messages.Map:
		out := []any{}
		for j := c.Offsets()[i]; j < c.Offsets()[i+1]; j++ {
			out = append(out, Value(c.Child(0), int(j)))
		}
		return out
	case messages.Struct:
		out := []any{}
		for f := range c.Type().Fields {
			out = append(out, Value(c.Child(f), i))
		}
		return out
	default:
		panic(fmt.Sprintf("operatortest: no value of type %s", c.Type()))
	}
}

func integer(v any) int64 {
	r := reflect.ValueOf(v)
	if r.CanUint() {
		return int64(r.Uint())
	}
	return r.Int()
}

func float(v any) float64 {
	r := reflect.ValueOf(v)
	if r.CanFloat() {
		return r.Float()
	}
	return float64(r.Int())
}

// text writes a value so that equal values have equal texts.
func text(c *messages.Column, i int) string {
	if c.IsNull(i) {
		return "NULL"
	}
	switch c.Type().Kind {
	case messages.Boolean:
		return strconv.FormatBool(c.Bool(i))
	case messages.TinyInt:
		return strconv.Itoa(int(c.Int8s()[i]))
	case messages.SmallInt:
		return strconv.Itoa(int(c.Int16s()[i]))
	case messages.Int, messages.Date:
		return strconv.Itoa(int(c.Int32s()[i]))
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return strconv.FormatInt(c.Int64s()[i], 10)
	case messages.Float:
		return strconv.FormatFloat(float64(c.Float32s()[i]), 'g', -1, 32)
	case messages.Double:
		return strconv.FormatFloat(c.Float64s()[i], 'g', -1, 64)
	case messages.Decimal:
		d := c.Decimals()[i]
		return fmt.Sprintf("d%016x%016x", uint64(d.Hi), d.Lo)
	case messages.Interval:
		return fmt.Sprint(c.Intervals()[i])
	case messages.String:
		return strconv.Quote(c.Str(i))
	case messages.Binary:
		return "x" + hex.EncodeToString(c.Bytes(i))
	case messages.Array, messages.Map:
		var parts []string
		for j := c.Offsets()[i]; j < c.Offsets()[i+1]; j++ {
			parts = append(parts, text(c.Child(0), int(j)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case messages.Struct:
		var parts []string
		for f := range c.Type().Fields {
			parts = append(parts, text(c.Child(f), i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	default:
		panic(fmt.Sprintf("operatortest: no text for %s", c.Type()))
	}
}

// rowTexts returns the selected rows of a batch, column by column as text.
func rowTexts(b *messages.Batch) [][]string {
	var rows [][]string
	for i := range b.Rows() {
		var row []string
		if k := b.Kinds(); k != nil && k[b.Row(i)] != messages.Insert {
			row = append(row, fmt.Sprintf("kind%d", k[b.Row(i)]))
		}
		for c := range b.Columns() {
			row = append(row, text(b.Column(c), b.Row(i)))
		}
		rows = append(rows, row)
	}
	return rows
}

// wantTexts writes the expected rows in the types of the output.
func wantTexts(s *messages.Schema, rows [][]any) [][]string {
	b := build(s, Step{rows: rows}, nil, false)
	defer b.Release()
	return rowTexts(b)
}

// build makes a batch of the rows of a step, with one reference. With sparse,
// rows that are not selected lie between the rows.
func build(s *messages.Schema, step Step, marks []messages.Mark, sparse bool) *messages.Batch {
	rows := step.rows
	b := messages.NewPool(s).Get()
	sel := []int32{}
	n := 0
	add := func(row []any) {
		for c := range s.Fields {
			Append(b.Own(c), row[c])
		}
		n++
	}
	at := make([]int32, len(rows))
	for i, row := range rows {
		if sparse {
			add(rows[(i+1)%len(rows)])
		}
		at[i] = int32(n)
		sel = append(sel, int32(n))
		add(row)
		if sparse && i%3 == 0 {
			add(row)
		}
	}
	if sparse && len(rows) == 0 {
		add(make([]any, len(s.Fields)))
	}
	b.SetLen(n)
	b.SetFrame(step.frame)
	if sparse {
		b.Select(sel)
	}
	if len(marks) > 0 {
		moved := make([]messages.Mark, len(marks))
		for i, m := range marks {
			moved[i] = messages.Mark{Row: at[m.Row], At: m.At}
		}
		b.SetMarks(moved)
		b.SetWatermark(moved[len(moved)-1].At)
	}
	return b.Publish()
}
