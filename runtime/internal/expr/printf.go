package expr

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func printfFunctions() []*Function {
	return []*Function{
		{
			Name: "format_string", Aliases: []string{"printf"}, Family: "string", Usage: "format_string(format, a, ...)", Signature: "string, any, ... -> string", lenient: true, fails: true,
			Doc: "the format with %s, %d, %f, %e, %x, %c, %b and %% replaced by the arguments, with flags, width and precision as in Java", bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(1, -1); err != nil {
					return nil, err
				}
				b.coerce(0, messages.T(messages.String))
				return b.result(messages.T(messages.String))
			}, make: rows(printfRow),
		},
		{
			Name: "format_number", Family: "string", Usage: "format_number(a, places)", Signature: "double, int -> string | decimal, int -> string",
			Doc: "the number with commas between thousands and a number of decimal places", bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(2, 2); err != nil {
					return nil, err
				}
				if !b.kind(0).IsNumeric() {
					return nil, b.mismatch()
				}
				if b.kind(0) != messages.Decimal {
					b.coerce(0, messages.T(messages.Double))
				}
				b.coerce(1, messages.T(messages.Int))
				return b.result(messages.T(messages.String))
			}, make: makeFormatNumber,
		},
	}
}

// verb is one % of a format.
type verb struct {
	left, zero, plus, comma, space bool
	width, precision               int // precision -1: not given
	arg                            int // argument number from 1, 0: the next
	letter                         byte
}

// parseVerb reads what follows a %.
func parseVerb(s []byte) (v verb, n int, ok bool) {
	v.precision = -1
	if num, w, _ := digitsOf(s, 1, 3); w > 0 && w < len(s) && s[w] == '$' {
		v.arg, n = num, w+1
	}
flags:
	for ; n < len(s); n++ {
		switch s[n] {
		case '-':
			v.left = true
		case '0':
			v.zero = true
		case '+':
			v.plus = true
		case ',':
			v.comma = true
		case ' ':
			v.space = true
		default:
			break flags
		}
	}
	num, w, _ := digitsOf(s[n:], 0, 4)
	v.width, n = num, n+w
	if n < len(s) && s[n] == '.' {
		num, w, _ = digitsOf(s[n+1:], 1, 3)
		if w == 0 {
			return v, n, false
		}
		v.precision, n = num, n+1+w
	}
	if n >= len(s) {
		return v, n, false
	}
	v.letter = s[n]
	return v, n + 1, true
}

func printfRow(x *exec) error {
	if x.null(0) {
		x.isNull = true
		return nil
	}
	next := 1
	for s := x.bytes(0); len(s) > 0; {
		if s[0] != '%' {
			x.buf = append(x.buf, s[0])
			s = s[1:]
			continue
		}
		v, n, ok := parseVerb(s[1:])
		if !ok {
			return rowError("INVALID_FORMAT", "format_string: the format %q ends within a %%", x.bytes(0))
		}
		s = s[1+n:]
		switch v.letter {
		case '%':
			x.buf = append(x.buf, '%')
			continue
		case 'n':
			x.buf = append(x.buf, '\n')
			continue
		}
		k := v.arg
		if k == 0 {
			k = next
			next++
		}
		if k >= len(x.args) {
			return rowError("INVALID_FORMAT", "format_string: the format %q asks for argument %d of %d", x.bytes(0), k, len(x.args)-1)
		}
		if err := x.putVerb(v, k); err != nil {
			return err
		}
	}
	return nil
}

func (x *exec) putVerb(v verb, k int) error {
	start := len(x.buf)
	a := x.args[k]
	i := x.i & a.mask
	kind := a.col.Type().Kind
	number := false
	switch {
	case x.null(k):
		x.buf = append(x.buf, "null"...)
	case v.letter|0x20 == 's':
		x.buf = appendValue(x.buf, a.col, i, x.zone)
		if v.precision >= 0 {
			x.buf = x.buf[:start+len(head(x.buf[start:], v.precision))]
		}
	case v.letter == 'b' && kind == messages.Boolean:
		x.buf = strconv.AppendBool(x.buf, x.boolean(k))
	case v.letter == 'd' && kind.IsInteger():
		number = true
		x.buf = strconv.AppendInt(x.buf, x.integer(k), 10)
	case v.letter|0x20 == 'x' && kind.IsInteger():
		mask := uint64(math.MaxUint64) >> (64 - 8*kind.Width())
		x.buf = strconv.AppendUint(x.buf, uint64(x.integer(k))&mask, 16)
	case v.letter == 'o' && kind.IsInteger():
		x.buf = strconv.AppendUint(x.buf, uint64(x.integer(k)), 8)
	case v.letter == 'c' && kind.IsInteger():
		x.buf = utf8.AppendRune(x.buf, rune(x.integer(k)))
	case kind == messages.Float || kind == messages.Double || kind == messages.Decimal:
		number = true
		if !x.putFloat(v, k, kind) {
			return x.badVerb(v, kind)
		}
	default:
		return x.badVerb(v, kind)
	}
	if v.letter >= 'A' && v.letter <= 'Z' {
		up := appendCase(x.tmp[:0], x.buf[start:], true)
		x.buf, x.tmp = append(x.buf[:start], up...), up
	}
	x.alignVerb(v, start, number)
	return nil
}

func (x *exec) badVerb(v verb, kind messages.Kind) error {
	return rowError("INVALID_FORMAT", "format_string: %%%c does not take a %s", v.letter, kind)
}

func (x *exec) putFloat(v verb, k int, kind messages.Kind) bool {
	a := x.args[k]
	i := x.i & a.mask
	if v.precision < 0 {
		v.precision = 6
	}
	var f float64
	switch kind {
	case messages.Decimal:
		t := a.col.Type()
		if v.letter == 'f' && v.precision <= maxPrecision {
			if d, ok := rescale(a.col.Decimals()[i], t.Scale, uint8(v.precision)); ok {
				x.buf = appendDecimal(x.buf, d, uint8(v.precision))
				return true
			}
		}
		f = decFloat(a.col.Decimals()[i], t.Scale)
	case messages.Float:
		f = float64(a.col.Float32s()[i])
	default:
		f = a.col.Float64s()[i]
	}
	switch {
	case v.letter != 'f' && v.letter|0x20 != 'e' && v.letter|0x20 != 'g':
		return false
	case math.IsNaN(f) || math.IsInf(f, 0):
		x.buf = appendFloat(x.buf, f, 64)
	case v.letter == 'f':
		x.buf = strconv.AppendFloat(x.buf, roundFloat(f, 64, v.precision, halfUp), 'f', v.precision, 64)
	default:
		x.buf = strconv.AppendFloat(x.buf, f, v.letter|0x20, v.precision, 64)
	}
	return true
}

// alignVerb applies sign, commas and width to what was written from start on.
func (x *exec) alignVerb(v verb, start int, number bool) {
	if number && x.buf[start] != '-' && (v.plus || v.space) {
		sign := byte(' ')
		if v.plus {
			sign = '+'
		}
		x.insert(start, sign, 1)
	}
	if number && v.comma {
		x.addCommas(start)
	}
	missing := v.width - utf8.RuneCount(x.buf[start:])
	switch {
	case missing <= 0:
	case v.left:
		for range missing {
			x.buf = append(x.buf, ' ')
		}
	case v.zero && (number || v.letter|0x20 == 'x'):
		if c := x.buf[start]; c == '-' || c == '+' || c == ' ' {
			start++
		}
		x.insert(start, '0', missing)
	default:
		x.insert(start, ' ', missing)
	}
}

// insert puts n times c at a position of the result.
func (x *exec) insert(at int, c byte, n int) {
	for range n {
		x.buf = append(x.buf, 0)
	}
	copy(x.buf[at+n:], x.buf[at:len(x.buf)-n])
	for i := range n {
		x.buf[at+i] = c
	}
}

// addCommas puts a comma before every three digits in front of the point.
func (x *exec) addCommas(start int) {
	if c := x.buf[start]; c == '-' || c == '+' || c == ' ' {
		start++
	}
	end := start
	for end < len(x.buf) && x.buf[end] >= '0' && x.buf[end] <= '9' {
		end++
	}
	for at := end - 3; at > start; at -= 3 {
		x.insert(at, ',', 1)
	}
}

func makeFormatNumber(_ *compiler, n *FuncCall) (kernel, error) {
	kind := n.Args[0].Type().Kind
	return perRowText(func(x *exec) error {
		places := x.int32(1)
		if x.isNull = places < 0 || places > maxPrecision; x.isNull {
			return nil
		}
		start := len(x.buf)
		x.putFloat(verb{letter: 'f', precision: int(places)}, 0, kind)
		x.addCommas(start)
		return nil
	}), nil
}
