package expr

import (
	"math"

	"github.com/streamd-io/streamd/messages"
)

// castAllowed reports whether CAST from one type to another exists.
func castAllowed(from, to messages.Type) bool {
	f, t := from.Kind, to.Kind
	switch {
	case f == messages.Null, from.Equal(to):
		return true
	case t == messages.String:
		return true
	case f == messages.String:
		return t < messages.Array && t != messages.Null
	case f.IsNumeric() && t.IsNumeric():
		return true
	case f == messages.Boolean:
		return t.IsNumeric()
	case t == messages.Boolean:
		return f.IsNumeric()
	case isTime(f) && isTime(t):
		return true
	case f == messages.Timestamp:
		return t.IsNumeric()
	case t == messages.Timestamp:
		return f.IsNumeric()
	case f == messages.Array && t == messages.Array:
		return castAllowed(*from.Elem, *to.Elem)
	case f == messages.Map && t == messages.Map:
		return castAllowed(*from.Key, *to.Key) && castAllowed(*from.Elem, *to.Elem)
	case f == messages.Struct && t == messages.Struct && len(from.Fields) == len(to.Fields):
		for i := range from.Fields {
			if !castAllowed(from.Fields[i].Type, to.Fields[i].Type) {
				return false
			}
		}
		return true
	}
	return false
}

// castFails reports whether a cast can fail for some value.
func castFails(from, to messages.Type) bool {
	f, t := from.Kind, to.Kind
	switch {
	case from.Equal(to), f == messages.Null, t == messages.String, f == messages.Boolean && t != messages.Decimal, t == messages.Boolean && f != messages.String:
		return false
	case f == messages.String:
		return t != messages.Binary
	case t == messages.Float || t == messages.Double:
		return false
	case f.IsInteger() && t.IsInteger():
		return f > t
	case f == messages.Date:
		return false
	case f.IsInteger() && t == messages.Decimal:
		d := integerDecimal(f)
		return d.Precision > to.Precision-to.Scale
	case f == messages.Decimal && t == messages.Decimal:
		return from.Precision-from.Scale >= to.Precision-to.Scale && (from.Scale > to.Scale || from.Precision-from.Scale > to.Precision-to.Scale)
	}
	return true
}

func (c *compiler) cast(n *Cast) (program, error) {
	from := n.X.Type()
	x, err := c.compile(n.X)
	if err != nil {
		return nil, err
	}
	if from.Equal(n.To) {
		return x, nil
	}
	if from.Kind == messages.Null {
		return nullConst(n.To), nil
	}
	k, err := c.castKernel(from, n.To)
	if err != nil {
		return nil, err
	}
	p := c.kernelCall([]program{x}, n.To, k, nil)
	if n.Try {
		p.x.mode = toNull
	}
	return c.settle(n, p), nil
}

func (c *compiler) castKernel(from, to messages.Type) (kernel, error) {
	if !castAllowed(from, to) {
		return nil, internalError("no cast from %s to %s", from, to)
	}
	switch {
	case to.Kind == messages.String:
		return castToText(from), nil
	case from.Kind == messages.String:
		return castFromText(to), nil
	case from.Kind == messages.Boolean:
		return castFromBool(to), nil
	case to.Kind == messages.Boolean:
		return castToBool(from)
	case from.Kind == messages.Decimal:
		return castFromDecimal(from, to), nil
	case isTime(from.Kind) && isTime(to.Kind):
		return castTime(from.Kind, to.Kind), nil
	case from.Kind == messages.Timestamp:
		return castFromTimestamp(to), nil
	}
	switch from.Kind {
	case messages.TinyInt:
		return castInts[int8](from, to), nil
	case messages.SmallInt:
		return castInts[int16](from, to), nil
	case messages.Int:
		return castInts[int32](from, to), nil
	case messages.BigInt:
		return castInts[int64](from, to), nil
	case messages.Float:
		return castFloats[float32](to, 32), nil
	case messages.Double:
		return castFloats[float64](to, 64), nil
	}
	return c.castNested(from, to)
}

func castOverflow(to messages.Type) error {
	return rowError("CAST_OVERFLOW", "value does not fit into %s: cast overflow; use try_cast to get NULL", to)
}

func castInvalid(value []byte, to messages.Type) error {
	if len(value) > 100 {
		value = append(append([]byte{}, value[:100]...), "..."...)
	}
	return rowError("CAST_INVALID_INPUT", "cannot cast the string %q to %s; use try_cast to get NULL", value, to)
}

// castInts converts from an integer type.
func castInts[A integer](from, to messages.Type) kernel {
	switch to.Kind {
	case messages.TinyInt:
		return intToInt[A, int8](to)
	case messages.SmallInt:
		return intToInt[A, int16](to)
	case messages.Int:
		return intToInt[A, int32](to)
	case messages.BigInt:
		return intToInt[A, int64](to)
	case messages.Float:
		return intToFloat[A, float32]
	case messages.Double:
		return intToFloat[A, float64]
	case messages.Decimal:
		return intToDecimal[A](from, to)
	}
	// A number of seconds becomes a timestamp.
	return func(x *exec) error {
		v := x.args[0]
		a := values[A](v.col)
		return x.each(func(x *exec) error {
			m, ok := mulInt64(int64(a[x.i&v.mask]), microsPerSecond)
			if !ok {
				return x.failWith(func() error { return castOverflow(to) })
			}
			x.setInt64(m)
			return nil
		})
	}
}

func intToInt[A, B integer](to messages.Type) kernel {
	return func(x *exec) error {
		v := x.args[0]
		a, dst := values[A](v.col), values[B](x.out)
		var lost int64
		for i := range dst {
			w := a[i&v.mask]
			r := B(w)
			lost |= int64(w) ^ int64(r)
			dst[i] = r
		}
		if lost == 0 || x.mode == legacy {
			return nil
		}
		return x.recheck(func(i int) bool { w := a[i&v.mask]; return int64(B(w)) != int64(w) }, func() error { return castOverflow(to) })
	}
}

func intToFloat[A integer, B float32 | float64](x *exec) error {
	v := x.args[0]
	a, dst := values[A](v.col), values[B](x.out)
	if v.mask != 0 {
		for i, w := range a[:len(dst)] {
			dst[i] = B(w)
		}
		return nil
	}
	for i := range dst {
		dst[i] = B(a[0])
	}
	return nil
}

func intToDecimal[A integer](from, to messages.Type) kernel {
	if !castFails(from, to) && to.Scale <= 18 {
		return scaleUp[A](to)
	}
	return func(x *exec) error {
		v := x.args[0]
		a := values[A](v.col)
		return x.each(func(x *exec) error {
			return x.putDecimal(decInt(int64(a[x.i&v.mask])), 0, to)
		})
	}
}

// putDecimal sets the row in work to a value of another scale.
func (x *exec) putDecimal(v dec, scale uint8, to messages.Type) error {
	r, ok := rescale(v, scale, to.Scale)
	if !ok || !fits(r, to.Precision) {
		return x.failWith(func() error { return outOfRange(to) })
	}
	x.setDecimal(r)
	return nil
}

// castFloats converts from a floating-point type.
func castFloats[A float32 | float64](to messages.Type, bitSize int) kernel {
	switch to.Kind {
	case messages.TinyInt:
		return floatToInt[A, int8](to, math.MinInt8, -math.MinInt8)
	case messages.SmallInt:
		return floatToInt[A, int16](to, math.MinInt16, -math.MinInt16)
	case messages.Int:
		return floatToInt[A, int32](to, math.MinInt32, -math.MinInt32)
	case messages.BigInt:
		return floatToInt[A, int64](to, math.MinInt64, -math.MinInt64)
	case messages.Float:
		return floatToFloat[A, float32]
	case messages.Double:
		return floatToFloat[A, float64]
	}
	return func(x *exec) error {
		v := x.args[0]
		a := values[A](v.col)
		return x.each(func(x *exec) error {
			f := float64(a[x.i&v.mask])
			if to.Kind == messages.Timestamp {
				return x.putSeconds(f, to)
			}
			d, ok := floatDec(f, bitSize, to)
			if !ok {
				return x.failWith(func() error { return outOfRange(to) })
			}
			x.setDecimal(d)
			return nil
		})
	}
}

// putSeconds sets the row in work to a timestamp.
func (x *exec) putSeconds(f float64, to messages.Type) error {
	m := math.Trunc(f * microsPerSecond)
	if !(m >= math.MinInt64 && m < -math.MinInt64) {
		return x.failWith(func() error { return castOverflow(to) })
	}
	x.setInt64(int64(m))
	return nil
}

// floatToInt drops the fraction. Outside ANSI mode values are cut as Java does: to
// the range of int or bigint, and further to the low bits.
func floatToInt[A float32 | float64, B integer](to messages.Type, low, high float64) kernel {
	return func(x *exec) error {
		v := x.args[0]
		a, dst := values[A](v.col), values[B](x.out)
		return x.each(func(x *exec) error {
			f := math.Trunc(float64(a[x.i&v.mask]))
			switch {
			case f >= low && f < high:
				dst[x.i] = B(f)
			case x.mode != legacy:
				return x.failWith(func() error { return castOverflow(to) })
			default:
				dst[x.i] = B(saturate(f, to.Kind == messages.BigInt))
			}
			return nil
		})
	}
}

func saturate(f float64, wide bool) int64 {
	low, high := int64(math.MinInt32), int64(math.MaxInt32)
	if wide {
		low, high = math.MinInt64, math.MaxInt64
	}
	switch {
	case f != f:
		return 0
	case f <= float64(low):
		return low
	case f >= float64(high):
		return high
	}
	return int64(f)
}

func floatToFloat[A, B float32 | float64](x *exec) error {
	v := x.args[0]
	a, dst := values[A](v.col), values[B](x.out)
	for i := range dst {
		dst[i] = B(a[i&v.mask])
	}
	return nil
}

// castFromDecimal converts to another decimal type, a number or a timestamp.
func castFromDecimal(from, to messages.Type) kernel {
	scale := from.Scale
	switch to.Kind {
	case messages.Decimal:
		return perRow(func(x *exec) error { return x.putDecimal(x.decimal(0), scale, to) })
	case messages.Float:
		return perRow(func(x *exec) error { x.out.Float32s()[x.i] = float32(decFloat(x.decimal(0), scale)); return nil })
	case messages.Double:
		return perRow(func(x *exec) error { x.setFloat64(decFloat(x.decimal(0), scale)); return nil })
	case messages.Timestamp:
		return perRow(func(x *exec) error {
			v, ok := rescaleDown(x.decimal(0), scale, 6)
			if !ok || !isInt64(v) {
				return x.failWith(func() error { return castOverflow(to) })
			}
			x.setInt64(int64(v.Lo))
			return nil
		})
	}
	bits := 8 * to.Kind.Width()
	return perRow(func(x *exec) error {
		v, _ := rescaleDown(x.decimal(0), scale, 0)
		n := int64(v.Lo)
		shifted := n << (64 - bits) >> (64 - bits)
		if (!isInt64(v) || shifted != n) && x.mode != legacy {
			return x.failWith(func() error { return castOverflow(to) })
		}
		x.putInteger(shifted)
		return nil
	})
}

// rescaleDown is rescale that drops digits without rounding.
func rescaleDown(v dec, from, to uint8) (dec, bool) {
	if to >= from {
		return rescale(v, from, to)
	}
	m, neg := magnitude(v)
	x := u256{m.lo, m.hi}
	for n := int(from - to); n > 0; n -= 19 {
		x.divSmall(pow10s[min(n, 19)].lo)
	}
	return x.narrow(neg)
}

// putInteger sets the row in work of an integer result of any width.
func (x *exec) putInteger(v int64) {
	switch x.out.Type().Kind {
	case messages.TinyInt:
		x.out.Int8s()[x.i] = int8(v)
	case messages.SmallInt:
		x.out.Int16s()[x.i] = int16(v)
	case messages.Int:
		x.out.Int32s()[x.i] = int32(v)
	default:
		x.out.Int64s()[x.i] = v
	}
}

func castFromBool(to messages.Type) kernel {
	return perRow(func(x *exec) error {
		v := bit(x.boolean(0))
		switch to.Kind {
		case messages.Float:
			x.out.Float32s()[x.i] = float32(v)
		case messages.Double:
			x.setFloat64(float64(v))
		case messages.Decimal:
			return x.putDecimal(decInt(int64(v)), 0, to)
		default:
			x.putInteger(int64(v))
		}
		return nil
	})
}

// castToBool is whether a number is not zero.
func castToBool(from messages.Type) (kernel, error) {
	zero := &messages.Column{}
	zero.Reset(from)
	zero.Resize(1)
	clear(zero.FixedBytes())
	op := compareKernel(comparison{equal, true}, from)
	return func(x *exec) error {
		saved := x.args
		x.args = append(x.args[:1:1], vec{zero, 0})
		err := op(x)
		x.args = saved
		return err
	}, nil
}
