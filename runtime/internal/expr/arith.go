package expr

import (
	"math"
	"math/bits"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64
}

// arithmetic describes one operator.
type arithmetic struct {
	name, alias, doc string
	op               byte // + - * / % d (DIV) p (pmod)
	try              string
}

func arithmeticFunctions() []*Function {
	ops := []arithmetic{
		{"+", "", "the sum; also of a date or timestamp and an interval", '+', "try_add"},
		{"-", "", "the difference; of two dates or timestamps an interval", '-', "try_subtract"},
		{"*", "", "the product; also of an interval and a number", '*', "try_multiply"},
		{"/", "", "the quotient: a decimal if an operand is one, else a double", '/', "try_divide"},
		{"%", "mod", "the remainder, with the sign of the dividend", '%', "try_mod"},
		{"div", "", "the quotient without its fraction, as a bigint", 'd', ""},
		{"pmod", "", "the remainder, never negative for a positive divisor", 'p', ""},
	}
	var out []*Function
	for _, o := range ops {
		f := &Function{
			Name: o.name, Family: "arithmetic", Usage: "a " + o.name + " b", Signature: "number, number -> number", Doc: o.doc,
			infix: o.op != 'p', fails: true, safeFloat: o.op == '+' || o.op == '-' || o.op == '*', bind: bindArithmetic(o.op), make: makeArithmetic(o.op),
		}
		if o.op == 'p' {
			f.Usage = "pmod(a, b)"
		}
		if o.alias != "" {
			f.Aliases = []string{o.alias}
		}
		out = append(out, f)
		if o.try != "" {
			t := *f
			t.Name, t.Aliases, t.infix, t.try = o.try, nil, false, true
			t.Usage, t.Doc = o.try+"(a, b)", o.doc+"; NULL where that overflows or divides by zero"
			out = append(out, &t)
		}
	}
	return append(out,
		&Function{
			Name: "negative", Family: "arithmetic", Usage: "-a", Signature: "number -> number", Doc: "the negated value", fails: true,
			bind: bindSign, make: makeNegative,
		},
		&Function{Name: "positive", Family: "arithmetic", Usage: "+a", Signature: "number -> number", Doc: "the value itself", bind: bindSign},
	)
}

func bindSign(b *binding) (Node, *sql.Error) {
	if err := b.count(1, 1); err != nil {
		return nil, err
	}
	switch k := b.kind(0); {
	case k == messages.String, k == messages.Null:
		b.coerce(0, messages.T(messages.Double))
	case !k.IsNumeric() && k != messages.Interval:
		return nil, b.mismatch()
	}
	if b.fn.Name == "positive" {
		return b.args[0], nil
	}
	return b.result(b.typ(0))
}

func bindArithmetic(op byte) func(b *binding) (Node, *sql.Error) {
	return func(b *binding) (Node, *sql.Error) {
		if err := b.count(2, 2); err != nil {
			return nil, err
		}
		l, r := b.kind(0), b.kind(1)
		if isTime(l) || isTime(r) || l == messages.Interval || r == messages.Interval {
			return b.timeArithmetic(op)
		}
		if !b.toNumbers() {
			return nil, b.mismatch()
		}
		l, r = b.kind(0), b.kind(1)
		inexact := l == messages.Float || l == messages.Double || r == messages.Float || r == messages.Double
		if (l == messages.Decimal || r == messages.Decimal) && !inexact {
			return b.decimalArithmetic(op)
		}
		t, _ := commonType(b.typ(0), b.typ(1))
		switch op {
		case '/':
			t = messages.T(messages.Double)
		case 'd':
			if inexact {
				return nil, b.mismatch()
			}
			t = messages.T(messages.BigInt)
		}
		b.coerce(0, t)
		b.coerce(1, t)
		return b.result(t)
	}
}

// toNumbers turns strings and bare NULLs among two operands into numbers.
func (b *binding) toNumbers() bool {
	for i := range 2 {
		other := b.kind(1 - i)
		switch b.kind(i) {
		case messages.String:
			t := messages.T(messages.Double)
			if other.IsInteger() {
				t = messages.T(messages.BigInt)
			}
			b.coerce(i, t)
		case messages.Null:
			t := messages.T(messages.Double)
			if other.IsNumeric() {
				t = b.typ(1 - i)
			}
			b.coerce(i, t)
		}
		if !b.kind(i).IsNumeric() {
			return false
		}
	}
	return true
}

// decimalArithmetic fixes the type of the result by the rules for exact results,
// cut where they exceed 38 digits.
func (b *binding) decimalArithmetic(op byte) (Node, *sql.Error) {
	for i := range 2 {
		b.coerce(i, asDecimal(b.args[i]))
	}
	p1, s1 := int(b.typ(0).Precision), int(b.typ(0).Scale)
	p2, s2 := int(b.typ(1).Precision), int(b.typ(1).Scale)
	var t messages.Type
	switch op {
	case '+', '-':
		s := max(s1, s2)
		t = boundDecimal(max(p1-s1, p2-s2)+s+1, s)
	case '*':
		t = boundDecimal(p1+p2+1, s1+s2)
	case '/':
		s := max(6, s1+p2+1)
		t = boundDecimal(p1-s1+s2+s, s)
	case '%', 'p':
		s := max(s1, s2)
		t = boundDecimal(min(p1-s1, p2-s2)+s, s)
	default:
		t = messages.T(messages.BigInt)
	}
	return b.result(t)
}

func makeArithmetic(op byte) func(c *compiler, n *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		switch t := n.Args[0].Type(); t.Kind {
		case messages.TinyInt:
			return intKernel[int8](op), nil
		case messages.SmallInt:
			return intKernel[int16](op), nil
		case messages.Int:
			return intKernel[int32](op), nil
		case messages.BigInt:
			return intKernel[int64](op), nil
		case messages.Float:
			return floatKernel[float32](op), nil
		case messages.Double:
			return floatKernel[float64](op), nil
		case messages.Decimal:
			return decimalKernel(op, t, n.Args[1].Type(), n.Of), nil
		}
		return nil, internalError("no %c for %s", op, n.Args[0].Type())
	}
}

func overflow() error {
	return rowError("ARITHMETIC_OVERFLOW", "arithmetic overflow; use the try_ form of the operation to get NULL, or a wider type")
}

func divideByZero() error {
	return rowError("DIVIDE_BY_ZERO", "division by zero; use try_divide or nullif to get NULL")
}

func remainderByZero() error {
	return rowError("REMAINDER_BY_ZERO", "remainder by zero; use try_mod or nullif to get NULL")
}

// intKernel computes all rows and looks for overflow afterwards.
func intKernel[T integer](op byte) kernel {
	var bulk func(dst, a, b []T, am, bm int) bool
	var bad func(a, b T) bool
	switch op {
	case '+':
		bulk, bad = addInts[T], func(a, b T) bool { return ((a+b)^a)&((a+b)^b) < 0 }
	case '-':
		bulk, bad = subInts[T], func(a, b T) bool { return (a^b)&(a^(a-b)) < 0 }
	case '*':
		bulk, bad = mulInts[T], func(a, b T) bool { _, o := mulInt(a, b); return o }
	default:
		return intDivision[T](op)
	}
	return func(x *exec) error {
		l, r := x.args[0], x.args[1]
		a, b := values[T](l.col), values[T](r.col)
		if !bulk(values[T](x.out), a, b, l.mask, r.mask) || x.mode == legacy {
			return nil
		}
		return x.recheck(func(i int) bool { return bad(a[i&l.mask], b[i&r.mask]) }, overflow)
	}
}

func addInts[T integer](dst, a, b []T, am, bm int) (overflowed bool) {
	if am == 0 {
		a, b, bm = b, a, 0
	}
	var o T
	if bm == 0 {
		c := b[0]
		for i, v := range a[:min(len(a), len(dst))] {
			r := v + c
			o |= (r ^ v) & (r ^ c)
			dst[i] = r
		}
		return o < 0
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r := a[i] + b[i]
		o |= (r ^ a[i]) & (r ^ b[i])
		dst[i] = r
	}
	return o < 0
}

func subInts[T integer](dst, a, b []T, am, bm int) (overflowed bool) {
	var o T
	for i := range dst {
		v, w := a[i&am], b[i&bm]
		r := v - w
		o |= (v ^ w) & (v ^ r)
		dst[i] = r
	}
	return o < 0
}

func mulInts[T integer](dst, a, b []T, am, bm int) (overflowed bool) {
	if am == 0 {
		a, b, bm = b, a, 0
	}
	if bm == 0 {
		return mulConst(dst, a, b[0])
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r, o := mulInt(a[i], b[i])
		overflowed = overflowed || o
		dst[i] = r
	}
	return overflowed
}

// mulConst multiplies by a constant. Overflow shows as a factor outside the range
// that the constant allows.
func mulConst[T integer](dst, a []T, c T) (overflowed bool) {
	if len(a) > len(dst) {
		a = a[:len(dst)]
	}
	for i, v := range a {
		dst[i] = v * c
	}
	if c == 0 || c == 1 || len(a) == 0 {
		return false
	}
	low, high := a[0], a[0]
	for _, v := range a {
		low, high = min(low, v), max(high, v)
	}
	_, o1 := mulInt(low, c)
	_, o2 := mulInt(high, c)
	return o1 || o2
}

func mulInt[T integer](a, b T) (T, bool) {
	hi, lo := bits.Mul64(uint64(int64(a)), uint64(int64(b)))
	h := int64(hi)
	if a < 0 {
		h -= int64(b)
	}
	if b < 0 {
		h -= int64(a)
	}
	r := T(lo)
	return r, h != int64(lo)>>63 || int64(r) != int64(lo)
}

// intDivision is DIV (on bigint), % and pmod.
func intDivision[T integer](op byte) kernel {
	return func(x *exec) error {
		l, r := x.args[0], x.args[1]
		a, b, dst := values[T](l.col), values[T](r.col), values[T](x.out)
		return x.each(func(x *exec) error {
			v, w := a[x.i&l.mask], b[x.i&r.mask]
			switch {
			case w == 0:
				return x.zeroDivisor(op == 'd')
			case op != 'd':
				dst[x.i] = modInt(v, w, op == 'p')
			case w == -1 && v == -v && v != 0: // the smallest value
				if x.mode == legacy {
					dst[x.i] = v
					return nil
				}
				return x.failWith(overflow)
			default:
				dst[x.i] = v / w
			}
			return nil
		})
	}
}

func modInt[T integer](v, w T, positive bool) T {
	if w == -1 {
		return 0
	}
	r := v % w
	if positive && r < 0 {
		r = (r + w) % w
	}
	return r
}

// zeroDivisor fails the row in work.
func (x *exec) zeroDivisor(division bool) error {
	if division {
		return x.failWith(divideByZero)
	}
	return x.failWith(remainderByZero)
}

// failWith is fail with a prepared error.
func (x *exec) failWith(err func() error) error {
	if x.mode != raise {
		x.isNull = true
		return nil
	}
	return err()
}

func floatKernel[T float32 | float64](op byte) kernel {
	switch op {
	case '+', '-', '*':
		return func(x *exec) error {
			l, r := x.args[0], x.args[1]
			floatBulk(values[T](x.out), values[T](l.col), values[T](r.col), [2]int{l.mask, r.mask}, op)
			return nil
		}
	case '/':
		return divideFloats[T]
	}
	return func(x *exec) error {
		l, r := x.args[0], x.args[1]
		a, b, dst := values[T](l.col), values[T](r.col), values[T](x.out)
		return x.each(func(x *exec) error {
			v, w := a[x.i&l.mask], b[x.i&r.mask]
			if w == 0 {
				return x.zeroDivisor(false)
			}
			m := math.Mod(float64(v), float64(w))
			if op == 'p' && m < 0 {
				m = math.Mod(m+float64(w), float64(w))
			}
			dst[x.i] = T(m)
			return nil
		})
	}
}

func floatBulk[T float32 | float64](dst, a, b []T, mask [2]int, op byte) {
	if mask[0] == 0 && op != '-' {
		a, b, mask = b, a, [2]int{mask[1], mask[0]}
	}
	switch {
	case mask[1] == 0 && len(a) >= len(dst):
		floatConst(dst, a[:len(dst)], b[0], op)
	case op == '+':
		for i := range dst {
			dst[i] = a[i&mask[0]] + b[i&mask[1]]
		}
	case op == '-':
		for i := range dst {
			dst[i] = a[i&mask[0]] - b[i&mask[1]]
		}
	default:
		for i := range dst {
			dst[i] = a[i&mask[0]] * b[i&mask[1]]
		}
	}
}

func floatConst[T float32 | float64](dst, a []T, c T, op byte) {
	switch op {
	case '+':
		for i, v := range a {
			dst[i] = v + c
		}
	case '-':
		for i, v := range a {
			dst[i] = v - c
		}
	default:
		for i, v := range a {
			dst[i] = v * c
		}
	}
}

func divideFloats[T float32 | float64](x *exec) error {
	l, r := x.args[0], x.args[1]
	a, b, dst := values[T](l.col), values[T](r.col), values[T](x.out)
	zero := false
	for i := range dst {
		w := b[i&r.mask]
		zero = zero || w == 0
		dst[i] = a[i&l.mask] / w
	}
	if !zero {
		return nil
	}
	return x.recheck(func(i int) bool { return b[i&r.mask] == 0 }, divideByZero)
}

// outOfRange is the error for a decimal with too many digits.
func outOfRange(t messages.Type) error {
	return rowError("NUMERIC_VALUE_OUT_OF_RANGE", "value has too many digits for %s; use a wider decimal, or the try_ form of the operation to get NULL", t)
}

func decimalKernel(op byte, lt, rt, t messages.Type) kernel {
	s := scales{lt.Scale, rt.Scale, t.Scale}
	tooLarge := func() error { return outOfRange(t) }
	if op == 'd' {
		return decimalDiv(s)
	}
	slow := perRow(func(x *exec) error {
		a, b := x.decimal(0), x.decimal(1)
		var v dec
		var ok bool
		switch op {
		case '+', '-':
			v, ok = decAdd(a, b, s, op == '-')
		case '*':
			v, ok = decMul(a, b, s)
		default:
			if decSign(b) == 0 {
				return x.zeroDivisor(op == '/')
			}
			v, ok = decQuotient(op, a, b, s)
		}
		if !ok || !fits(v, t.Precision) {
			return x.failWith(tooLarge)
		}
		x.setDecimal(v)
		return nil
	})
	if exactDecimal(op, lt, rt, t) {
		return exactKernel(op, s, slow)
	}
	return slow
}

func decQuotient(op byte, a, b dec, s scales) (dec, bool) {
	if op == '/' {
		return decDiv(a, b, s)
	}
	v, ok := decRem(a, b, s)
	if ok && op == 'p' && decSign(v) < 0 {
		r := scales{s.r, s.b, s.r}
		if v, ok = decAdd(v, b, r, false); ok {
			v, ok = decRem(v, b, r)
		}
	}
	return v, ok
}

// decimalDiv is DIV on decimals.
func decimalDiv(s scales) kernel {
	return perRow(func(x *exec) error {
		a, b := x.decimal(0), x.decimal(1)
		if decSign(b) == 0 {
			return x.zeroDivisor(true)
		}
		wide := max(s.a, s.b)
		n, d := scaleBig(toBig(a), int(wide-s.a)), scaleBig(toBig(b), int(wide-s.b))
		q := n.Quo(n, d)
		if !q.IsInt64() {
			return x.failWith(overflow)
		}
		x.setInt64(q.Int64())
		return nil
	})
}

func makeNegative(_ *compiler, n *FuncCall) (kernel, error) {
	switch n.Of.Kind {
	case messages.TinyInt:
		return negateInts[int8], nil
	case messages.SmallInt:
		return negateInts[int16], nil
	case messages.Int:
		return negateInts[int32], nil
	case messages.BigInt:
		return negateInts[int64], nil
	case messages.Float:
		return perRow(func(x *exec) error {
			v := x.args[0]
			x.out.Float32s()[x.i] = -v.col.Float32s()[x.i&v.mask]
			return nil
		}), nil
	case messages.Double:
		return perRow(func(x *exec) error { x.setFloat64(-x.float64(0)); return nil }), nil
	case messages.Decimal:
		return perRow(func(x *exec) error { x.setDecimal(decNeg(x.decimal(0))); return nil }), nil
	}
	return perRow(func(x *exec) error {
		v := x.interval(0)
		x.out.Intervals()[x.i] = messages.IntervalValue{Months: -v.Months, Days: -v.Days, Nanos: -v.Nanos}
		return nil
	}), nil
}

func negateInts[T integer](x *exec) error {
	v := x.args[0]
	a, dst := values[T](v.col), values[T](x.out)
	smallest := false
	for i := range dst {
		w := a[i&v.mask]
		smallest = smallest || w == -w && w != 0
		dst[i] = -w
	}
	if !smallest || x.mode == legacy {
		return nil
	}
	return x.recheck(func(i int) bool { w := a[i&v.mask]; return w == -w && w != 0 }, overflow)
}
