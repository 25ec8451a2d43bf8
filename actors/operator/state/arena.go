package state

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// arena holds keys and values of one table in pages of 64 bytes, doubling to
// 64 KB; an empty arena has none.
//
// A block is a header of 8 bytes (owner 32 bits, slot 8, capacity in units of 8
// bytes 24) and its bytes. Records refer to a block by a word: length 32 bits,
// page 16, offset of the header in units of 8 bytes 16; the word 0 is "no
// bytes". Large blocks have a page of their own.
type arena struct {
	pages []page
	fill  int   // index of the page being filled + 1; 0: none
	size  int   // of the page made last
	holes []int // unused entries of pages
	live  int64 // bytes in blocks that are referred to
	used  int64 // bytes in all blocks
	bytes int64 // bytes of all pages
}

type page struct {
	buf        []byte
	used, live int
}

const (
	minPage   = 1 << 6
	maxPage   = 64 << 10
	ownPage   = 32 << 10 // larger blocks get a page of their own
	header    = 8
	deadSlot  = 255
	keySlot   = 0
	maxPages  = 1 << 16
	compactAt = 4096 // garbage in bytes below which compaction is not worth it
)

func blockRef(n, pg, off int) uint64 {
	return uint64(n)<<32 | uint64(pg)<<16 | uint64(off/8)
}

func splitRef(ref uint64) (n, pg, off int) {
	return int(ref >> 32), int(ref >> 16 & 0xffff), int(ref&0xffff) * 8
}

func (a *arena) read(ref uint64) []byte {
	if ref == 0 {
		return nil
	}
	n, pg, off := splitRef(ref)
	off += header
	return a.pages[pg].buf[off : off+n : off+n]
}

// capacity returns how many bytes the block has room for.
func (a *arena) capacity(ref uint64) int {
	_, pg, off := splitRef(ref)
	return int(binary.LittleEndian.Uint64(a.pages[pg].buf[off:])>>40) * 8
}

// fits reports whether a value of n bytes should stay in the block: there is
// room, and not far too much.
func (a *arena) fits(ref uint64, n int) bool {
	room := a.capacity(ref)
	return room >= n && room <= 4*n+64
}

// alloc returns the reference of a new block of n bytes with room for room.
func (a *arena) alloc(sp *spares, owner uint64, n, room int) uint64 {
	units := (room + 7) / 8
	need := header + 8*units
	pg := a.fill - 1
	if need > ownPage {
		pg = a.addPage(make([]byte, need))
	} else if pg < 0 || a.pages[pg].used+need > len(a.pages[pg].buf) {
		a.size = max(minPage, min(2*a.size, maxPage))
		for a.size < need {
			a.size *= 2
		}
		pg = a.addPage(sp.pages.get(sp, a.size))
		a.fill = pg + 1
	}
	p := &a.pages[pg]
	off := p.used
	binary.LittleEndian.PutUint64(p.buf[off:], owner|uint64(units)<<40)
	p.used += need
	p.live += need
	a.used += int64(need)
	a.live += int64(need)
	return blockRef(n, pg, off)
}

func (a *arena) addPage(buf []byte) int {
	a.bytes += int64(len(buf))
	if n := len(a.holes); n > 0 {
		pg := a.holes[n-1]
		a.holes = a.holes[:n-1]
		a.pages[pg] = page{buf: buf}
		return pg
	}
	if len(a.pages) == maxPages {
		panic("state: more than 4 GB of values in one key group and pane")
	}
	a.pages = append(a.pages, page{buf: buf})
	return len(a.pages) - 1
}

// kill marks a block as garbage and frees its page if nothing else is in it.
func (a *arena) kill(sp *spares, ref uint64) {
	_, pg, off := splitRef(ref)
	p := &a.pages[pg]
	h := binary.LittleEndian.Uint64(p.buf[off:])
	size := header + 8*int(h>>40)
	p.buf[off+4] = deadSlot
	p.live -= size
	a.live -= int64(size)
	if p.live == 0 {
		a.freePage(sp, pg)
	}
}

func (a *arena) freePage(sp *spares, pg int) {
	p := &a.pages[pg]
	a.used -= int64(p.used)
	if pg == a.fill-1 {
		p.used = 0 // goes on being filled
		return
	}
	a.bytes -= int64(len(p.buf))
	sp.pages.put(sp, p.buf)
	*p = page{}
	a.holes = append(a.holes, pg)
}

// release gives all pages back.
func (a *arena) release(sp *spares) {
	for i := range a.pages {
		if b := a.pages[i].buf; b != nil {
			sp.pages.put(sp, b)
		}
		a.pages[i] = page{}
	}
	a.pages, a.holes = a.pages[:0], a.holes[:0]
	a.fill, a.size, a.live, a.used, a.bytes = 0, 0, 0, 0, 0
}

func owner(id uint32, slot int) uint64 { return uint64(id) | uint64(slot)<<32 }

func (t *table) value(id uint32, i int) *uint64 {
	return &t.slab[int(id)*int(t.stride)+t.shape.values+i]
}

// grown keeps the store's account of the arena's memory.
func (t *table) grown(before int64) {
	if !t.gone {
		t.s.bytes += t.arena.bytes - before
	}
}

func (t *table) setKey(id uint32, key []byte) {
	if len(key) == 0 {
		return
	}
	mustFit(len(key))
	before := t.arena.bytes
	ref := t.arena.alloc(&t.s.spare, owner(id, keySlot), len(key), len(key))
	copy(t.arena.read(ref), key)
	t.slab[int(id)*int(t.stride)] = ref
	t.grown(before)
}

func mustFit(n int) {
	if n > MaxValue {
		panic(fmt.Sprintf("state: a key or value of %d bytes; the limit is %d", n, MaxValue))
	}
}

func (t *table) setValue(id uint32, i int, v []byte) {
	ref := t.value(id, i)
	if len(v) == 0 {
		t.freeBlock(ref)
		return
	}
	if *ref != 0 && t.arena.fits(*ref, len(v)) {
		_, pg, off := splitRef(*ref)
		*ref = blockRef(len(v), pg, off)
		copy(t.arena.read(*ref), v)
		return
	}
	mustFit(len(v))
	before := t.arena.bytes
	// The old block is freed only when v, which may lie in it, has been copied.
	old := *ref
	*ref = t.arena.alloc(&t.s.spare, owner(id, i+1), len(v), len(v))
	copy(t.arena.read(*ref), v)
	t.grown(before)
	t.freeBlock(&old)
	t.compact()
}

func (t *table) appendValue(id uint32, i int, v []byte) {
	ref := t.value(id, i)
	if len(v) == 0 {
		return
	}
	n, pg, off := splitRef(*ref)
	total := n + len(v)
	if *ref != 0 && t.arena.capacity(*ref) >= total {
		*ref = blockRef(total, pg, off)
		copy(t.arena.read(*ref)[n:], v)
		return
	}
	mustFit(total)
	before := t.arena.bytes
	old := *ref
	*ref = t.arena.alloc(&t.s.spare, owner(id, i+1), total, total+total/2)
	b := t.arena.read(*ref)
	copy(b, t.arena.read(old))
	copy(b[n:], v)
	t.grown(before)
	t.freeBlock(&old)
	t.compact()
}

// freeBlock frees the block *ref refers to, if any, and clears *ref.
func (t *table) freeBlock(ref *uint64) {
	if *ref == 0 {
		return
	}
	before := t.arena.bytes
	t.arena.kill(&t.s.spare, *ref)
	*ref = 0
	t.grown(before)
}

// compact moves the live blocks of one page elsewhere when half of the arena is
// garbage. It is called behind operations that make garbage, so that each pays
// for at most one page.
func (t *table) compact() {
	a := &t.arena
	if garbage := a.used - a.live; garbage < compactAt || garbage < a.live {
		return
	}
	worst, least := -1, 1.0
	for i := range a.pages {
		p := &a.pages[i]
		if i == a.fill-1 || p.used == 0 || p.used-p.live < len(p.buf)/4 {
			continue
		}
		if share := float64(p.live) / float64(p.used); share < least {
			worst, least = i, share
		}
	}
	if worst < 0 {
		if a.fill > 0 { // all garbage is in the page being filled: close it
			a.fill = 0
		}
		return
	}
	before := a.bytes
	t.evacuate(worst)
	t.grown(before)
}

func (t *table) evacuate(pg int) {
	a := &t.arena
	buf, end := a.pages[pg].buf, a.pages[pg].used
	for off := 0; off < end; {
		h := binary.LittleEndian.Uint64(buf[off:])
		size := header + 8*int(h>>40)
		if slot := int(h >> 32 & 0xff); slot != deadSlot {
			at := int(uint32(h))*int(t.stride) + slotWord(t.shape, slot)
			n := int(t.slab[at] >> 32)
			ref := a.alloc(&t.s.spare, h&(1<<40-1), n, size-header)
			copy(a.read(ref), buf[off+header:off+header+n])
			t.slab[at] = ref
			a.live -= int64(size)
		}
		off += size
	}
	a.pages[pg].live = 0
	a.freePage(&t.s.spare, pg)
}

func slotWord(sh *shape, slot int) int {
	if slot == keySlot {
		return 0
	}
	return sh.values + slot - 1
}

// pagePool recycles pages of the usual sizes, by size.
type pagePool struct {
	free [11][][]byte // 64 bytes to 64 KB
}

func sizeClass(size int) (int, bool) {
	return bits.TrailingZeros(uint(size / minPage)), size&(size-1) == 0 && size >= minPage && size <= maxPage
}

func (pp *pagePool) get(sp *spares, size int) []byte {
	c, _ := sizeClass(size)
	n := len(pp.free[c])
	if n == 0 {
		return make([]byte, size)
	}
	b := pp.free[c][n-1]
	pp.free[c][n-1] = nil
	pp.free[c] = pp.free[c][:n-1]
	sp.bytes -= int64(size)
	return b
}

// put keeps a page within the limit on what is spare.
func (pp *pagePool) put(sp *spares, b []byte) {
	c, usual := sizeClass(len(b))
	if !usual || sp.bytes+int64(len(b)) > max(minSpare, sp.peak) {
		return
	}
	pp.free[c] = append(pp.free[c], b)
	sp.bytes += int64(len(b))
}
