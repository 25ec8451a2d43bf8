package expr

import (
	"github.com/streamd-io/streamd/messages"
)

// implicitCost tells whether a function argument n may become a value of type t
// without a cast being written, and how far apart the types are.
func implicitCost(n Node, t messages.Type) (cost int, ok bool) {
	from := n.Type()
	switch {
	case from.Equal(t), from.Kind == messages.Null:
		return 0, true
	case from.Kind.IsNumeric() && t.Kind.IsNumeric():
		if wider(from.Kind, t.Kind) {
			return int(t.Kind-from.Kind) + 1, true
		}
		return 0, false
	case from.Kind == messages.String && t.Kind != messages.Interval && t.Kind < messages.Array:
		return 20, true
	case t.Kind == messages.String && from.Kind < messages.Array:
		return 40, true
	case isTime(from.Kind) && isTime(t.Kind):
		return 10, true
	case from.Kind == messages.Array && t.Kind == messages.Array && from.Elem.Kind == messages.Null:
		return 1, true
	}
	return 0, false
}

// wider reports whether every value of numeric kind a has a place in kind b, as
// implicit casts see it.
func wider(a, b messages.Kind) bool {
	if b == messages.Decimal {
		return a.IsInteger()
	}
	if a == messages.Decimal {
		return b == messages.Double || b == messages.Float
	}
	return a <= b
}

func isTime(k messages.Kind) bool {
	return k == messages.Date || k == messages.Timestamp || k == messages.TimestampNTZ
}

func isFloat(k messages.Kind) bool { return k == messages.Float || k == messages.Double }

// integerDecimal is the smallest decimal type for all values of an integer kind.
func integerDecimal(k messages.Kind) messages.Type {
	switch k {
	case messages.TinyInt:
		return messages.DecimalType(3, 0)
	case messages.SmallInt:
		return messages.DecimalType(5, 0)
	case messages.Int:
		return messages.DecimalType(10, 0)
	}
	return messages.DecimalType(20, 0)
}

// asDecimal is the decimal type that n takes beside a decimal: exact for constants.
func asDecimal(n Node) messages.Type {
	if lit, ok := n.(*Literal); ok {
		if v, ok := lit.Int64(); ok {
			return messages.DecimalType(uint8(digits(decInt(v))), 0)
		}
	}
	if n.Type().Kind == messages.Decimal {
		return n.Type()
	}
	return integerDecimal(n.Type().Kind)
}

// boundDecimal cuts a decimal type that is too large: digits before the point are
// kept, and at least six behind it where it has them.
func boundDecimal(precision, scale int) messages.Type {
	if precision > maxPrecision {
		whole := precision - scale
		scale = max(maxPrecision-whole, min(scale, 6))
		precision = maxPrecision
	}
	return messages.DecimalType(uint8(precision), uint8(scale))
}

// commonType is the narrowest type that values of both types turn into without a
// written cast: the type of CASE, COALESCE, IN, comparisons and arrays.
func commonType(a, b messages.Type) (messages.Type, bool) {
	switch {
	case a.Equal(b), b.Kind == messages.Null:
		return a, true
	case a.Kind == messages.Null:
		return b, true
	case a.Kind.IsNumeric() && b.Kind.IsNumeric():
		return commonNumber(a, b), true
	case a.Kind == messages.String || b.Kind == messages.String:
		if a.Kind == messages.String {
			a = b
		}
		return commonWithString(a)
	case isTime(a.Kind) && isTime(b.Kind):
		return commonTime(a.Kind, b.Kind), true
	case a.Kind == messages.Array && b.Kind == messages.Array:
		e, ok := commonType(*a.Elem, *b.Elem)
		return messages.ArrayType(e), ok
	case a.Kind == messages.Map && b.Kind == messages.Map:
		k, ok1 := commonType(*a.Key, *b.Key)
		v, ok2 := commonType(*a.Elem, *b.Elem)
		return messages.MapType(k, v), ok1 && ok2
	case a.Kind == messages.Struct && b.Kind == messages.Struct && len(a.Fields) == len(b.Fields):
		fields := make([]messages.Field, len(a.Fields))
		for i := range fields {
			t, ok := commonType(a.Fields[i].Type, b.Fields[i].Type)
			if !ok {
				return a, false
			}
			fields[i] = messages.Field{Name: a.Fields[i].Name, Type: t}
		}
		return messages.StructType(fields...), true
	}
	return a, false
}

// commonTime is the common type of two different kinds of date and timestamp.
func commonTime(a, b messages.Kind) messages.Type {
	if a == messages.Timestamp || b == messages.Timestamp {
		return messages.T(messages.Timestamp)
	}
	return messages.T(messages.TimestampNTZ)
}

// commonWithString is the common type of a string and t: the other type, integers as
// bigint and the other numbers as double.
func commonWithString(t messages.Type) (messages.Type, bool) {
	switch {
	case t.Kind.IsInteger():
		return messages.T(messages.BigInt), true
	case t.Kind.IsNumeric():
		return messages.T(messages.Double), true
	case t.Kind == messages.Boolean, isTime(t.Kind), t.Kind == messages.Binary:
		return t, true
	}
	return t, false
}

func commonNumber(a, b messages.Type) messages.Type {
	if a.Kind == messages.Decimal || b.Kind == messages.Decimal {
		if a.Kind == messages.Float || a.Kind == messages.Double || b.Kind == messages.Float || b.Kind == messages.Double {
			return messages.T(messages.Double)
		}
		if a.Kind != messages.Decimal {
			a = integerDecimal(a.Kind)
		}
		if b.Kind != messages.Decimal {
			b = integerDecimal(b.Kind)
		}
		scale := max(a.Scale, b.Scale)
		whole := max(a.Precision-a.Scale, b.Precision-b.Scale)
		return boundDecimal(int(whole)+int(scale), int(scale))
	}
	if a.Kind > b.Kind {
		a, b = b, a
	}
	if b.Kind == messages.Float && (a.Kind == messages.Int || a.Kind == messages.BigInt) {
		return messages.T(messages.Double) // float would lose digits
	}
	return b
}

// commonOf folds commonType over the arguments from index from on; integer constants
// beside decimals take only the digits they need.
func (b *binding) commonOf(nodes []Node) (messages.Type, bool) {
	decimals := false
	for _, n := range nodes {
		decimals = decimals || n.Type().Kind == messages.Decimal
	}
	t := messages.T(messages.Null)
	for _, n := range nodes {
		nt := n.Type()
		if decimals && nt.Kind.IsInteger() {
			nt = asDecimal(n)
		}
		var ok bool
		if t, ok = commonType(t, nt); !ok {
			return t, false
		}
	}
	return t, true
}
