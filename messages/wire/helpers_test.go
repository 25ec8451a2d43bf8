package wire

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamd-io/streamd/messages"
)

var flatTypes = []messages.Type{
	messages.T(messages.Null), messages.T(messages.Boolean), messages.T(messages.TinyInt), messages.T(messages.SmallInt),
	messages.T(messages.Int), messages.T(messages.BigInt), messages.T(messages.Float), messages.T(messages.Double),
	messages.DecimalType(38, 10), messages.T(messages.String), messages.T(messages.Binary), messages.T(messages.Date),
	messages.T(messages.Timestamp), messages.T(messages.TimestampNTZ), messages.T(messages.Interval),
}

func randomType(r *rand.Rand, depth int) messages.Type {
	if k := r.IntN(len(flatTypes) + 4*depth); k < len(flatTypes) {
		return flatTypes[k]
	}
	switch r.IntN(3) {
	case 0:
		return messages.ArrayType(randomType(r, depth-1))
	case 1:
		return messages.MapType(messages.T(messages.String), randomType(r, depth-1))
	default:
		return messages.StructType(randomSchema(r, depth-1, r.IntN(4)).Fields...)
	}
}

func randomSchema(r *rand.Rand, depth, fields int) *messages.Schema {
	s := messages.NewSchema()
	for i := range fields {
		s.Fields = append(s.Fields, messages.Field{Name: fmt.Sprintf("f%d", i), Type: randomType(r, depth)})
	}
	return s
}

// fill appends a random value to c.
func fill(r *rand.Rand, c *messages.Column) {
	t := c.Type()
	if t.Kind == messages.Null || r.IntN(6) == 0 {
		c.AppendNull()
		return
	}
	switch t.Kind {
	case messages.Boolean:
		c.AppendBool(r.IntN(2) == 0)
	case messages.TinyInt:
		c.AppendInt8(int8(r.Uint32()))
	case messages.SmallInt:
		c.AppendInt16(int16(r.Uint32()))
	case messages.Int, messages.Date:
		c.AppendInt32(int32(r.Uint32()))
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		c.AppendInt64(int64(r.Uint64()))
	case messages.Float:
		c.AppendFloat32(math.Float32frombits(r.Uint32())) // NaNs keep their bits
	case messages.Double:
		c.AppendFloat64(math.Float64frombits(r.Uint64()))
	case messages.Decimal:
		c.AppendDecimal(messages.Decimal128{Lo: r.Uint64(), Hi: int64(r.Uint64())})
	case messages.Interval:
		c.AppendInterval(messages.IntervalValue{Months: int32(r.Uint32()), Days: -5, Nanos: int64(r.Uint64())})
	case messages.String, messages.Binary:
		c.AppendString("some text of any length"[:r.IntN(24)])
	case messages.Struct:
		for f := range t.Fields {
			fill(r, c.Child(f))
		}
		c.CloseStruct()
	default:
		for range r.IntN(4) {
			fill(r, c.Child(0))
		}
		c.CloseList()
	}
}

// randomBatch returns a batch with all kinds of side information.
func randomBatch(r *rand.Rand, s *messages.Schema, n int) *messages.Batch {
	b := messages.NewPool(s).Get()
	var l messages.Lineage
	var arrivals []messages.EventTime
	var kinds []messages.RowKind
	var marks []messages.Mark
	l.Base = messages.ID128{Hi: r.Uint64(), Lo: r.Uint64()}
	if r.IntN(4) == 0 {
		marks = append(marks, messages.Mark{Row: -1, At: -7})
	}
	for i := range n {
		for c := range s.Fields {
			fill(r, b.Own(c))
		}
		l.A = append(l.A, r.Uint64())
		l.B = append(l.B, r.Uint64())
		arrivals = append(arrivals, messages.EventTime(r.Int64()))
		kinds = append(kinds, messages.RowKind(r.IntN(4)))
		if r.IntN(3) == 0 {
			marks = append(marks, messages.Mark{Row: int32(i), At: messages.EventTime(i)})
		}
	}
	b.SetLen(n)
	switch r.IntN(3) {
	case 0:
		b.SetLineage(messages.Lineage{Base: l.Base, A: l.A})
	case 1:
		b.SetLineage(l)
	}
	if r.IntN(2) == 0 {
		b.SetArrivals(arrivals)
	}
	if r.IntN(2) == 0 {
		b.SetKinds(kinds)
	}
	b.SetMarks(marks)
	b.SetWatermark(messages.EventTime(r.Int64()))
	b.SetFrame(messages.Frame(r.IntN(4)))
	return b.Publish()
}

// text writes everything that counts in a batch.
func text(b *messages.Batch) []string {
	out := []string{fmt.Sprintf("watermark %d frame %d base %v marks %v", b.Watermark(), b.Frame(), b.Lineage().Base, b.Marks())}
	if b.Lineage().A == nil {
		out[0] = fmt.Sprintf("watermark %d frame %d marks %v", b.Watermark(), b.Frame(), b.Marks())
	}
	for k := range b.Rows() {
		i := b.Row(k)
		s := ""
		for c := range b.Columns() {
			s += valueText(b.Column(c), i) + " "
		}
		if l := b.Lineage(); l.A != nil {
			s += fmt.Sprintf("@%d", l.A[i])
			if l.B != nil {
				s += fmt.Sprintf("/%d", l.B[i])
			}
		}
		if a := b.Arrivals(); a != nil {
			s += fmt.Sprintf(" arrived %d", a[i])
		}
		if ks := b.Kinds(); ks != nil {
			s += fmt.Sprintf(" kind %d", ks[i])
		}
		out = append(out, s)
	}
	return out
}

func valueText(c *messages.Column, i int) string {
	if c.IsNull(i) {
		return "NULL"
	}
	switch t := c.Type(); t.Kind {
	case messages.Boolean:
		return fmt.Sprint(c.Bool(i))
	case messages.String, messages.Binary:
		return fmt.Sprintf("%q", c.Bytes(i))
	case messages.Struct:
		s := "{"
		for f := range t.Fields {
			s += valueText(c.Child(f), i) + ","
		}
		return s + "}"
	case messages.Array, messages.Map:
		s := "["
		for j := c.Offsets()[i]; j < c.Offsets()[i+1]; j++ {
			s += valueText(c.Child(0), int(j)) + ","
		}
		return s + "]"
	default:
		w := t.Kind.Width()
		return fmt.Sprintf("%x", c.FixedBytes()[i*w:(i+1)*w])
	}
}

func mustDecode(t *testing.T, p *messages.Pool, data []byte) *messages.Batch {
	t.Helper()
	b, err := DecodeBatch(p, data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Columns() {
		if err := b.Column(i).Check(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}
