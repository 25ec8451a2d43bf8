package operator

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/messages"
)

// HashVersion names the key hash below; it is stored in commit records, since
// key groups only mean the same under the same hash.
const HashVersion = 1

// GroupOf returns the key group of a key hash.
func GroupOf(hash uint64) uint16 { return uint16(hash >> 56) }

const nullHash = 0x9e3779b97f4a7c15

// HashKeys computes the key hash of the selected rows of b over the given
// columns into dst, indexed by physical row, and returns dst grown to b.Len().
// Equal keys have equal hashes whatever the batch: -0.0 hashes as 0.0, every
// NaN as the same, NULL as a value of its own.
func HashKeys(dst []uint64, b *messages.Batch, columns []int) []uint64 {
	n := b.Len()
	if cap(dst) < n {
		dst = make([]uint64, n, max(n, 2*cap(dst), 64))
	}
	dst = dst[:n]
	for k, ci := range columns {
		hashColumn(dst, b, b.Column(ci), k == 0)
	}
	if len(columns) == 0 {
		clear(dst)
	}
	return dst
}

func hashColumn(dst []uint64, b *messages.Batch, c *messages.Column, first bool) {
	sel := b.Selection()
	if sel == nil {
		for i := range dst {
			dst[i] = combine(dst[i], hashValue(c, i), first)
		}
		return
	}
	for _, i := range sel {
		dst[i] = combine(dst[i], hashValue(c, int(i)), first)
	}
}

func combine(acc, h uint64, first bool) uint64 {
	if first {
		return h
	}
	return mix(acc*31 + h)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}

func hashValue(c *messages.Column, i int) uint64 {
	if c.IsNull(i) {
		return nullHash
	}
	switch c.Type().Kind {
	case messages.Boolean:
		if c.Bool(i) {
			return mix(2)
		}
		return mix(1)
	case messages.TinyInt:
		return mix(uint64(c.Int8s()[i]) + nullHash)
	case messages.SmallInt:
		return mix(uint64(c.Int16s()[i]) + nullHash)
	case messages.Int, messages.Date:
		return mix(uint64(c.Int32s()[i]) + nullHash)
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return mix(uint64(c.Int64s()[i]) + nullHash)
	case messages.Float:
		return mix(uint64(math.Float32bits(NormalFloat32(c.Float32s()[i]))) + nullHash)
	case messages.Double:
		return mix(math.Float64bits(NormalFloat64(c.Float64s()[i])) + nullHash)
	case messages.Decimal:
		d := c.Decimals()[i]
		return mix(mix(d.Lo+nullHash) + uint64(d.Hi))
	case messages.Interval:
		v := c.Intervals()[i]
		return mix(mix(uint64(v.Nanos)+nullHash) + uint64(v.Months)<<32 + uint64(uint32(v.Days)))
	case messages.String, messages.Binary:
		return xxh3.Hash(c.Bytes(i))
	default:
		return hashNested(c, i)
	}
}

func hashNested(c *messages.Column, i int) uint64 {
	switch c.Type().Kind {
	case messages.Struct:
		h := uint64(nullHash)
		for f := range c.Type().Fields {
			h = combine(h, hashValue(c.Child(f), i), false)
		}
		return h
	case messages.Array, messages.Map:
		off := c.Offsets()
		h := mix(uint64(off[i+1]-off[i]) + nullHash)
		for j := off[i]; j < off[i+1]; j++ {
			h = combine(h, hashValue(c.Child(0), int(j)), false)
		}
		return h
	default:
		panic(fmt.Sprintf("operator: no hash for %s", c.Type()))
	}
}

// NormalFloat64 maps -0.0 to 0.0 and every NaN to one NaN, as grouping does.
func NormalFloat64(f float64) float64 {
	if f == 0 {
		return 0
	}
	if f != f {
		return math.NaN()
	}
	return f
}

// NormalFloat32 is NormalFloat64 for float.
func NormalFloat32(f float32) float32 { return float32(NormalFloat64(float64(f))) }

// HashID hashes parts to a 128-bit identity that is the same in every process.
func HashID(parts ...[]byte) messages.ID128 {
	h := xxh3.New()
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		_, _ = h.Write(n[:]) // a hash never fails
		_, _ = h.Write(p)
	}
	s := h.Sum128()
	return messages.ID128{Hi: s.Hi, Lo: s.Lo}
}
