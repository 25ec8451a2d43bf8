package aggregate

import (
	"math"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// averages: avg(x) or mean(x) is double, or for decimals a decimal with four
// more digits before and behind the point. Without values it is NULL.
func averages(name string, arg messages.Type) (function, messages.Type, bool) {
	if name != "avg" && name != "mean" {
		return nil, messages.Type{}, false
	}
	switch {
	case arg.Kind == messages.Decimal:
		t := messages.DecimalType(min(maxPrecision, arg.Precision+4), min(maxPrecision, arg.Scale+4))
		return avgDecimal{shift: int(t.Scale - arg.Scale), digits: int(t.Precision)}, t, true
	case arg.Kind.IsNumeric():
		return avgDouble{}, messages.T(messages.Double), true
	}
	return nil, messages.Type{}, false
}

// avgDouble keeps the sum and the number of values.
type avgDouble struct{}

func (avgDouble) size() (int, int) { return 2, 0 }

func (avgDouble) update(c *cell, in *input) error {
	for i, r := range in.rows {
		slots := in.entries[i].Slots()
		addDouble(c, slots, doubleOf(in.arg, int(r)))
		slots[c.word+1]++
	}
	return nil
}

func (avgDouble) merge(c *cell, dst, src state.Entry) error {
	from, to := src.Slots(), dst.Slots()
	if c.has(from) {
		addDouble(c, to, math.Float64frombits(from[c.word]))
		to[c.word+1] += from[c.word+1]
	}
	return nil
}

func (avgDouble) result(c *cell, e state.Entry, out *messages.Column) error {
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	out.AppendFloat64(math.Float64frombits(slots[c.word]) / float64(slots[c.word+1]))
	return nil
}

// avgDecimal keeps the sum and the number of values.
type avgDecimal struct{ shift, digits int }

func (avgDecimal) size() (int, int) { return 3, 0 }

func (avgDecimal) update(c *cell, in *input) error {
	values := in.arg.Decimals()
	for i, r := range in.rows {
		slots := in.entries[i].Slots()
		if err := addToDecimal(c, slots, values[r]); err != nil {
			return err
		}
		slots[c.word+2]++
	}
	return nil
}

func (avgDecimal) merge(c *cell, dst, src state.Entry) error {
	from, to := src.Slots(), dst.Slots()
	if !c.has(from) {
		return nil
	}
	to[c.word+2] += from[c.word+2]
	return addToDecimal(c, to, decimalAt(from[c.word:]))
}

func (a avgDecimal) result(c *cell, e state.Entry, out *messages.Column) error {
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	q, ok := divideDecimal(decimalAt(slots[c.word:]), a.shift, slots[c.word+2])
	if !ok || !fitsDigits(q, a.digits) {
		return overflow(c, out.Type().String())
	}
	out.AppendDecimal(q)
	return nil
}
