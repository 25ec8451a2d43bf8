package messages

import "sync"

// Pool recycles batches of one schema. One goroutine takes batches out; any
// goroutine may release them. The zero Pool is not usable; see NewPool.
type Pool struct {
	schema *Schema
	free   sync.Pool
}

// NewPool returns a pool of batches with the given schema.
func NewPool(s *Schema) *Pool {
	return &Pool{schema: s}
}

// Schema returns the schema of the pool's batches.
func (p *Pool) Schema() *Schema { return p.schema }

// Get returns an unpublished, empty batch with one reference, to be filled
// through Own, Share and the Set methods and then published.
func (p *Pool) Get() *Batch {
	b, _ := p.free.Get().(*Batch)
	if b == nil {
		b = &Batch{pool: p, schema: p.schema}
		b.own = make([]Column, p.schema.Len())
		b.cols = make([]*Column, p.schema.Len())
	}
	for i := range b.own {
		b.cols[i] = &b.own[i]
		b.own[i].Reset(p.schema.Fields[i].Type)
	}
	b.reset()
	return b
}

// View returns an unpublished batch with one reference that shows b's columns
// and side information and holds a reference on b until released. Its selection
// is b's; the caller may replace it with Select.
func (p *Pool) View(b *Batch) *Batch {
	v, _ := p.free.Get().(*Batch)
	if v == nil {
		v = &Batch{pool: p}
	}
	v.reset()
	v.schema = b.schema
	v.cols = append(v.cols[:0], b.cols...)
	v.n = b.n
	v.sel = b.sel
	v.kinds = b.kinds
	v.lineage = b.lineage
	v.arrivals = b.arrivals
	v.marks = b.marks
	v.frame = b.frame
	v.wm = b.wm
	v.parents[0] = b
	b.Retain(1)
	return v
}

// NewViewPool returns a pool whose batches are all made by View.
func NewViewPool() *Pool { return &Pool{schema: &Schema{}} }

func (p *Pool) put(b *Batch) {
	for i := range b.own {
		b.own[i].thaw()
	}
	clear(b.cols) // shared columns of others must not be kept alive by the pool
	p.free.Put(b)
}

func (b *Batch) reset() {
	b.n = 0
	b.sel = nil
	b.kinds = nil
	b.lineage.Base = ID128{}
	b.lineage.A = nil
	b.lineage.B = nil
	b.arrivals = nil
	b.marks = nil
	b.frame = 0
	b.wm = NoEventTime
	b.refs.Store(1)
}

// Own returns the batch's own column i for filling. Only before Publish.
func (b *Batch) Own(i int) *Column { return &b.own[i] }

// Share makes column i a reference to a column of from, which the batch keeps
// alive. At most two different batches may be shared from. Only before Publish.
func (b *Batch) Share(i int, c *Column, from *Batch) {
	b.cols[i] = c
	b.Keep(from)
}

// Keep holds a reference on from until b is released. At most two different
// batches can be kept.
func (b *Batch) Keep(from *Batch) {
	for i, p := range b.parents {
		if p == from {
			return
		}
		if p == nil {
			b.parents[i] = from
			from.Retain(1)
			return
		}
	}
	panic("messages: a batch can keep at most two others alive")
}

// SetLen declares the number of physical rows. Only before Publish.
func (b *Batch) SetLen(n int) { b.n = n }

// SelectBuffer returns an empty slice with room for n row indexes that belongs
// to b; append to it and pass it to Select. Only before Publish.
func (b *Batch) SelectBuffer(n int) []int32 {
	if cap(b.selBuf) < n {
		b.selBuf = make([]int32, 0, max(n, 64))
	}
	return b.selBuf[:0]
}

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

// Publish freezes the batch's own columns; it may be sent from now on.
func (b *Batch) Publish() *Batch {
	for i := range b.own {
		b.own[i].freeze()
	}
	return b
}
