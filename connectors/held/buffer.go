package held

import (
	"fmt"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/wire"
)

// The size at which a chunk is complete. A batch is never cut for its bytes, so a
// chunk may be larger by one batch.
const (
	chunkRows  = 1024
	chunkBytes = 1 << 20
)

// buffer holds what one writer was given for one epoch, less what later rows of
// the epoch have replaced.
type buffer struct {
	s *shape
	// log has the rows of append mode, or the last table that has ended.
	log *log
	// table is the table that has not ended, nil: none.
	table *log
	// latest has the rows of update mode, nil: there are no keys.
	latest *latest
}

// shape is what the buffers of a writer share. It belongs to the goroutine that
// calls Write.
type shape struct {
	schema []byte
	keys   []int
	pool   *messages.Pool
	enc    wire.Encoder
	key    []byte // scratch, like the next two
	rows   []int32
	ids    []messages.ID128
	// any: there have been rows; withIDs: they had identities.
	any, withIDs bool
}

func newBuffer(r *Rows) *buffer {
	q := r.cfg.Request
	return newBufferOf(&shape{schema: r.schema, keys: q.KeyColumns, pool: messages.NewPool(q.Schema)})
}

func newBufferOf(s *shape) *buffer {
	b := &buffer{s: s, log: &log{}}
	if s.keys != nil {
		b.latest = &latest{}
	}
	return b
}

// cut returns the buffer of the next epoch. A table that has not ended belongs
// to it.
func (b *buffer) cut() *buffer {
	next := newBufferOf(b.s)
	next.table, b.table = b.table, nil
	return next
}

// add takes the selected rows of a batch.
func (b *buffer) add(in *messages.Batch, ids []messages.ID128) error {
	if err := b.s.check(in, ids); err != nil {
		return err
	}
	if in.Frame()&messages.FrameStart != 0 {
		b.table = &log{frame: messages.FrameStart}
	}
	rows, ids := b.s.pick(in, ids, b.table == nil && b.latest != nil)
	switch {
	case b.table != nil:
		b.table.add(b.s, in, rows, ids)
	case b.latest != nil:
		b.latest.add(b.s, in, rows, ids)
	default:
		b.log.add(b.s, in, rows, ids)
	}
	if in.Frame()&messages.FrameEnd != 0 && b.table != nil {
		b.table.frame |= messages.FrameEnd
		b.table.encodeChunk(b.s, &b.s.enc)
		b.log, b.table = b.table, nil
	}
	return nil
}

// check makes sure that either all rows have an identity or none has.
func (s *shape) check(in *messages.Batch, ids []messages.ID128) error {
	if ids != nil && len(ids) != in.Rows() {
		return fmt.Errorf("%d identities for %d rows", len(ids), in.Rows())
	}
	if in.Rows() == 0 {
		return nil
	}
	if s.any && s.withIDs != (ids != nil) {
		return fmt.Errorf("rows with an identity and rows without one")
	}
	s.any, s.withIDs = true, ids != nil
	return nil
}

// pick lists the physical rows of a batch that are to be added, with their
// identities, in scratch memory. Keyed rows do not need those that say what was
// before.
func (s *shape) pick(in *messages.Batch, ids []messages.ID128, keyed bool) ([]int32, []messages.ID128) {
	kinds := in.Kinds()
	if sel := in.Selection(); sel != nil && (!keyed || kinds == nil) {
		return sel, ids
	}
	s.rows, s.ids = s.rows[:0], s.ids[:0]
	for i := range in.Rows() {
		r := in.Row(i)
		if keyed && kinds != nil && kinds[r] == messages.UpdateBefore {
			continue
		}
		s.rows = append(s.rows, int32(r))
		if ids != nil {
			s.ids = append(s.ids, ids[i])
		}
	}
	if ids != nil {
		ids = s.ids
	}
	return s.rows, ids
}

// size returns the bytes and the rows that are held.
func (b *buffer) size() (bytes, rows int64) {
	bytes, rows = b.log.size()
	if b.table != nil {
		n, r := b.table.size()
		bytes, rows = bytes+n, rows+r
	}
	if b.latest != nil {
		bytes, rows = bytes+b.latest.bytes(), rows+int64(b.latest.live)
	}
	return bytes, rows
}

// empty reports whether the epoch has nothing to publish.
func (b *buffer) empty() bool {
	return b.log.empty() && (b.latest == nil || b.latest.live == 0)
}

// encode returns the part to be stashed and the number of its rows. It may run
// beside Write, once the buffer is cut.
func (b *buffer) encode() ([]byte, int64) {
	if b.latest != nil && b.latest.live > 0 {
		return b.latest.encode(b.s)
	}
	return b.log.encode(b.s)
}

// log holds rows in their order and encodes them chunk by chunk.
type log struct {
	data  []byte // the head of a part and the chunks that are encoded
	rows  int64  // in data
	chunk chunk
	frame messages.Frame // of the chunk
}

func (l *log) add(s *shape, in *messages.Batch, rows []int32, ids []messages.ID128) {
	for len(rows) > 0 {
		n := l.chunk.add(s.pool, in, rows, ids)
		rows = rows[n:]
		if ids != nil {
			ids = ids[n:]
		}
		if l.chunk.full() {
			l.encodeChunk(s, &s.enc)
		}
	}
}

// encodeChunk moves the chunk to the encoded ones. A chunk without rows is encoded
// only if it ends a table.
func (l *log) encodeChunk(s *shape, enc *wire.Encoder) {
	c := &l.chunk
	if c.n == 0 && l.frame&messages.FrameEnd == 0 {
		return
	}
	if c.batch == nil {
		c.batch = s.pool.Get()
	}
	if l.data == nil {
		l.data = appendPart(nil, s.schema, c.ids != nil)
	}
	c.batch.SetFrame(l.frame)
	l.data = enc.EncodeBatch(l.data, c.seal())
	l.data = appendIDs(l.data, c.ids)
	l.rows += int64(c.n)
	l.frame = 0
	c.release()
}

func (l *log) size() (bytes, rows int64) {
	return int64(len(l.data)) + l.chunk.bytes(), l.rows + int64(l.chunk.n)
}

func (l *log) empty() bool { return l.data == nil && l.chunk.n == 0 }

// encode returns everything as a part.
func (l *log) encode(s *shape) ([]byte, int64) {
	l.encodeChunk(s, &wire.Encoder{})
	return l.data, l.rows
}

// chunk is a batch that is being filled.
type chunk struct {
	batch  *messages.Batch // nil: none
	n      int
	kinds  []messages.RowKind // nil: inserts only
	ids    []messages.ID128   // nil: rows have no identities
	sealed bool
}

// add appends as many of the rows of in as there is room for, and returns how many.
func (c *chunk) add(p *messages.Pool, in *messages.Batch, rows []int32, ids []messages.ID128) int {
	if c.batch == nil {
		c.batch = p.Get()
	}
	n := min(len(rows), chunkRows-c.n)
	rows = rows[:n]
	for i := range in.Columns() {
		c.batch.Own(i).AppendSelected(in.Column(i), rows)
	}
	kinds := in.Kinds()
	if kinds != nil && c.kinds == nil {
		c.kinds = make([]messages.RowKind, c.n, chunkRows)
	}
	if c.kinds != nil {
		for _, r := range rows {
			kind := messages.Insert
			if kinds != nil {
				kind = kinds[r]
			}
			c.kinds = append(c.kinds, kind)
		}
	}
	if ids != nil {
		c.ids = append(c.ids, ids[:n]...)
	}
	c.n += n
	return n
}

func (c *chunk) full() bool { return c.n == chunkRows || c.bytes() >= chunkBytes }

func (c *chunk) bytes() int64 {
	if c.batch == nil {
		return 0
	}
	return int64(c.batch.Size() + len(c.kinds) + 16*len(c.ids))
}

// seal publishes the batch; no row can be added after.
func (c *chunk) seal() *messages.Batch {
	if !c.sealed {
		c.sealed = true
		c.batch.SetLen(c.n)
		c.batch.SetKinds(c.kinds)
		c.batch.Publish()
	}
	return c.batch
}

// release makes the chunk empty and lets it use its memory again.
func (c *chunk) release() {
	if c.batch != nil {
		c.batch.Release()
	}
	ids := c.ids
	*c = chunk{}
	if ids != nil {
		c.ids = ids[:0]
	}
}
