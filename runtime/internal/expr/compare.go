package expr

import (
	"bytes"
	"cmp"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// comparison is a comparison operator as one of three tests and its opposite.
type comparison struct {
	test test
	not  bool
}

type test uint8

const (
	equal test = iota
	less
	lessEqual
)

// flipped is the comparison with its operands exchanged.
func (c comparison) flipped() comparison {
	switch c.test {
	case less:
		return comparison{lessEqual, !c.not}
	case lessEqual:
		return comparison{less, !c.not}
	default: // a = b is b = a
		return c
	}
}

func comparisonFunctions() []*Function {
	ops := []struct {
		name string
		op   comparison
		doc  string
	}{
		{"=", comparison{equal, false}, "true where both operands are equal"},
		{"<>", comparison{equal, true}, "true where the operands differ"},
		{"<", comparison{less, false}, "true where the left operand is smaller"},
		{"<=", comparison{lessEqual, false}, "true where the left operand is smaller or equal"},
		{">", comparison{lessEqual, true}, "true where the left operand is larger"},
		{">=", comparison{less, true}, "true where the left operand is larger or equal"},
	}
	var out []*Function
	for _, o := range ops {
		f := &Function{
			Name: o.name, Family: "comparison", Usage: "a " + o.name + " b", Signature: "any, any -> boolean",
			Doc: o.doc + "; NULL where one is NULL", infix: true, bind: bindComparison,
		}
		if o.name == "=" {
			f.Aliases = []string{"=="}
		}
		if o.name == "<>" {
			f.Aliases = []string{"!="}
		}
		f.make = func(_ *compiler, n *FuncCall) (kernel, error) { return compareKernel(o.op, n.Args[0].Type()), nil }
		out = append(out, f)
	}
	return append(out, &Function{
		Name: "<=>", Family: "comparison", Usage: "a <=> b", Signature: "any, any -> boolean",
		Doc:   "true where the operands are equal or both NULL; never NULL",
		infix: true, lenient: true, bind: bindComparison, make: makeNullSafe,
	})
}

// bindComparison gives both operands their common type.
func bindComparison(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	t, ok := b.commonOf(b.args)
	if !ok || !comparable(t) {
		return nil, b.mismatch()
	}
	b.coerce(0, t)
	b.coerce(1, t)
	return b.result(messages.T(messages.Boolean))
}

// comparable reports whether values of t can be compared: all but maps.
func comparable(t messages.Type) bool {
	switch t.Kind {
	case messages.Map:
		return false
	case messages.Array:
		return comparable(*t.Elem)
	case messages.Struct:
		for _, f := range t.Fields {
			if !comparable(f.Type) {
				return false
			}
		}
	}
	return true
}

// makeNullSafe is <=>: equality of values, then the rows with a NULL.
func makeNullSafe(_ *compiler, n *FuncCall) (kernel, error) {
	values := compareKernel(comparison{test: equal}, n.Args[0].Type())
	return func(x *exec) error {
		a, b := x.args[0], x.args[1]
		if a.col.Type().Kind != messages.Null {
			if err := values(x); err != nil {
				return err
			}
			x.out.DropValidity()
		}
		if a.col.Type().Kind != messages.Null && a.col.Validity() == nil && b.col.Validity() == nil {
			return nil
		}
		bits := x.out.Bits()
		for i := range x.f.n {
			an, bn := a.null(i), b.null(i)
			if an && bn {
				messages.SetBit(bits, i)
			} else if an != bn {
				messages.ClearBit(bits, i)
			}
		}
		return nil
	}, nil
}

func compareKernel(op comparison, t messages.Type) kernel {
	switch t.Kind {
	case messages.TinyInt:
		return compareFixed[int8](op)
	case messages.SmallInt:
		return compareFixed[int16](op)
	case messages.Int, messages.Date:
		return compareFixed[int32](op)
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return compareFixed[int64](op)
	case messages.Float:
		return compareFloats[float32](op)
	case messages.Double:
		return compareFloats[float64](op)
	case messages.String, messages.Binary:
		return compareBytes(op)
	case messages.Decimal:
		return compareDecimals(op)
	}
	return compareAny(op)
}

// operands returns the values of both arguments with a constant, if there is one,
// on the right.
func operands[T any](x *exec, op comparison) (a, b []T, right vec, o comparison) {
	left, right := x.args[0], x.args[1]
	if left.isConst() && x.f.n != 1 {
		left, right, op = right, left, op.flipped()
	}
	return values[T](left.col), values[T](right.col), right, op
}

func compareFixed[T cmp.Ordered](op comparison) kernel {
	return func(x *exec) error {
		a, b, right, op := operands[T](x, op)
		bits := x.out.Bits()
		if right.isConst() {
			compareConst(bits, a, b[0], op.test)
		} else {
			compareColumns(bits, a, b, op.test)
		}
		negate(bits, op.not)
		return nil
	}
}

// compareFloats differs from compareFixed only where NaN takes part: it is equal to
// itself and larger than all other values.
func compareFloats[T float32 | float64](op comparison) kernel {
	return func(x *exec) error {
		a, b, right, op := operands[T](x, op)
		bits := x.out.Bits()
		if right.isConst() && b[0] == b[0] {
			// NaN on the left fails every test, which is right: it is larger.
			compareConst(bits, a, b[0], op.test)
			negate(bits, op.not)
			return nil
		}
		for i := range a {
			r := messages.CompareFloats(float64(a[i]), float64(b[i&right.mask]))
			putBit(bits, i, op.holds(r))
		}
		return nil
	}
}

// holds applies the comparison to the sign of an ordering.
func (c comparison) holds(r int) bool {
	switch c.test {
	case equal:
		return (r == 0) != c.not
	case less:
		return (r < 0) != c.not
	default:
		return (r <= 0) != c.not
	}
}

func putBit(bits []byte, i int, v bool) {
	m := byte(1) << (i & 7)
	if v {
		bits[i>>3] |= m
	} else {
		bits[i>>3] &^= m
	}
}

func negate(bits []byte, yes bool) {
	if yes {
		for i := range bits {
			bits[i] = ^bits[i]
		}
	}
}

// pack4 joins four results to half a byte of a bitmap.
func pack4(b0, b1, b2, b3 bool) byte {
	return bit(b0) | bit(b1)<<1 | bit(b2)<<2 | bit(b3)<<3
}

func compareConst[T cmp.Ordered](bits []byte, a []T, c T, op test) {
	full := len(a) &^ 7
	switch op {
	case equal:
		for i := 0; i < full; i += 8 {
			v := (*[8]T)(a[i:])
			bits[i>>3] = pack4(v[0] == c, v[1] == c, v[2] == c, v[3] == c) | pack4(v[4] == c, v[5] == c, v[6] == c, v[7] == c)<<4
		}
	case less:
		for i := 0; i < full; i += 8 {
			v := (*[8]T)(a[i:])
			bits[i>>3] = pack4(v[0] < c, v[1] < c, v[2] < c, v[3] < c) | pack4(v[4] < c, v[5] < c, v[6] < c, v[7] < c)<<4
		}
	default:
		for i := 0; i < full; i += 8 {
			v := (*[8]T)(a[i:])
			bits[i>>3] = pack4(v[0] <= c, v[1] <= c, v[2] <= c, v[3] <= c) | pack4(v[4] <= c, v[5] <= c, v[6] <= c, v[7] <= c)<<4
		}
	}
	for i := full; i < len(a); i++ {
		putBit(bits, i, holds(a[i], c, op))
	}
}

func compareColumns[T cmp.Ordered](bits []byte, a, b []T, op test) {
	full := len(a) &^ 7
	switch op {
	case equal:
		for i := 0; i < full; i += 8 {
			v, w := (*[8]T)(a[i:]), (*[8]T)(b[i:])
			bits[i>>3] = pack4(v[0] == w[0], v[1] == w[1], v[2] == w[2], v[3] == w[3]) | pack4(v[4] == w[4], v[5] == w[5], v[6] == w[6], v[7] == w[7])<<4
		}
	case less:
		for i := 0; i < full; i += 8 {
			v, w := (*[8]T)(a[i:]), (*[8]T)(b[i:])
			bits[i>>3] = pack4(v[0] < w[0], v[1] < w[1], v[2] < w[2], v[3] < w[3]) | pack4(v[4] < w[4], v[5] < w[5], v[6] < w[6], v[7] < w[7])<<4
		}
	default:
		for i := 0; i < full; i += 8 {
			v, w := (*[8]T)(a[i:]), (*[8]T)(b[i:])
			bits[i>>3] = pack4(v[0] <= w[0], v[1] <= w[1], v[2] <= w[2], v[3] <= w[3]) | pack4(v[4] <= w[4], v[5] <= w[5], v[6] <= w[6], v[7] <= w[7])<<4
		}
	}
	for i := full; i < len(a); i++ {
		putBit(bits, i, holds(a[i], b[i], op))
	}
}

func holds[T cmp.Ordered](a, b T, op test) bool {
	switch op {
	case equal:
		return a == b
	case less:
		return a < b
	default:
		return a <= b
	}
}

func compareBytes(op comparison) kernel {
	if op.test == equal {
		slow := perRow(func(x *exec) error {
			x.setBool(bytes.Equal(x.bytes(0), x.bytes(1)) != op.not)
			return nil
		})
		return func(x *exec) error {
			if x.args[0].isConst() || !x.args[1].isConst() || x.f.sel != nil && len(x.f.sel) < x.f.n/4 {
				return slow(x)
			}
			equalText(x.out.Bits(), x.args[0].col, x.args[1].col.Bytes(0))
			negate(x.out.Bits(), op.not)
			return nil
		}
	}
	return perRow(func(x *exec) error {
		x.setBool(op.holds(bytes.Compare(x.bytes(0), x.bytes(1))))
		return nil
	})
}

func compareDecimals(op comparison) kernel {
	return func(x *exec) error {
		a, b, right, op := operands[dec](x, op)
		bits := x.out.Bits()
		clear(bits)
		for i, v := range a {
			bits[i>>3] |= bit(op.holds(v.Compare(b[i&right.mask]))) << (i & 7)
		}
		return nil
	}
}

// equalText compares all values of a column with one text.
func equalText(bits []byte, c *messages.Column, text []byte) {
	off, data := c.Offsets(), c.Data()
	clear(bits)
	for i := range c.Len() {
		from, to := int(off[i]), int(off[i+1])
		if to-from == len(text) && string(data[from:to]) == string(text) {
			bits[i>>3] |= 1 << (i & 7)
		}
	}
}

func compareAny(op comparison) kernel {
	return perRow(func(x *exec) error {
		a, b := x.args[0], x.args[1]
		x.setBool(op.holds(messages.Compare(a.col, x.i&a.mask, b.col, x.i&b.mask)))
		return nil
	})
}
