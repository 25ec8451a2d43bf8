package messages

import (
	"fmt"
	"math"
	"sync"
)

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
	b := p.take()
	b.schema = p.schema
	n := len(p.schema.Fields)
	if len(b.own) != n {
		b.own = make([]Column, n)
	}
	if cap(b.cols) < n {
		b.cols = make([]*Column, n)
	}
	b.cols = b.cols[:n]
	for i := range b.own {
		b.cols[i] = &b.own[i]
		b.own[i].reset(&p.schema.Fields[i].Type)
	}
	return b
}

// take returns a batch with one reference that has no columns and no side
// information.
func (p *Pool) take() *Batch {
	b, _ := p.free.Get().(*Batch)
	if b == nil {
		b = &Batch{pool: p, wm: NoEventTime}
	}
	b.refs.Store(1)
	return b
}

// View returns an unpublished batch with one reference that shows b's columns
// and side information and holds a reference on b until released. Its selection
// is b's; the caller may replace it with Select, and the side information with
// the Set methods.
func (p *Pool) View(b *Batch) *Batch {
	v := p.take()
	v.schema = b.schema
	v.cols = append(v.cols[:0], b.cols...)
	v.InheritSide(b)
	return v
}

// NewViewPool returns a pool whose batches are all made by View.
func NewViewPool() *Pool { return &Pool{schema: &Schema{}} }

// A batch is left to the garbage collector after idleUses uses one after the
// other that took less than 1/roomy of what one of its columns holds: a burst, or
// one long value, must not decide how much memory a quiet stream keeps.
const (
	idleUses  = 64
	roomy     = 8
	smallRoom = 64      // values
	smallData = 4 << 10 // bytes
)

// oversized counts uses of b that are far below its size, and reports whether
// there were too many.
func (b *Batch) oversized() bool {
	for i := range b.own {
		if b.own[i].oversized() {
			b.idle++
			return b.idle >= idleUses
		}
	}
	b.idle = 0
	return false
}

func (c *Column) oversized() bool {
	for i := range c.children {
		if c.children[i].oversized() {
			return true
		}
	}
	room := c.limit
	return room > smallRoom && room != math.MaxInt && c.n < room/roomy || cap(c.data) > smallData && len(c.data) < cap(c.data)/roomy
}

// put makes b ready for take. Nothing of other batches may stay reachable from
// the pool.
func (p *Pool) put(b *Batch) {
	if b.oversized() {
		return
	}
	for i := range b.own {
		b.own[i].thaw()
	}
	clear(b.cols)
	b.schema = nil
	b.n = 0
	b.sel = nil
	b.kinds = nil
	b.lineage = Lineage{}
	b.arrivals = nil
	b.marks = nil
	b.frame = 0
	b.wm = NoEventTime
	p.free.Put(b)
}

// Own returns the batch's own column i for filling. Only before Publish.
func (b *Batch) Own(i int) *Column { return &b.own[i] }

// Share makes column i a reference to a frozen column of from, which the batch
// keeps alive. A nil from stands for a column that no pool recycles, such as a
// constant. At most two different batches may be shared from. Only before
// Publish.
func (b *Batch) Share(i int, c *Column, from *Batch) {
	b.cols[i] = c
	b.Keep(from)
}

// Keep holds a reference on from, which may be nil, until b is released. At
// most two different batches can be kept.
func (b *Batch) Keep(from *Batch) {
	if from == nil {
		return
	}
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

// Publish freezes the batch's own columns; it may be sent from now on.
func (b *Batch) Publish() *Batch {
	if invariants {
		b.mustBeConsistent()
	}
	for i := range b.own {
		b.own[i].freeze()
	}
	return b
}

// mustBeConsistent panics when lengths do not fit, before anybody relies on them.
func (b *Batch) mustBeConsistent() {
	for i, c := range b.cols {
		if c.Len() != b.n {
			panic(fmt.Sprintf("messages: column %d (%s) of a batch of %d rows has %d values", i, b.schema.Fields[i].Name, b.n, c.Len()))
		}
		if want := b.schema.Fields[i].Type; !c.typ.Equal(want) {
			panic(fmt.Sprintf("messages: column %d (%s) has type %s, want %s", i, b.schema.Fields[i].Name, c.typ, want))
		}
	}
	for what, n := range map[string]int{"kinds": len(b.kinds), "arrivals": len(b.arrivals), "lineage": len(b.lineage.A), "paths": len(b.lineage.B)} {
		if n != 0 && n != b.n {
			panic(fmt.Sprintf("messages: a batch of %d rows has %d %s", b.n, n, what))
		}
	}
	last := int32(-1)
	for _, r := range b.sel {
		if r <= last || int(r) >= b.n {
			panic(fmt.Sprintf("messages: selection of a batch of %d rows goes from row %d to %d", b.n, last, r))
		}
		last = r
	}
	for i, m := range b.marks {
		if int(m.Row) >= b.n || i > 0 && (m.Row <= b.marks[i-1].Row || m.At <= b.marks[i-1].At) {
			panic(fmt.Sprintf("messages: mark %d of a batch of %d rows is at row %d", i, b.n, m.Row))
		}
	}
}
