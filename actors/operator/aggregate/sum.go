package aggregate

import (
	"math"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// sums: sum(x) is bigint for integers, double for float and double, a decimal
// with ten more digits for decimals. Without values it is NULL; a sum that does
// not fit is an error.
func sums(name string, arg messages.Type) (function, messages.Type, bool) {
	if name != "sum" {
		return nil, messages.Type{}, false
	}
	switch {
	case arg.Kind.IsInteger():
		return sumInt{}, messages.T(messages.BigInt), true
	case arg.Kind == messages.Float || arg.Kind == messages.Double:
		return sumDouble{}, messages.T(messages.Double), true
	case arg.Kind == messages.Decimal:
		t := messages.DecimalType(min(maxPrecision, arg.Precision+10), arg.Scale)
		return sumDecimal{digits: int(t.Precision)}, t, true
	}
	return nil, messages.Type{}, false
}

func overflow(c *cell, t string) error {
	err := fault.New(fault.BadRow, "%s of a group does not fit %s", c.agg.Func, t)
	return fault.WithClass(err, "ARITHMETIC_OVERFLOW")
}

type sumInt struct{}

func (sumInt) size() (int, int) { return 1, 0 }

func (sumInt) update(c *cell, in *input) error {
	if in.arg.Type().Kind == messages.BigInt {
		values := in.arg.Int64s()
		for i, r := range in.rows {
			if err := addInt(c, in.entries[i].Slots(), values[r]); err != nil {
				return err
			}
		}
		return nil
	}
	for i, r := range in.rows {
		if err := addInt(c, in.entries[i].Slots(), int64(wordOf(in.arg, int(r)))); err != nil {
			return err
		}
	}
	return nil
}

func addInt(c *cell, slots []uint64, v int64) error {
	old := int64(slots[c.word])
	sum := old + v
	if (old^sum)&(v^sum) < 0 {
		return overflow(c, "bigint")
	}
	slots[c.word] = uint64(sum)
	c.mark(slots)
	return nil
}

func (sumInt) merge(c *cell, dst, src state.Entry) error {
	from := src.Slots()
	if !c.has(from) {
		return nil
	}
	return addInt(c, dst.Slots(), int64(from[c.word]))
}

func (sumInt) result(c *cell, e state.Entry, out *messages.Column) error {
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	out.AppendInt64(int64(slots[c.word]))
	return nil
}

type sumDouble struct{}

func (sumDouble) size() (int, int) { return 1, 0 }

// doubleOf returns a numeric value (but no decimal) as a double.
func doubleOf(c *messages.Column, i int) float64 {
	switch c.Type().Kind {
	case messages.Double:
		return c.Float64s()[i]
	case messages.Float:
		return float64(c.Float32s()[i])
	default:
		return float64(int64(wordOf(c, i)))
	}
}

func addDouble(c *cell, slots []uint64, v float64) {
	slots[c.word] = math.Float64bits(math.Float64frombits(slots[c.word]) + v)
	c.mark(slots)
}

func (sumDouble) update(c *cell, in *input) error {
	for i, r := range in.rows {
		addDouble(c, in.entries[i].Slots(), doubleOf(in.arg, int(r)))
	}
	return nil
}

func (sumDouble) merge(c *cell, dst, src state.Entry) error {
	if from := src.Slots(); c.has(from) {
		addDouble(c, dst.Slots(), math.Float64frombits(from[c.word]))
	}
	return nil
}

func (sumDouble) result(c *cell, e state.Entry, out *messages.Column) error {
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	out.AppendFloat64(math.Float64frombits(slots[c.word]))
	return nil
}

// sumDecimal adds in 128 bits and refuses sums with more digits than the result
// type when they are emitted, so that the order of rows does not matter unless
// even 128 bits overflow.
type sumDecimal struct{ digits int }

func (sumDecimal) size() (int, int) { return 2, 0 }

func addToDecimal(c *cell, slots []uint64, v messages.Decimal128) error {
	sum, ok := addDecimal(decimalAt(slots[c.word:]), v)
	if !ok {
		return overflow(c, "decimal")
	}
	putDecimal(slots[c.word:], sum)
	c.mark(slots)
	return nil
}

func (sumDecimal) update(c *cell, in *input) error {
	values := in.arg.Decimals()
	for i, r := range in.rows {
		if err := addToDecimal(c, in.entries[i].Slots(), values[r]); err != nil {
			return err
		}
	}
	return nil
}

func (sumDecimal) merge(c *cell, dst, src state.Entry) error {
	from := src.Slots()
	if !c.has(from) {
		return nil
	}
	return addToDecimal(c, dst.Slots(), decimalAt(from[c.word:]))
}

func (s sumDecimal) result(c *cell, e state.Entry, out *messages.Column) error {
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	v := decimalAt(slots[c.word:])
	if !fitsDigits(v, s.digits) {
		return overflow(c, out.Type().String())
	}
	out.AppendDecimal(v)
	return nil
}
