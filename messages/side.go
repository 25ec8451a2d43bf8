package messages

// side holds the buffers for a batch's side information that are recycled with
// it.
type side struct {
	sel      []int32
	a, b     []uint64
	arrivals []EventTime
	marks    []Mark
	kinds    []RowKind
}

// room returns buf emptied, with capacity for n elements, never nil.
func room[T any](buf *[]T, n int) []T {
	if *buf == nil || cap(*buf) < n {
		*buf = make([]T, 0, max(n, 2*cap(*buf), 16))
	}
	return (*buf)[:0]
}

// SelectBuffer returns an empty slice with room for n row indexes that belongs
// to b; append to it and pass it to Select. Only before Publish.
func (b *Batch) SelectBuffer(n int) []int32 { return room(&b.side.sel, n) }

// LineageBuffers returns empty slices with room for n rows that belong to b;
// append to them and pass them to SetLineage. Only before Publish.
func (b *Batch) LineageBuffers(n int) (offsets, paths []uint64) {
	return room(&b.side.a, n), room(&b.side.b, n)
}

// ArrivalBuffer is SelectBuffer for SetArrivals.
func (b *Batch) ArrivalBuffer(n int) []EventTime { return room(&b.side.arrivals, n) }

// MarkBuffer is SelectBuffer for SetMarks.
func (b *Batch) MarkBuffer(n int) []Mark { return room(&b.side.marks, n) }

// KindBuffer is SelectBuffer for SetKinds.
func (b *Batch) KindBuffer(n int) []RowKind { return room(&b.side.kinds, n) }

// SetLen declares the number of physical rows. Only before Publish.
func (b *Batch) SetLen(n int) { b.n = n }

// Select sets the selection: physical rows in ascending order, nil for all.
// Only before Publish.
func (b *Batch) Select(sel []int32) { b.sel = sel }

// SetKinds sets the row kinds, one per physical row, or nil. b keeps the slice.
func (b *Batch) SetKinds(k []RowKind) { b.kinds = k }

// SetLineage sets the rows' identities. b keeps the slices.
func (b *Batch) SetLineage(l Lineage) { b.lineage = l }

// SetArrivals sets the broker or arrival times. b keeps the slice.
func (b *Batch) SetArrivals(a []EventTime) { b.arrivals = a }

// SetMarks sets the watermark marks. b keeps the slice.
func (b *Batch) SetMarks(m []Mark) { b.marks = m }

// SetWatermark sets the watermark behind the batch.
func (b *Batch) SetWatermark(wm EventTime) { b.wm = wm }

// SetFrame marks the batch as start or end of a complete table.
func (b *Batch) SetFrame(f Frame) { b.frame = f }

// InheritSide copies marks, watermark, lineage, arrivals, kinds and frame from
// a batch with the same physical rows, which must be kept alive by b.
func (b *Batch) InheritSide(from *Batch) {
	b.kinds = from.kinds
	b.lineage = from.lineage
	b.arrivals = from.arrivals
	b.marks = from.marks
	b.frame = from.frame
	b.wm = from.wm
	b.n = from.n
	b.sel = from.sel
	b.Keep(from)
}
