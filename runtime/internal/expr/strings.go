package expr

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf8"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// rows makes the kernel of a function that is computed row by row.
func rows(fn func(x *exec) error) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) { return perRowFor(n.Of, fn), nil }
}

func perRowFor(t messages.Type, fn func(x *exec) error) kernel {
	switch t.Kind {
	case messages.String, messages.Binary:
		return perRowText(fn)
	case messages.Array, messages.Map:
		return perRowList(fn)
	}
	return perRow(fn)
}

// stringFunctions are those that join strings and change or measure a whole one.
func stringFunctions() []*Function {
	return []*Function{
		{
			Name: "concat", Family: "string", Usage: "concat(a, ...)", Signature: "string, ... -> string | array, ... -> array",
			Doc: "the arguments joined; strings, binaries or arrays", bind: bindConcat, make: makeConcat,
		},
		{
			Name: "||", Family: "string", Usage: "a || b", Signature: "string, string -> string", infix: true,
			Doc: "both operands joined", bind: bindConcat, make: makeConcat,
		},
		{
			Name: "concat_ws", Family: "string", Usage: "concat_ws(sep, a, ...)", Signature: "string, string or array<string>, ... -> string",
			Doc: "the arguments that are not NULL, joined by sep", lenient: true, bind: bindConcatWS, make: rows(concatWS),
		},
		{
			Name: "upper", Aliases: []string{"ucase"}, Family: "string", Usage: "upper(str)", Signature: "string -> string",
			Doc: "str in capital letters", make: makeCase(true),
		},
		{
			Name: "lower", Aliases: []string{"lcase"}, Family: "string", Usage: "lower(str)", Signature: "string -> string",
			Doc: "str in small letters", make: makeCase(false),
		},
		{
			Name: "initcap", Family: "string", Usage: "initcap(str)", Signature: "string -> string",
			Doc: "str with the first letter of every word a capital one and all others small", make: rows(initcap),
		},
		{
			Name: "length", Aliases: []string{"char_length", "character_length", "len"}, Family: "string", Usage: "length(str)",
			Signature: "string -> int | binary -> int", Doc: "the number of characters of a string or of bytes of a binary", make: makeLength,
		},
		{
			Name: "octet_length", Family: "string", Usage: "octet_length(str)", Signature: "string -> int | binary -> int",
			Doc: "the number of bytes", make: rows(func(x *exec) error { x.setInt32(int32(len(x.bytes(0)))); return nil }),
		},
		{
			Name: "bit_length", Family: "string", Usage: "bit_length(str)", Signature: "string -> int | binary -> int",
			Doc: "the number of bits", make: rows(func(x *exec) error { x.setInt32(int32(8 * len(x.bytes(0)))); return nil }),
		},
	}
}

// substringFunctions are those that work on the characters of a string.
func substringFunctions() []*Function {
	return []*Function{
		{
			Name: "substring", Aliases: []string{"substr"}, Family: "string", Usage: "substring(str, pos[, len])",
			Signature: "string, int, [int] -> string", Doc: "the part of str from character pos (from 1, or from the end if negative), of len characters", make: rows(substring),
		},
		{
			Name: "left", Family: "string", Usage: "left(str, len)", Signature: "string, int -> string", Doc: "the first len characters",
			make: rows(func(x *exec) error { x.buf = append(x.buf, head(x.bytes(0), int(x.int32(1)))...); return nil }),
		},
		{Name: "right", Family: "string", Usage: "right(str, len)", Signature: "string, int -> string", Doc: "the last len characters", make: rows(right)},
		{
			Name: "reverse", Family: "string", Usage: "reverse(a)", Signature: "string -> string | list -> $0",
			Doc: "the characters or elements in reverse order", make: makeReverse,
		},
		{Name: "repeat", Family: "string", Usage: "repeat(str, n)", Signature: "string, int -> string", Doc: "str n times", fails: true, make: rows(repeatText)},
		{
			Name: "space", Family: "string", Usage: "space(n)", Signature: "int -> string", Doc: "n blanks", fails: true,
			make: rows(func(x *exec) error { return x.appendRepeated([]byte(" "), int(x.int32(0))) }),
		},
		{
			Name: "replace", Family: "string", Usage: "replace(str, search[, by])", Signature: "string, string, [string] -> string",
			Doc: "str with every occurrence of search replaced", make: rows(replace),
		},
		{
			Name: "translate", Family: "string", Usage: "translate(str, from, to)", Signature: "string, string, string -> string",
			Doc: "str with the characters of from replaced by those of to at the same place, or dropped", make: rows(translate),
		},
		{
			Name: "overlay", Family: "string", Usage: "overlay(str, by, pos[, len])", Signature: "string, string, int, [int] -> string",
			Doc: "str with len characters (the length of by if left out) from pos on replaced", make: rows(overlay),
		},
		{
			Name: "ascii", Family: "string", Usage: "ascii(str)", Signature: "string -> int", Doc: "the code of the first character, 0 for none",
			make: rows(func(x *exec) error {
				r, n := utf8.DecodeRune(x.bytes(0))
				if n == 0 {
					r = 0
				}
				x.setInt32(r)
				return nil
			}),
		},
		{
			Name: "chr", Aliases: []string{"char"}, Family: "string", Usage: "chr(code)", Signature: "bigint -> string",
			Doc: "the character of a code modulo 256; empty for a negative one", make: rows(func(x *exec) error {
				if v := x.int64(0); v >= 0 {
					x.buf = utf8.AppendRune(x.buf, rune(v&0xff))
				}
				return nil
			}),
		},
	}
}

// bindConcat joins arrays if there is one, else binaries if all are, else strings.
func bindConcat(b *binding) (Node, *sql.Error) {
	minimum := 0
	if b.fn.infix {
		minimum = 2
	}
	if err := b.count(minimum, -1); err != nil {
		return nil, err
	}
	binary, list := len(b.args) > 0, false
	for i := range b.args {
		binary = binary && b.kind(i) == messages.Binary
		list = list || b.kind(i) == messages.Array
	}
	t := messages.T(messages.String)
	switch {
	case binary:
		t = messages.T(messages.Binary)
	case list:
		var ok bool
		if t, ok = b.commonOf(b.args); !ok {
			return nil, b.mismatch()
		}
	}
	for i := range b.args {
		if !castAllowed(b.typ(i), t) || !list && b.kind(i) >= messages.Array {
			return nil, b.mismatch()
		}
		b.coerce(i, t)
	}
	return b.result(t)
}

func makeConcat(_ *compiler, n *FuncCall) (kernel, error) {
	if n.Of.Kind == messages.Array {
		return perRowList(func(x *exec) error {
			for _, v := range x.args {
				from, to := span(v.col, x.i&v.mask)
				for j := from; j < to; j++ {
					x.out.Child(0).AppendFrom(v.col.Child(0), j)
				}
			}
			return nil
		}), nil
	}
	return perRowText(func(x *exec) error {
		for k := range x.args {
			x.buf = append(x.buf, x.bytes(k)...)
		}
		return nil
	}), nil
}

func bindConcatWS(b *binding) (Node, *sql.Error) {
	if err := b.count(1, -1); err != nil {
		return nil, err
	}
	for i := range b.args {
		t := messages.T(messages.String)
		if i > 0 && b.kind(i) == messages.Array {
			t = messages.ArrayType(t)
		} else if b.kind(i) >= messages.Array {
			return nil, b.mismatch()
		}
		b.coerce(i, t)
	}
	return b.result(messages.T(messages.String))
}

func concatWS(x *exec) error {
	if x.null(0) {
		x.isNull = true
		return nil
	}
	sep, first := x.bytes(0), true
	put := func(s []byte) {
		if !first {
			x.buf = append(x.buf, sep...)
		}
		first = false
		x.buf = append(x.buf, s...)
	}
	for k := 1; k < len(x.args); k++ {
		v := x.args[k]
		switch {
		case v.null(x.i):
		case v.col.Type().Kind == messages.Array:
			from, to := span(v.col, x.i&v.mask)
			for j := from; j < to; j++ {
				if !v.col.Child(0).IsNull(j) {
					put(v.col.Child(0).Bytes(j))
				}
			}
		default:
			put(x.bytes(k))
		}
	}
	return nil
}

// makeCase is upper and lower. Text of ASCII characters is converted for all rows at
// once.
func makeCase(up bool) func(*compiler, *FuncCall) (kernel, error) {
	low, high := byte('A'), byte('Z')
	if up {
		low, high = 'a', 'z'
	}
	slow := perRowText(func(x *exec) error { x.buf = appendCase(x.buf, x.bytes(0), up); return nil })
	return func(*compiler, *FuncCall) (kernel, error) {
		return func(x *exec) error {
			v := x.args[0]
			if v.isConst() || x.f.sel != nil && len(x.f.sel) < x.f.n/4 {
				return slow(x)
			}
			in := v.col.Offsets()
			base := in[0]
			src := v.col.Data()[base:in[x.f.n]]
			dst := append(x.out.Data()[:0], src...)
			if !flipCase(dst, low, high) {
				return slow(x)
			}
			out := x.out.Offsets()
			for i, o := range in[:x.f.n+1] {
				out[i] = o - base
			}
			x.out.SetData(dst)
			return nil
		}, nil
	}
}

// flipCase changes the case of the letters from low to high in place; it is false
// for text that is not ASCII.
func flipCase(s []byte, low, high byte) bool {
	// Eight bytes at a time: with the high bits clear, adding moves the bytes at or
	// above low, and above high, into their high bits.
	const ones = 0x0101010101010101
	const tops = 0x80 * ones
	up, down := uint64(0x80-low)*ones, uint64(0x7f-high)*ones
	for len(s) >= 8 {
		v := binary.LittleEndian.Uint64(s)
		if v&tops != 0 {
			return false
		}
		in := (v + up) &^ (v + down) & tops
		binary.LittleEndian.PutUint64(s, v^in>>2)
		s = s[8:]
	}
	var all byte
	width := high - low
	for i, c := range s {
		all |= c
		if c-low <= width {
			s[i] = c ^ 0x20
		}
	}
	return all < utf8.RuneSelf
}

func appendCase(dst, s []byte, up bool) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			dst = append(dst, s[i])
		case up && r == 'ß':
			dst = append(dst, "SS"...)
		case up:
			dst = utf8.AppendRune(dst, unicode.ToUpper(r))
		default:
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
		i += n
	}
	return dst
}

func initcap(x *exec) error {
	s, word := x.bytes(0), false
	for len(s) > 0 {
		_, n := utf8.DecodeRune(s)
		x.buf = appendCase(x.buf, s[:n], !word)
		word = s[0] != ' '
		s = s[n:]
	}
	return nil
}

func makeLength(_ *compiler, n *FuncCall) (kernel, error) {
	if n.Args[0].Type().Kind == messages.Binary {
		return perRow(func(x *exec) error { x.setInt32(int32(len(x.bytes(0)))); return nil }), nil
	}
	return perRow(func(x *exec) error { x.setInt32(int32(utf8.RuneCount(x.bytes(0)))); return nil }), nil
}

// head is the first n characters of s.
func head(s []byte, n int) []byte {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, w := utf8.DecodeRune(s[i:])
		i += w
	}
	return s[:i]
}

func skip(s []byte, n int) []byte { return s[len(head(s, n)):] }

// substring counts from the end for a negative position; position 0 means 1.
func substring(x *exec) error {
	s, pos := x.bytes(0), int64(x.int32(1))
	length := int64(1) << 40
	if len(x.args) == 3 {
		length = int64(x.int32(2))
	}
	start := max(pos-1, 0)
	if pos < 0 {
		start = int64(utf8.RuneCount(s)) + pos
	}
	end := start + length
	start = max(start, 0)
	if end > start {
		x.buf = append(x.buf, head(skip(s, int(start)), int(end-start))...)
	}
	return nil
}

func right(x *exec) error {
	s, n := x.bytes(0), int(x.int32(1))
	if n > 0 {
		x.buf = append(x.buf, skip(s, utf8.RuneCount(s)-n)...)
	}
	return nil
}

func makeReverse(_ *compiler, n *FuncCall) (kernel, error) {
	if n.Of.Kind == messages.Array {
		return perRowList(func(x *exec) error {
			v := x.args[0]
			from, to := span(v.col, x.i&v.mask)
			for j := to - 1; j >= from; j-- {
				x.out.Child(0).AppendFrom(v.col.Child(0), j)
			}
			return nil
		}), nil
	}
	return perRowText(func(x *exec) error {
		for s := x.bytes(0); len(s) > 0; {
			_, n := utf8.DecodeLastRune(s)
			x.buf = append(x.buf, s[len(s)-n:]...)
			s = s[:len(s)-n]
		}
		return nil
	}), nil
}

// maxText bounds what one call may produce, so that a bad argument does not take all
// memory.
const maxText = 64 << 20

func repeatText(x *exec) error { return x.appendRepeated(x.bytes(0), int(x.int32(1))) }

func (x *exec) appendRepeated(s []byte, n int) error {
	if n <= 0 || len(s) == 0 {
		return nil
	}
	if n > maxText/len(s) {
		return rowError("STRING_TOO_LONG", "%s: the result would have more than %d bytes", "repeat", maxText)
	}
	for range n {
		x.buf = append(x.buf, s...)
	}
	return nil
}

func replace(x *exec) error {
	s, search := x.bytes(0), x.bytes(1)
	var by []byte
	if len(x.args) == 3 {
		by = x.bytes(2)
	}
	if len(search) == 0 {
		x.buf = append(x.buf, s...)
		return nil
	}
	for {
		i := bytes.Index(s, search)
		if i < 0 {
			x.buf = append(x.buf, s...)
			return nil
		}
		x.buf = append(append(x.buf, s[:i]...), by...)
		s = s[i+len(search):]
	}
}

func translate(x *exec) error {
	for s := x.bytes(0); len(s) > 0; {
		_, n := utf8.DecodeRune(s)
		at := bytes.Index(x.bytes(1), s[:n])
		if at < 0 {
			x.buf = append(x.buf, s[:n]...)
		} else {
			to := skip(x.bytes(2), utf8.RuneCount(x.bytes(1)[:at]))
			x.buf = append(x.buf, head(to, 1)...)
		}
		s = s[n:]
	}
	return nil
}

func overlay(x *exec) error {
	s, by, pos := x.bytes(0), x.bytes(1), int(x.int32(2))
	n := utf8.RuneCount(by)
	if len(x.args) == 4 && x.int32(3) >= 0 {
		n = int(x.int32(3))
	}
	x.buf = append(append(x.buf, head(s, pos-1)...), by...)
	x.buf = append(x.buf, skip(s, pos-1+n)...)
	return nil
}
