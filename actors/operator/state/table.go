package state

import (
	"bytes"
	"math"
)

// table holds the entries of one pane in one key group.
//
// idx is an open-addressing index with linear probing: 8 bits of the hash as a
// tag and 24 bits entry number + 1, 0 for a free place. The records lie in slab
// in order of their number. Bitmaps have a bit per entry:
//
//	live    the entry exists
//	cur     changed since the latest Freeze
//	pend    belongs to the running snapshot and is not yet encoded
//	stored  some segment holds the entry, so that its deletion needs a tombstone
//
// Invariant: an entry number is reused only when all four bits are clear. A
// deleted entry whose tombstone has not been encoded keeps its number and key
// but is not in the index.
type table struct {
	// What every access needs comes first, in two cache lines.
	at     int64 // the pane
	mask   uint32
	stride uint32 // words per record
	idx    []uint32
	slab   []uint64

	words, nWords uint32 // first slot in a record, number of slots
	dirty         bool   // some bit of cur is set
	pending       bool   // in the running snapshot and not completely encoded
	kept          bool   // some entry is or will be part of a segment
	gone          bool   // dropped
	group         uint16 // key group
	number        uint32 // position in Store.tables
	cur, pend     []uint64

	live, stored []uint64
	hash         []uint32
	n            int // entry numbers given out so far
	rows         int // live entries
	free         []uint32

	s     *Store
	g     *group
	pane  *paneInfo
	shape *shape

	queued    []int64 // per entry: time under which it is queued, or MinInt64
	timersSet int

	arena  arena
	encPos int // next word of pend to encode
}

const (
	minEntries = 8
	maxEntries = 1<<24 - 2
)

// newTable returns an empty table without a pane.
func (s *Store) newTable(g *group) *table {
	t := s.spare.take()
	if t == nil {
		t = s.blankTable(uint32(len(s.tables)))
		s.tables = append(s.tables, t)
	}
	t.g, t.gone, t.group = g, false, g.number
	s.bytes += t.size()
	return t
}

func (s *Store) blankTable(number uint32) *table {
	sh := &s.shape
	return &table{s: s, shape: sh, number: number, stride: uint32(sh.stride), words: uint32(sh.words), nWords: uint32(sh.nWords)}
}

// reset empties the table, keeping its memory except that of the arena.
func (t *table) reset() {
	clear(t.idx)
	clear(t.live)
	clear(t.cur)
	clear(t.pend)
	clear(t.stored)
	for i := range t.queued {
		t.queued[i] = math.MinInt64
	}
	t.n, t.rows, t.timersSet = 0, 0, 0
	t.free = t.free[:0]
	t.dirty, t.pending, t.kept = false, false, false
	t.encPos = 0
	t.g, t.pane = nil, nil
}

func (t *table) size() int64 {
	return int64(4*cap(t.idx)+8*cap(t.slab)+4*cap(t.hash)+4*cap(t.free)+8*4*cap(t.live)+8*cap(t.queued)) + t.arena.bytes + 320
}

// findInt looks an integer key up. The tag is compared with the key, so that a
// caller may tell a key of the same bits apart by another hash (NULL).
func (t *table) findInt(h uint32, key uint64) (uint32, bool) {
	if len(t.idx) == 0 {
		return 0, false
	}
	tag := h &^ 0xffffff
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		v := t.idx[i]
		if v == 0 {
			return 0, false
		}
		if v&^0xffffff == tag {
			id := v&0xffffff - 1
			if t.slab[int(id)*int(t.stride)] == key {
				return id, true
			}
		}
	}
}

func (t *table) findBytes(h uint32, key []byte) (uint32, bool) {
	if len(t.idx) == 0 {
		return 0, false
	}
	tag := h &^ 0xffffff
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		v := t.idx[i]
		if v == 0 {
			return 0, false
		}
		if v&^0xffffff != tag {
			continue
		}
		id := v&0xffffff - 1
		if t.hash[id] == h && bytes.Equal(t.arena.read(t.slab[int(id)*int(t.stride)]), key) {
			return id, true
		}
	}
}

// insert adds an entry with the given hash, all words zero.
func (t *table) insert(h uint32) uint32 {
	var id uint32
	if n := len(t.free); n > 0 {
		id = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		if t.n == len(t.hash) {
			t.growEntries()
		}
		id = uint32(t.n)
		t.n++
	}
	at := int(id) * t.shape.stride
	clear(t.slab[at : at+int(t.stride)])
	t.hash[id] = h
	if t.shape.timers {
		t.queued[id] = math.MinInt64
	}
	t.live[id>>6] |= 1 << (id & 63)
	t.rows++
	t.g.rows++
	t.pane.rows++
	t.s.rows++
	if 4*t.rows > 3*len(t.idx) {
		t.growIndex()
	} else {
		t.index(h, id)
	}
	t.touch(id)
	return id
}

func (t *table) index(h, id uint32) {
	i := h & t.mask
	for t.idx[i] != 0 {
		i = (i + 1) & t.mask
	}
	t.idx[i] = h&^0xffffff | (id + 1)
}

// growIndex doubles the index and enters all live entries.
func (t *table) growIndex() {
	n := max(2*len(t.idx), 2*minEntries)
	t.s.bytes += int64(4 * (n - cap(t.idx)))
	t.idx = make([]uint32, n)
	t.mask = uint32(n - 1)
	for id, ok := t.nextLive(0); ok; id, ok = t.nextLive(id + 1) {
		t.index(t.hash[id], id)
	}
}

// growEntries makes room for more entries: double up to 64 KB, then by half.
func (t *table) growEntries() {
	before := t.size()
	n := max(2*len(t.hash), minEntries)
	if len(t.slab) > 8192 {
		n = len(t.hash) + len(t.hash)/2
	}
	if n > maxEntries {
		if len(t.hash) >= maxEntries {
			panic("state: more than 16 million entries in one key group and pane; choose keys that hash better")
		}
		n = maxEntries
	}
	t.slab = enlarge(t.slab, n*int(t.stride))
	t.hash = enlarge(t.hash, n)
	if t.shape.timers {
		old := len(t.queued)
		t.queued = enlarge(t.queued, n)
		for i := old; i < n; i++ {
			t.queued[i] = math.MinInt64
		}
	}
	w := (n + 63) / 64
	t.live, t.cur = enlarge(t.live, w), enlarge(t.cur, w)
	t.pend, t.stored = enlarge(t.pend, w), enlarge(t.stored, w)
	t.s.bytes += t.size() - before
}

func enlarge[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	out := make([]T, n)
	copy(out, s)
	return out
}

// unindex takes the entry out of the index, closing the gap.
func (t *table) unindex(id uint32) {
	i := t.hash[id] & t.mask
	for t.idx[i]&0xffffff != id+1 {
		i = (i + 1) & t.mask
	}
	for {
		t.idx[i] = 0
		j := i
		for {
			j = (j + 1) & t.mask
			v := t.idx[j]
			if v == 0 {
				return
			}
			home := t.hash[v&0xffffff-1] & t.mask
			// v may move to i unless its home lies behind i (cyclically).
			if (j-home)&t.mask >= (j-i)&t.mask {
				t.idx[i] = v
				i = j
				break
			}
		}
	}
}

// touch notes a change of the entry that is about to happen.
func (t *table) touch(id uint32) {
	w, bit := id>>6, uint64(1)<<(id&63)
	if t.pending && t.pend[w]&bit != 0 {
		t.s.encodeEarly(t, id)
	}
	t.cur[w] |= bit
	if !t.dirty {
		t.dirty = true
		t.g.seg.dirty = true
		t.g.seg.tables = append(t.g.seg.tables, t)
	}
}

func (t *table) delete(id uint32) {
	w, bit := id>>6, uint64(1)<<(id&63)
	if t.live[w]&bit == 0 {
		panic("state: entry deleted twice")
	}
	t.touch(id)
	t.unindex(id)
	t.live[w] &^= bit
	t.rows--
	t.g.rows--
	t.pane.rows--
	t.s.rows--
	for i := range t.shape.nValues {
		t.freeBlock(t.value(id, i))
	}
	if t.shape.timers && t.queued[id] != math.MinInt64 {
		t.queued[id] = math.MinInt64
		t.timersSet--
		t.s.timers.stale++
	}
	if t.stored[w]&bit == 0 {
		// Born and gone within one epoch: nobody has heard of it.
		t.cur[w] &^= bit
		t.freeEntry(id)
	}
	t.compact()
}

// freeEntry makes the number of a deleted entry available.
func (t *table) freeEntry(id uint32) {
	if !t.shape.intKeys {
		t.freeBlock(&t.slab[int(id)*int(t.stride)])
	}
	t.stored[id>>6] &^= 1 << (id & 63)
	before := cap(t.free)
	t.free = append(t.free, id)
	if !t.gone {
		t.s.bytes += int64(4 * (cap(t.free) - before))
	}
}

// spares keeps dropped tables for the next panes, so that a query with windows
// allocates nothing once it has seen a few. Tables are emptied when they are
// taken, to spread the cost.
type spares struct {
	tables []*table
	bytes  int64
	peak   int64 // recent maximum of live bytes, what the spares may take at most
	pages  pagePool
}

const minSpare = 1 << 20

func (sp *spares) take() *table {
	n := len(sp.tables)
	if n == 0 {
		return nil
	}
	t := sp.tables[n-1]
	sp.tables = sp.tables[:n-1]
	sp.bytes -= t.size()
	t.reset()
	return t
}

// put keeps t, which holds no memory in its arena any more, or its number.
func (sp *spares) put(s *Store, t *table) {
	t.arena.release(sp)
	sp.peak = max(sp.peak, s.bytes)
	if sp.bytes+t.size() > max(minSpare, sp.peak) {
		*t = *s.blankTable(t.number)
		t.gone = true
	}
	sp.bytes += t.size()
	sp.tables = append(sp.tables, t)
}
