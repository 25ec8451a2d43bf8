package expr

import (
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// literal makes a constant of type t; fill appends its value.
func literal(t messages.Type, fill func(c *messages.Column)) *Literal {
	c := &messages.Column{}
	c.Reset(t)
	fill(c)
	return &Literal{value: c}
}

// NewLiteral returns value i of c as a constant.
func NewLiteral(c *messages.Column, i int) *Literal {
	return literal(c.Type(), func(to *messages.Column) { to.AppendFrom(c, i) })
}

// NullOf returns the NULL of type t.
func NullOf(t messages.Type) *Literal {
	return literal(t, func(c *messages.Column) { c.AppendNull() })
}

// Bool returns a boolean constant.
func Bool(v bool) *Literal {
	return literal(messages.T(messages.Boolean), func(c *messages.Column) { c.AppendBool(v) })
}

// Int returns an int constant.
func Int(v int32) *Literal {
	return literal(messages.T(messages.Int), func(c *messages.Column) { c.AppendInt32(v) })
}

// BigInt returns a bigint constant.
func BigInt(v int64) *Literal {
	return literal(messages.T(messages.BigInt), func(c *messages.Column) { c.AppendInt64(v) })
}

// Double returns a double constant.
func Double(v float64) *Literal {
	return literal(messages.T(messages.Double), func(c *messages.Column) { c.AppendFloat64(v) })
}

// Float returns a float constant.
func Float(v float32) *Literal {
	return literal(messages.T(messages.Float), func(c *messages.Column) { c.AppendFloat32(v) })
}

// Decimal returns a decimal constant of the given unscaled value and type.
func Decimal(v messages.Decimal128, precision, scale uint8) *Literal {
	return literal(messages.DecimalType(precision, scale), func(c *messages.Column) { c.AppendDecimal(v) })
}

// String returns a string constant.
func String(v string) *Literal {
	return literal(messages.T(messages.String), func(c *messages.Column) { c.AppendString(v) })
}

// Binary returns a binary constant; v is copied.
func Binary(v []byte) *Literal {
	return literal(messages.T(messages.Binary), func(c *messages.Column) { c.AppendBytes(v) })
}

// Date returns a date constant, in days since 1970-01-01.
func Date(days int32) *Literal {
	return literal(messages.T(messages.Date), func(c *messages.Column) { c.AppendInt32(days) })
}

// Timestamp returns a timestamp constant.
func Timestamp(v messages.EventTime) *Literal {
	return literal(messages.T(messages.Timestamp), func(c *messages.Column) { c.AppendInt64(int64(v)) })
}

// TimestampNTZ returns a timestamp_ntz constant, in microseconds of the wall clock.
func TimestampNTZ(micros int64) *Literal {
	return literal(messages.T(messages.TimestampNTZ), func(c *messages.Column) { c.AppendInt64(micros) })
}

// Interval returns an interval constant.
func Interval(v messages.IntervalValue) *Literal {
	return literal(messages.T(messages.Interval), func(c *messages.Column) { c.AppendInterval(v) })
}

// Duration returns a day-time interval constant.
func Duration(d time.Duration) *Literal { return Interval(dayTime(d.Microseconds())) }

// intervalLiteral keeps which fields were written: date plus days is a date, date
// plus hours a timestamp.
func intervalLiteral(l *sql.IntervalLit) *Literal {
	v := dayTime(l.Value.Micros)
	v.Months = l.Value.Months
	v.Days += l.Value.Days
	lit := Interval(v)
	lit.from, lit.to = l.From, l.To
	return lit
}

// IsNull reports whether the constant is NULL.
func (n *Literal) IsNull() bool { return n.value.IsNull(0) }

// Value returns the constant as a column of one value, which must not be written.
func (n *Literal) Value() *messages.Column { return n.value }

// Int64 returns the value of an integer, date or timestamp constant that is not NULL.
func (n *Literal) Int64() (int64, bool) {
	if n.IsNull() {
		return 0, false
	}
	switch n.Type().Kind {
	case messages.TinyInt:
		return int64(n.value.Int8s()[0]), true
	case messages.SmallInt:
		return int64(n.value.Int16s()[0]), true
	case messages.Int, messages.Date:
		return int64(n.value.Int32s()[0]), true
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return n.value.Int64s()[0], true
	}
	return 0, false
}

// Text returns the value of a string constant that is not NULL.
func (n *Literal) Text() (string, bool) {
	if n.Type().Kind != messages.String || n.IsNull() {
		return "", false
	}
	return string(n.value.Bytes(0)), true
}

// Truth returns the value of a boolean constant that is not NULL.
func (n *Literal) Truth() (value, ok bool) {
	if n.Type().Kind != messages.Boolean || n.IsNull() {
		return false, false
	}
	return n.value.Bool(0), true
}

// IntervalValue returns the value of an interval constant that is not NULL.
func (n *Literal) IntervalValue() (messages.IntervalValue, bool) {
	if n.Type().Kind != messages.Interval || n.IsNull() {
		return messages.IntervalValue{}, false
	}
	return n.value.Intervals()[0], true
}
