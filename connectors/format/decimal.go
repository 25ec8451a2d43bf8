package format

import (
	"math/bits"

	"github.com/streamd-io/streamd/messages"
)

// maxExponent bounds the exponent of a number; more cannot fit in 38 digits.
const maxExponent = 1_000_000

// ParseDecimal reads a decimal number (sign, digits, fraction, exponent) as an
// unscaled value of decimal(precision, scale). Digits beyond the scale are
// rounded half up, as SQL's cast does; ok is false when the text is no number or
// has too many digits before the point. It does not allocate.
func ParseDecimal(s []byte, precision, scale uint8) (v messages.Decimal128, ok bool) {
	n, ok := scanNumber(s)
	if !ok {
		return v, false
	}
	// keep is how many of the digits, counted from the first that is not 0,
	// stand before the last place of the result.
	digits, keep := n.digits, n.point+n.exp+int(scale)
	for len(digits) > 0 && (digits[0] == '0' || digits[0] == '.') {
		if digits[0] == '0' {
			keep--
		}
		digits = digits[1:]
	}
	if len(digits) == 0 || keep < 0 {
		return v, true // zero, or less than half of the last place
	}
	if keep > int(precision) {
		return v, false
	}
	var hi, lo uint64
	up, taken := false, 0
	for _, c := range digits {
		if c == '.' {
			continue
		}
		if taken == keep {
			up = c >= '5'
			break
		}
		hi, lo = mulAdd(hi, lo, uint64(c-'0'))
		taken++
	}
	for ; taken < keep; taken++ {
		hi, lo = mulAdd(hi, lo, 0)
	}
	if up {
		var carry uint64
		lo, carry = bits.Add64(lo, 1, 0)
		hi += carry
	}
	if !fits(hi, lo, precision) {
		return v, false
	}
	if n.negative {
		hi, lo = negate(hi, lo)
	}
	return messages.Decimal128{Hi: int64(hi), Lo: lo}, true
}

type number struct {
	negative bool
	digits   []byte // digits with at most one point
	point    int    // digits before the point
	exp      int
}

func scanNumber(s []byte) (n number, ok bool) {
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		n.negative = s[0] == '-'
		s = s[1:]
	}
	i, count, point := 0, 0, -1
	for ; i < len(s); i++ {
		if s[i] == '.' && point < 0 {
			point = count
		} else if s[i] >= '0' && s[i] <= '9' {
			count++
		} else {
			break
		}
	}
	if count == 0 {
		return n, false
	}
	if point < 0 {
		point = count
	}
	n.digits, n.point = s[:i], point
	if i == len(s) {
		return n, true
	}
	if s[i] != 'e' && s[i] != 'E' {
		return n, false
	}
	n.exp, ok = scanExponent(s[i+1:])
	return n, ok
}

func scanExponent(s []byte) (int, bool) {
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	exp := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		exp = min(exp*10+int(c-'0'), maxExponent)
	}
	if negative {
		exp = -exp
	}
	return exp, len(s) > 0
}

// mulAdd returns (hi, lo)*10 + d; the caller keeps it below 10^39.
func mulAdd(hi, lo, d uint64) (uint64, uint64) {
	over, low := bits.Mul64(lo, 10)
	low, carry := bits.Add64(low, d, 0)
	return hi*10 + over + carry, low
}

func negate(hi, lo uint64) (uint64, uint64) {
	lo, borrow := bits.Sub64(0, lo, 0)
	hi, _ = bits.Sub64(0, hi, borrow)
	return hi, lo
}

// fits reports whether the magnitude is below 10^precision.
func fits(hi, lo uint64, precision uint8) bool {
	var limitHi uint64
	limitLo := uint64(1)
	for range precision {
		limitHi, limitLo = mulAdd(limitHi, limitLo, 0)
	}
	return hi < limitHi || hi == limitHi && lo < limitLo
}

// AppendDecimal appends an unscaled value with the point where scale puts it,
// for instance -12.50. It does not allocate beyond dst.
func AppendDecimal(dst []byte, v messages.Decimal128, scale uint8) []byte {
	hi, lo := uint64(v.Hi), v.Lo
	if v.Hi < 0 {
		dst = append(dst, '-')
		hi, lo = negate(hi, lo)
	}
	var buf [64]byte
	i := len(buf)
	for n := 0; hi != 0 || lo != 0 || n <= int(scale); n++ {
		if n == int(scale) && scale > 0 {
			i--
			buf[i] = '.'
		}
		var rem uint64
		hi, lo, rem = divTen(hi, lo)
		i--
		buf[i] = byte('0' + rem)
	}
	return append(dst, buf[i:]...)
}

func divTen(hi, lo uint64) (qhi, qlo, rem uint64) {
	if hi == 0 {
		return 0, lo / 10, lo % 10
	}
	qhi, rem = hi/10, hi%10
	qlo, rem = bits.Div64(rem, lo, 10)
	return qhi, qlo, rem
}
