package aggregate

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// approximations: approx_count_distinct(x), exact up to sketchHashes values per
// group, with a standard error of 3.3 % beyond.
func approximations(name string, arg messages.Type) (function, messages.Type, bool) {
	if name != "approx_count_distinct" || zeroArg(arg) || arg.Kind == messages.Map {
		return nil, messages.Type{}, false
	}
	return &distinct{}, messages.T(messages.BigInt), true
}

const (
	sketchHashes = 128 // hashes kept before there are registers
	sketchBits   = 10  // log2 of the number of registers
	registers    = 1 << sketchBits
)

// distinct keeps the hashes of the values while they are few, and a HyperLogLog
// sketch of one byte per register from then on.
type distinct struct{ hashes []uint64 }

func (*distinct) size() (int, int) { return 1, 1 } // slot: number of hashes, registers if more than sketchHashes

func (d *distinct) update(c *cell, in *input) error {
	d.hashes = operator.HashKeys(d.hashes, in.b, []int{c.agg.Arg})
	for i, r := range in.rows {
		d.add(c, in.store, in.entries[i], d.hashes[r])
	}
	return nil
}

func (d *distinct) add(c *cell, s *state.Store, e state.Entry, h uint64) {
	slots := e.Slots()
	if slots[c.word] > sketchHashes {
		raise(s.MutateValue(e, c.value), h)
		return
	}
	known := e.Value(c.value)
	for at := 0; at < len(known); at += 8 {
		if binary.LittleEndian.Uint64(known[at:]) == h {
			return
		}
	}
	slots[c.word]++
	if slots[c.word] <= sketchHashes {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], h)
		s.AppendValue(e, c.value, b[:])
		return
	}
	var regs [registers]byte
	for at := 0; at < len(known); at += 8 {
		raise(regs[:], binary.LittleEndian.Uint64(known[at:]))
	}
	raise(regs[:], h)
	s.SetValue(e, c.value, regs[:])
}

// raise notes a hash in the registers.
func raise(regs []byte, h uint64) {
	i := h >> (64 - sketchBits)
	rank := byte(bits.LeadingZeros64(h<<sketchBits|1<<(sketchBits-1)) + 1)
	regs[i] = max(regs[i], rank)
}

func (d *distinct) merge(c *cell, dst, src state.Entry) error {
	v := src.Value(c.value)
	if src.Slots()[c.word] <= sketchHashes {
		for at := 0; at < len(v); at += 8 {
			d.add(c, c.scrap, dst, binary.LittleEndian.Uint64(v[at:]))
		}
		return nil
	}
	slots := dst.Slots()
	if slots[c.word] <= sketchHashes {
		var regs [registers]byte
		known := dst.Value(c.value)
		for at := 0; at < len(known); at += 8 {
			raise(regs[:], binary.LittleEndian.Uint64(known[at:]))
		}
		c.scrap.SetValue(dst, c.value, regs[:])
		slots[c.word] = sketchHashes + 1
	}
	for i, r := range v {
		to := c.scrap.MutateValue(dst, c.value)
		to[i] = max(to[i], r)
	}
	return nil
}

func (*distinct) result(c *cell, e state.Entry, out *messages.Column) error {
	n := e.Slots()[c.word]
	if n > sketchHashes {
		n = uint64(math.Round(estimate(e.Value(c.value))))
	}
	out.AppendInt64(int64(n))
	return nil
}

// estimate is Ertl's improved estimator ("New cardinality estimation algorithms
// for HyperLogLog sketches", 2017), which needs no correction tables.
func estimate(regs []byte) float64 {
	const q = 64 - sketchBits
	var count [q + 2]float64
	for _, r := range regs {
		count[r]++
	}
	m := float64(registers)
	z := m * tau(1-count[q+1]/m)
	for k := q; k >= 1; k-- {
		z = 0.5 * (z + count[k])
	}
	z += m * sigma(count[0]/m)
	return m * m / (2 * math.Ln2 * z)
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}
