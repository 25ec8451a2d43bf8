package held

import (
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/wire"
)

// latest holds the last row of each key, in the order of the last changes: a row
// that a later one replaces is marked, and left out when the rows are encoded or
// when more rows are marked than not.
type latest struct {
	chunks []*latestChunk
	live   int
	dead   int
	full   int64 // bytes of all chunks but the last
	// table finds the row of a key: open addressing, the upper half of a slot is
	// that of the key's hash, the lower half 1 + chunk*chunkRows + row; 0 is free.
	table []uint64
}

type latestChunk struct {
	chunk
	dead  []byte // bitmap of the rows that were replaced
	deads int
}

func (l *latest) add(s *shape, in *messages.Batch, rows []int32, ids []messages.ID128) {
	for len(rows) > 0 {
		c := l.room()
		from := c.n
		n := c.add(s.pool, in, rows, ids)
		rows = rows[n:]
		if ids != nil {
			ids = ids[n:]
		}
		for i := from; i < c.n; i++ {
			l.note(s, len(l.chunks)-1, i)
		}
	}
	if l.dead > l.live+chunkRows {
		l.compact(s)
	}
}

// room returns the last chunk if it is not full, or a new one.
func (l *latest) room() *latestChunk {
	if n := len(l.chunks); n > 0 {
		if c := l.chunks[n-1]; !c.full() {
			return c
		}
		l.full += l.chunks[n-1].bytes()
	}
	c := &latestChunk{dead: make([]byte, messages.BitmapLen(chunkRows))}
	l.chunks = append(l.chunks, c)
	return c
}

// note makes a row the one of its key.
func (l *latest) note(s *shape, chunk, row int) {
	if 4*(l.live+1) > 3*len(l.table) {
		l.grow()
	}
	b := l.chunks[chunk].batch
	s.key = s.key[:0]
	for _, k := range s.keys {
		s.key = appendKey(s.key, b.Column(k), row)
	}
	hash := xxh3.Hash(s.key)
	own := hash>>32<<32 | uint64(chunk*chunkRows+row+1)
	mask := uint64(len(l.table) - 1)
	for i := hash >> 32 & mask; ; i = (i + 1) & mask {
		at := l.table[i]
		if at == 0 {
			l.table[i] = own
			l.live++
			return
		}
		if at>>32 != hash>>32 {
			continue
		}
		old, r := l.chunks[int(uint32(at)-1)/chunkRows], int(uint32(at)-1)%chunkRows
		if sameKey(s.keys, old.batch, r, b, row) {
			messages.SetBit(old.dead, r)
			old.deads++
			l.dead++
			l.table[i] = own
			return
		}
	}
}

// grow doubles the table.
func (l *latest) grow() {
	table := make([]uint64, max(64, 2*len(l.table)))
	mask := uint64(len(table) - 1)
	for _, at := range l.table {
		if at == 0 {
			continue
		}
		i := at >> 32 & mask
		for table[i] != 0 {
			i = (i + 1) & mask
		}
		table[i] = at
	}
	l.table = table
}

// compact copies the rows that count.
func (l *latest) compact(s *shape) {
	old := l.chunks
	*l = latest{table: l.table}
	clear(l.table)
	for _, c := range old {
		rows, ids := c.alive(s.rows[:0], s.ids[:0])
		s.rows, s.ids = rows, ids
		if c.ids == nil {
			ids = nil
		}
		l.add(s, c.seal(), rows, ids)
		c.release()
	}
}

// alive appends the rows that count and their identities.
func (c *latestChunk) alive(rows []int32, ids []messages.ID128) ([]int32, []messages.ID128) {
	for i := range c.n {
		if messages.BitSet(c.dead, i) {
			continue
		}
		rows = append(rows, int32(i))
		if c.ids != nil {
			ids = append(ids, c.ids[i])
		}
	}
	return rows, ids
}

func (l *latest) bytes() int64 {
	n := l.full + int64(8*len(l.table))
	if k := len(l.chunks); k > 0 {
		n += l.chunks[k-1].bytes()
	}
	return n
}

// encode returns the rows that count as a part. It uses nothing that Write uses.
func (l *latest) encode(s *shape) ([]byte, int64) {
	var enc wire.Encoder
	views := messages.NewViewPool()
	data := appendPart(nil, s.schema, l.chunks[0].ids != nil)
	for _, c := range l.chunks {
		if c.deads == c.n {
			continue
		}
		b, ids := c.seal(), c.ids
		if c.deads > 0 {
			rows, some := c.alive(nil, nil)
			v := views.View(b)
			v.Select(rows)
			data = appendIDs(enc.EncodeBatch(data, v.Publish()), some)
			v.Release()
		} else {
			data = appendIDs(enc.EncodeBatch(data, b), ids)
		}
		c.release()
	}
	return data, int64(l.live)
}

func sameKey(keys []int, a *messages.Batch, i int, b *messages.Batch, j int) bool {
	for _, k := range keys {
		if messages.Compare(a.Column(k), i, b.Column(k), j) != 0 {
			return false
		}
	}
	return true
}

// appendKey appends bytes that are equal for values that messages.Compare finds
// equal, and rarely for others.
func appendKey(dst []byte, c *messages.Column, i int) []byte {
	if c.IsNull(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch k := c.Type().Kind; k {
	case messages.Boolean:
		if c.Bool(i) {
			return append(dst, 1)
		}
		return append(dst, 0)
	case messages.Float:
		return appendFloat(dst, float64(c.Float32s()[i]))
	case messages.Double:
		return appendFloat(dst, c.Float64s()[i])
	case messages.String, messages.Binary:
		v := c.Bytes(i)
		return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	case messages.Interval:
		return binary.LittleEndian.AppendUint32(dst, uint32(c.Intervals()[i].Months)) // a day equals 24 hours
	case messages.Struct:
		for f := range c.Type().Fields {
			dst = appendKey(dst, c.Child(f), i)
		}
		return dst
	case messages.Array, messages.Map:
		return binary.AppendUvarint(dst, uint64(c.Offsets()[i+1]-c.Offsets()[i]))
	default:
		w := k.Width()
		return append(dst, c.FixedBytes()[i*w:(i+1)*w]...)
	}
}

// appendFloat appends one pattern for both zeros and one for all NaNs.
func appendFloat(dst []byte, v float64) []byte {
	switch {
	case v == 0:
		v = 0
	case math.IsNaN(v):
		v = math.NaN()
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}
