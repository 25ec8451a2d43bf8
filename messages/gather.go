package messages

// AppendRange appends values [from, to) of o, which has the same type. It costs
// one copy per buffer.
func (c *Column) AppendRange(o *Column, from, to int) {
	if from >= to {
		c.mustBeWritable()
		return
	}
	at, count := c.n, to-from
	if c.typ.Kind.HasOffsets() {
		c.appendRangeOffsets(o, from, to)
	} else {
		c.growBy(count)
		switch w := c.typ.Kind.Width(); {
		case w > 0:
			copy(c.FixedBytes()[at*w:], o.FixedBytes()[from*w:to*w])
		case c.typ.Kind == Boolean:
			copyBits(c.Bits(), at, o.Bits(), from, count)
		case c.typ.Kind == Struct:
			fields := o.fields()
			for f := range c.children {
				c.children[f].AppendRange(&fields[f], from, to)
			}
		}
	}
	if o.valid != nil && c.typ.Kind != Null {
		copyBits(c.EnsureValidity(), at, o.valid, from, count)
	}
}

// growBy is Resize by count more values without touching struct children.
func (c *Column) growBy(count int) {
	if c.typ.Kind != Struct {
		c.Resize(c.n + count)
		return
	}
	c.mustBeWritable()
	for f := range c.fields() {
		c.children[f].Truncate(c.n)
	}
	if c.valid != nil {
		c.extendValid(c.n, c.n+count)
	}
	c.n += count
}

func (c *Column) appendRangeOffsets(o *Column, from, to int) {
	at, start := c.n, c.offsets[c.n]
	lo, hi := o.offsets[from], o.offsets[to]
	if len(c.children) > 0 {
		c.children[0].Truncate(int(start))
		c.children[0].AppendRange(&o.children[0], int(lo), int(hi))
	} else {
		c.mustBeWritable()
		c.data = append(c.data[:start], o.data[lo:hi]...)
	}
	mustFit(int(start) + int(hi-lo))
	c.Resize(at + to - from)
	out := c.offsets[at+1:]
	for k, off := range o.offsets[from+1 : to+1] {
		out[k] = off - lo + start
	}
}

// AppendSelected appends the values of o, which has the same type, at the given
// rows in the given order; rows may repeat. A nil rows means all of o, as in
// Batch.Selection.
func (c *Column) AppendSelected(o *Column, rows []int32) {
	if rows == nil {
		c.AppendRange(o, 0, o.n)
		return
	}
	at := c.n
	switch k := c.typ.Kind; k {
	case String, Binary:
		c.gatherBytes(o, rows)
	case Array, Map:
		c.gatherLists(o, rows)
	case Struct:
		c.growBy(len(rows))
		fields := o.fields()
		for f := range c.children {
			c.children[f].AppendSelected(&fields[f], rows)
		}
	case Boolean:
		c.growBy(len(rows))
		gatherBits(c.Bits(), at, o.Bits(), rows)
	default:
		c.growBy(len(rows))
		c.gatherFixed(o, at, rows)
	}
	if o.valid != nil && c.typ.Kind != Null && len(rows) > 0 {
		gatherBits(c.EnsureValidity(), at, o.valid, rows)
	}
}

func (c *Column) gatherFixed(o *Column, at int, rows []int32) {
	switch c.typ.Kind.Width() {
	case 1:
		gather(c.Int8s()[at:], o.Int8s(), rows)
	case 2:
		gather(c.Int16s()[at:], o.Int16s(), rows)
	case 4:
		gather(c.Int32s()[at:], o.Int32s(), rows)
	case 8:
		gather(c.Int64s()[at:], o.Int64s(), rows)
	case 16:
		gather(c.Decimals()[at:], o.Decimals(), rows)
	}
}

func gather[T any](dst, src []T, rows []int32) {
	for k, i := range rows {
		dst[k] = src[i]
	}
}

func (c *Column) gatherBytes(o *Column, rows []int32) {
	at, end := c.n, int(c.offsets[c.n])
	size := end
	for _, i := range rows {
		size += int(o.offsets[i+1] - o.offsets[i])
	}
	mustFit(size)
	c.Resize(at + len(rows))
	c.data = growCap(c.data[:end], size)
	off := c.offsets[at+1:]
	data := c.data
	for k, i := range rows {
		data = append(data, o.data[o.offsets[i]:o.offsets[i+1]]...)
		off[k] = int32(len(data))
	}
	c.data = data
}

func (c *Column) gatherLists(o *Column, rows []int32) {
	at, child := c.n, &c.children[0]
	child.Truncate(int(c.offsets[at]))
	c.Resize(at + len(rows))
	off := c.offsets[at+1:]
	for k, i := range rows {
		child.AppendRange(&o.children[0], int(o.offsets[i]), int(o.offsets[i+1]))
		mustFit(child.n)
		off[k] = int32(child.n)
	}
}

// growCap returns s with capacity for size elements at least.
func growCap[T any](s []T, size int) []T {
	if size <= cap(s) {
		return s
	}
	out := make([]T, len(s), max(size, 2*cap(s)))
	copy(out, s)
	return out
}

func gatherBits(dst []byte, at int, src []byte, rows []int32) {
	for k, i := range rows {
		bit := at + k
		v := src[i>>3] >> (i & 7) & 1
		dst[bit>>3] = dst[bit>>3]&^(1<<(bit&7)) | v<<(bit&7)
	}
}

// copyBits copies count bits of src from bit from to bit at of dst, eight at a
// time where it can.
func copyBits(dst []byte, at int, src []byte, from, count int) {
	for count > 0 && at&7 != 0 {
		putBit(dst, at, src, from)
		at, from, count = at+1, from+1, count-1
	}
	shift := from & 7
	for ; count >= 8; at, from, count = at+8, from+8, count-8 {
		b := src[from>>3] >> shift
		if shift != 0 {
			b |= src[from>>3+1] << (8 - shift)
		}
		dst[at>>3] = b
	}
	for ; count > 0; at, from, count = at+1, from+1, count-1 {
		putBit(dst, at, src, from)
	}
}

func putBit(dst []byte, at int, src []byte, from int) {
	v := src[from>>3] >> (from & 7) & 1
	dst[at>>3] = dst[at>>3]&^(1<<(at&7)) | v<<(at&7)
}
