package expr

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/streamd-io/streamd/messages"
)

// dec is an unscaled decimal value; its scale is in the type beside it.
type dec = messages.Decimal128

// maxPrecision is the largest number of decimal digits.
const maxPrecision = 38

// u128 is an unsigned magnitude.
type u128 struct{ hi, lo uint64 }

// u256 is an unsigned product, least significant word first.
type u256 [4]uint64

// pow10s holds 10^0 to 10^38.
var pow10s = makePow10s()

func makePow10s() [maxPrecision + 1]u128 {
	var t [maxPrecision + 1]u128
	t[0] = u128{0, 1}
	for i := 1; i <= maxPrecision; i++ {
		hi, lo := bits.Mul64(t[i-1].lo, 10)
		t[i] = u128{t[i-1].hi*10 + hi, lo}
	}
	return t
}

func decInt(v int64) dec { return dec{Lo: uint64(v), Hi: v >> 63} }

// isInt64 reports whether v fits into an int64.
func isInt64(v dec) bool { return v.Hi == int64(v.Lo)>>63 }

func decNeg(v dec) dec {
	lo, borrow := bits.Sub64(0, v.Lo, 0)
	hi, _ := bits.Sub64(0, uint64(v.Hi), borrow)
	return dec{Lo: lo, Hi: int64(hi)}
}

func decSign(v dec) int {
	switch {
	case v.Hi < 0:
		return -1
	case v.Hi == 0 && v.Lo == 0:
		return 0
	}
	return 1
}

// magnitude returns |v| and whether v is negative.
func magnitude(v dec) (u128, bool) {
	if v.Hi < 0 {
		n := decNeg(v)
		return u128{uint64(n.Hi), n.Lo}, true
	}
	return u128{uint64(v.Hi), v.Lo}, false
}

// signed is the inverse of magnitude; ok is false when m has more than 38 digits.
func signed(m u128, neg bool) (dec, bool) {
	if !m.less(pow10s[maxPrecision]) {
		return dec{}, false
	}
	v := dec{Lo: m.lo, Hi: int64(m.hi)}
	if neg {
		v = decNeg(v)
	}
	return v, true
}

func (m u128) less(o u128) bool { return m.hi < o.hi || m.hi == o.hi && m.lo < o.lo }

// fits reports whether v has at most precision digits.
func fits(v dec, precision uint8) bool {
	m, _ := magnitude(v)
	return m.less(pow10s[precision])
}

// digits returns the number of decimal digits of v, at least 1.
func digits(v dec) int {
	m, _ := magnitude(v)
	for n := 1; n < len(pow10s); n++ {
		if m.less(pow10s[n]) {
			return n
		}
	}
	return maxPrecision + 1
}

func mulWide(a, b u128) u256 {
	var r u256
	h0, l0 := bits.Mul64(a.lo, b.lo)
	h1, l1 := bits.Mul64(a.lo, b.hi)
	h2, l2 := bits.Mul64(a.hi, b.lo)
	h3, l3 := bits.Mul64(a.hi, b.hi)
	r[0] = l0
	var c1, c2, c uint64
	r[1], c1 = bits.Add64(h0, l1, 0)
	r[1], c2 = bits.Add64(r[1], l2, 0)
	r[2], c = bits.Add64(h1, h2, c1)
	r[3] = h3 + c
	r[2], c = bits.Add64(r[2], l3, c2)
	r[3] += c
	return r
}

// divSmall divides x by d in place and returns the remainder.
func (x *u256) divSmall(d uint64) uint64 {
	var rem uint64
	for i := 3; i >= 0; i-- {
		x[i], rem = bits.Div64(rem, x[i], d)
	}
	return rem
}

func (x *u256) increment() {
	var c uint64 = 1
	for i := range x {
		x[i], c = bits.Add64(x[i], 0, c)
	}
}

// dropDigits divides x by 10^n, rounding half away from zero.
func (x *u256) dropDigits(n int) {
	if n <= 0 {
		return
	}
	for n--; n > 0; {
		step := min(n, 19)
		x.divSmall(pow10s[step].lo)
		n -= step
	}
	if x.divSmall(10) >= 5 {
		x.increment()
	}
}

// narrow returns x as a signed decimal; ok is false when it has too many digits.
func (x *u256) narrow(neg bool) (dec, bool) {
	if x[3]|x[2] != 0 {
		return dec{}, false
	}
	return signed(u128{x[1], x[0]}, neg)
}

// rescale moves v from one scale to another, rounding half away from zero.
func rescale(v dec, from, to uint8) (dec, bool) {
	if from == to {
		return v, true
	}
	m, neg := magnitude(v)
	if to > from {
		x := mulWide(m, pow10s[to-from])
		return x.narrow(neg)
	}
	x := u256{m.lo, m.hi}
	x.dropDigits(int(from - to))
	return x.narrow(neg)
}

// decAdd adds or subtracts.
func decAdd(a, b dec, s scales, minus bool) (dec, bool) {
	if minus {
		b = decNeg(b)
	}
	wide := max(s.a, s.b)
	x, ok1 := rescale(a, s.a, wide)
	y, ok2 := rescale(b, s.b, wide)
	if !ok1 || !ok2 {
		return bigDecimal(a, b, s, func(x, y *big.Int) *big.Int { return x.Add(x, y) })
	}
	lo, carry := bits.Add64(x.Lo, y.Lo, 0)
	hi, _ := bits.Add64(uint64(x.Hi), uint64(y.Hi), carry)
	// Two values below 10^38 sum to less than 2^127, so the sign is right.
	return rescale(dec{Lo: lo, Hi: int64(hi)}, wide, s.r)
}

// scales are those of two operands and a result.
type scales struct{ a, b, r uint8 }

func decMul(a, b dec, s scales) (dec, bool) {
	ma, na := magnitude(a)
	mb, nb := magnitude(b)
	x := mulWide(ma, mb)
	x.dropDigits(int(s.a) + int(s.b) - int(s.r))
	return x.narrow(na != nb)
}

// decDiv divides; b is not zero.
func decDiv(a, b dec, s scales) (dec, bool) {
	ma, na := magnitude(a)
	mb, nb := magnitude(b)
	shift := int(s.r) - int(s.a) + int(s.b)
	if shift < 0 || shift > maxPrecision || mb.hi != 0 {
		return decDivBig(a, b, shift)
	}
	x := mulWide(ma, pow10s[shift])
	rem := x.divSmall(mb.lo)
	if rem >= mb.lo-rem {
		x.increment()
	}
	return x.narrow(na != nb)
}

func decDivBig(a, b dec, shift int) (dec, bool) {
	x, y := toBig(a), toBig(b)
	p := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		x.Mul(x, p)
	} else {
		y.Mul(y, p)
	}
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	if r.Abs(r).Lsh(r, 1).CmpAbs(y) >= 0 {
		q.Add(q, big.NewInt(int64(x.Sign()*y.Sign())))
	}
	return fromBig(q)
}

// decRem is a % b at the larger of both scales; b is not zero.
func decRem(a, b dec, s scales) (dec, bool) {
	wide := max(s.a, s.b)
	x, ok1 := rescale(a, s.a, wide)
	y, ok2 := rescale(b, s.b, wide)
	if !ok1 || !ok2 || !isInt64(x) || !isInt64(y) {
		return bigDecimal(a, b, s, func(x, y *big.Int) *big.Int { return x.Rem(x, y) })
	}
	if int64(y.Lo) == -1 {
		return dec{}, true
	}
	return rescale(decInt(int64(x.Lo)%int64(y.Lo)), wide, s.r)
}

// bigDecimal applies f to both values at their larger scale, for the rare values
// that do not fit 128 bits there.
func bigDecimal(a, b dec, s scales, f func(x, y *big.Int) *big.Int) (dec, bool) {
	wide := max(s.a, s.b)
	x := f(scaleBig(toBig(a), int(wide-s.a)), scaleBig(toBig(b), int(wide-s.b)))
	if wide > s.r {
		p := scaleBig(big.NewInt(1), int(wide-s.r))
		q, r := new(big.Int).QuoRem(x, p, new(big.Int))
		if r.Abs(r).Lsh(r, 1).CmpAbs(p) >= 0 {
			q.Add(q, big.NewInt(int64(x.Sign())))
		}
		x = q
	}
	return fromBig(x)
}

func scaleBig(x *big.Int, n int) *big.Int {
	return x.Mul(x, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
}

func toBig(v dec) *big.Int {
	m, neg := magnitude(v)
	x := new(big.Int).SetUint64(m.hi)
	x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(m.lo))
	if neg {
		x.Neg(x)
	}
	return x
}

func fromBig(x *big.Int) (dec, bool) {
	if x.BitLen() > 127 {
		return dec{}, false
	}
	var buf [16]byte
	new(big.Int).Abs(x).FillBytes(buf[:])
	m := u128{}
	for _, b := range buf[:8] {
		m.hi = m.hi<<8 | uint64(b)
	}
	for _, b := range buf[8:] {
		m.lo = m.lo<<8 | uint64(b)
	}
	return signed(m, x.Sign() < 0)
}

// decFloat returns the nearest double, correctly rounded up to 53 bits of value
// and within one unit in the last place beyond.
func decFloat(v dec, scale uint8) float64 {
	if isInt64(v) {
		if n := int64(v.Lo); n > -1<<53 && n < 1<<53 && scale <= 22 {
			return float64(n) / math.Pow10(int(scale))
		}
	}
	f, _ := new(big.Rat).SetFrac(toBig(v), scaleBig(big.NewInt(1), int(scale))).Float64()
	return f
}

// floatDec converts the shortest decimal text of f, as Java's BigDecimal.valueOf
// does, rounding half away from zero.
func floatDec(f float64, bitSize int, t messages.Type) (dec, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dec{}, false
	}
	var buf [32]byte
	v, scale, ok := parseDecimal(appendShortest(buf[:0], f, bitSize))
	if !ok {
		return dec{}, false
	}
	return v.at(scale, t)
}

// appendDecimal writes v with all digits of its scale.
func appendDecimal(dst []byte, v dec, scale uint8) []byte {
	m, neg := magnitude(v)
	if neg {
		dst = append(dst, '-')
	}
	var buf [maxPrecision + 2]byte
	i := len(buf)
	x := u256{m.lo, m.hi}
	for n := 0; n <= int(scale) || x[0]|x[1] != 0; n++ {
		if n == int(scale) && scale > 0 {
			i--
			buf[i] = '.'
		}
		i--
		buf[i] = byte('0' + x.divSmall(10))
	}
	return append(dst, buf[i:]...)
}
