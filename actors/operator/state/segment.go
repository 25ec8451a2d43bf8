package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// A segment is a header and operations.
//
//	 0  version, kind, flags (1 integer keys, 2 timers), values per record
//	 4  slots per record (16 bits), key group (16 bits)
//	 8  epoch
//	16  number of operations (32 bits), length of the body (32 bits)
//	24  crc32c of the header before it and the body, 4 bytes unused
//	32  body
//
// Operations of the body, in any order: panes are dropped first, then entries
// deleted, then put. opPane sets the pane of what follows.
//
//	opPane, opDrop   varint pane
//	opDelete         hash (32 bits), key
//	opPut            hash, key, timer (if any), slots, values
//
// Keys are 8 bytes, or a uvarint length and bytes; values are a uvarint length
// and bytes. Everything is little-endian.
const (
	segmentVersion = 1
	segmentHeader  = 32

	kindDelta = 1
	kindBase  = 2
	kindBlob  = 3

	opPane   = 1
	opPut    = 2
	opDelete = 3
	opDrop   = 4
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func checksumOf(data []byte) uint32 {
	tab := castagnoli()
	c := crc32.Update(0, tab, data[:24])
	return crc32.Update(c, tab, data[segmentHeader:])
}

// segmentWriter makes one segment.
type segmentWriter struct {
	buf   []byte
	count uint32
	pane  int64
	paned bool
}

func (w *segmentWriter) begin(buf []byte) {
	*w = segmentWriter{buf: append(buf[:0], make([]byte, segmentHeader)...)}
}

// room makes sure that n more bytes fit.
func (w *segmentWriter) room(n int) {
	if cap(w.buf)-len(w.buf) >= n {
		return
	}
	bigger := takeBuffer(max(2*cap(w.buf), len(w.buf)+n))
	bigger = append(bigger, w.buf...)
	giveBuffer(w.buf)
	w.buf = bigger
}

// recordSize is an upper bound of the encoded size of an entry.
func (t *table) recordSize(id uint32) int {
	n := 1 + 11 + 4 + 8*t.shape.stride
	if !t.shape.intKeys {
		n += 5 + int(t.slab[int(id)*int(t.stride)]>>32)
	}
	for i := range t.shape.nValues {
		n += 5 + int(*t.value(id, i)>>32)
	}
	return n
}

func (w *segmentWriter) setPane(pane int64) {
	if !w.paned || w.pane != pane {
		w.buf = binary.AppendVarint(append(w.buf, opPane), pane)
		w.pane, w.paned = pane, true
	}
}

func (w *segmentWriter) key(op byte, t *table, id uint32) {
	w.setPane(t.at)
	w.buf = append(w.buf, op)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, t.hash[id])
	word := t.slab[int(id)*int(t.stride)]
	if t.shape.intKeys {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, word)
	} else {
		w.bytes(t.arena.read(word))
	}
	w.count++
}

func (w *segmentWriter) bytes(b []byte) {
	w.buf = append(binary.AppendUvarint(w.buf, uint64(len(b))), b...)
}

func (w *segmentWriter) put(t *table, id uint32) {
	w.key(opPut, t, id)
	at := int(id) * t.shape.stride
	n := len(w.buf)
	words := t.slab[at+1 : at+t.shape.values]
	w.buf = w.buf[:n+8*len(words)]
	for i, v := range words {
		binary.LittleEndian.PutUint64(w.buf[n+8*i:], v)
	}
	for i := range t.shape.nValues {
		w.bytes(t.arena.read(*t.value(id, i)))
	}
}

func (w *segmentWriter) tombstone(t *table, id uint32) { w.key(opDelete, t, id) }

func (w *segmentWriter) drop(pane int64) {
	w.buf = binary.AppendVarint(append(w.buf, opDrop), pane)
	w.count++
}

func (w *segmentWriter) finish(sh *shape, kind byte, group uint16, e messages.Epoch) []byte {
	h := w.buf[:segmentHeader]
	h[0], h[1], h[2], h[3] = segmentVersion, kind, sh.flags(), byte(sh.nValues)
	binary.LittleEndian.PutUint16(h[4:], uint16(sh.nWords))
	binary.LittleEndian.PutUint16(h[6:], group)
	binary.LittleEndian.PutUint64(h[8:], uint64(e))
	binary.LittleEndian.PutUint32(h[16:], w.count)
	binary.LittleEndian.PutUint32(h[20:], uint32(len(w.buf)-segmentHeader))
	binary.LittleEndian.PutUint32(h[24:], checksumOf(w.buf))
	return w.buf
}

func (sh *shape) flags() byte {
	f := byte(0)
	if sh.intKeys {
		f |= 1
	}
	if sh.timers {
		f |= 2
	}
	return f
}

// openSegment verifies header and checksum and returns the body. Errors wrap
// epochs.ErrDamaged, or ErrNewerFormat for a version from the future.
func openSegment(sh *shape, seg epochs.Segment) (kind byte, count uint32, body []byte, err error) {
	h := seg.Data
	bad := func(format string, args ...any) (byte, uint32, []byte, error) {
		return 0, 0, nil, damaged(seg.SegmentID, format, args...)
	}
	if len(h) < segmentHeader {
		return bad("%d bytes are less than a header", len(h))
	}
	if v := h[0]; v != segmentVersion {
		if v > segmentVersion && checksumOf(h) == binary.LittleEndian.Uint32(h[24:]) {
			return 0, 0, nil, fmt.Errorf("segment of group %d, epoch %d has format %d: %w", seg.Group, seg.Epoch, v, epochs.ErrNewerFormat)
		}
		return bad("unknown format %d", v)
	}
	if got := uint64(binary.LittleEndian.Uint32(h[20:])); got != uint64(len(h)-segmentHeader) {
		return bad("body has %d bytes, the header says %d", len(h)-segmentHeader, got)
	}
	if got, want := checksumOf(h), binary.LittleEndian.Uint32(h[24:]); got != want {
		return bad("checksum %08x, the header says %08x", got, want)
	}
	if g, e := binary.LittleEndian.Uint16(h[6:]), binary.LittleEndian.Uint64(h[8:]); g != seg.Group || e != uint64(seg.Epoch) {
		return bad("it belongs to group %d, epoch %d", g, e)
	}
	kind = h[1]
	if kind < kindDelta || kind > kindBlob || seg.Base != (kind != kindDelta) || (kind == kindBlob) != (seg.Group == epochs.OperatorGroup) {
		return bad("kind %d does not fit", kind)
	}
	if w := binary.LittleEndian.Uint16(h[4:]); kind != kindBlob && (h[2] != sh.flags() || int(h[3]) != sh.nValues || int(w) != sh.nWords) {
		return bad("its records have %d slots, %d values and flags %d, the operator's %d, %d and %d", w, h[3], h[2], sh.nWords, sh.nValues, sh.flags())
	}
	return kind, binary.LittleEndian.Uint32(h[16:]), h[segmentHeader:], nil
}

func damaged(id epochs.SegmentID, format string, args ...any) error {
	return fmt.Errorf("segment of %q, group %d, epoch %d: %s: %w", id.Operator, id.Group, id.Epoch, fmt.Sprintf(format, args...), epochs.ErrDamaged)
}

// buffers recycles segment buffers by size, those of all stores together: their
// snapshots are seldom made at the same time. What is not used again is garbage
// after two collections. Safe for concurrent use.
var buffers [32]sync.Pool //nolint:gochecknoglobals // pools are of the process

// minBuffer is the size of the smallest ones.
const minBuffer = 256

// takeBuffer returns an empty buffer with room for n bytes.
func takeBuffer(n int) []byte {
	c := bits.Len(uint(max(n, minBuffer) - 1))
	if c >= len(buffers) {
		return make([]byte, 0, n)
	}
	if b, ok := buffers[c].Get().(*byte); ok {
		return unsafe.Slice(b, 1<<c)[:0] // only whole buffers of this size are put in
	}
	return make([]byte, 0, 1<<c)
}

// giveBuffer takes back what takeBuffer returned, and nothing else of its size.
func giveBuffer(b []byte) {
	n := cap(b)
	c := bits.Len(uint(n)) - 1
	if n < minBuffer || n&(n-1) != 0 || c >= len(buffers) {
		return
	}
	buffers[c].Put(unsafe.SliceData(b))
}
