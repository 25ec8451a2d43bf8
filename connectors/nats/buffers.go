package nats

import "math/bits"

// Buffers of rows have these sizes, in powers of two; larger ones are not kept.
const (
	smallestBuffer = 6
	largestBuffer  = 16
)

// buffers are those of rows that are acknowledged, for the next rows. As a row gets
// one that it fills at least by half (or of the smallest size), what is on its way
// takes no more than twice its bytes, whatever sizes were there before.
type buffers struct {
	limit int64 // bytes that are kept
	free  [largestBuffer - smallestBuffer + 1][][]byte
	bytes int64 // in free
}

// get returns an empty buffer for n bytes.
func (b *buffers) get(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestBuffer)
	if class > largestBuffer {
		return make([]byte, 0, n)
	}
	list := &b.free[class-smallestBuffer]
	if k := len(*list); k > 0 {
		buf := (*list)[k-1]
		(*list)[k-1], *list = nil, (*list)[:k-1]
		b.bytes -= int64(cap(buf))
		return buf
	}
	return make([]byte, 0, 1<<class)
}

// put takes a buffer back, unless enough are kept.
func (b *buffers) put(buf []byte) {
	class := bits.Len(uint(cap(buf))) - 1
	if class < smallestBuffer || class > largestBuffer || cap(buf) != 1<<class || b.bytes+int64(cap(buf)) > b.limit {
		return
	}
	b.bytes += int64(cap(buf))
	b.free[class-smallestBuffer] = append(b.free[class-smallestBuffer], buf[:0])
}
