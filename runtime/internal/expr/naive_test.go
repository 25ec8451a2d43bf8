package expr

import (
	"fmt"
	"math"
	"math/big"

	"github.com/streamd-io/streamd/messages"
)

// naive is a second evaluator: one row at a time, in arbitrary precision, sharing
// nothing with the kernels but the typed tree.
type naive struct {
	batch *messages.Batch
	row   int
}

// naiveValue is NULL, a boolean, an exact number or a double.
type naiveValue struct {
	null  bool
	truth bool
	exact *big.Rat
	float float64
}

// naiveError is the class of an error.
type naiveError string

func null() naiveValue { return naiveValue{null: true} }

func isDouble(t messages.Type) bool { return t.Kind == messages.Double }

func (n naive) eval(e Node) naiveValue {
	switch e := e.(type) {
	case *Column:
		return readNaive(n.batch.Column(e.Index), n.row)
	case *Literal:
		return readNaive(e.Value(), 0)
	case *Cast:
		return castNaive(n.eval(e.X), e)
	case *Case:
		for _, w := range e.Whens {
			if c := n.eval(w.Cond); !c.null && c.truth {
				return n.eval(w.Result)
			}
		}
		return n.eval(e.Else)
	case *FuncCall:
		return n.call(e)
	case *Field, *Lambda, *Variable:
	}
	panic(fmt.Sprintf("naive: %T", e))
}

func readNaive(c *messages.Column, i int) naiveValue {
	if c.IsNull(i) {
		return null()
	}
	whole := func(v int64) naiveValue { return naiveValue{exact: new(big.Rat).SetInt64(v)} }
	switch t := c.Type(); t.Kind {
	case messages.Boolean:
		return naiveValue{truth: c.Bool(i)}
	case messages.TinyInt:
		return whole(int64(c.Int8s()[i]))
	case messages.SmallInt:
		return whole(int64(c.Int16s()[i]))
	case messages.Int:
		return whole(int64(c.Int32s()[i]))
	case messages.BigInt:
		return whole(c.Int64s()[i])
	case messages.Double:
		return naiveValue{float: c.Float64s()[i]}
	case messages.Decimal:
		d := c.Decimals()[i]
		v := new(big.Int).Lsh(big.NewInt(d.Hi), 64)
		v.Add(v, new(big.Int).SetUint64(d.Lo))
		return naiveValue{exact: new(big.Rat).SetFrac(v, tenTo(t.Scale))}
	default:
		panic("naive: column of type " + t.String())
	}
}

func tenTo(n uint8) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// fit rounds half away from zero to the scale of t and checks its range.
func fit(r *big.Rat, t messages.Type, class string) naiveValue {
	if t.Kind != messages.Decimal {
		bits := uint(8 * t.Kind.Width())
		limit := new(big.Int).Lsh(big.NewInt(1), bits-1)
		v := r.Num()
		if !r.IsInt() || v.Cmp(limit) >= 0 || v.Cmp(new(big.Int).Neg(limit)) < 0 {
			panic(naiveError(class))
		}
		return naiveValue{exact: r}
	}
	scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(tenTo(t.Scale)))
	twice := new(big.Int).Lsh(new(big.Int).Abs(scaled.Num()), 1)
	twice.Add(twice, scaled.Denom())
	v := twice.Quo(twice, new(big.Int).Lsh(scaled.Denom(), 1))
	if v.Cmp(tenTo(t.Precision)) >= 0 {
		panic(naiveError("NUMERIC_VALUE_OUT_OF_RANGE"))
	}
	if r.Sign() < 0 {
		v.Neg(v)
	}
	return naiveValue{exact: new(big.Rat).SetFrac(v, tenTo(t.Scale))}
}

func castNaive(v naiveValue, c *Cast) naiveValue {
	from := c.X.Type()
	switch {
	case v.null:
		return v
	case isDouble(c.To) && isDouble(from):
		return v
	case isDouble(c.To):
		f, _ := v.exact.Float64()
		return naiveValue{float: f}
	case isDouble(from):
		if math.IsNaN(v.float) || math.IsInf(v.float, 0) {
			panic(naiveError("CAST_OVERFLOW"))
		}
		r, _ := new(big.Rat).SetString(fmt.Sprintf("%.0f", math.Trunc(v.float)))
		return fit(r, c.To, "CAST_OVERFLOW")
	case from.Kind == messages.Decimal && c.To.Kind != messages.Decimal:
		whole := new(big.Int).Quo(v.exact.Num(), v.exact.Denom())
		return fit(new(big.Rat).SetInt(whole), c.To, "CAST_OVERFLOW")
	}
	return fit(v.exact, c.To, "CAST_OVERFLOW")
}

func (n naive) call(e *FuncCall) naiveValue {
	switch e.Func.Name {
	case "and", "or":
		return n.logic(e, e.Func.Name == "or")
	case "coalesce":
		for _, a := range e.Args {
			if v := n.eval(a); !v.null {
				return v
			}
		}
		return null()
	}
	args := make([]naiveValue, len(e.Args))
	anyNull := false
	for i, a := range e.Args {
		args[i] = n.eval(a)
		anyNull = anyNull || args[i].null
	}
	switch e.Func.Name {
	case "is null":
		return naiveValue{truth: args[0].null}
	case "is not null":
		return naiveValue{truth: !args[0].null}
	case "<=>":
		if anyNull {
			return naiveValue{truth: args[0].null && args[1].null}
		}
		return naiveValue{truth: orderNaive(args[0], args[1], e.Args[0].Type()) == 0}
	case "in":
		return inNaive(args, e.Args[0].Type())
	}
	if anyNull {
		return null()
	}
	switch e.Func.Name {
	case "not":
		return naiveValue{truth: !args[0].truth}
	case "=", "<>", "<", "<=", ">", ">=":
		r := orderNaive(args[0], args[1], e.Args[0].Type())
		return naiveValue{truth: map[string]bool{"=": r == 0, "<>": r != 0, "<": r < 0, "<=": r <= 0, ">": r > 0, ">=": r >= 0}[e.Func.Name]}
	case "negative":
		if isDouble(e.Of) {
			return naiveValue{float: -args[0].float}
		}
		return fit(new(big.Rat).Neg(args[0].exact), e.Of, "ARITHMETIC_OVERFLOW")
	}
	return arithmeticNaive(e, args[0], args[1])
}

// logic is three-valued; the right operand counts only where the left one leaves the
// result open.
func (n naive) logic(e *FuncCall, or bool) naiveValue {
	l := n.eval(e.Args[0])
	if !l.null && l.truth == or {
		return l
	}
	r := n.eval(e.Args[1])
	if !r.null && r.truth == or {
		return r
	}
	if l.null || r.null {
		return null()
	}
	return naiveValue{truth: !or}
}

func inNaive(args []naiveValue, t messages.Type) naiveValue {
	if args[0].null {
		return null()
	}
	unknown := false
	for _, a := range args[1:] {
		if a.null {
			unknown = true
		} else if orderNaive(args[0], a, t) == 0 {
			return naiveValue{truth: true}
		}
	}
	return naiveValue{null: unknown}
}

func orderNaive(a, b naiveValue, t messages.Type) int {
	if t.Kind == messages.Boolean {
		return int(bit(a.truth)) - int(bit(b.truth))
	}
	if !isDouble(t) {
		return a.exact.Cmp(b.exact)
	}
	an, bn := math.IsNaN(a.float), math.IsNaN(b.float)
	switch {
	case an || bn:
		return int(bit(an)) - int(bit(bn))
	case a.float < b.float:
		return -1
	case a.float > b.float:
		return 1
	}
	return 0
}

func arithmeticNaive(e *FuncCall, a, b naiveValue) naiveValue {
	op := e.Func.Name
	if isDouble(e.Args[0].Type()) {
		switch op {
		case "+":
			return naiveValue{float: a.float + b.float}
		case "-":
			return naiveValue{float: a.float - b.float}
		case "*":
			return naiveValue{float: a.float * b.float}
		}
		if b.float == 0 {
			panic(naiveError(map[string]string{"/": "DIVIDE_BY_ZERO", "%": "REMAINDER_BY_ZERO"}[op]))
		}
		if op == "/" {
			return naiveValue{float: a.float / b.float}
		}
		return naiveValue{float: math.Mod(a.float, b.float)}
	}
	r := new(big.Rat)
	switch op {
	case "+":
		r.Add(a.exact, b.exact)
	case "-":
		r.Sub(a.exact, b.exact)
	case "*":
		r.Mul(a.exact, b.exact)
	default:
		if b.exact.Sign() == 0 {
			panic(naiveError(map[string]string{"/": "DIVIDE_BY_ZERO", "div": "DIVIDE_BY_ZERO", "%": "REMAINDER_BY_ZERO"}[op]))
		}
		r.Quo(a.exact, b.exact)
		if op != "/" {
			whole := new(big.Rat).SetInt(new(big.Int).Quo(r.Num(), r.Denom()))
			if op == "div" {
				r = whole
			} else {
				r.Sub(a.exact, whole.Mul(whole, b.exact))
			}
		}
	}
	return fit(r, e.Of, "ARITHMETIC_OVERFLOW")
}
