package aggregate

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// picksBy: min_by(x, y) and max_by(x, y), x where y is least or greatest; their
// argument is a struct of x and y. Rows where y is NULL do not count; of equal y
// the first wins. Without values the result is NULL.
func picksBy(name string, arg messages.Type) (function, messages.Type, bool) {
	if name != "min_by" && name != "max_by" || arg.Kind != messages.Struct || len(arg.Fields) != 2 {
		return nil, messages.Type{}, false
	}
	k := arg.Fields[1].Type.Kind
	if !isWord(k) && k != messages.Decimal && k != messages.String && k != messages.Binary {
		return nil, messages.Type{}, false
	}
	sign := 1
	if name == "min_by" {
		sign = -1
	}
	return pickBy{sign: sign}, arg.Fields[0].Type, true
}

// pickBy keeps x, encoded, and y in a form whose bytes are ordered like y.
type pickBy struct{ sign int }

func (pickBy) size() (int, int) { return 0, 2 }

// orderedForm appends a form of value i whose bytes compare as the values do.
func orderedForm(b []byte, c *messages.Column, i int) []byte {
	switch k := c.Type().Kind; k {
	case messages.String, messages.Binary:
		return append(b, c.Bytes(i)...)
	case messages.Decimal:
		d := c.Decimals()[i]
		b = binary.BigEndian.AppendUint64(b, uint64(d.Hi)^1<<63)
		return binary.BigEndian.AppendUint64(b, d.Lo)
	case messages.Float, messages.Double:
		w := math.Float64bits(doubleOf(c, i))
		switch v := math.Float64frombits(w); {
		case v != v:
			w = math.MaxUint64 // NaN is the largest
		case v == 0:
			w = 1 << 63
		case v < 0:
			w = ^w
		default:
			w |= 1 << 63
		}
		return binary.BigEndian.AppendUint64(b, w)
	default:
		return binary.BigEndian.AppendUint64(b, wordOf(c, i)^1<<63)
	}
}

func (p pickBy) better(c *cell, e state.Entry, y []byte) bool {
	slots := e.Slots()
	if c.has(slots) && p.sign*bytes.Compare(y, e.Value(c.value+1)) <= 0 {
		return false
	}
	c.mark(slots)
	return true
}

func (p pickBy) update(c *cell, in *input) error {
	x, y := in.arg.Child(0), in.arg.Child(1)
	for i, r := range in.rows {
		if y.IsNull(int(r)) {
			continue
		}
		e := in.entries[i]
		c.buf = orderedForm(c.buf[:0], y, int(r))
		if p.better(c, e, c.buf) {
			in.store.SetValue(e, c.value+1, c.buf)
			c.buf = encodeValue(c.buf[:0], x, int(r))
			in.store.SetValue(e, c.value, c.buf)
		}
	}
	return nil
}

func (p pickBy) merge(c *cell, dst, src state.Entry) error {
	if y := src.Value(c.value + 1); c.has(src.Slots()) && p.better(c, dst, y) {
		c.scrap.SetValue(dst, c.value+1, y)
		c.scrap.SetValue(dst, c.value, src.Value(c.value))
	}
	return nil
}

func (pickBy) result(c *cell, e state.Entry, out *messages.Column) error {
	return pick{}.result(c, e, out)
}
