package messages

// sparseRows is the size below which a batch is never worth compacting.
const sparseRows = 64

// Sparse reports whether so few rows of the batch are selected (less than a
// quarter) that copying them out with Compact pays when the batch is to be kept,
// encoded, sent to another actor or evaluated by several expressions.
func (b *Batch) Sparse() bool {
	return b.sel != nil && b.n >= sparseRows && 4*len(b.sel) < b.n
}

// Compact returns a published batch with one reference that holds only the
// selected rows of b, in order, copied into buffers of pool p, with marks,
// lineage, arrivals, kinds, frame and watermark that mean the same: a mark goes
// behind the last selected row at or before its own, or to row -1. The pool must
// have the batch's schema. b is not needed any more by the result.
func (b *Batch) Compact(p *Pool) *Batch {
	out := p.Get()
	for i, c := range b.cols {
		out.own[i].AppendSelected(c, b.sel)
	}
	n := b.Rows()
	out.n = n
	out.wm = b.wm
	out.frame = b.frame
	if b.kinds != nil {
		out.kinds = pick(out.KindBuffer(n), b.kinds, b.sel)
	}
	if b.arrivals != nil {
		out.arrivals = pick(out.ArrivalBuffer(n), b.arrivals, b.sel)
	}
	out.lineage.Base = b.lineage.Base
	offsets, paths := out.LineageBuffers(n)
	if b.lineage.A != nil {
		out.lineage.A = pick(offsets, b.lineage.A, b.sel)
	}
	if b.lineage.B != nil {
		out.lineage.B = pick(paths, b.lineage.B, b.sel)
	}
	if b.marks != nil {
		out.marks = out.remapMarks(b)
	}
	return out.Publish()
}

// pick appends the selected elements of src to dst.
func pick[T any](dst, src []T, sel []int32) []T {
	if sel == nil {
		return append(dst, src...)
	}
	for _, i := range sel {
		dst = append(dst, src[i])
	}
	return dst
}

// remapMarks moves the marks of b to the positions that the selected rows get
// when they stand alone. Of several marks that meet, the last is the highest.
func (b *Batch) remapMarks(from *Batch) []Mark {
	marks := b.MarkBuffer(len(from.marks))
	next := 0
	for _, m := range from.marks {
		row := m.Row
		if from.sel != nil {
			for next < len(from.sel) && from.sel[next] <= m.Row {
				next++
			}
			row = int32(next) - 1
		}
		if k := len(marks); k > 0 && marks[k-1].Row == row {
			marks[k-1].At = m.At
		} else {
			marks = append(marks, Mark{Row: row, At: m.At})
		}
	}
	return marks
}
