package order

import (
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
	c := messages.Compare(a, i, b, j)
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
