package state

import (
	"fmt"
	"math/bits"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Bases are full copies of a key group that make the chain of deltas before
// them unnecessary. Per epoch they take at most the larger of minBaseBudget and
// twice the epoch's deltas, so that an epoch's cost follows its changes.
const (
	minBaseBudget = 256 << 10
	checkEvery    = 256 // entries encoded between two looks at the clock
)

// snapshot is the running snapshot of a store.
type snapshot struct {
	epoch  messages.Epoch
	queue  []int // groups (positions in Store.groups) to encode, in order
	next   int   // of queue
	rotate int   // group at which the search for bases starts next time
}

// groupSnapshot is what a key group knows about its segments.
type groupSnapshot struct {
	dirty  bool     // something changed since the latest Freeze
	tables []*table // those with changes
	drops  []int64  // panes dropped since the latest Freeze that segments know of
	chain  chainSize
	latest messages.Epoch // of the latest segment

	// The rest belongs to the running snapshot.
	base   bool
	work   []*table // still to be encoded; some may have been dropped meanwhile
	frozen []int64  // drops, as of Freeze
	w      segmentWriter
	guess  int // estimated size of the segment
}

// chainSize is how large the group's newest base and the deltas behind it are.
type chainSize struct {
	hasBase     bool
	base, delta int64
}

// Freeze begins the snapshot of epoch e: the content as it is now. It takes
// microseconds. The previous snapshot must have been encoded completely.
func (s *Store) Freeze(e messages.Epoch) {
	sn := &s.snap
	if sn.next < len(sn.queue) || s.blob.pending {
		panic(fmt.Sprintf("state: snapshot of epoch %d begun before that of epoch %d was encoded", e, sn.epoch))
	}
	sn.epoch, sn.next, sn.queue = e, 0, sn.queue[:0]
	s.blob.freeze()
	s.spare.peak = max(s.bytes, s.spare.peak-s.spare.peak/64)
	total := int64(0)
	for k := range s.groups {
		i := (sn.rotate + k) % len(s.groups)
		if g := &s.groups[i]; g.seg.dirty {
			total += int64(g.freeze())
			sn.queue = append(sn.queue, i)
		}
	}
	s.chooseBases(max(minBaseBudget, 2*total))
}

// freeze swaps the bitmaps of the group's changed tables and estimates the size
// of the delta.
func (g *group) freeze() int {
	gs := &g.seg
	gs.dirty, gs.base = false, false
	gs.drops, gs.frozen = gs.frozen[:0], gs.drops
	gs.tables, gs.work = gs.work[:0], gs.tables
	gs.guess = segmentHeader + 11*len(gs.frozen)
	for _, t := range gs.work {
		t.cur, t.pend = t.pend, t.cur
		t.dirty, t.pending, t.kept, t.encPos = false, true, true, 0
		n := 0
		for _, w := range t.pend {
			n += bits.OnesCount64(w)
		}
		gs.guess += t.encodedSize(n)
	}
	return gs.guess
}

// encodedSize estimates the bytes that n entries take in a segment.
func (t *table) encodedSize(n int) int {
	if n == 0 {
		return 0
	}
	size := n*(5+8*t.shape.stride) + 11
	if t.rows > 0 {
		size += int(t.arena.live) / t.rows * n
	}
	return size
}

// chooseBases decides which of the frozen groups write a base: those that never
// did, or are empty, for nothing; those whose deltas have outgrown their base or
// that changed by half, within the budget; those beyond twice that, always.
func (s *Store) chooseBases(budget int64) {
	last := -1
	for _, i := range s.snap.queue {
		g := &s.groups[i]
		c := &g.seg.chain
		delta := int64(g.seg.guess)
		least := segmentHeader + g.rows*int64(5+8*s.shape.stride) // without keys and values of bytes
		if c.hasBase && g.rows > 0 && c.delta+delta <= c.base && 2*delta < least {
			continue // the usual case, without a look at the tables
		}
		full := segmentHeader
		for _, t := range g.tables {
			full += t.encodedSize(t.rows)
		}
		switch grown := c.delta + delta; {
		case !c.hasBase || g.rows == 0:
		case grown <= c.base && 2*delta < int64(full):
			continue
		case int64(full) > budget && grown <= 2*max(c.base, int64(full)):
			continue
		default:
			budget -= int64(full)
			last = i
		}
		g.seg.base = true
		g.seg.guess = full
		g.seg.frozen = g.seg.frozen[:0]
		for _, t := range g.tables {
			for w, live := range t.live {
				t.pend[w] |= live
			}
			if !t.pending {
				g.seg.work = append(g.seg.work, t)
			}
			t.pending, t.kept, t.encPos = true, true, 0
		}
	}
	if last >= 0 {
		s.snap.rotate = (last + 1) % len(s.groups)
	}
}

// Encode works on the frozen snapshot until it is complete (done) or until,
// asked every few hundred entries, reports true; nil never stops. Finished
// segments go to emit, which takes over Data; hand it back with Release when it
// is durable. After an error the snapshot cannot be continued.
func (s *Store) Encode(until func() bool, emit func(epochs.Segment) error) (done bool, err error) {
	if until == nil {
		until = func() bool { return false }
	}
	sn := &s.snap
	if s.blob.pending {
		if err := emit(s.encodeBlob()); err != nil {
			return false, err
		}
	}
	for sn.next < len(sn.queue) {
		i := sn.queue[sn.next]
		g := &s.groups[i]
		if !s.encodeGroup(g, until) {
			return false, nil
		}
		seg, any := s.finishGroup(g, s.cfg.From+uint16(i))
		sn.next++
		if any {
			if err := emit(seg); err != nil {
				return false, err
			}
		}
		if sn.next < len(sn.queue) && until() {
			return false, nil
		}
	}
	return true, nil
}

// encodeGroup encodes what is pending in g; false means it was stopped.
func (s *Store) encodeGroup(g *group, until func() bool) bool {
	gs := &g.seg
	for len(gs.work) > 0 {
		last := len(gs.work) - 1
		t := gs.work[last]
		if !s.encodeTable(g, t, until) {
			return false
		}
		gs.work[last] = nil
		gs.work = gs.work[:last]
		if !t.gone && t.rows == 0 && !t.dirty {
			// All entries were deleted one by one and no tombstone is open.
			i, _ := g.search(t.at)
			s.unlink(g, i)
		}
		if t.gone {
			s.spare.put(s, t)
		}
	}
	return true
}

func (s *Store) encodeTable(g *group, t *table, until func() bool) bool {
	count := 0
	for ; t.encPos < len(t.pend); t.encPos++ {
		for w := t.pend[t.encPos]; w != 0; w = t.pend[t.encPos] {
			s.encodeEntry(g, t, uint32(t.encPos<<6+bits.TrailingZeros64(w)))
			count++
		}
		if count >= checkEvery {
			count = 0
			if until() {
				return false
			}
		}
	}
	t.pending = false
	return true
}

// encodeEarly encodes an entry of a running snapshot before it changes.
func (s *Store) encodeEarly(t *table, id uint32) { s.encodeEntry(t.g, t, id) }

func (s *Store) encodeEntry(g *group, t *table, id uint32) {
	w, bit := id>>6, uint64(1)<<(id&63)
	t.pend[w] &^= bit
	if g.seg.w.buf == nil {
		g.seg.w.begin(takeBuffer(g.seg.guess + g.seg.guess/8))
	}
	sw := &g.seg.w
	if t.live[w]&bit != 0 {
		sw.room(t.recordSize(id))
		sw.put(t, id)
		t.stored[w] |= bit
		return
	}
	// Dead when frozen: had it died later, it would have been encoded then.
	if !g.seg.base {
		sw.room(t.recordSize(id))
		sw.tombstone(t, id)
	}
	t.freeEntry(id)
}

// finishGroup makes the group's segment; any is false if there is nothing in it.
func (s *Store) finishGroup(g *group, number uint16) (seg epochs.Segment, any bool) {
	gs := &g.seg
	if gs.w.buf == nil {
		gs.w.begin(takeBuffer(gs.guess))
	}
	for _, pane := range gs.frozen {
		gs.w.room(11)
		gs.w.drop(pane)
	}
	gs.frozen = gs.frozen[:0]
	empty := gs.w.count == 0
	if empty && (!gs.base || !gs.chain.hasBase) {
		giveBuffer(gs.w.buf)
		gs.w = segmentWriter{}
		return epochs.Segment{}, false
	}
	kind := byte(kindDelta)
	if gs.base {
		kind = kindBase
	}
	seg = epochs.Segment{
		SegmentID: epochs.SegmentID{Operator: s.cfg.UID, Group: number, Epoch: s.snap.epoch},
		Base:      gs.base,
		Data:      gs.w.finish(&s.shape, kind, number, s.snap.epoch),
	}
	gs.w = segmentWriter{}
	gs.latest = seg.Epoch
	gs.chain.add(gs.base, len(seg.Data))
	return seg, true
}

func (c *chainSize) add(base bool, n int) {
	if base {
		*c = chainSize{hasBase: true, base: int64(n)}
		return
	}
	c.delta += int64(n)
}

// Release takes back the Data of a segment that is no longer needed, for reuse.
// It may be called from any goroutine.
func (s *Store) Release(data []byte) { giveBuffer(data) }
