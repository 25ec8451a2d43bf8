package messages

import (
	"fmt"
	"unsafe"
)

// Decimal128 is a 128-bit two's complement integer in Arrow's byte order.
type Decimal128 struct {
	Lo uint64
	Hi int64
}

// IntervalValue is a calendar interval; the three parts are independent.
type IntervalValue struct {
	Months, Days int32
	Nanos        int64
}

// Column is a typed vector of Len values.
//
// Buffers follow Arrow: an optional validity bitmap (nil means no NULL), then a
// fixed-width buffer, or int32 offsets (Len+1 of them) and bytes or a child, or
// one child per struct field. A NULL slot holds an unspecified value in the
// fixed-width buffer and an empty range in the offsets.
//
// A Column is written by one goroutine until the batch that holds it is
// published, which freezes it; from then on it is read-only, and writing to it
// panics. The slices that the accessors return alias the column.
//
// The zero Column is an empty column of type void; Reset gives it another type.
type Column struct {
	typ Type
	n   int
	// room is the number of values up to which appending is a plain store.
	// Invariant: 0 while the column is frozen or has a bitmap, else at most limit.
	room int
	// limit is the number of values the fixed-width buffer or the offsets hold.
	limit    int
	valid    []byte   // nil: no NULLs; else BitmapLen(n) bytes; never nil for kind Null
	fixed    []uint64 // backing of the fixed-width buffer or the boolean bits, whole capacity
	offsets  []int32  // n+1 of them for kinds with offsets
	data     []byte
	children []Column
	// owed is how many NULLs at the end of a struct column its children do not
	// have yet; see settle.
	owed     int
	validBuf []byte // keeps the bitmap's capacity while valid is nil
	frozen   bool
}

// Type returns the column's type.
func (c *Column) Type() Type { return c.typ }

// Len returns the number of values.
func (c *Column) Len() int { return c.n }

// Frozen reports whether the column belongs to a published batch and must not
// be written. Results of expressions that are frozen are shared, all others are
// scratch whose buffers may be taken with Swap.
func (c *Column) Frozen() bool { return c.frozen }

// Validity returns the validity bitmap, or nil when no value is NULL. Bits from
// Len on are unspecified.
func (c *Column) Validity() []byte { return c.valid }

// IsNull reports whether value i is NULL.
func (c *Column) IsNull(i int) bool {
	return c.typ.Kind == Null || (c.valid != nil && !BitSet(c.valid, i))
}

func view[T any](c *Column) []T {
	if c.n == 0 {
		return nil
	}
	if invariants {
		c.mustBeWide(int(unsafe.Sizeof(*new(T))))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(c.fixed))), c.n)
}

// mustBeWide panics when a column is used as one of another width, which would
// reach beyond its buffer. Only builds with invariants check it.
func (c *Column) mustBeWide(size int) {
	if c.typ.Kind.Width() != size {
		panic(fmt.Sprintf("messages: a column of type %s is used as one of %d-byte values", c.typ, size))
	}
}

// Int8s returns the values of a tinyint column.
func (c *Column) Int8s() []int8 { return view[int8](c) }

// Int16s returns the values of a smallint column.
func (c *Column) Int16s() []int16 { return view[int16](c) }

// Int32s returns the values of an int or date column.
func (c *Column) Int32s() []int32 { return view[int32](c) }

// Int64s returns the values of a bigint, timestamp or timestamp_ntz column.
func (c *Column) Int64s() []int64 { return view[int64](c) }

// Float32s returns the values of a float column.
func (c *Column) Float32s() []float32 { return view[float32](c) }

// Float64s returns the values of a double column.
func (c *Column) Float64s() []float64 { return view[float64](c) }

// Decimals returns the unscaled values of a decimal column.
func (c *Column) Decimals() []Decimal128 { return view[Decimal128](c) }

// Intervals returns the values of an interval column.
func (c *Column) Intervals() []IntervalValue { return view[IntervalValue](c) }

// Bits returns the value bitmap of a boolean column.
func (c *Column) Bits() []byte {
	if c.n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.fixed))), BitmapLen(c.n))
}

// Bool returns value i of a boolean column.
func (c *Column) Bool(i int) bool { return BitSet(c.Bits(), i) }

// FixedBytes returns the fixed-width buffer (or the boolean bits) as bytes.
func (c *Column) FixedBytes() []byte {
	size := c.n * c.typ.Kind.Width()
	if c.typ.Kind == Boolean {
		size = BitmapLen(c.n)
	}
	if size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.fixed))), size)
}

// Offsets returns the Len+1 offsets of a string, binary, array or map column.
func (c *Column) Offsets() []int32 { return c.offsets }

// Data returns the bytes of all values of a string or binary column.
func (c *Column) Data() []byte { return c.data }

// Bytes returns value i of a string or binary column. It aliases the column.
func (c *Column) Bytes(i int) []byte { return c.data[c.offsets[i]:c.offsets[i+1]] }

// Str returns value i of a string column without copying; the string must not
// outlive the batch.
func (c *Column) Str(i int) string {
	b := c.Bytes(i)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Child returns the i-th child: field i of a struct, the elements of an array
// (0), or the struct<key,value> entries of a map (0).
func (c *Column) Child(i int) *Column {
	if c.owed > 0 {
		c.settle()
	}
	return &c.children[i]
}

// fields returns the children, in step with the column.
func (c *Column) fields() []Column {
	if c.owed > 0 {
		c.settle()
	}
	return c.children
}

// settle gives the children the NULLs that were appended to a struct column. A
// column of structs of which only few are not NULL (a union of kinds of events) is
// filled in runs that way and not field by field.
func (c *Column) settle() {
	k := c.owed
	c.owed = 0
	for i := range c.children {
		c.children[i].appendNulls(k)
	}
}

// Swap exchanges type, length and buffers with o. Neither may be frozen. The
// caller of an expression takes its scratch away with it and leaves its own
// spent buffers to be filled next.
func (c *Column) Swap(o *Column) {
	c.mustBeWritable()
	o.mustBeWritable()
	*c, *o = *o, *c
}

func (c *Column) freeze() {
	c.frozen = true
	c.room = 0
	for i := range c.fields() {
		c.children[i].freeze()
	}
}

func (c *Column) thaw() {
	c.frozen = false
	for i := range c.children {
		c.children[i].thaw()
	}
}

// Check verifies the internal consistency of a column that came from outside
// (decoded bytes): buffer sizes and monotone offsets. It is linear in Len.
func (c *Column) Check() error {
	if c.valid != nil && len(c.valid) < BitmapLen(c.n) {
		return fmt.Errorf("messages: validity has %d bytes for %d values", len(c.valid), c.n)
	}
	if c.n > c.limit {
		return fmt.Errorf("messages: %s column has room for %d of %d values", c.typ, c.limit, c.n)
	}
	limit := len(c.data)
	switch c.typ.Kind {
	case Array, Map:
		limit = c.children[0].n
	case Struct:
		for i := range c.fields() {
			if c.children[i].n != c.n {
				return fmt.Errorf("messages: struct field %d has %d values, want %d", i, c.children[i].n, c.n)
			}
		}
	}
	if c.typ.Kind.HasOffsets() {
		if err := checkOffsets(c.offsets, c.n, limit); err != nil {
			return err
		}
	}
	for i := range c.children {
		if err := c.children[i].Check(); err != nil {
			return err
		}
	}
	return nil
}

func checkOffsets(off []int32, n, limit int) error {
	if len(off) != n+1 || off[0] < 0 {
		return fmt.Errorf("messages: %d offsets for %d values", len(off), n)
	}
	for i := range n {
		if off[i+1] < off[i] {
			return fmt.Errorf("messages: offset %d goes back from %d to %d", i+1, off[i], off[i+1])
		}
	}
	if int(off[n]) > limit {
		return fmt.Errorf("messages: offset %d is beyond the %d values it points into", off[n], limit)
	}
	return nil
}
