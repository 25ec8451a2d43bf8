package wire

import (
	"encoding/binary"
	"unsafe"

	"github.com/streamd-io/streamd/messages"
)

const (
	blockMagic   = "SDCB"
	blockVersion = 1
	headerSize   = 32

	hasKinds    = 1 << 0
	hasOffsets  = 1 << 1
	hasPaths    = 1 << 2
	hasArrivals = 1 << 3
	hasMarks    = 1 << 4
	knownFlags  = 1<<5 - 1

	columnHeader = 8
	hasValidity  = 1 << 0
)

// maxRows bounds the rows of a batch, also of one without columns.
const maxRows = 1 << 24

// EncodeBatch appends a column block with the selected rows of b to dst and
// returns the result. Use an Encoder when batches have selections.
func EncodeBatch(dst []byte, b *messages.Batch) []byte {
	var e Encoder
	return e.EncodeBatch(dst, b)
}

// Encoder encodes batches and keeps the buffers that this needs when a batch has
// a selection. The zero value is ready; it belongs to one goroutine.
type Encoder struct {
	dense   *messages.Pool
	scratch messages.Column
}

// EncodeBatch appends a column block with the selected rows of b to dst and
// returns the result.
func (e *Encoder) EncodeBatch(dst []byte, b *messages.Batch) []byte {
	if b.Selection() != nil {
		if e.dense == nil || e.dense.Schema() != b.Schema() {
			e.dense = messages.NewPool(b.Schema())
		}
		b = b.Compact(e.dense)
		defer b.Release()
	}
	start := len(dst)
	w := writer{buf: dst, start: start, scratch: &e.scratch}
	w.header(b)
	w.side(b)
	for i := range b.Columns() {
		w.column(b.Column(i), 0, b.Len())
	}
	binary.LittleEndian.PutUint64(w.buf[start+16:], uint64(len(w.buf)-start))
	return w.buf
}

type writer struct {
	buf     []byte
	start   int
	scratch *messages.Column
}

func (w *writer) header(b *messages.Batch) {
	flags := byte(0)
	l := b.Lineage()
	for flag, there := range [...]bool{b.Kinds() != nil, l.A != nil, l.B != nil, b.Arrivals() != nil, len(b.Marks()) > 0} {
		if there {
			flags |= 1 << flag
		}
	}
	w.buf = append(w.buf, blockMagic...)
	w.buf = append(w.buf, blockVersion, flags, byte(b.Frame()), 0)
	w.u32(uint32(b.Len()))
	w.u32(uint32(b.Columns()))
	w.u64(0) // the size, known at the end
	w.u64(uint64(b.Watermark()))
}

func (w *writer) side(b *messages.Batch) {
	l := b.Lineage()
	if l.A != nil {
		w.u64(l.Base.Hi)
		w.u64(l.Base.Lo)
		appendWords(w, l.A)
	}
	if l.B != nil {
		appendWords(w, l.B)
	}
	if a := b.Arrivals(); a != nil {
		appendWords(w, a)
	}
	if m := b.Marks(); len(m) > 0 {
		w.u64(uint64(len(m)))
		for i := range m {
			w.u64(uint64(uint32(m[i].Row)))
			w.u64(uint64(m[i].At))
		}
	}
	if k := b.Kinds(); k != nil {
		w.bytes(rawBytes(k))
	}
}

func (w *writer) u32(v uint32) { w.buf = binary.LittleEndian.AppendUint32(w.buf, v) }
func (w *writer) u64(v uint64) { w.buf = binary.LittleEndian.AppendUint64(w.buf, v) }

// bytes appends p and pads.
func (w *writer) bytes(p []byte) {
	w.buf = append(w.buf, p...)
	w.pad()
}

func (w *writer) pad() {
	var zeros [8]byte
	w.buf = append(w.buf, zeros[:-(len(w.buf)-w.start)&7]...)
}

// bits appends the first n bits of m and pads; what follows them is 0.
func (w *writer) bits(m []byte, n int) {
	w.buf = append(w.buf, m[:messages.BitmapLen(n)]...)
	if rest := n & 7; rest != 0 {
		w.buf[len(w.buf)-1] &= 1<<rest - 1
	}
	w.pad()
}

// column appends values [from, to) of c.
func (w *writer) column(c *messages.Column, from, to int) {
	if from > 0 {
		// Only the elements of lists whose first offset is not 0 come here.
		var part messages.Column
		part.Swap(w.scratch)
		part.Reset(c.Type())
		part.AppendRange(c, from, to)
		w.column(&part, 0, part.Len())
		part.Swap(w.scratch)
		return
	}
	n, kind, valid := to, c.Type().Kind, c.Validity()
	bare := !backed(c.Type())
	flags := byte(0)
	if valid != nil || bare {
		flags = hasValidity
	}
	w.buf = append(w.buf, byte(kind), flags, 0, 0)
	w.u32(uint32(n))
	switch {
	case valid != nil:
		w.bits(valid, n)
	case bare:
		w.ones(n)
	}
	switch {
	case kind == messages.Boolean:
		w.bits(c.Bits(), n)
	case kind.Width() > 0:
		at := len(w.buf)
		w.buf = append(w.buf, c.FixedBytes()[:n*kind.Width()]...)
		toLittle(w.buf[at:], kind)
		w.pad()
	case kind.HasOffsets():
		w.variable(c, n)
	case kind == messages.Struct:
		for f := range c.Type().Fields {
			w.column(c.Child(f), 0, n)
		}
	}
}

// backed reports whether values of type t take bytes even without a bitmap.
func backed(t messages.Type) bool {
	return t.Kind != messages.Null && (t.Kind != messages.Struct || len(t.Fields) > 0)
}

func (w *writer) ones(n int) {
	for range messages.BitmapLen(n) {
		w.buf = append(w.buf, 0xff)
	}
	if rest := n & 7; rest != 0 {
		w.buf[len(w.buf)-1] &= 1<<rest - 1
	}
	w.pad()
}

// variable appends offsets and bytes or elements of the first n values.
func (w *writer) variable(c *messages.Column, n int) {
	off := c.Offsets()
	if off = off[:n+1]; off[0] == 0 && !bigEndian() {
		w.bytes(rawBytes(off))
	} else {
		for _, o := range off {
			w.u32(uint32(o - off[0]))
		}
		w.pad()
	}
	lo, hi := int(off[0]), int(off[n])
	if k := c.Type().Kind; k == messages.String || k == messages.Binary {
		w.bytes(c.Data()[lo:hi])
	} else {
		w.column(c.Child(0), lo, hi)
	}
}

func appendWords[T ~uint64 | ~int64](w *writer, s []T) {
	if !bigEndian() {
		w.buf = append(w.buf, rawBytes(s)...)
		return
	}
	for _, v := range s {
		w.u64(uint64(v))
	}
}

// rawBytes returns the memory of s, whose elements hold no pointers.
func rawBytes[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}

func bigEndian() bool { return binary.NativeEndian.Uint16([]byte{0, 1}) == 1 }

// toLittle swaps the values of a fixed-width buffer between memory order and
// little endian. It does nothing on little-endian machines.
func toLittle(p []byte, k messages.Kind) {
	if bigEndian() {
		swapValues(p, k)
	}
}

// swapValues reverses the bytes of every number in p.
func swapValues(p []byte, k messages.Kind) {
	parts := []int{k.Width()}
	switch k {
	case messages.Decimal:
		parts = []int{8, 8}
	case messages.Interval:
		parts = []int{4, 4, 8}
	}
	for len(p) > 0 {
		for _, size := range parts {
			for i, j := 0, size-1; i < j; i, j = i+1, j-1 {
				p[i], p[j] = p[j], p[i]
			}
			p = p[size:]
		}
	}
}
