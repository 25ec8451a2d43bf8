package messages

import "sync/atomic"

// RowKind says what a row does to the table it belongs to.
type RowKind uint8

// The row kinds. A batch without a kind column holds inserts only.
const (
	Insert RowKind = iota
	UpdateBefore
	UpdateAfter
	Delete
)

// ID128 is a 128-bit identity: of a source partition, a row, a window.
type ID128 struct{ Hi, Lo uint64 }

// Lineage says where the rows of a batch come from, so that a replay gives the
// same row the same identity. Row i (a physical index) is identified by Base, A[i] and B[i]:
//
//   - above a source: Base identifies query incarnation, source, incarnation of
//     the outside stream and partition; A is the offset of the row's unit; B is
//     the generator path within the unit (0 when B is nil);
//   - above a final window: Base identifies the operator; A and B are the two
//     halves of a hash of window and key.
//
// A nil A means that rows have no stable identity.
type Lineage struct {
	Base ID128
	A, B []uint64
}

// Mark says that the watermark of the batch's input becomes At once the rows up
// to and including physical row Row have been processed. Row is -1 when that is
// before the first row of the batch, because the rows that moved the watermark
// have been filtered out.
type Mark struct {
	Row int32
	At  EventTime
}

// Frame delimits a complete table that travels as a run of batches.
type Frame uint8

// FrameStart and FrameEnd may both be set on one batch. A sink replaces its
// table by the rows from the start to the end.
const (
	FrameStart Frame = 1 << iota
	FrameEnd
)

// Batch is a set of rows in typed columns. It is immutable after Publish and
// shared by reference count: every holder that keeps it past a call retains it,
// and releases it exactly once. A batch that is never released is collected by
// the garbage collector; only its buffers are not reused. Releasing too often
// is a bug: builds with the tag invariants (or race) panic, others ignore it.
type Batch struct {
	schema *Schema
	cols   []*Column
	own    []Column
	n      int
	sel    []int32 // selected physical rows, ascending; nil: every row
	kinds  []RowKind

	lineage  Lineage
	arrivals []EventTime
	marks    []Mark
	frame    Frame
	wm       EventTime

	refs    atomic.Int32
	idle    uint8 // uses far below its size, one after the other
	pool    *Pool
	parents [2]*Batch
	side    side
}

// Schema returns the batch's schema.
func (b *Batch) Schema() *Schema { return b.schema }

// Len is the number of physical rows, selected or not; every column has this
// length.
func (b *Batch) Len() int { return b.n }

// Selection returns the indexes of the selected physical rows in ascending
// order; nil means that all rows are selected (a batch with nothing selected
// has an empty, non-nil selection).
func (b *Batch) Selection() []int32 { return b.sel }

// Rows is the number of selected rows, the ones that count.
func (b *Batch) Rows() int {
	if b.sel != nil {
		return len(b.sel)
	}
	return b.n
}

// Row returns the physical index of selected row i.
func (b *Batch) Row(i int) int {
	if b.sel != nil {
		return int(b.sel[i])
	}
	return i
}

// Column returns column i.
func (b *Batch) Column(i int) *Column { return b.cols[i] }

// Columns returns how many columns there are.
func (b *Batch) Columns() int { return len(b.cols) }

// Kinds returns the kind of each physical row, or nil for inserts only.
func (b *Batch) Kinds() []RowKind { return b.kinds }

// Lineage returns the identity of the rows.
func (b *Batch) Lineage() Lineage { return b.lineage }

// Arrivals returns the broker time (or else the arrival time) of each physical
// row, or nil above the first stateful operator.
func (b *Batch) Arrivals() []EventTime { return b.arrivals }

// Marks returns the points at which the watermark advances inside the batch,
// in row order, the last one equal to Watermark; nil when it does not advance.
func (b *Batch) Marks() []Mark { return b.marks }

// Watermark is the producer's watermark behind the batch.
func (b *Batch) Watermark() EventTime { return b.wm }

// Frame tells whether the batch starts or ends a complete table.
func (b *Batch) Frame() Frame { return b.frame }

// Size estimates the bytes of the columns, for credit accounting.
func (b *Batch) Size() int {
	size := 64
	for _, c := range b.cols {
		size += c.size()
	}
	return size
}

func (c *Column) size() int {
	s := c.n*c.typ.Kind.Width() + 4*len(c.offsets) + len(c.data) + len(c.valid)
	if c.typ.Kind == Boolean {
		s += BitmapLen(c.n)
	}
	for i := range c.children {
		s += c.children[i].size()
	}
	return s
}

// Retain adds n holders. Only a holder may call it. Safe for concurrent use.
func (b *Batch) Retain(n int) {
	if after := b.refs.Add(int32(n)); invariants && int(after) <= n {
		panic("messages: batch retained after its last release")
	}
}

// Release drops one holder. With the last one the buffers go back to the pool
// the batch came from. Safe for concurrent use.
func (b *Batch) Release() {
	left := b.refs.Add(-1)
	if left > 0 {
		return
	}
	if left < 0 {
		doubleRelease(b)
		return
	}
	parents := b.parents
	b.parents = [2]*Batch{}
	if !poison(b) && b.pool != nil {
		b.pool.put(b)
	}
	for _, p := range parents {
		if p != nil {
			p.Release()
		}
	}
}
