package expr

import (
	"math"
	"math/bits"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func mathFunctions() []*Function {
	fs := []*Function{
		{Name: "abs", Family: "math", Usage: "abs(a)", Signature: "number -> $0", Doc: "the absolute value", fails: true, make: makeAbs},
		{
			Name: "sign", Aliases: []string{"signum"}, Family: "math", Usage: "sign(a)", Signature: "double -> double", Doc: "-1.0, 0.0 or 1.0",
			make: double1(func(f float64) float64 {
				switch {
				case f > 0:
					return 1
				case f < 0:
					return -1
				}
				return f
			}),
		},
		{Name: "power", Aliases: []string{"pow"}, Family: "math", Usage: "power(a, b)", Signature: "double, double -> double", Doc: "a to the power of b", make: double2(math.Pow)},
		{Name: "atan2", Family: "math", Usage: "atan2(y, x)", Signature: "double, double -> double", Doc: "the angle of the point (x, y)", make: double2(math.Atan2)},
		{Name: "hypot", Family: "math", Usage: "hypot(a, b)", Signature: "double, double -> double", Doc: "the square root of a*a + b*b", make: double2(math.Hypot)},
		{
			Name: "log", Family: "math", Usage: "log([base, ]a)", Signature: "double -> double | double, double -> double",
			Doc: "the logarithm, the natural one without a base; NULL unless both are positive", make: rows(logRow),
		},
		{Name: "pi", Family: "math", Usage: "pi()", Signature: "-> double", Doc: "the number pi", make: constant0(math.Pi)},
		{Name: "e", Family: "math", Usage: "e()", Signature: "-> double", Doc: "Euler's number", make: constant0(math.E)},
		{
			Name: "isnan", Family: "math", Usage: "isnan(a)", Signature: "double -> boolean", Doc: "whether a is NaN; false for NULL", lenient: true,
			make: rows(func(x *exec) error { x.setBool(!x.null(0) && math.IsNaN(x.float64(0))); return nil }),
		},
		{
			Name: "nanvl", Family: "math", Usage: "nanvl(a, b)", Signature: "double, double -> double", Doc: "a, or b where a is NaN",
			make: double2(func(a, b float64) float64 {
				if math.IsNaN(a) {
					return b
				}
				return a
			}),
		},
		{Name: "factorial", Family: "math", Usage: "factorial(n)", Signature: "int -> bigint", Doc: "1 * 2 * ... * n; NULL unless n is from 0 to 20", make: rows(factorial)},
	}
	fs = append(fs, doubleFunctions()...)
	return append(fs, bitFunctions()...)
}

func doubleFunctions() []*Function {
	var out []*Function
	for _, d := range []struct {
		name, doc string
		fn        func(float64) float64
	}{
		{"sqrt", "the square root", math.Sqrt},
		{"cbrt", "the cube root", math.Cbrt},
		{"exp", "e to the power of a", math.Exp},
		{"expm1", "exp(a) - 1", math.Expm1},
		{"sin", "the sine", math.Sin},
		{"cos", "the cosine", math.Cos},
		{"tan", "the tangent", math.Tan},
		{"asin", "the inverse sine", math.Asin},
		{"acos", "the inverse cosine", math.Acos},
		{"atan", "the inverse tangent", math.Atan},
		{"sinh", "the hyperbolic sine", math.Sinh},
		{"cosh", "the hyperbolic cosine", math.Cosh},
		{"tanh", "the hyperbolic tangent", math.Tanh},
		{"cot", "the cotangent", func(f float64) float64 { return 1 / math.Tan(f) }},
		{"degrees", "radians as degrees", func(f float64) float64 { return f * (180 / math.Pi) }},
		{"radians", "degrees as radians", func(f float64) float64 { return f / 180 * math.Pi }},
		{"rint", "the nearest whole number, the even one of two", math.RoundToEven},
	} {
		out = append(out, &Function{Name: d.name, Family: "math", Usage: d.name + "(a)", Signature: "double -> double", Doc: d.doc, make: double1(d.fn)})
	}
	for _, d := range []struct {
		name, doc string
		fn        func(float64) float64
		above     float64
	}{
		{"ln", "the natural logarithm", math.Log, 0},
		{"log2", "the logarithm to base 2", math.Log2, 0},
		{"log10", "the logarithm to base 10", math.Log10, 0},
		{"log1p", "ln(a + 1)", math.Log1p, -1},
	} {
		out = append(out, &Function{
			Name: d.name, Family: "math", Usage: d.name + "(a)", Signature: "double -> double", Doc: d.doc + "; NULL where it does not exist",
			make: rows(func(x *exec) error {
				f := x.float64(0)
				x.isNull = f <= d.above
				x.setFloat64(d.fn(f))
				return nil
			}),
		})
	}
	return out
}

func double1(fn func(float64) float64) func(*compiler, *FuncCall) (kernel, error) {
	return rows(func(x *exec) error { x.setFloat64(fn(x.float64(0))); return nil })
}

func double2(fn func(a, b float64) float64) func(*compiler, *FuncCall) (kernel, error) {
	return rows(func(x *exec) error { x.setFloat64(fn(x.float64(0), x.float64(1))); return nil })
}

func constant0(f float64) func(*compiler, *FuncCall) (kernel, error) {
	return rows(func(x *exec) error { x.setFloat64(f); return nil })
}

func logRow(x *exec) error {
	f := x.float64(len(x.args) - 1)
	x.isNull = f <= 0
	r := math.Log(f)
	if len(x.args) == 2 {
		base := x.float64(0)
		x.isNull = x.isNull || base <= 0
		r /= math.Log(base)
	}
	x.setFloat64(r)
	return nil
}

func factorial(x *exec) error {
	n := x.int32(0)
	if n < 0 || n > 20 {
		x.isNull = true
		return nil
	}
	r := int64(1)
	for i := int64(2); i <= int64(n); i++ {
		r *= i
	}
	x.setInt64(r)
	return nil
}

func makeAbs(_ *compiler, n *FuncCall) (kernel, error) {
	switch n.Of.Kind {
	case messages.TinyInt:
		return absInts[int8], nil
	case messages.SmallInt:
		return absInts[int16], nil
	case messages.Int:
		return absInts[int32], nil
	case messages.BigInt:
		return absInts[int64], nil
	case messages.Float:
		return perRow(func(x *exec) error {
			v := x.args[0]
			x.out.Float32s()[x.i] = float32(math.Abs(float64(v.col.Float32s()[x.i&v.mask])))
			return nil
		}), nil
	case messages.Double:
		return perRow(func(x *exec) error { x.setFloat64(math.Abs(x.float64(0))); return nil }), nil
	}
	return perRow(func(x *exec) error {
		v := x.decimal(0)
		if v.Hi < 0 {
			v = decNeg(v)
		}
		x.setDecimal(v)
		return nil
	}), nil
}

func absInts[T integer](x *exec) error {
	v := x.args[0]
	a, dst := values[T](v.col), values[T](x.out)
	return x.each(func(x *exec) error {
		w := a[x.i&v.mask]
		if w < 0 {
			w = -w
		}
		if w < 0 && x.mode != legacy {
			return x.failWith(overflow)
		}
		dst[x.i] = w
		return nil
	})
}

func bitFunctions() []*Function {
	binary := func(name, doc string, fn func(a, b int64) int64) *Function {
		return &Function{
			Name: name, Family: "bits", Usage: "a " + name + " b", Signature: "integer, integer -> $0", Doc: doc, infix: true,
			bind: bindBits, make: integers2(fn),
		}
	}
	shift := func(name, alias, doc string, fn func(v int64, n uint, width uint) int64) *Function {
		return &Function{
			Name: name, Aliases: []string{alias}, Family: "bits", Usage: name + "(a, n)", Signature: "int, int -> int | bigint, int -> bigint", Doc: doc,
			make: rows(func(x *exec) error {
				n := uint(x.int32(1))
				if x.out.Type().Kind == messages.Int {
					x.setInt32(int32(fn(int64(x.int32(0)), n&31, 32)))
				} else {
					x.setInt64(fn(x.int64(0), n&63, 64))
				}
				return nil
			}),
		}
	}
	return []*Function{
		binary("&", "the bits set in both", func(a, b int64) int64 { return a & b }),
		binary("|", "the bits set in one or both", func(a, b int64) int64 { return a | b }),
		binary("^", "the bits set in exactly one", func(a, b int64) int64 { return a ^ b }),
		{
			Name: "~", Family: "bits", Usage: "~a", Signature: "integer -> $0", Doc: "all bits inverted", infix: true,
			make: rows(func(x *exec) error { x.putInteger(^x.integer(0)); return nil }),
		},
		{
			Name: "bit_count", Family: "bits", Usage: "bit_count(a)", Signature: "integer -> int | boolean -> int", Doc: "the number of bits set",
			make: rows(func(x *exec) error {
				if x.args[0].col.Type().Kind == messages.Boolean {
					x.setInt32(int32(bit(x.boolean(0))))
				} else {
					x.setInt32(int32(bits.OnesCount64(uint64(x.integer(0)))))
				}
				return nil
			}),
		},
		shift("shiftleft", "<<", "a with its bits moved to the left", func(v int64, n, _ uint) int64 { return v << n }),
		shift("shiftright", ">>", "a with its bits moved to the right, keeping the sign", func(v int64, n, _ uint) int64 { return v >> n }),
		shift("shiftrightunsigned", ">>>", "a with its bits moved to the right, zeros entering", func(v int64, n, width uint) int64 {
			if width == 32 {
				return int64(uint32(v) >> n)
			}
			return int64(uint64(v) >> n)
		}),
	}
}

func bindBits(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	t, ok := commonType(b.typ(0), b.typ(1))
	if t.Kind == messages.Null {
		t = messages.T(messages.Int)
	}
	if !ok || !t.Kind.IsInteger() {
		return nil, b.mismatch()
	}
	b.coerce(0, t)
	b.coerce(1, t)
	return b.result(t)
}

func integers2(fn func(a, b int64) int64) func(*compiler, *FuncCall) (kernel, error) {
	return rows(func(x *exec) error { x.putInteger(fn(x.integer(0), x.integer(1))); return nil })
}

// integer is an integer argument of any width.
func (x *exec) integer(k int) int64 {
	v := x.args[k]
	i := x.i & v.mask
	switch v.col.Type().Kind {
	case messages.TinyInt:
		return int64(v.col.Int8s()[i])
	case messages.SmallInt:
		return int64(v.col.Int16s()[i])
	case messages.Int:
		return int64(v.col.Int32s()[i])
	}
	return v.col.Int64s()[i]
}
