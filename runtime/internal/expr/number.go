package expr

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"

	"github.com/streamd-io/streamd/messages"
)

// parsed is the value of a decimal text of any length: its first digits and how
// many places they are short.
type parsed struct {
	m   u128
	neg bool
}

// at returns the value at the scale of t; scale is what parseDecimal returned. It
// is false when the value has more digits than t holds.
func (p parsed) at(scale int, t messages.Type) (dec, bool) {
	shift := int(t.Scale) - scale
	var x u256
	switch {
	case p.m == u128{}:
		return dec{}, true
	case shift > maxPrecision:
		return dec{}, false
	case shift >= 0:
		x = mulWide(p.m, pow10s[shift])
	case -shift > maxPrecision+1:
		return dec{}, true
	default:
		x = u256{p.m.lo, p.m.hi}
		x.dropDigits(-shift)
	}
	v, ok := x.narrow(p.neg)
	return v, ok && fits(v, t.Precision)
}

// parseDecimal reads [sign] digits [. digits] [e exponent]. Digits beyond what 128
// bits hold are dropped: they are beyond any scale or make the value too large.
func parseDecimal(s []byte) (p parsed, scale int, ok bool) {
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		p.neg = s[i] == '-'
		i++
	}
	seen, point, used := false, false, 0
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		seen = true
		if used < maxPrecision {
			x := mulWide(p.m, u128{0, 10})
			lo, carry := addSmall(x[0], uint64(c-'0'))
			p.m = u128{x[1] + carry, lo}
			if p.m != (u128{}) {
				used++
			}
			if point {
				scale++
			}
		} else if !point {
			scale--
		}
	}
	if !seen {
		return p, 0, false
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		e, err := strconv.ParseInt(view(s[i+1:]), 10, 32)
		if err != nil || s[len(s)-1] == '_' {
			return p, 0, false
		}
		return p, scale - int(e), true
	}
	return p, scale, i == len(s)
}

func addSmall(a, b uint64) (sum, carry uint64) {
	sum = a + b
	if sum < a {
		carry = 1
	}
	return sum, carry
}

// view is a string over b; it must not outlive b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// raw is the bytes of s; they must not be written.
func raw(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// trimAll drops white space and control characters at both ends, as casts do.
func trimAll(s []byte) []byte {
	for len(s) > 0 && (s[0] <= ' ' || s[0] == 0x7f) {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] <= ' ' || s[len(s)-1] == 0x7f) {
		s = s[:len(s)-1]
	}
	return s
}

// parseInt reads a whole number. With truncate, digits behind a point are checked
// and dropped, as casts outside ANSI mode do.
func parseInt(s []byte, truncate bool) (int64, bool) {
	s = trimAll(s)
	i, neg := 0, false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		i++
	}
	if i == len(s) {
		return 0, false
	}
	v := int64(0) // kept negative: the range is larger there
	digit := false
	for ; i < len(s) && s[i] != '.'; i++ {
		d := int64(s[i]) - '0'
		if d < 0 || d > 9 || v < math.MinInt64/10 {
			return 0, false
		}
		v *= 10
		if v < math.MinInt64+d {
			return 0, false
		}
		v -= d
		digit = true
	}
	if i < len(s) {
		if !truncate {
			return 0, false
		}
		for _, c := range s[i+1:] {
			if c < '0' || c > '9' {
				return 0, false
			}
			digit = true
		}
	}
	if !neg {
		if v == math.MinInt64 {
			return 0, false
		}
		v = -v
	}
	return v, digit
}

// parseFloat reads what Java's Double.parseDouble reads in decimal notation, plus
// inf, infinity and nan in any letter case.
func parseFloat(s []byte, bitSize int) (float64, bool) {
	s = trimAll(s)
	if len(s) == 0 {
		return 0, false
	}
	for i, c := range s {
		if (c < '0' || c > '9') && c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-' {
			suffix := i > 0 && i == len(s)-1 && (c|0x20 == 'd' || c|0x20 == 'f') && s[i-1] <= '9'
			if !suffix {
				return parseSpecial(s)
			}
			s = s[:i]
		}
	}
	f, err := strconv.ParseFloat(view(s), bitSize)
	return f, err == nil || math.IsInf(f, 0)
}

func parseSpecial(s []byte) (float64, bool) {
	sign := 1
	if s[0] == '+' || s[0] == '-' {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	switch {
	case bytes.EqualFold(s, []byte("inf")) || bytes.EqualFold(s, []byte("infinity")):
		return math.Inf(sign), true
	case bytes.EqualFold(s, []byte("nan")):
		return math.NaN(), true
	}
	return 0, false
}

// appendShortest writes the shortest decimal text that reads back as f.
func appendShortest(dst []byte, f float64, bitSize int) []byte {
	return strconv.AppendFloat(dst, f, 'e', -1, bitSize)
}

// appendFloat writes f as Java does: 1.0, 1.0E10, NaN, Infinity.
func appendFloat(dst []byte, f float64, bitSize int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	if a := math.Abs(f); a == 0 || a >= 1e-3 && a < 1e7 {
		start := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bitSize)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	var buf [32]byte
	t := appendShortest(buf[:0], f, bitSize)
	e := bytes.IndexByte(t, 'e')
	dst = append(dst, t[:e]...)
	if bytes.IndexByte(t[:e], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	dst = append(dst, 'E')
	exp := t[e+1:]
	if exp[0] == '-' {
		dst = append(dst, '-')
	}
	exp = bytes.TrimLeft(exp[1:], "0")
	return append(dst, exp...)
}

// parseBool reads the words Spark takes for booleans.
func parseBool(s []byte) (value, ok bool) {
	s = trimAll(s)
	var buf [5]byte
	if len(s) == 0 || len(s) > len(buf) {
		return false, false
	}
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	switch string(buf[:len(s)]) {
	case "t", "true", "y", "yes", "1":
		return true, true
	case "f", "false", "n", "no", "0":
		return false, true
	}
	return false, false
}
