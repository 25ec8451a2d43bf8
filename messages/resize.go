package messages

import (
	"math"
	"unsafe"
)

// minWords is the least capacity of a fixed-width buffer, in 8-byte words.
const minWords = 16

// Reset makes c an empty column of type t, keeping its buffers.
func (c *Column) Reset(t Type) {
	c.mustBeWritable()
	c.reset(&t)
}

// reset avoids copying the type for each column of each batch.
func (c *Column) reset(t *Type) {
	if t.Kind != c.typ.Kind || (t.Kind >= Array || t.Kind == Decimal || t.Kind == Null) && !sameType(&c.typ, t) {
		c.retype(t)
	}
	c.n, c.owed = 0, 0
	c.valid = nil
	c.room = c.limit
	c.data = c.data[:0]
	switch t.Kind {
	case String, Binary, Array, Map:
		c.offsets = append(c.offsets[:0], 0)
	case Null:
		c.EnsureValidity()
	}
	for i := range c.children {
		c.children[i].reset(&c.children[i].typ)
	}
}

// sameType is a quick test for equal types; it may answer false for equal
// structs and arrays, whose retype is cheap.
func sameType(a, b *Type) bool {
	switch b.Kind {
	case Null:
		return false // the zero Column has this kind but has never been set up
	case Struct:
		return len(a.Fields) == len(b.Fields) && unsafe.SliceData(a.Fields) == unsafe.SliceData(b.Fields)
	case Map:
		return a.Key == b.Key && a.Elem == b.Elem || a.Equal(*b)
	default:
		return a.Elem == b.Elem && a.Precision == b.Precision && a.Scale == b.Scale
	}
}

// retype gives c the type t; the caller empties the column.
func (c *Column) retype(t *Type) {
	c.typ = *t
	c.n, c.owed = 0, 0
	if t.Kind.HasOffsets() && cap(c.offsets) == 0 {
		c.offsets = make([]int32, 1, minWords)
	}
	c.limit = c.measure()
	switch t.Kind {
	case Struct:
		c.wantChildren(len(t.Fields))
		for i := range t.Fields {
			c.children[i].retype(&t.Fields[i].Type)
		}
	case Array:
		c.wantChildren(1)
		c.children[0].retype(t.Elem)
	case Map:
		c.wantChildren(1)
		entry := StructType(Field{"key", *t.Key}, Field{"value", *t.Elem})
		c.children[0].retype(&entry)
	default:
		c.children = c.children[:0]
	}
}

func (c *Column) wantChildren(n int) {
	if cap(c.children) < n {
		c.children = append(make([]Column, 0, n), c.children...)
	}
	c.children = c.children[:n]
}

// measure returns how many values fit the buffers that have one slot per value.
func (c *Column) measure() int {
	switch k := c.typ.Kind; {
	case k.HasOffsets():
		return cap(c.offsets) - 1
	case k == Boolean:
		return len(c.fixed) * 64
	case k.Width() > 0:
		return len(c.fixed) * 8 / k.Width()
	default:
		return math.MaxInt
	}
}

func (c *Column) mustBeWritable() {
	if c.frozen {
		panic("messages: write to a column of a published batch")
	}
}

// growTo makes the buffers hold n values, doubling them at least.
func (c *Column) growTo(n int) {
	switch k := c.typ.Kind; {
	case k.HasOffsets():
		out := make([]int32, len(c.offsets), max(n+1, 2*cap(c.offsets), minWords))
		copy(out, c.offsets)
		c.offsets = out
	case k == Boolean:
		c.growFixed((n + 63) / 64)
	case k.Width() > 0:
		c.growFixed((n*k.Width() + 7) / 8)
	}
	c.limit = c.measure()
}

func (c *Column) growFixed(words int) {
	out := make([]uint64, max(words, 2*len(c.fixed), minWords))
	copy(out, c.fixed)
	c.fixed = out
}

// extend makes room for one value behind the last and marks it as not NULL. It
// is the slow half of every append.
func (c *Column) extend() {
	c.mustBeWritable()
	if c.n >= c.limit {
		c.growTo(c.n + 1)
	}
	if c.valid != nil {
		c.extendValid(c.n, c.n+1)
		return
	}
	if c.typ.Kind == Null {
		c.EnsureValidity()
		c.extendValid(c.n, c.n+1)
		return
	}
	c.room = c.limit
}

// Resize sets the length to n values for filling through the accessors. Values
// and offsets beyond the old length are unspecified; no value is NULL beyond
// the old length (but all are in a void column). The bytes and the elements
// that offsets point to are not touched. Struct children are resized too.
func (c *Column) Resize(n int) {
	c.mustBeWritable()
	if n > c.limit {
		c.growTo(n)
	}
	switch c.typ.Kind {
	case String, Binary, Array, Map:
		c.offsets = c.offsets[:n+1]
	case Struct:
		for i := range c.fields() {
			c.children[i].Resize(n)
		}
	}
	old := c.n
	c.n = n
	switch {
	case c.valid != nil:
		c.extendValid(old, n)
	case c.typ.Kind == Null:
		c.EnsureValidity()
	default:
		c.room = c.limit
	}
}

// extendValid sets the bitmap's length to n bits, those from old on set (clear
// in a void column). It may also shorten.
func (c *Column) extendValid(old, n int) {
	if n == old+1 && old&7 != 0 && c.typ.Kind != Null {
		c.valid[old>>3] |= 1 << (old & 7)
		return
	}
	need := BitmapLen(n)
	if need > cap(c.valid) {
		out := make([]byte, need, max(need, 2*cap(c.valid), minWords))
		copy(out, c.valid)
		c.valid, c.validBuf = out, out
	}
	c.valid = c.valid[:need]
	if c.typ.Kind == Null {
		clear(c.valid)
		return
	}
	for ; old < n && old&7 != 0; old++ {
		SetBit(c.valid, old)
	}
	if old < n {
		ones(c.valid[old>>3:])
	}
}

func ones(m []byte) {
	for i := range m {
		m[i] = 0xff
	}
}

// EnsureValidity gives the column a bitmap, all bits set if it had none, and
// returns it for writing.
func (c *Column) EnsureValidity() []byte {
	if c.valid != nil {
		return c.valid
	}
	c.mustBeWritable()
	need := BitmapLen(c.n)
	if c.validBuf == nil || cap(c.validBuf) < need {
		c.validBuf = make([]byte, max(need, 2*cap(c.validBuf), minWords))
	}
	c.valid = c.validBuf[:need]
	c.room = 0
	if c.typ.Kind == Null {
		clear(c.valid)
	} else {
		ones(c.valid)
	}
	return c.valid
}

// DropValidity declares that no value is NULL. It does nothing to a void column.
func (c *Column) DropValidity() { c.SetValidity(nil) }

// SetNull makes value i NULL. For kinds with offsets the caller keeps the
// range empty.
func (c *Column) SetNull(i int) {
	c.mustBeWritable()
	ClearBit(c.EnsureValidity(), i)
}

// SetData replaces the bytes of a string or binary column whose offsets the
// caller fills. The column takes b over.
func (c *Column) SetData(b []byte) { c.mustBeWritable(); c.data = b }

// SetValidity makes m, which holds at least Len bits, the validity bitmap; nil
// means that no value is NULL. The column takes m over: it may write to it, and
// with Swap it may travel away. Never pass the bitmap of another column; copy
// into EnsureValidity instead. A void column keeps its own.
func (c *Column) SetValidity(m []byte) {
	c.mustBeWritable()
	switch {
	case c.typ.Kind == Null:
	case m == nil:
		c.valid = nil
		c.room = c.limit
	default:
		c.valid = m[:BitmapLen(c.n)]
		c.room = 0
	}
}

// Truncate drops all values from n on, and what has been appended to children
// for a value that was not closed.
func (c *Column) Truncate(n int) {
	c.mustBeWritable()
	if n > c.n {
		return
	}
	drop := c.n - n
	c.n = n
	switch c.typ.Kind {
	case String, Binary:
		c.offsets = c.offsets[:n+1]
		c.data = c.data[:min(len(c.data), int(c.offsets[n]))]
	case Array, Map:
		c.offsets = c.offsets[:n+1]
		c.children[0].Truncate(int(c.offsets[n]))
	case Struct:
		if c.owed > 0 && c.owed >= drop {
			c.owed -= drop // the children are shorter
			break
		}
		c.owed = 0
		for k := range c.children {
			c.children[k].Truncate(n)
		}
	}
	switch {
	case c.valid == nil:
	case n == 0 && c.typ.Kind != Null:
		c.valid = nil
		c.room = c.limit
	default:
		c.valid = c.valid[:BitmapLen(n)]
	}
}
