package aggregate

import (
	"math/bits"

	"github.com/streamd-io/streamd/messages"
)

// maxPrecision is the number of digits a decimal can have.
const maxPrecision = 38

// addDecimal adds two 128-bit integers; ok is false on overflow.
func addDecimal(a, b messages.Decimal128) (sum messages.Decimal128, ok bool) {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(uint64(a.Hi), uint64(b.Hi), carry)
	sum = messages.Decimal128{Lo: lo, Hi: int64(hi)}
	return sum, (a.Hi < 0) != (b.Hi < 0) || (a.Hi < 0) == (sum.Hi < 0)
}

// magnitude returns the absolute value.
func magnitude(d messages.Decimal128) (hi, lo uint64, negative bool) {
	hi, lo = uint64(d.Hi), d.Lo
	if d.Hi < 0 {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
		negative = true
	}
	return hi, lo, negative
}

// powerOfTen returns 10^n for n <= 38.
func powerOfTen(n int) (hi, lo uint64) {
	lo = 1
	for range n {
		h, l := bits.Mul64(lo, 10)
		hi, lo = hi*10+h, l
	}
	return hi, lo
}

// fitsDigits reports whether the value has at most n digits.
func fitsDigits(d messages.Decimal128, n int) bool {
	hi, lo, _ := magnitude(d)
	limitHi, limitLo := powerOfTen(n)
	return hi < limitHi || hi == limitHi && lo < limitLo
}

// divideDecimal returns d*10^shift/n, rounded half away from zero; n > 0,
// shift <= 18. ok is false when the quotient does not fit 127 bits.
func divideDecimal(d messages.Decimal128, shift int, n uint64) (q messages.Decimal128, ok bool) {
	hi, lo, negative := magnitude(d)
	_, factor := powerOfTen(shift)
	// The product has three words: w2, w1, w0.
	h0, w0 := bits.Mul64(lo, factor)
	h1, l1 := bits.Mul64(hi, factor)
	w1, carry := bits.Add64(l1, h0, 0)
	w2 := h1 + carry
	q2, r := bits.Div64(0, w2, n)
	q1, r := bits.Div64(r, w1, n)
	q0, r := bits.Div64(r, w0, n)
	if r >= n-r { // 2r >= n without overflow
		var c uint64
		q0, c = bits.Add64(q0, 1, 0)
		q1, c = bits.Add64(q1, 0, c)
		q2 += c
	}
	if q2 != 0 || int64(q1) < 0 {
		return messages.Decimal128{}, false
	}
	if negative {
		var borrow uint64
		q0, borrow = bits.Sub64(0, q0, 0)
		q1, _ = bits.Sub64(0, q1, borrow)
	}
	return messages.Decimal128{Lo: q0, Hi: int64(q1)}, true
}

// decimalAt reads a decimal kept in two slots.
func decimalAt(slots []uint64) messages.Decimal128 {
	return messages.Decimal128{Lo: slots[0], Hi: int64(slots[1])}
}

func putDecimal(slots []uint64, d messages.Decimal128) { slots[0], slots[1] = d.Lo, uint64(d.Hi) }
