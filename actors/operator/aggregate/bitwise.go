package aggregate

import (
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// bitwise: bit_and, bit_or and bit_xor of integers. Without values the result is
// NULL.
func bitwise(name string, arg messages.Type) (function, messages.Type, bool) {
	if !arg.Kind.IsInteger() || name != "bit_and" && name != "bit_or" && name != "bit_xor" {
		return nil, messages.Type{}, false
	}
	return bitFold{op: name[len("bit_")]}, arg, true
}

// bitFold is named by the first letter of and, or, xor.
type bitFold struct {
	oneWord
	op byte
}

func (f bitFold) add(c *cell, slots []uint64, v uint64) {
	switch {
	case !c.has(slots):
		slots[c.word] = v
		c.mark(slots)
	case f.op == 'a':
		slots[c.word] &= v
	case f.op == 'o':
		slots[c.word] |= v
	default:
		slots[c.word] ^= v
	}
}

func (f bitFold) update(c *cell, in *input) error {
	for i, r := range in.rows {
		f.add(c, in.entries[i].Slots(), wordOf(in.arg, int(r)))
	}
	return nil
}

func (f bitFold) merge(c *cell, dst, src state.Entry) error {
	if from := src.Slots(); c.has(from) {
		f.add(c, dst.Slots(), from[c.word])
	}
	return nil
}
