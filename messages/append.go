package messages

// AppendNull appends a NULL.
func (c *Column) AppendNull() {
	c.appendZero()
	c.SetNull(c.n - 1)
}

// appendZero appends one value that is zero or empty and not NULL.
func (c *Column) appendZero() {
	i := c.n
	c.Resize(i + 1)
	switch {
	case c.typ.Kind.HasOffsets():
		c.offsets[i+1] = c.offsets[i]
	case c.typ.Kind == Boolean:
		ClearBit(c.Bits(), i)
	case c.typ.Kind == Struct:
		for k := range c.children {
			c.children[k].n = i
			c.children[k].AppendNull()
		}
	case c.typ.Kind.Width() > 0:
		c.zero(i)
	}
}

func (c *Column) zero(i int) {
	switch c.typ.Kind.Width() {
	case 1:
		c.Int8s()[i] = 0
	case 2:
		c.Int16s()[i] = 0
	case 4:
		c.Int32s()[i] = 0
	case 8:
		c.Int64s()[i] = 0
	case 16:
		c.Decimals()[i] = Decimal128{}
	}
}

func appendFixed[T any](c *Column, v T) {
	i := c.n
	c.Resize(i + 1)
	view[T](c)[i] = v
}

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

// AppendBool appends to a boolean column.
func (c *Column) AppendBool(v bool) {
	i := c.n
	c.Resize(i + 1)
	if v {
		SetBit(c.Bits(), i)
	} else {
		ClearBit(c.Bits(), i)
	}
}

// AppendBytes appends a copy of v to a string or binary column.
func (c *Column) AppendBytes(v []byte) {
	c.data = append(c.data, v...)
	c.closeValue(len(c.data))
}

// AppendString appends v to a string or binary column.
func (c *Column) AppendString(v string) {
	c.data = append(c.data, v...)
	c.closeValue(len(c.data))
}

// AppendData gives direct access to the bytes for building a value in place:
// append to the returned slice and pass the result to CloseData.
func (c *Column) AppendData() []byte { c.mustBeWritable(); return c.data }

// CloseData ends a string or binary value begun with AppendData.
func (c *Column) CloseData(b []byte) {
	c.data = b
	c.closeValue(len(b))
}

// CloseList ends an array or map value: the child's values appended since the
// previous one belong to it.
func (c *Column) CloseList() { c.closeValue(c.children[0].n) }

func (c *Column) closeValue(end int) {
	i := c.n
	c.Resize(i + 1)
	c.offsets[i+1] = int32(end)
}

// CloseStruct ends a struct value whose fields have each been appended once;
// fields that were not are NULL.
func (c *Column) CloseStruct() {
	i := c.n
	for k := range c.children {
		if c.children[k].n == i {
			c.children[k].AppendNull()
		}
	}
	// Resize would set the children to i+1, which they are.
	c.Resize(i + 1)
}

// Truncate drops all values from n on.
func (c *Column) Truncate(n int) {
	c.mustBeWritable()
	if n >= c.n {
		return
	}
	c.growFixed(n)
	if c.typ.Kind.HasOffsets() {
		c.offsets = c.offsets[:n+1]
		if len(c.children) == 1 {
			c.children[0].Truncate(int(c.offsets[n]))
		} else {
			c.data = c.data[:c.offsets[n]]
		}
	}
	if c.typ.Kind == Struct {
		for k := range c.children {
			c.children[k].Truncate(n)
		}
	}
	c.n = n
	if c.valid != nil {
		c.valid = c.valid[:BitmapLen(n)]
	}
}

// AppendFrom appends value i of o, which has the same type.
func (c *Column) AppendFrom(o *Column, i int) {
	if o.IsNull(i) {
		c.AppendNull()
		return
	}
	switch k := c.typ.Kind; {
	case k == String || k == Binary:
		c.AppendBytes(o.Bytes(i))
	case k == Boolean:
		c.AppendBool(o.Bool(i))
	case k == Array || k == Map:
		for j := o.offsets[i]; j < o.offsets[i+1]; j++ {
			c.children[0].AppendFrom(&o.children[0], int(j))
		}
		c.CloseList()
	case k == Struct:
		for f := range c.children {
			c.children[f].AppendFrom(&o.children[f], i)
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
