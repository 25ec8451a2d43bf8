package state

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/epochs"
)

// Restore applies a segment: the base of a key group and then its deltas, in
// order of epochs. The store must be new; segments of key groups it does not
// own are refused. Bytes that are not a segment, or not one of this store's
// shape, give an error that wraps epochs.ErrDamaged; the store is then of no
// use.
func (s *Store) Restore(seg epochs.Segment) error {
	kind, count, body, err := openSegment(&s.shape, seg)
	if err != nil {
		return err
	}
	if kind == kindBlob {
		s.blob.data = append([]byte(nil), body...)
		return nil
	}
	if seg.Group < s.cfg.From || seg.Group >= s.cfg.To {
		return fmt.Errorf("state: segment of key group %d given to a subtask with groups [%d, %d)", seg.Group, s.cfg.From, s.cfg.To)
	}
	g := &s.groups[seg.Group-s.cfg.From]
	gs := &g.seg
	switch {
	case gs.chain.hasBase && seg.Epoch <= gs.latest:
		return damaged(seg.SegmentID, "it follows epoch %d", gs.latest)
	case !seg.Base && !gs.chain.hasBase:
		return damaged(seg.SegmentID, "a delta without a base before it")
	}
	if seg.Base {
		for len(g.tables) > 0 {
			s.dropTable(g, len(g.tables)-1)
		}
	}
	r := segmentReader{s: s, g: g, seg: seg}
	if err := r.apply(body, count); err != nil {
		return err
	}
	gs.dirty, gs.tables, gs.drops = false, gs.tables[:0], gs.drops[:0]
	gs.latest = seg.Epoch
	gs.chain.add(seg.Base, len(seg.Data))
	return nil
}

// segmentReader applies the operations of a segment in two passes: drops and
// deletions, then puts.
type segmentReader struct {
	s    *Store
	g    *group
	seg  epochs.Segment
	b    []byte
	pane int64
	bad  bool
}

func (r *segmentReader) apply(body []byte, count uint32) error {
	for _, puts := range []bool{false, true} {
		r.b, r.pane = body, 0
		n := uint32(0)
		for len(r.b) > 0 && !r.bad {
			n += r.op(puts)
		}
		if r.bad {
			return damaged(r.seg.SegmentID, "malformed at byte %d of the body", len(body)-len(r.b))
		}
		if n != count {
			return damaged(r.seg.SegmentID, "%d operations, the header says %d", n, count)
		}
	}
	for i := len(r.g.tables) - 1; i >= 0; i-- {
		t := r.g.tables[i]
		t.dirty = false
		if t.rows == 0 {
			r.s.spare.put(r.s, r.s.unlink(r.g, i))
			continue
		}
		for w := range t.cur {
			t.stored[w] |= t.cur[w]
			t.cur[w] = 0
		}
		t.kept = true
	}
	return nil
}

// op reads one operation and applies it if it belongs to the pass.
func (r *segmentReader) op(puts bool) uint32 {
	op := r.b[0]
	r.b = r.b[1:]
	switch op {
	case opPane:
		r.pane = r.varint()
		return 0
	case opDrop:
		pane := r.varint()
		if j, ok := r.g.search(pane); ok && !puts && !r.bad {
			r.s.dropTable(r.g, j)
		}
	case opDelete:
		h, key := r.key()
		if !puts && !r.bad {
			r.remove(h, key)
		}
	case opPut:
		r.put(puts)
	default:
		r.bad = true
	}
	return 1
}

func (r *segmentReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// take returns the next n bytes, nil when there are fewer.
func (r *segmentReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) || n > MaxValue {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *segmentReader) bytes() []byte {
	n, k := binary.Uvarint(r.b)
	if k <= 0 {
		r.bad = true
		return nil
	}
	r.b = r.b[k:]
	return r.take(n)
}

// key reads hash and key; the hash is completed by the key group.
func (r *segmentReader) key() (uint64, []byte) {
	hb := r.take(4)
	if r.bad {
		return 0, nil
	}
	h := uint64(binary.LittleEndian.Uint32(hb)) | uint64(r.seg.Group)<<56
	if r.s.shape.intKeys {
		return h, r.take(8)
	}
	return h, r.bytes()
}

func (r *segmentReader) remove(h uint64, key []byte) {
	var e Entry
	var ok bool
	if r.s.shape.intKeys {
		e, ok = r.s.FindInt(h, r.pane, int64(binary.LittleEndian.Uint64(key)))
	} else {
		e, ok = r.s.Find(h, r.pane, key)
	}
	if !ok {
		r.bad = true // tombstones are only written for entries that were stored
		return
	}
	// Nothing is to be told about the deletion any more.
	e.t.stored[e.id>>6] &^= 1 << (e.id & 63)
	e.t.delete(e.id)
}

func (r *segmentReader) put(apply bool) {
	h, key := r.key()
	sh := &r.s.shape
	words := r.take(uint64(8 * (sh.values - 1)))
	if r.bad || !apply {
		for range sh.nValues {
			r.bytes()
		}
		return
	}
	var e Entry
	if sh.intKeys {
		e, _ = r.s.UpsertInt(h, r.pane, int64(binary.LittleEndian.Uint64(key)))
	} else {
		e, _ = r.s.Upsert(h, r.pane, key)
	}
	e.t.touch(e.id)
	at := int(e.id)*sh.stride + 1
	for i := range sh.values - 1 {
		e.t.slab[at+i] = binary.LittleEndian.Uint64(words[8*i:])
	}
	for i := range sh.nValues {
		v := r.bytes()
		if r.bad {
			return
		}
		e.t.setValue(e.id, i, v)
	}
	if sh.timers {
		if timer := e.t.slab[at+sh.timer-1]; timer != 0 {
			r.s.queueTimer(e.t, e.id, int64(timer^timerBias))
		}
	}
}

// Checksum is a checksum of the whole content that depends neither on the order
// of entries nor on how they came about. Checksums of stores with disjoint key
// groups add up (but for the blob). It is linear in the size of the state and
// meant for tests.
func (s *Store) Checksum() uint64 {
	sum := uint64(0)
	if len(s.blob.data) > 0 {
		sum = xxh3.HashSeed(s.blob.data, 1)
	}
	var b []byte
	c := s.ScanAll()
	for e, ok := c.Next(); ok; e, ok = c.Next() {
		t := e.t
		at := int(e.id) * t.shape.stride
		b = binary.LittleEndian.AppendUint16(b[:0], s.cfg.From+uint16(c.group))
		b = binary.LittleEndian.AppendUint64(b, uint64(t.at))
		b = binary.LittleEndian.AppendUint32(b, t.hash[e.id])
		if t.shape.intKeys {
			b = binary.LittleEndian.AppendUint64(b, t.slab[at])
		} else {
			b = binary.AppendUvarint(b, uint64(len(e.Key())))
			b = append(b, e.Key()...)
		}
		for _, v := range t.slab[at+1 : at+t.shape.values] {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		for i := range t.shape.nValues {
			b = binary.AppendUvarint(b, uint64(len(e.Value(i))))
			b = append(b, e.Value(i)...)
		}
		sum += xxh3.Hash(b)
	}
	return sum
}
