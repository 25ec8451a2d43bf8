package aggregate

import (
	"bytes"
	"cmp"
	"math"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// extremes: min(x) and max(x) of everything that has an order. NaN is larger
// than every other number. Without values the result is NULL.
func extremes(name string, arg messages.Type) (function, messages.Type, bool) {
	sign := 1
	switch name {
	case "min":
		sign = -1
	case "max":
	default:
		return nil, messages.Type{}, false
	}
	switch k := arg.Kind; {
	case isWord(k):
		return extremeWord{sign: sign, kind: k}, arg, true
	case k == messages.Decimal:
		return extremeDecimal{sign: sign}, arg, true
	case k == messages.String || k == messages.Binary:
		return extremeBytes{sign: sign}, arg, true
	}
	return nil, messages.Type{}, false
}

type extremeWord struct {
	oneWord
	sign int
	kind messages.Kind
}

func compareWords(k messages.Kind, a, b uint64) int {
	switch k {
	case messages.Float:
		return messages.CompareFloats(float64(math.Float32frombits(uint32(a))), float64(math.Float32frombits(uint32(b))))
	case messages.Double:
		return messages.CompareFloats(math.Float64frombits(a), math.Float64frombits(b))
	default:
		return cmp.Compare(int64(a), int64(b))
	}
}

func (x extremeWord) add(c *cell, slots []uint64, v uint64) {
	if !c.has(slots) || x.sign*compareWords(x.kind, v, slots[c.word]) > 0 {
		slots[c.word] = v
		c.mark(slots)
	}
}

func (x extremeWord) update(c *cell, in *input) error {
	for i, r := range in.rows {
		x.add(c, in.entries[i].Slots(), wordOf(in.arg, int(r)))
	}
	return nil
}

func (x extremeWord) merge(c *cell, dst, src state.Entry) error {
	if from := src.Slots(); c.has(from) {
		x.add(c, dst.Slots(), from[c.word])
	}
	return nil
}

type extremeDecimal struct{ sign int }

func (extremeDecimal) size() (int, int) { return 2, 0 }

func (x extremeDecimal) add(c *cell, slots []uint64, v messages.Decimal128) {
	if !c.has(slots) || x.sign*v.Compare(decimalAt(slots[c.word:])) > 0 {
		putDecimal(slots[c.word:], v)
		c.mark(slots)
	}
}

func (x extremeDecimal) update(c *cell, in *input) error {
	values := in.arg.Decimals()
	for i, r := range in.rows {
		x.add(c, in.entries[i].Slots(), values[r])
	}
	return nil
}

func (x extremeDecimal) merge(c *cell, dst, src state.Entry) error {
	if from := src.Slots(); c.has(from) {
		x.add(c, dst.Slots(), decimalAt(from[c.word:]))
	}
	return nil
}

func (extremeDecimal) result(c *cell, e state.Entry, out *messages.Column) error {
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	out.AppendDecimal(decimalAt(slots[c.word:]))
	return nil
}

// extremeBytes compares strings by their bytes, which for UTF-8 is the order of
// code points.
type extremeBytes struct{ sign int }

func (extremeBytes) size() (int, int) { return 0, 1 }

func (x extremeBytes) add(c *cell, s *state.Store, e state.Entry, v []byte) {
	slots := e.Slots()
	if !c.has(slots) || x.sign*bytes.Compare(v, e.Value(c.value)) > 0 {
		c.mark(slots)
		s.SetValue(e, c.value, v)
	}
}

func (x extremeBytes) update(c *cell, in *input) error {
	for i, r := range in.rows {
		x.add(c, in.store, in.entries[i], in.arg.Bytes(int(r)))
	}
	return nil
}

func (x extremeBytes) merge(c *cell, dst, src state.Entry) error {
	if c.has(src.Slots()) {
		x.add(c, c.scrap, dst, src.Value(c.value))
	}
	return nil
}

func (extremeBytes) result(c *cell, e state.Entry, out *messages.Column) error {
	if !c.has(e.Slots()) {
		out.AppendNull()
		return nil
	}
	out.AppendBytes(e.Value(c.value))
	return nil
}
