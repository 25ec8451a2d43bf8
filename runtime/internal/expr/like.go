package expr

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/streamd-io/streamd/messages"
)

func likeFunctions() []*Function {
	return []*Function{
		{
			Name: "like", Family: "string", Usage: "str LIKE pattern [ESCAPE 'c']", Signature: "string, string, [string] -> boolean", infix: true,
			Doc: "whether str as a whole matches: % stands for any characters, _ for one", costly: true, fails: true, make: makeLike(false),
		},
		{
			Name: "ilike", Family: "string", Usage: "str ILIKE pattern [ESCAPE 'c']", Signature: "string, string, [string] -> boolean", infix: true,
			Doc: "LIKE without regard to case", costly: true, fails: true, make: makeLike(true),
		},
	}
}

// makeLike compiles a constant pattern to the cheapest test for it.
func makeLike(fold bool) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		escape := '\\'
		if len(n.Args) == 3 {
			s, ok := constText(n.Args[2])
			if !ok || utf8.RuneCountInString(s) != 1 {
				return nil, internalError("the escape of LIKE must be one constant character")
			}
			escape, _ = utf8.DecodeRuneInString(s)
		}
		pattern, ok := constText(n.Args[1])
		if !ok {
			return likeColumns(escape, fold), nil
		}
		p, err := parseLike(nil, raw(pattern), escape, fold)
		if err != nil {
			return perRow(func(*exec) error { return err }), nil //nolint:nilerr // the error is one of each row
		}
		if k := simpleLike(p); k != nil && !fold {
			return k, nil
		}
		return perRow(func(x *exec) error { x.setBool(matchLike(x.bytes(0), p, fold)); return nil }), nil
	}
}

// likeText runs a test for each row.
func likeText(test func(s []byte) bool) kernel {
	return func(x *exec) error {
		v := x.args[0]
		if v.isConst() || x.f.sel != nil {
			return x.each(func(x *exec) error { x.setBool(test(x.bytes(0))); return nil })
		}
		off, data, bits := v.col.Offsets(), v.col.Data(), x.out.Bits()
		clear(bits)
		for i := range x.f.n {
			bits[i>>3] |= bit(test(data[off[i]:off[i+1]])) << (i & 7)
		}
		return nil
	}
}

// likeColumns is for patterns that differ from row to row.
func likeColumns(escape rune, fold bool) kernel {
	var p []likePart
	return perRow(func(x *exec) error {
		var err error
		if p, err = parseLike(p[:0], x.bytes(1), escape, fold); err != nil {
			return err
		}
		x.setBool(matchLike(x.bytes(0), p, fold))
		return nil
	})
}

// likePart is one element of a pattern.
type likePart struct {
	kind byte // 'c' a character, '_' any one character, '%' any characters
	r    rune
}

// parseLike splits a pattern. An escape must stand before %, _ or itself.
func parseLike(dst []likePart, p []byte, escape rune, fold bool) ([]likePart, error) {
	for len(p) > 0 {
		r, n := decode(p)
		p = p[n:]
		switch {
		case r == escape:
			next, n := decode(p)
			if len(p) == 0 || next != '%' && next != '_' && next != escape {
				return dst, rowError("INVALID_FORMAT.ESC_IN_THE_MIDDLE", "the escape character of a LIKE pattern must stand before %%, _ or itself")
			}
			dst = append(dst, likePart{'c', foldRune(next, fold)})
			p = p[n:]
		case r == '%':
			if len(dst) == 0 || dst[len(dst)-1].kind != '%' {
				dst = append(dst, likePart{kind: '%'})
			}
		case r == '_':
			dst = append(dst, likePart{kind: '_'})
		default:
			dst = append(dst, likePart{'c', foldRune(r, fold)})
		}
	}
	return dst, nil
}

// decode is utf8.DecodeRune that keeps invalid bytes apart: byte b is rune -1-b.
func decode(s []byte) (rune, int) {
	if len(s) > 0 && s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	r, n := utf8.DecodeRune(s)
	if r == utf8.RuneError && n == 1 {
		r = -1 - rune(s[0])
	}
	return r, n
}

func foldRune(r rune, fold bool) rune {
	if !fold {
		return r
	}
	return unicode.ToLower(r)
}

// simpleLike is the kernel for patterns with % only at their ends, or nil.
func simpleLike(p []likePart) kernel {
	first, last := len(p) > 0 && p[0].kind == '%', len(p) > 0 && p[len(p)-1].kind == '%'
	if len(p) == 1 && first {
		return likeText(func([]byte) bool { return true })
	}
	body := p
	if first {
		body = body[1:]
	}
	if last {
		body = body[:len(body)-1]
	}
	var text []byte
	for _, e := range body {
		switch {
		case e.kind != 'c':
			return nil
		case e.r < 0:
			text = append(text, byte(-1-e.r))
		default:
			text = utf8.AppendRune(text, e.r)
		}
	}
	switch {
	case first && last:
		return likeContains(text)
	case first:
		return likeText(func(s []byte) bool { return bytes.HasSuffix(s, text) })
	case last:
		return likeText(func(s []byte) bool { return bytes.HasPrefix(s, text) })
	}
	return likeText(func(s []byte) bool { return bytes.Equal(s, text) })
}

// likeContains searches the bytes of all rows in one go: most of them need no look
// of their own then.
func likeContains(text []byte) kernel {
	slow := likeText(func(s []byte) bool { return bytes.Contains(s, text) })
	return func(x *exec) error {
		v := x.args[0]
		if v.isConst() || x.f.sel != nil && len(x.f.sel) < x.f.n/4 || x.f.n < 8 {
			return slow(x)
		}
		off, data, bits := v.col.Offsets(), v.col.Data(), x.out.Bits()
		clear(bits)
		row, at, end := 0, int(off[0]), int(off[x.f.n])
		for {
			i := bytes.Index(data[at:end], text)
			if i < 0 {
				return nil
			}
			at += i
			for int(off[row+1]) <= at {
				row++
			}
			if at+len(text) > int(off[row+1]) { // across the end of a row
				at++
				continue
			}
			bits[row>>3] |= 1 << (row & 7)
			at = int(off[row+1])
		}
	}
}

// matchLike goes back to the last % on a mismatch, so the time is at most the
// product of both lengths.
func matchLike(s []byte, p []likePart, fold bool) bool {
	i, j := 0, 0
	backS, backP := -1, 0
	for i < len(s) {
		r, n := decode(s[i:])
		switch {
		case j < len(p) && p[j].kind == '%':
			j++
			backS, backP = i, j
			continue
		case j < len(p) && (p[j].kind == '_' || p[j].r == foldRune(r, fold)):
			i += n
			j++
			continue
		case backS < 0:
			return false
		}
		_, w := decode(s[backS:])
		backS += w
		i, j = backS, backP
	}
	for j < len(p) && p[j].kind == '%' {
		j++
	}
	return j == len(p)
}

// isText reports whether a type is string or binary.
func isText(t messages.Type) bool { return t.Kind == messages.String || t.Kind == messages.Binary }
