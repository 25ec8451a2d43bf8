package expr

import (
	"bytes"
	"unicode/utf8"

	"github.com/streamd-io/streamd/messages"
)

func searchFunctions() []*Function {
	trims := func(name, usage, doc string, left, right bool) *Function {
		return &Function{
			Name: name, Family: "string", Usage: usage, Signature: "string, [string] -> string", Doc: doc,
			make: rows(trimRow(left, right)),
		}
	}
	ltrim := func(name, usage, doc string, left bool) *Function {
		return &Function{
			Name: name, Family: "string", Usage: usage, Signature: "string, [string] -> string", Doc: doc,
			make: rows(func(x *exec) error {
				k := len(x.args) - 1 // the string is the last argument
				var chars []byte
				if k == 1 {
					chars = x.bytes(0)
				} else {
					chars = []byte(" ")
				}
				x.buf = append(x.buf, trimChars(x.bytes(k), chars, left, !left)...)
				return nil
			}),
		}
	}
	test := func(name, doc string, fn func(s, part []byte) bool) *Function {
		return &Function{
			Name: name, Family: "string", Usage: name + "(str, part)",
			Signature: "string, string -> boolean | binary, binary -> boolean", Doc: doc,
			make: rows(func(x *exec) error { x.setBool(fn(x.bytes(0), x.bytes(1))); return nil }),
		}
	}
	locate := rows(locateRow)
	return []*Function{
		trims("trim both", "trim(BOTH chars FROM str)", "str without the given characters at both ends", true, true),
		trims("trim leading", "trim(LEADING chars FROM str)", "str without the given characters at its start", true, false),
		trims("trim trailing", "trim(TRAILING chars FROM str)", "str without the given characters at its end", false, true),
		trims("btrim", "btrim(str[, chars])", "str without the given characters (blanks) at both ends", true, true),
		{Name: "trim", Family: "string", Usage: "trim(str)", Signature: "string -> string", Doc: "str without blanks at both ends", make: rows(trimRow(true, true))},
		ltrim("ltrim", "ltrim([chars, ]str)", "str without the given characters (blanks) at its start", true),
		ltrim("rtrim", "rtrim([chars, ]str)", "str without the given characters (blanks) at its end", false),
		test("startswith", "whether str begins with part", bytes.HasPrefix),
		test("endswith", "whether str ends with part", bytes.HasSuffix),
		test("contains", "whether part occurs in str", bytes.Contains),
		{
			Name: "instr", Family: "string", Usage: "instr(str, part)", Signature: "string, string -> int",
			Doc: "the character position of part in str, from 1; 0 if it does not occur", make: rows(func(x *exec) error {
				x.setInt32(place(x.bytes(0), x.bytes(1), 1))
				return nil
			}),
		},
		{
			Name: "locate", Aliases: []string{"position", "charindex"}, Family: "string", Usage: "locate(part, str[, pos])",
			Signature: "string, string, [int] -> int", Doc: "the character position of part in str at or behind pos, from 1; 0 if it does not occur", make: locate,
		},
		{
			Name: "lpad", Family: "string", Usage: "lpad(str, len[, pad])", Signature: "string, int, [string] -> string",
			Doc: "str filled on the left to len characters, or cut to them", fails: true, make: rows(padRow(true)),
		},
		{
			Name: "rpad", Family: "string", Usage: "rpad(str, len[, pad])", Signature: "string, int, [string] -> string",
			Doc: "str filled on the right to len characters, or cut to them", fails: true, make: rows(padRow(false)),
		},
		{
			Name: "split_part", Family: "string", Usage: "split_part(str, sep, n)", Signature: "string, string, int -> string",
			Doc: "part n of str between separators, from 1, or from the end if negative; empty beyond", fails: true, make: rows(splitPart),
		},
		{
			Name: "substring_index", Family: "string", Usage: "substring_index(str, sep, n)", Signature: "string, string, int -> string",
			Doc: "str before the n-th separator, or behind it counted from the end if negative", make: rows(substringIndex),
		},
		{
			Name: "find_in_set", Family: "string", Usage: "find_in_set(str, list)", Signature: "string, string -> int",
			Doc: "the position of str, from 1, in a list separated by commas; 0 if it does not occur", make: rows(findInSet),
		},
		{
			Name: "levenshtein", Family: "string", Usage: "levenshtein(a, b)", Signature: "string, string -> int",
			Doc: "the number of characters to insert, delete or replace to turn a into b", costly: true, make: makeLevenshtein,
		},
	}
}

func trimRow(left, right bool) func(x *exec) error {
	blank := []byte(" ")
	return func(x *exec) error {
		chars := blank
		if len(x.args) == 2 {
			chars = x.bytes(1)
		}
		x.buf = append(x.buf, trimChars(x.bytes(0), chars, left, right)...)
		return nil
	}
}

func trimChars(s, chars []byte, left, right bool) []byte {
	for left && len(s) > 0 {
		_, n := utf8.DecodeRune(s)
		if !bytes.Contains(chars, s[:n]) {
			break
		}
		s = s[n:]
	}
	for right && len(s) > 0 {
		_, n := utf8.DecodeLastRune(s)
		if !bytes.Contains(chars, s[len(s)-n:]) {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// place is the character position of part at or behind pos.
func place(s, part []byte, pos int) int32 {
	if pos < 1 {
		return 0
	}
	before := head(s, pos-1)
	if utf8.RuneCount(before) < pos-1 {
		return 0
	}
	i := bytes.Index(s[len(before):], part)
	if i < 0 {
		return 0
	}
	return int32(pos + utf8.RuneCount(s[len(before):len(before)+i]))
}

func locateRow(x *exec) error {
	pos := 1
	if len(x.args) == 3 {
		pos = int(x.int32(2))
	}
	x.setInt32(place(x.bytes(1), x.bytes(0), pos))
	return nil
}

func padRow(left bool) func(x *exec) error {
	blank := []byte(" ")
	return func(x *exec) error {
		s, n, fill := x.bytes(0), int(x.int32(1)), blank
		if len(x.args) == 3 {
			fill = x.bytes(2)
		}
		if n > maxText/4 {
			return rowError("STRING_TOO_LONG", "lpad or rpad to %d characters", n)
		}
		missing := n - utf8.RuneCount(s)
		if missing <= 0 || len(fill) == 0 {
			x.buf = append(x.buf, head(s, n)...)
			return nil
		}
		if !left {
			x.buf = append(x.buf, s...)
		}
		count := utf8.RuneCount(fill)
		for ; missing >= count; missing -= count {
			x.buf = append(x.buf, fill...)
		}
		x.buf = append(x.buf, head(fill, missing)...)
		if left {
			x.buf = append(x.buf, s...)
		}
		return nil
	}
}

func splitPart(x *exec) error {
	s, sep, n := x.bytes(0), x.bytes(1), int(x.int32(2))
	if n == 0 {
		return rowError("INVALID_INDEX_OF_ZERO", "split_part: the index 0 is not valid; parts are counted from 1, or from -1 at the end")
	}
	if len(sep) == 0 {
		if n == 1 || n == -1 {
			x.buf = append(x.buf, s...)
		}
		return nil
	}
	for ; n > 1; n-- {
		i := bytes.Index(s, sep)
		if i < 0 {
			return nil
		}
		s = s[i+len(sep):]
	}
	for ; n < -1; n++ {
		i := bytes.LastIndex(s, sep)
		if i < 0 {
			return nil
		}
		s = s[:i]
	}
	if n == 1 {
		s, _, _ = bytes.Cut(s, sep)
	} else if i := bytes.LastIndex(s, sep); i >= 0 {
		s = s[i+len(sep):]
	}
	x.buf = append(x.buf, s...)
	return nil
}

func substringIndex(x *exec) error {
	s, sep, n := x.bytes(0), x.bytes(1), int(x.int32(2))
	if n == 0 || len(sep) == 0 {
		return nil
	}
	from, to := 0, len(s)
	if n > 0 {
		to = 0
		for ; n > 0; n-- {
			i := bytes.Index(s[to:], sep)
			if i < 0 {
				to = len(s) + len(sep)
				break
			}
			to += i + len(sep)
		}
		to -= len(sep)
	} else {
		from = len(s)
		for ; n < 0; n++ {
			i := bytes.LastIndex(s[:from], sep)
			if i < 0 {
				from = -len(sep)
				break
			}
			from = i
		}
		from += len(sep)
	}
	x.buf = append(x.buf, s[from:to]...)
	return nil
}

func findInSet(x *exec) error {
	word, list := x.bytes(0), x.bytes(1)
	x.setInt32(0)
	if bytes.IndexByte(word, ',') >= 0 {
		return nil
	}
	for n := int32(1); ; n++ {
		item, rest, more := bytes.Cut(list, []byte(","))
		if bytes.Equal(item, word) {
			x.setInt32(n)
			return nil
		}
		if !more {
			return nil
		}
		list = rest
	}
}

func makeLevenshtein(*compiler, *FuncCall) (kernel, error) {
	var a, b []rune
	var row []int32
	return perRow(func(x *exec) error {
		a, b = appendRunes(a[:0], x.bytes(0)), appendRunes(b[:0], x.bytes(1))
		row = room(row, len(b)+1)
		for j := range row {
			row[j] = int32(j)
		}
		for i := range a {
			diagonal := row[0]
			row[0] = int32(i + 1)
			for j := range b {
				cost := diagonal
				if a[i] != b[j] {
					cost++
				}
				diagonal = row[j+1]
				row[j+1] = min(cost, diagonal+1, row[j]+1)
			}
		}
		x.setInt32(row[len(b)])
		return nil
	}), nil
}

func appendRunes(dst []rune, s []byte) []rune {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		dst = append(dst, r)
		s = s[n:]
	}
	return dst
}

// constText returns a string argument that is constant and not NULL.
func constText(n Node) (string, bool) {
	if c, ok := n.(*Cast); ok && c.To.Kind == messages.String {
		n = c.X
	}
	lit, ok := n.(*Literal)
	if !ok {
		return "", false
	}
	return lit.Text()
}
