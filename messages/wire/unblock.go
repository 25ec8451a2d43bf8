package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/streamd-io/streamd/messages"
)

// DecodeBatch reads a block that EncodeBatch has written from all of data into a
// batch of pool p, published and with one reference, whose schema must be the
// one the block was written with. The batch shares no memory with data. Bytes
// that are not such a block give an error, never a panic.
func DecodeBatch(p *messages.Pool, data []byte) (*messages.Batch, error) {
	r := reader{data: data}
	h, err := r.header(p.Schema())
	if err != nil {
		return nil, fmt.Errorf("wire: column block: %w", err)
	}
	b := p.Get()
	b.SetLen(h.rows)
	b.SetWatermark(h.watermark)
	b.SetFrame(h.frame)
	if err := r.body(b, h); err != nil {
		b.Release()
		return nil, fmt.Errorf("wire: column block of %d rows: %w", h.rows, err)
	}
	return b.Publish(), nil
}

// BlockSize returns the size of the block at the start of data, for blocks that
// lie one behind the other. It checks no more than that they fit.
func BlockSize(data []byte) (int, error) {
	if len(data) < headerSize || string(data[:4]) != blockMagic {
		return 0, fmt.Errorf("wire: no column block in %d bytes", len(data))
	}
	size := binary.LittleEndian.Uint64(data[16:])
	if size < headerSize || size > uint64(len(data)) {
		return 0, fmt.Errorf("wire: a column block of %d bytes in %d bytes", size, len(data))
	}
	return int(size), nil
}

type header struct {
	rows      int
	flags     byte
	frame     messages.Frame
	watermark messages.EventTime
}

// reader cuts data into parts; pos is always a multiple of 8 or the end.
type reader struct {
	data []byte
	pos  int
}

func (r *reader) header(s *messages.Schema) (header, error) {
	d := r.data
	if len(d) < headerSize {
		return header{}, fmt.Errorf("%d bytes are less than a header", len(d))
	}
	if string(d[:4]) != blockMagic {
		return header{}, fmt.Errorf("starts with %x instead of %x", d[:4], blockMagic)
	}
	if d[4] != blockVersion {
		return header{}, fmt.Errorf("format version %d, this build reads %d", d[4], blockVersion)
	}
	h := header{
		rows: int(binary.LittleEndian.Uint32(d[8:])), flags: d[5], frame: messages.Frame(d[6]),
		watermark: messages.EventTime(binary.LittleEndian.Uint64(d[24:])),
	}
	switch {
	case h.flags&^knownFlags != 0 || d[7] != 0 || h.frame&^(messages.FrameStart|messages.FrameEnd) != 0:
		return header{}, fmt.Errorf("unknown flags %#x, frame %#x", h.flags, d[6])
	case h.flags&hasPaths != 0 && h.flags&hasOffsets == 0:
		return header{}, fmt.Errorf("lineage paths without offsets")
	case h.rows > maxRows:
		return header{}, fmt.Errorf("%d rows, the limit is %d", h.rows, maxRows)
	case uint64(binary.LittleEndian.Uint32(d[12:])) != uint64(s.Len()):
		return header{}, fmt.Errorf("%d columns, the schema has %d", binary.LittleEndian.Uint32(d[12:]), s.Len())
	case binary.LittleEndian.Uint64(d[16:]) != uint64(len(d)):
		return header{}, fmt.Errorf("size field %d for %d bytes", binary.LittleEndian.Uint64(d[16:]), len(d))
	}
	r.pos = headerSize
	return h, nil
}

func (r *reader) body(b *messages.Batch, h header) error {
	if err := r.side(b, h); err != nil {
		return err
	}
	for i, f := range b.Schema().Fields {
		if err := r.column(b.Own(i), h.rows); err != nil {
			return fmt.Errorf("column %q: %w", f.Name, err)
		}
	}
	if r.pos != len(r.data) {
		return fmt.Errorf("%d bytes are left over", len(r.data)-r.pos)
	}
	return nil
}

// take returns the next count*width bytes and steps over their padding.
func (r *reader) take(count, width int, what string) ([]byte, error) {
	size := uint64(count) * uint64(width) // both below 2^32
	if left := uint64(len(r.data) - r.pos); size > left || size+(-size&7) > left {
		return nil, fmt.Errorf("%s take %d bytes, %d are left", what, size, left)
	}
	p := r.data[r.pos : r.pos+int(size)]
	r.pos += int(size + (-size & 7))
	return p, nil
}

func (r *reader) side(b *messages.Batch, h header) error {
	l := messages.Lineage{}
	offsets, paths := []uint64(nil), []uint64(nil)
	if h.flags&hasOffsets != 0 {
		base, err := r.take(2, 8, "the lineage base")
		if err != nil {
			return err
		}
		l.Base = messages.ID128{Hi: binary.LittleEndian.Uint64(base), Lo: binary.LittleEndian.Uint64(base[8:])}
		p, err := r.take(h.rows, 8, "the lineage offsets")
		if err != nil {
			return err
		}
		offsets, paths = b.LineageBuffers(h.rows)
		l.A = takeWords(offsets, p)
	}
	if h.flags&hasPaths != 0 {
		p, err := r.take(h.rows, 8, "the lineage paths")
		if err != nil {
			return err
		}
		l.B = takeWords(paths, p)
	}
	b.SetLineage(l)
	if h.flags&hasArrivals != 0 {
		p, err := r.take(h.rows, 8, "the arrivals")
		if err != nil {
			return err
		}
		b.SetArrivals(takeWords(b.ArrivalBuffer(h.rows), p))
	}
	if h.flags&hasMarks != 0 {
		if err := r.marks(b, h.rows); err != nil {
			return err
		}
	}
	if h.flags&hasKinds != 0 {
		return r.kinds(b, h.rows)
	}
	return nil
}

func takeWords[T ~uint64 | ~int64](dst []T, p []byte) []T {
	dst = dst[:len(p)/8]
	if !bigEndian() {
		copy(rawBytes(dst), p)
		return dst
	}
	for i := range dst {
		dst[i] = T(binary.LittleEndian.Uint64(p[8*i:]))
	}
	return dst
}

func (r *reader) marks(b *messages.Batch, rows int) error {
	p, err := r.take(1, 8, "the number of marks")
	if err != nil {
		return err
	}
	count := binary.LittleEndian.Uint64(p)
	if count > uint64(rows)+1 {
		return fmt.Errorf("%d marks for %d rows", count, rows)
	}
	if p, err = r.take(int(count), 16, "the marks"); err != nil {
		return err
	}
	marks := b.MarkBuffer(int(count))
	row, at := int64(-2), messages.NoEventTime
	for ; len(p) > 0; p = p[16:] {
		m := messages.Mark{Row: int32(binary.LittleEndian.Uint32(p)), At: messages.EventTime(binary.LittleEndian.Uint64(p[8:]))}
		if int64(m.Row) <= row || int(m.Row) >= rows || m.At <= at {
			return fmt.Errorf("a mark at row %d, time %d behind one at row %d, time %d", m.Row, m.At, row, at)
		}
		row, at = int64(m.Row), m.At
		marks = append(marks, m)
	}
	b.SetMarks(marks)
	return nil
}

func (r *reader) kinds(b *messages.Batch, rows int) error {
	p, err := r.take(rows, 1, "the row kinds")
	if err != nil {
		return err
	}
	kinds := b.KindBuffer(rows)
	for _, k := range p {
		if messages.RowKind(k) > messages.Delete {
			return fmt.Errorf("unknown row kind %d", k)
		}
		kinds = append(kinds, messages.RowKind(k))
	}
	b.SetKinds(kinds)
	return nil
}

// column fills c, which is empty, with n values.
func (r *reader) column(c *messages.Column, n int) error {
	h, err := r.take(1, columnHeader, "a column header")
	if err != nil {
		return err
	}
	t := c.Type()
	flags := h[1]
	switch {
	case h[0] != byte(t.Kind):
		return fmt.Errorf("holds %s, the schema says %s", messages.Kind(h[0]), t)
	case flags&^hasValidity != 0 || h[2] != 0 || h[3] != 0:
		return fmt.Errorf("unknown flags %x", h[1:4])
	case uint64(binary.LittleEndian.Uint32(h[4:])) != uint64(n):
		return fmt.Errorf("has %d values, want %d", binary.LittleEndian.Uint32(h[4:]), n)
	case flags == 0 && !backed(t):
		return fmt.Errorf("%s has no bitmap", t)
	}
	var valid []byte
	if flags&hasValidity != 0 {
		if valid, err = r.take(messages.BitmapLen(n), 1, "the validity bits"); err != nil {
			return err
		}
	}
	if err := r.values(c, t, n); err != nil {
		return err
	}
	if valid != nil && t.Kind != messages.Null && !allSet(valid, n) {
		copy(c.EnsureValidity(), valid)
	}
	return nil
}

func allSet(m []byte, n int) bool {
	for _, b := range m[:n>>3] {
		if b != 0xff {
			return false
		}
	}
	mask := byte(1)<<(n&7) - 1
	return n&7 == 0 || m[n>>3]&mask == mask
}

// values checks the sizes first and then makes room, so that memory is only
// taken for what is there.
func (r *reader) values(c *messages.Column, t messages.Type, n int) error {
	switch k := t.Kind; {
	case k == messages.Boolean || k.Width() > 0:
		count, width := n, k.Width()
		if k == messages.Boolean {
			count, width = messages.BitmapLen(n), 1
		}
		p, err := r.take(count, width, "the values")
		if err != nil {
			return err
		}
		c.Resize(n)
		copy(c.FixedBytes(), p)
		toLittle(c.FixedBytes(), k)
		return nil
	case k.HasOffsets():
		return r.variable(c, k, n)
	case k == messages.Struct:
		for f := range t.Fields {
			if err := r.column(c.Child(f), n); err != nil {
				return fmt.Errorf("field %q: %w", t.Fields[f].Name, err)
			}
		}
	}
	c.Resize(n) // void, or a struct whose fields have n values by now
	return nil
}

func (r *reader) variable(c *messages.Column, k messages.Kind, n int) error {
	p, err := r.take(n+1, 4, "the offsets")
	if err != nil {
		return err
	}
	c.Resize(n)
	off := c.Offsets()
	last := int32(0)
	for i := range off {
		o := int32(binary.LittleEndian.Uint32(p[4*i:]))
		if o < last {
			return fmt.Errorf("offset %d goes back from %d to %d", i, last, o)
		}
		off[i], last = o, o
	}
	if off[0] != 0 {
		return fmt.Errorf("the first offset is %d", off[0])
	}
	if k == messages.Array || k == messages.Map {
		return r.column(c.Child(0), int(last))
	}
	if p, err = r.take(int(last), 1, "the bytes"); err != nil {
		return err
	}
	c.SetData(append(c.Data()[:0], p...))
	return nil
}
