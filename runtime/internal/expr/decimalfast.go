package expr

import (
	"math/bits"

	"github.com/streamd-io/streamd/messages"
)

// Most decimals in practice fit into 64 bits. The functions here compute a whole
// column of such values, of all rows, and report false when a value is larger; the
// caller then goes row by row.

// mulSigned is the 128-bit product of two 64-bit integers.
func mulSigned(a, b int64) dec {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return dec{Lo: lo, Hi: int64(hi) - a>>63&b - b>>63&a}
}

// exactDecimal reports whether op on decimals needs neither rounding nor a check of
// the range.
func exactDecimal(op byte, lt, rt, t messages.Type) bool {
	switch op {
	case '*':
		return t.Scale == lt.Scale+rt.Scale && int(lt.Precision)+int(rt.Precision) < maxPrecision
	case '+', '-':
		scale := max(lt.Scale, rt.Scale)
		whole := max(lt.Precision-lt.Scale, rt.Precision-rt.Scale)
		return t.Scale == scale && int(whole)+int(scale) < maxPrecision && scale-min(lt.Scale, rt.Scale) <= 18
	}
	return false
}

func mulDecimals(x *exec) bool {
	l, r := x.args[0], x.args[1]
	a, b, dst := l.col.Decimals(), r.col.Decimals(), x.out.Decimals()
	small := true
	for i := range dst {
		v, w := a[i&l.mask], b[i&r.mask]
		small = small && isInt64(v) && isInt64(w)
		dst[i] = mulSigned(int64(v.Lo), int64(w.Lo))
	}
	return small
}

// addDecimals multiplies the operands by powers of ten that bring them to one scale.
func addDecimals(x *exec, s scales, minus bool) bool {
	l, r := x.args[0], x.args[1]
	a, b, dst := l.col.Decimals(), r.col.Decimals(), x.out.Decimals()
	fa, fb := int64(pow10s[s.r-s.a].lo), int64(pow10s[s.r-s.b].lo)
	if minus {
		fb = -fb
	}
	small := true
	for i := range dst {
		v, w := a[i&l.mask], b[i&r.mask]
		small = small && isInt64(v) && isInt64(w)
		p, q := mulSigned(int64(v.Lo), fa), mulSigned(int64(w.Lo), fb)
		lo, carry := bits.Add64(p.Lo, q.Lo, 0)
		hi, _ := bits.Add64(uint64(p.Hi), uint64(q.Hi), carry)
		dst[i] = dec{Lo: lo, Hi: int64(hi)}
	}
	return small
}

// exactKernel is fast for columns of small values, where nothing can fail.
func exactKernel(op byte, s scales, slow kernel) kernel {
	return func(x *exec) error {
		small := false
		if op == '*' {
			small = mulDecimals(x)
		} else {
			small = addDecimals(x, s, op == '-')
		}
		if small {
			return nil
		}
		return slow(x)
	}
}

// scaleUp converts integers to a decimal type that holds them all.
func scaleUp[A integer](to messages.Type) kernel {
	f := int64(pow10s[to.Scale].lo)
	return func(x *exec) error {
		v := x.args[0]
		a, dst := values[A](v.col), x.out.Decimals()
		for i := range dst {
			dst[i] = mulSigned(int64(a[i&v.mask]), f)
		}
		return nil
	}
}
