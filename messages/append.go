package messages

import (
	"math"
	"unsafe"
)

// AppendNull appends a NULL. What was appended to the children of a nested
// column since its last value is dropped.
func (c *Column) AppendNull() {
	if c.typ.Kind == Struct {
		c.appendNulls(1)
		return
	}
	i := c.n
	c.EnsureValidity()
	if c.frozen || i >= c.limit || i&7 == 0 || c.typ.Kind >= Array || c.typ.Kind == Null {
		c.appendZero()
		c.valid[i>>3] &^= 1 << (i & 7)
		return
	}
	c.n = i + 1
	c.valid[i>>3] &^= 1 << (i & 7)
	c.zero(i)
}

// appendNulls appends k NULLs.
func (c *Column) appendNulls(k int) {
	c.mustBeWritable()
	old, n := c.n, c.n+k
	switch c.typ.Kind {
	case Array, Map:
		c.children[0].Truncate(int(c.offsets[old]))
	case Struct:
		if c.owed == 0 {
			c.dropUnclosed()
		}
		c.owed += k
	}
	c.EnsureValidity()
	if n > c.limit {
		c.growTo(n)
	}
	c.n = n
	c.extendValid(old, n)
	clearBits(c.valid, old, n)
	c.zeros(old)
}

// dropUnclosed drops what was appended to the fields of a struct since its last
// value.
func (c *Column) dropUnclosed() {
	for f := range c.children {
		if ch := &c.children[f]; ch.n != c.n || ch.typ.Kind >= Array {
			ch.Truncate(c.n)
		}
	}
}

// zeros makes the slots of the values from old on zero or empty.
func (c *Column) zeros(old int) {
	switch k := c.typ.Kind; {
	case k.HasOffsets():
		end := c.offsets[old]
		c.offsets = c.offsets[:c.n+1]
		for i := old + 1; i <= c.n; i++ {
			c.offsets[i] = end
		}
	case k == Boolean:
		clearBits(c.Bits(), old, c.n)
	case k.Width() > 0:
		clear(c.FixedBytes()[old*k.Width():])
	}
}

func clearBits(m []byte, from, to int) {
	for ; from < to && from&7 != 0; from++ {
		ClearBit(m, from)
	}
	for ; from+8 <= to; from += 8 {
		m[from>>3] = 0
	}
	for ; from < to; from++ {
		ClearBit(m, from)
	}
}

// zero makes the slot of value i, which is not nested, zero or empty, so that
// equal columns have equal bytes.
func (c *Column) zero(i int) {
	base := unsafe.Pointer(unsafe.SliceData(c.fixed))
	switch c.typ.Kind {
	case String, Binary:
		c.offsets = append(c.offsets, c.offsets[i])
	case BigInt, Double, Timestamp, TimestampNTZ:
		*(*uint64)(unsafe.Add(base, 8*i)) = 0
	case Int, Float, Date:
		*(*uint32)(unsafe.Add(base, 4*i)) = 0
	case Decimal, Interval:
		*(*[2]uint64)(unsafe.Add(base, 16*i)) = [2]uint64{}
	case Boolean:
		*(*byte)(unsafe.Add(base, i>>3)) &^= 1 << (i & 7)
	case SmallInt:
		*(*uint16)(unsafe.Add(base, 2*i)) = 0
	case TinyInt:
		*(*byte)(unsafe.Add(base, i)) = 0
	}
}

// appendZero appends one value that is zero or empty and not NULL.
func (c *Column) appendZero() {
	i := c.n
	if i >= c.room {
		c.extend()
	}
	c.n = i + 1
	switch c.typ.Kind {
	case Array, Map:
		c.children[0].Truncate(int(c.offsets[i]))
		c.offsets = append(c.offsets, c.offsets[i])
	default:
		c.zero(i)
	}
}

// The constant-size appends below are written so that each compiles to a
// comparison and a store, with the call to extend out of line.

// AppendInt8 appends to a tinyint column.
func (c *Column) AppendInt8(v int8) { appendFixed(c, v) }

// AppendInt16 appends to a smallint column.
func (c *Column) AppendInt16(v int16) { appendFixed(c, v) }

// AppendInt32 appends to an int or date column.
func (c *Column) AppendInt32(v int32) { appendFixed(c, v) }

// AppendInt64 appends to a bigint, timestamp or timestamp_ntz column.
func (c *Column) AppendInt64(v int64) { appendFixed(c, v) }

// AppendFloat32 appends to a float column.
func (c *Column) AppendFloat32(v float32) { appendFixed(c, v) }

// AppendFloat64 appends to a double column.
func (c *Column) AppendFloat64(v float64) { appendFixed(c, v) }

// AppendDecimal appends an unscaled value to a decimal column.
func (c *Column) AppendDecimal(v Decimal128) { appendFixed(c, v) }

// AppendInterval appends to an interval column.
func (c *Column) AppendInterval(v IntervalValue) { appendFixed(c, v) }

func appendFixed[T any](c *Column, v T) {
	if invariants {
		c.mustBeWide(int(unsafe.Sizeof(v)))
	}
	if c.n >= c.room {
		c.extend()
	}
	*(*T)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(c.fixed)), c.n*int(unsafe.Sizeof(v)))) = v
	c.n++
}

// AppendBool appends to a boolean column.
func (c *Column) AppendBool(v bool) {
	i := c.n
	if i >= c.room {
		c.extend()
	}
	c.n = i + 1
	octet := (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(c.fixed)), i>>3))
	if v {
		*octet |= 1 << (i & 7)
	} else {
		*octet &^= 1 << (i & 7)
	}
}

// AppendBytes appends a copy of v to a string or binary column.
func (c *Column) AppendBytes(v []byte) {
	i := c.n
	if i >= c.room {
		c.extend()
	}
	// Cutting at the last offset drops what a caller left behind it.
	c.data = append(c.data[:c.offsets[i]], v...)
	c.endValue(len(c.data))
}

// AppendString appends v to a string or binary column.
func (c *Column) AppendString(v string) {
	i := c.n
	if i >= c.room {
		c.extend()
	}
	c.data = append(c.data[:c.offsets[i]], v...)
	c.endValue(len(c.data))
}

// AppendData gives direct access to the bytes for building a value in place:
// append to the returned slice and pass the result to CloseData.
func (c *Column) AppendData() []byte {
	c.mustBeWritable()
	return c.data[:c.offsets[c.n]]
}

// CloseData ends a string or binary value begun with AppendData.
func (c *Column) CloseData(b []byte) {
	if c.n >= c.room {
		c.extend()
	}
	c.data = b
	c.endValue(len(b))
}

// CloseList ends an array or map value: the child's values appended since the
// previous one belong to it.
func (c *Column) CloseList() {
	if c.n >= c.room {
		c.extend()
	}
	c.endValue(c.children[0].n)
}

func (c *Column) endValue(end int) {
	mustFit(end)
	c.offsets = append(c.offsets, int32(end))
	c.n++
}

// mustFit panics when an offset would not fit its 32 bits. Limits on records
// and on rows per batch keep batches far below it.
func mustFit(end int) {
	if end > math.MaxInt32 {
		panic("messages: a column of one batch has more than 2 GiB or 2^31 elements")
	}
}

// CloseStruct ends a struct value whose fields have each been appended once;
// fields that were not are NULL.
func (c *Column) CloseStruct() {
	i := c.n
	if i >= c.room {
		c.extend()
	}
	for k := range c.fields() {
		switch f := &c.children[k]; f.n {
		case i + 1:
		case i:
			f.AppendNull()
		default:
			panic("messages: a field of a struct was appended more than once before CloseStruct")
		}
	}
	c.n = i + 1
}

// AppendFrom appends value i of o, which has the same type.
func (c *Column) AppendFrom(o *Column, i int) {
	if o.IsNull(i) {
		c.AppendNull()
		return
	}
	switch k := c.typ.Kind; k {
	case String, Binary:
		c.AppendBytes(o.Bytes(i))
	case Boolean:
		c.AppendBool(o.Bool(i))
	case Array, Map:
		c.children[0].AppendRange(&o.children[0], int(o.offsets[i]), int(o.offsets[i+1]))
		c.CloseList()
	case Struct:
		from := o.fields()
		for f := range c.fields() {
			c.children[f].AppendFrom(&from[f], i)
		}
		c.CloseStruct()
	default:
		c.appendFixedFrom(o, i)
	}
}

func (c *Column) appendFixedFrom(o *Column, i int) {
	switch c.typ.Kind.Width() {
	case 1:
		c.AppendInt8(o.Int8s()[i])
	case 2:
		c.AppendInt16(o.Int16s()[i])
	case 4:
		c.AppendInt32(o.Int32s()[i])
	case 8:
		c.AppendInt64(o.Int64s()[i])
	case 16:
		c.AppendDecimal(o.Decimals()[i])
	default:
		c.AppendNull() // a void column holds nothing but NULL
	}
}
