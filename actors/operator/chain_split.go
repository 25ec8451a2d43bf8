package operator

import (
	"sort"

	"github.com/streamd-io/streamd/messages"
)

// cutAt decides how far the current batch may be processed in one call. It
// returns the end (an index into the selected rows) and the number of marks
// that are covered by then.
//
// The outcome must equal applying the watermark after every unit. Where the
// operator says that the whole rest is safe, it is one call. Otherwise the
// longest safe run of units is; if not even the first unit is, that unit alone
// is processed under the watermark before it, which is exactly the rule.
func (s *step) cutAt(b *messages.Batch) (end, mark int) {
	marks := b.Marks()
	if s.wmk == nil || s.cur.mark >= len(marks) || b.Watermark() <= s.wm {
		return b.Rows(), len(marks)
	}
	if s.whole(b, b.Rows(), b.Watermark()) {
		return b.Rows(), len(marks)
	}
	open := marks[s.cur.mark:]
	// Safety shrinks as the run grows, so the longest safe run can be searched.
	safe := sort.Search(len(open), func(i int) bool {
		return !s.whole(b, rowsUpTo(b, open[i].Row), open[i].At)
	})
	if safe == 0 {
		safe = 1
	}
	last := s.cur.mark + safe
	return rowsUpTo(b, marks[last-1].Row), last
}

func (s *step) whole(b *messages.Batch, end int, wm messages.EventTime) bool {
	if wm <= s.wm {
		return true
	}
	if s.split == nil {
		return false
	}
	if s.cur.pos == 0 && end == b.Rows() {
		return s.split.Whole(s.cur.input, b, wm)
	}
	part := slicePart(s.chain.views, b, s.cur.pos, end)
	defer part.Release()
	return s.split.Whole(s.cur.input, part, wm)
}

// rowsUpTo returns how many selected rows have a physical index of at most row.
func rowsUpTo(b *messages.Batch, row int32) int {
	sel := b.Selection()
	if sel == nil {
		return min(int(row)+1, b.Len())
	}
	return sort.Search(len(sel), func(i int) bool { return sel[i] > row })
}

// slicePart returns a view of the selected rows [from, to) of b, with one
// reference.
func slicePart(p *messages.Pool, b *messages.Batch, from, to int) *messages.Batch {
	v := p.View(b)
	v.SetMarks(nil) // the chain applies them between the parts
	v.SetWatermark(messages.NoEventTime)
	if from > 0 {
		v.SetFrame(v.Frame() &^ messages.FrameStart)
	}
	if to < b.Rows() {
		v.SetFrame(v.Frame() &^ messages.FrameEnd)
	}
	sel := b.Selection()
	if sel != nil {
		v.Select(sel[from:to])
		return v
	}
	buf := v.SelectBuffer(to - from)
	for i := from; i < to; i++ {
		buf = append(buf, int32(i))
	}
	v.Select(buf)
	return v
}
