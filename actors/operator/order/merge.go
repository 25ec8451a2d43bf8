package order

import "github.com/streamd-io/streamd/messages"

// merge is a heap of sorted batches; its top has the next row.
type merge struct {
	less func(a *messages.Batch, i int, b *messages.Batch, j int) int
	heap []head
	// count is the number of batches ever added; it makes the merge stable.
	count int
	// fresh is the number of rows taken from fresh batches.
	fresh int64
}

// head is the unread part of a sorted batch.
type head struct {
	b     *messages.Batch
	row   int
	order int
	fresh bool
}

func (m *merge) reset() {
	clear(m.heap)
	m.heap, m.count, m.fresh = m.heap[:0], 0, 0
}

func (m *merge) empty() bool { return len(m.heap) == 0 }

// add adds a batch that has rows; heapify must follow. Rows taken from fresh
// batches are counted.
func (m *merge) add(b *messages.Batch, fresh bool) {
	m.heap = append(m.heap, head{b: b, order: m.count, fresh: fresh})
	m.count++
}

func (m *merge) heapify() {
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
}

func (m *merge) before(i, j int) bool {
	x, y := &m.heap[i], &m.heap[j]
	if c := m.less(x.b, x.row, y.b, y.row); c != 0 {
		return c < 0
	}
	return x.order < y.order
}

func (m *merge) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(m.heap) {
			return
		}
		if child+1 < len(m.heap) && m.before(child+1, child) {
			child++
		}
		if !m.before(child, i) {
			return
		}
		m.heap[i], m.heap[child] = m.heap[child], m.heap[i]
		i = child
	}
}

// next removes the top row.
func (m *merge) next() {
	top := &m.heap[0]
	if top.row++; top.row == top.b.Len() {
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap[last] = head{}
		m.heap = m.heap[:last]
	}
	m.down(0)
}

// take moves up to n rows into res, which is empty, and returns how many. Rows
// that follow each other in one batch are copied together. Kinds and arrivals
// come along if the first row has them; all producers of a table agree on that.
func (m *merge) take(res *messages.Batch, n int) int {
	if len(m.heap) == 0 {
		return 0
	}
	first := m.heap[0].b
	var kinds []messages.RowKind
	var arrivals []messages.EventTime
	if first.Kinds() != nil {
		kinds = res.KindBuffer(n)
	}
	if first.Arrivals() != nil {
		arrivals = res.ArrivalBuffer(n)
	}
	taken := 0
	for taken < n && len(m.heap) > 0 {
		b, from, fresh := m.heap[0].b, m.heap[0].row, m.heap[0].fresh
		to := from
		for taken+to-from < n && len(m.heap) > 0 && m.heap[0].b == b && m.heap[0].row == to {
			m.next()
			to++
		}
		for c := range b.Columns() {
			res.Own(c).AppendRange(b.Column(c), from, to)
		}
		if kinds != nil {
			kinds = appendOr(kinds, b.Kinds(), from, to, messages.Insert)
		}
		if arrivals != nil {
			arrivals = appendOr(arrivals, b.Arrivals(), from, to, messages.NoEventTime)
		}
		taken += to - from
		if fresh {
			m.fresh += int64(to - from)
		}
	}
	res.SetLen(taken)
	res.SetKinds(kinds)
	res.SetArrivals(arrivals)
	return taken
}

// appendOr appends src[from:to], or as often missing if there is no src.
func appendOr[T any](dst, src []T, from, to int, missing T) []T {
	if src != nil {
		return append(dst, src[from:to]...)
	}
	for range to - from {
		dst = append(dst, missing)
	}
	return dst
}
