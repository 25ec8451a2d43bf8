package expr

import (
	"math"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// timeArithmetic resolves + - * / where an operand is a date, a timestamp or an
// interval.
func (b *binding) timeArithmetic(op byte) (Node, *sql.Error) {
	l, r := b.kind(0), b.kind(1)
	switch {
	case op == '+' && (l == messages.Interval && isTime(r) || r == messages.Date && (l.IsInteger() || l == messages.Null)):
		b.args[0], b.args[1] = b.args[1], b.args[0]
		return b.timePlus(op)
	case op == '+' || op == '-':
		return b.timePlus(op)
	case op == '*' && r == messages.Interval:
		b.args[0], b.args[1] = b.args[1], b.args[0]
		l, r = r, l
	}
	if l == messages.Interval && (r.IsNumeric() || r == messages.Null || r == messages.String) && (op == '*' || op == '/') {
		b.coerce(1, messages.T(messages.Double))
		return b.timeCall(messages.T(messages.Interval), scaleInterval(op))
	}
	return nil, b.mismatch()
}

func (b *binding) timePlus(op byte) (Node, *sql.Error) {
	l, r := b.kind(0), b.kind(1)
	sign := int64(1)
	if op == '-' {
		sign = -1
	}
	switch {
	case l == messages.Interval && (r == messages.Interval || r == messages.Null), l == messages.Null && r == messages.Interval:
		if mixed(b.args[0], b.args[1]) {
			e := b.mismatch()
			e.Hint = "a year-month interval and a day-time interval cannot be combined"
			return nil, e
		}
		b.coerce(0, messages.T(messages.Interval))
		b.coerce(1, messages.T(messages.Interval))
		return b.timeCall(messages.T(messages.Interval), addIntervals(sign))
	case r == messages.Interval && (isTime(l) || l == messages.String):
		return b.plusInterval(sign)
	case l == messages.Date && (r == messages.TinyInt || r == messages.SmallInt || r == messages.Int || r == messages.Null):
		b.coerce(1, messages.T(messages.Int))
		return b.timeCall(messages.T(messages.Date), addDays(sign))
	case op == '-' && isTime(l) && r == messages.Null:
		b.coerce(1, b.typ(0))
	case op == '-' && l == messages.Null && isTime(r):
		b.coerce(0, b.typ(1))
	case op == '+' && isTime(l) && r == messages.Null:
		b.coerce(1, messages.T(messages.Interval))
		return b.plusInterval(sign)
	case op == '+' && l == messages.Null && isTime(r):
		b.args[0], b.args[1] = b.args[1], b.args[0]
		b.coerce(1, messages.T(messages.Interval))
		return b.plusInterval(sign)
	case op == '-' && isTime(l) && r == messages.String, op == '-' && l == messages.String && isTime(r):
		t := max(l-messages.String, r-messages.String) + messages.String
		b.coerce(0, messages.T(t))
		b.coerce(1, messages.T(t))
	}
	if op != '-' || !isTime(b.kind(0)) || !isTime(b.kind(1)) {
		return nil, b.mismatch()
	}
	return b.timeDifference()
}

func (b *binding) timeDifference() (Node, *sql.Error) {
	t, _ := commonType(b.typ(0), b.typ(1))
	b.coerce(0, t)
	b.coerce(1, t)
	if t.Kind == messages.Date {
		return b.timeCall(messages.T(messages.Interval), func(x *exec) error {
			x.out.Intervals()[x.i] = messages.IntervalValue{Days: x.int32(0) - x.int32(1)}
			return nil
		})
	}
	return b.timeCall(messages.T(messages.Interval), func(x *exec) error {
		d := x.int64(0) - x.int64(1)
		if (x.int64(0)^x.int64(1))&(x.int64(0)^d) < 0 {
			return x.failWith(overflow)
		}
		x.out.Intervals()[x.i] = dayTime(d)
		return nil
	})
}

// plusInterval moves a date or timestamp. A date stays a date if the interval has
// nothing finer than days.
func (b *binding) plusInterval(sign int64) (Node, *sql.Error) {
	if b.kind(0) == messages.String {
		b.coerce(0, messages.T(messages.Timestamp))
	}
	if b.kind(0) == messages.Date {
		if wholeDays(b.args[1]) {
			return b.timeCall(messages.T(messages.Date), dateInterval(sign))
		}
		b.coerce(0, messages.T(messages.Timestamp))
	}
	ntz := b.kind(0) == messages.TimestampNTZ
	return b.timeCall(b.typ(0), func(x *exec) error {
		z := x.zone
		if ntz {
			z = utcZone()
		}
		v, ok := addInterval(x.int64(0), x.interval(1), sign, z)
		if !ok {
			return x.failWith(overflow)
		}
		x.setInt64(v)
		return nil
	})
}

// timeCall is a call of this operator for the given row function.
func (b *binding) timeCall(t messages.Type, row func(x *exec) error) (Node, *sql.Error) {
	f := *b.fn
	f.bind = nil
	f.make = func(*compiler, *FuncCall) (kernel, error) { return perRow(row), nil }
	return &FuncCall{Func: &f, Args: b.args, Of: t}, nil
}

// wholeDays reports whether an interval was written with days or larger fields.
func wholeDays(n Node) bool {
	lit, ok := n.(*Literal)
	if !ok {
		return false
	}
	if lit.IsNull() {
		return true
	}
	if lit.to != 0 {
		return lit.to <= sql.DayUnit
	}
	v, _ := lit.IntervalValue()
	return v.Nanos == 0
}

// mixed reports whether two constants are a year-month and a day-time interval.
func mixed(a, b Node) bool {
	class := func(n Node) (months, known bool) {
		lit, ok := n.(*Literal)
		if !ok {
			return false, false
		}
		v, ok := lit.IntervalValue()
		return v.Months != 0, ok && v != messages.IntervalValue{}
	}
	am, ak := class(a)
	bm, bk := class(b)
	return ak && bk && am != bm
}

func dateInterval(sign int64) func(x *exec) error {
	return func(x *exec) error {
		v := x.interval(1)
		d, ok := addMonths(x.int32(0), sign*int64(v.Months))
		if ok {
			d, ok = toDays(int64(d) + sign*int64(v.Days) + sign*v.Nanos/(1000*microsPerDay))
		}
		if !ok {
			return x.failWith(overflow)
		}
		x.setInt32(d)
		return nil
	}
}

func addDays(sign int64) func(x *exec) error {
	return func(x *exec) error {
		d, ok := toDays(int64(x.int32(0)) + sign*int64(x.int32(1)))
		if !ok {
			return x.failWith(overflow)
		}
		x.setInt32(d)
		return nil
	}
}

func addIntervals(sign int64) func(x *exec) error {
	return func(x *exec) error {
		a, b := x.interval(0), x.interval(1)
		months := int64(a.Months) + sign*int64(b.Months)
		am, ok1 := intervalMicros(a)
		bm, ok2 := intervalMicros(b)
		micros, ok3 := addInt64(am, sign*bm)
		if !ok1 || !ok2 || !ok3 || months != int64(int32(months)) {
			return x.failWith(overflow)
		}
		r := dayTime(micros)
		r.Months = int32(months)
		x.out.Intervals()[x.i] = r
		return nil
	}
}

func scaleInterval(op byte) func(x *exec) error {
	return func(x *exec) error {
		v, f := x.interval(0), x.float64(1)
		if op == '/' {
			if f == 0 {
				return x.failWith(divideByZero)
			}
			f = 1 / f
		}
		m, _ := intervalMicros(v)
		months, micros := math.Round(float64(v.Months)*f), math.Round(float64(m)*f)
		if !(math.Abs(months) < 1<<31) || !(math.Abs(micros) < 1<<63) {
			return x.failWith(overflow)
		}
		r := dayTime(int64(micros))
		r.Months = int32(months)
		x.out.Intervals()[x.i] = r
		return nil
	}
}
