package expr

import (
	"math"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func roundingFunctions() []*Function {
	fs := []*Function{
		{
			Name: "round", Family: "math", Usage: "round(a[, places])", Signature: "number, int -> number",
			Doc: "a rounded to a constant number of decimal places (0), half away from zero", fails: true, safeFloat: true, bind: bindRound, make: makeRound(halfUp),
		},
		{
			Name: "bround", Family: "math", Usage: "bround(a[, places])", Signature: "number, int -> number",
			Doc: "a rounded to a constant number of decimal places (0), half to the even digit", fails: true, safeFloat: true, bind: bindRound, make: makeRound(halfEven),
		},
		{
			Name: "floor", Family: "math", Usage: "floor(a)", Signature: "number -> bigint or decimal", Doc: "the largest whole number that is not larger",
			bind: bindFloor, make: makeRound(downward),
		},
		{
			Name: "ceil", Aliases: []string{"ceiling"}, Family: "math", Usage: "ceil(a)", Signature: "number -> bigint or decimal", Doc: "the smallest whole number that is not smaller",
			bind: bindFloor, make: makeRound(upward),
		},
	}
	for _, name := range []string{"greatest", "least"} {
		sign, word := 1, "largest"
		if name == "least" {
			sign, word = -1, "smallest"
		}
		fs = append(fs, &Function{
			Name: name, Family: "math", Usage: name + "(a, b, ...)", Signature: "any, any, ... -> $0",
			Doc: "the " + word + " argument that is not NULL", lenient: true, bind: bindExtreme, make: makeExtreme(sign),
		})
	}
	return fs
}

// rounding is what happens to digits that are dropped.
type rounding uint8

const (
	halfUp rounding = iota
	halfEven
	downward
	upward
)

// bindRound fixes the type: that of the argument, a decimal with fewer places.
func bindRound(b *binding) (Node, *sql.Error) {
	if err := b.count(1, 2); err != nil {
		return nil, err
	}
	if err := b.toNumber(0); err != nil {
		return nil, err
	}
	if len(b.args) == 1 {
		b.args = append(b.args, Int(0))
	}
	b.args[1] = Fold(convert(b.args[1], messages.T(messages.Int)), Options{})
	lit, ok := b.args[1].(*Literal)
	if !ok {
		return nil, &sql.Error{Class: ClassMismatch + ".NON_FOLDABLE_INPUT", Msg: b.display() + ": the number of places must be a constant"}
	}
	t := b.typ(0)
	if t.Kind == messages.Decimal {
		places, _ := lit.Int64()
		whole := int64(t.Precision) - int64(t.Scale) + 1
		if places < 0 {
			t = boundDecimal(int(min(max(whole, -places+1), maxPrecision)), 0)
		} else {
			scale := min(int64(t.Scale), places)
			t = boundDecimal(int(whole+scale), int(scale))
		}
	}
	return b.result(t)
}

// toNumber turns a string or a bare NULL into a double.
func (b *binding) toNumber(i int) *sql.Error {
	if k := b.kind(i); k == messages.String || k == messages.Null {
		b.coerce(i, messages.T(messages.Double))
	} else if !k.IsNumeric() {
		return b.mismatch()
	}
	return nil
}

func bindFloor(b *binding) (Node, *sql.Error) {
	if len(b.args) == 2 {
		b.args[1] = Fold(convert(b.args[1], messages.T(messages.Int)), Options{})
		if _, ok := b.args[1].(*Literal); !ok {
			return nil, &sql.Error{Class: ClassMismatch + ".NON_FOLDABLE_INPUT", Msg: b.display() + ": the number of places must be a constant"}
		}
		if !b.kind(0).IsNumeric() || b.kind(0) != messages.Decimal {
			b.coerce(0, messages.DecimalType(30, 15))
		}
		return bindRound(b)
	}
	if err := b.count(1, 2); err != nil {
		return nil, err
	}
	if err := b.toNumber(0); err != nil {
		return nil, err
	}
	t := messages.T(messages.BigInt)
	if a := b.typ(0); a.Kind == messages.Decimal {
		t = boundDecimal(int(a.Precision)-int(a.Scale)+1, 0)
	}
	b.args = append(b.args, Int(0))
	return b.result(t)
}

func makeRound(how rounding) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		lit, ok := n.Args[1].(*Literal)
		if !ok {
			return nil, internalError("%s: the number of places is no constant", n.Func.Name)
		}
		p, ok := lit.Int64()
		places := int(max(min(p, 400), -400))
		if !ok {
			return func(x *exec) error { return nil }, nil // NULL places: all rows are NULL
		}
		switch t := n.Args[0].Type(); {
		case t.Kind == messages.Decimal:
			return roundDecimals(how, t, n.Of, places), nil
		case t.Kind.IsInteger():
			return roundIntegers(how, places), nil
		case n.Of.Kind == messages.BigInt:
			return floorFloats(how), nil
		case t.Kind == messages.Float:
			return perRow(func(x *exec) error {
				v := x.args[0]
				x.out.Float32s()[x.i] = float32(roundFloat(float64(v.col.Float32s()[x.i&v.mask]), 32, places, how))
				return nil
			}), nil
		}
		return perRow(func(x *exec) error { x.setFloat64(roundFloat(x.float64(0), 64, places, how)); return nil }), nil
	}
}

// roundDigits drops n digits of v: the quotient by 10^n, rounded.
func roundDigits(v dec, n int, how rounding) (dec, bool) {
	m, neg := magnitude(v)
	if n > maxPrecision {
		m, n = u128{}, 0
	}
	x := u256{m.lo, m.hi}
	rest, last := false, uint64(0) // whether digits below the last one dropped are not 0
	for ; n > 0; n-- {
		rest = rest || last != 0
		last = x.divSmall(10)
	}
	up := false
	switch how {
	case halfUp:
		up = last >= 5
	case halfEven:
		up = last > 5 || last == 5 && (rest || x[0]&1 == 1)
	case downward:
		up = neg && (rest || last != 0)
	case upward:
		up = !neg && (rest || last != 0)
	}
	if up {
		x.increment()
	}
	return x.narrow(neg)
}

func roundDecimals(how rounding, from, to messages.Type, places int) kernel {
	drop := int(from.Scale) - places
	return perRow(func(x *exec) error {
		v, ok := x.decimal(0), true
		if drop > 0 {
			v, ok = roundDigits(v, drop, how)
		}
		scale := min(places, int(from.Scale))
		if ok && scale < 0 { // digits before the point were dropped: put zeros there
			if -scale > maxPrecision {
				v = dec{}
			} else {
				v, ok = rescale(v, 0, uint8(-scale))
			}
			scale = 0
		}
		if ok {
			v, ok = rescale(v, uint8(scale), to.Scale)
		}
		if !ok || !fits(v, to.Precision) {
			return x.failWith(func() error { return outOfRange(to) })
		}
		x.setDecimal(v)
		return nil
	})
}

func roundIntegers(how rounding, places int) kernel {
	return perRow(func(x *exec) error {
		v := x.integer(0)
		if places < 0 {
			r, ok := roundDigits(decInt(v), -places, how)
			if ok {
				r, ok = rescale(r, 0, uint8(min(-places, maxPrecision)))
			}
			v = int64(r.Lo)
			bits := 8 * x.out.Type().Kind.Width()
			if !ok || !isInt64(r) || v<<(64-bits)>>(64-bits) != v {
				return x.failWith(overflow)
			}
		}
		x.putInteger(v)
		return nil
	})
}

// floorFloats cuts to the range of bigint as Java does.
func floorFloats(how rounding) kernel {
	return perRow(func(x *exec) error {
		v := x.args[0]
		var f float64
		if v.col.Type().Kind == messages.Float {
			f = float64(v.col.Float32s()[x.i&v.mask])
		} else {
			f = x.float64(0)
		}
		if how == downward {
			f = math.Floor(f)
		} else {
			f = math.Ceil(f)
		}
		x.setInt64(saturate(f, true))
		return nil
	})
}

// roundFloat rounds the decimal digits that the number prints with.
func roundFloat(f float64, bitSize, places int, how rounding) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
		return f
	}
	var buf [40]byte
	p, scale, ok := parseDecimal(appendShortest(buf[:0], f, bitSize))
	if !ok || scale <= places {
		return f
	}
	v, ok := signed(p.m, p.neg)
	if !ok {
		return f
	}
	r, _ := roundDigits(v, scale-places, how)
	if places >= 0 && places <= maxPrecision {
		return decFloat(r, uint8(places))
	}
	return decFloat(r, 0) * math.Pow10(-places)
}

func bindExtreme(b *binding) (Node, *sql.Error) { return bindCommon(2)(b) }

// makeExtreme picks the largest (sign 1) or smallest (-1) value.
func makeExtreme(sign int) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		best := func(x *exec) (vec, bool) {
			var v vec
			for _, a := range x.args {
				if a.null(x.i) {
					continue
				}
				if v.col == nil || sign*messages.Compare(a.col, x.i&a.mask, v.col, x.i&v.mask) > 0 {
					v = a
				}
			}
			return v, v.col != nil
		}
		return perRowCopy(n.Of, best), nil
	}
}

// perRowCopy is a kernel whose result is a value of some vector at the row, or NULL.
func perRowCopy(t messages.Type, from func(x *exec) (vec, bool)) kernel {
	return perRowValue(t, func(x *exec) (*messages.Column, int) {
		v, ok := from(x)
		if !ok {
			return nil, 0
		}
		return v.col, x.i & v.mask
	})
}

// perRowValue is a kernel that copies a value from anywhere; a nil column is NULL.
func perRowValue(t messages.Type, from func(x *exec) (*messages.Column, int)) kernel {
	width := t.Kind.Width()
	switch {
	case isText(t):
		return perRowText(func(x *exec) error {
			c, i := from(x)
			if x.isNull = c == nil || c.IsNull(i); !x.isNull {
				x.buf = append(x.buf, c.Bytes(i)...)
			}
			return nil
		})
	case t.Kind == messages.Boolean:
		return perRow(func(x *exec) error {
			c, i := from(x)
			if x.isNull = c == nil || c.IsNull(i); !x.isNull {
				x.setBool(c.Bool(i))
			}
			return nil
		})
	case width > 0:
		return perRow(func(x *exec) error {
			c, i := from(x)
			if x.isNull = c == nil || c.IsNull(i); !x.isNull {
				copy(x.out.FixedBytes()[x.i*width:(x.i+1)*width], c.FixedBytes()[i*width:])
			}
			return nil
		})
	}
	return perRowNested(from)
}

// perRowNested appends nested values in row order.
func perRowNested(from func(x *exec) (*messages.Column, int)) kernel {
	return func(x *exec) error {
		valid := x.out.Validity()
		var keep []byte
		if valid != nil {
			x.tmp = append(x.tmp[:0], valid...)
			keep = x.tmp
		}
		x.out.Truncate(0)
		next := 0
		selected := func(i int) bool {
			if x.f.sel == nil {
				return true
			}
			for next < len(x.f.sel) && int(x.f.sel[next]) < i {
				next++
			}
			return next < len(x.f.sel) && int(x.f.sel[next]) == i
		}
		for i := range x.f.n {
			x.i = i
			if !selected(i) || keep != nil && !messages.BitSet(keep, i) {
				x.out.AppendNull()
				continue
			}
			if c, j := from(x); c == nil {
				x.out.AppendNull()
			} else {
				x.out.AppendFrom(c, j)
			}
		}
		return nil
	}
}
