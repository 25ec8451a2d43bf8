package order

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/streamd-io/streamd/messages"
)

// Nulls says where NULLs go.
type Nulls uint8

// The default is Spark's: NULLs are the smallest values, first when ascending
// and last when descending.
const (
	NullsDefault Nulls = iota
	NullsFirst
	NullsLast
)

// Key is one of the ORDER BY expressions, computed into a column before.
type Key struct {
	Column int
	Desc   bool
	Nulls  Nulls
}

func (k Key) nullsFirst() bool {
	return k.Nulls == NullsFirst || k.Nulls == NullsDefault && !k.Desc
}

// sortable reports whether values of the type have an order.
func sortable(t messages.Type) bool {
	switch t.Kind {
	case messages.Map, messages.Interval:
		return false
	case messages.Array:
		return sortable(*t.Elem)
	case messages.Struct:
		return !slices.ContainsFunc(t.Fields, func(f messages.Field) bool { return !sortable(f.Type) })
	default:
		return true
	}
}

// sorter sorts single batches.
type sorter struct {
	keys []Key
	perm []int32
}

// compare orders row i of a and row j of b.
func (s *sorter) compare(a *messages.Batch, i int, b *messages.Batch, j int) int {
	for _, k := range s.keys {
		if c := k.compare(a.Column(k.Column), i, b.Column(k.Column), j); c != 0 {
			return c
		}
	}
	return 0
}

func (k Key) compare(a *messages.Column, i int, b *messages.Column, j int) int {
	if an, bn := a.IsNull(i), b.IsNull(j); an || bn {
		switch {
		case an == bn:
			return 0
		case an == k.nullsFirst():
			return -1
		default:
			return 1
		}
	}
	c := compareValues(a, i, b, j)
	if k.Desc {
		return -c
	}
	return c
}

// run returns the selected rows of b, sorted, the first most of them, in a batch
// of pool p; nil if there are none.
func (s *sorter) run(p *messages.Pool, b *messages.Batch, most int) *messages.Batch {
	if b.Rows() == 0 || most == 0 {
		return nil
	}
	s.perm = s.perm[:0]
	for k := range b.Rows() {
		s.perm = append(s.perm, int32(b.Row(k)))
	}
	slices.SortStableFunc(s.perm, func(i, j int32) int { return s.compare(b, int(i), b, int(j)) })
	rows := s.perm[:min(most, len(s.perm))]
	out := p.Get()
	for c := range b.Columns() {
		out.Own(c).AppendSelected(b.Column(c), rows)
	}
	out.SetLen(len(rows))
	if kinds := b.Kinds(); kinds != nil {
		out.SetKinds(pick(out.KindBuffer(len(rows)), kinds, rows))
	}
	if arrivals := b.Arrivals(); arrivals != nil {
		out.SetArrivals(pick(out.ArrivalBuffer(len(rows)), arrivals, rows))
	}
	return out.Publish()
}

func pick[T any](dst, src []T, rows []int32) []T {
	for _, i := range rows {
		dst = append(dst, src[i])
	}
	return dst
}

// compareValues orders two values that are not NULL.
func compareValues(a *messages.Column, i int, b *messages.Column, j int) int {
	switch a.Type().Kind {
	case messages.Boolean:
		return compareBools(a.Bool(i), b.Bool(j))
	case messages.TinyInt:
		return cmp.Compare(a.Int8s()[i], b.Int8s()[j])
	case messages.SmallInt:
		return cmp.Compare(a.Int16s()[i], b.Int16s()[j])
	case messages.Int, messages.Date:
		return cmp.Compare(a.Int32s()[i], b.Int32s()[j])
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return cmp.Compare(a.Int64s()[i], b.Int64s()[j])
	case messages.Float:
		return compareFloats(float64(a.Float32s()[i]), float64(b.Float32s()[j]))
	case messages.Double:
		return compareFloats(a.Float64s()[i], b.Float64s()[j])
	case messages.Decimal:
		x, y := a.Decimals()[i], b.Decimals()[j]
		return cmp.Or(cmp.Compare(x.Hi, y.Hi), cmp.Compare(x.Lo, y.Lo))
	case messages.String, messages.Binary:
		return bytes.Compare(a.Bytes(i), b.Bytes(j))
	default:
		return compareNested(a, i, b, j)
	}
}

func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	default:
		return 1
	}
}

// compareFloats takes NaN as the largest value and -0.0 as 0.0.
func compareFloats(x, y float64) int {
	xn, yn := math.IsNaN(x), math.IsNaN(y)
	if xn || yn {
		return compareBools(xn, yn)
	}
	return cmp.Compare(x, y)
}

// compareNested orders field by field and element by element; NULL is the
// smallest, and a list that is the start of another comes first.
func compareNested(a *messages.Column, i int, b *messages.Column, j int) int {
	inner := Key{}
	switch a.Type().Kind {
	case messages.Struct:
		for f := range a.Type().Fields {
			if c := inner.compare(a.Child(f), i, b.Child(f), j); c != 0 {
				return c
			}
		}
	case messages.Array:
		x, y := int(a.Offsets()[i]), int(b.Offsets()[j])
		xEnd, yEnd := int(a.Offsets()[i+1]), int(b.Offsets()[j+1])
		for ; x < xEnd && y < yEnd; x, y = x+1, y+1 {
			if c := inner.compare(a.Child(0), x, b.Child(0), y); c != 0 {
				return c
			}
		}
		return cmp.Compare(xEnd-x, yEnd-y)
	}
	return 0
}
