package json

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner walks over one document. Every method that returns false has set
// failure and failPos.
type scanner struct {
	in       []byte
	pos      int
	depth    int
	maxDepth int
	failure  string
	failPos  int
}

func (s *scanner) fail(text string) bool {
	s.failure, s.failPos = text, s.pos
	return false
}

// unexpected fails at a byte that cannot stand where it does.
func (s *scanner) unexpected(want string) bool {
	if s.pos >= len(s.in) {
		return s.fail("the document ends where " + want + " is expected")
	}
	return s.fail("found " + preview(s.in[s.pos:]) + " where " + want + " is expected")
}

// special marks the bytes that end the fast path through a string: quote,
// backslash and control characters.
var special = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// space skips white space and returns the next byte, 0 at the end.
func (s *scanner) space() byte {
	for s.pos < len(s.in) {
		switch c := s.in[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// str scans a string; pos is at its opening quote and ends behind the closing
// one. raw is what stands between, escaped whether it holds escapes.
func (s *scanner) str() (raw []byte, escaped, ok bool) {
	in, i := s.in, s.pos+1
	start := i
	for {
		for i < len(in) && !special[in[i]] {
			i++
		}
		if i >= len(in) {
			s.pos = i
			return nil, false, s.fail("the document ends inside a string")
		}
		switch in[i] {
		case '"':
			s.pos = i + 1
			return in[start:i], escaped, true
		case '\\':
			n := escapeLen(in[i:])
			if n == 0 {
				s.pos = i
				return nil, false, s.fail("invalid escape in a string")
			}
			escaped = true
			i += n
		default:
			s.pos = i
			return nil, false, s.fail("control character in a string")
		}
	}
}

// escapeLen is the length of the escape at the start of s, 0 if it is none.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape appends the value of a string body that str has accepted.
func unescape(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(raw) // str has checked it
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				r, raw = surrogate(r, raw)
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}

// surrogate joins r with the second half that may follow in raw.
func surrogate(r rune, raw []byte) (rune, []byte) {
	if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
		low, _ := hex4(raw[2:])
		if joined := utf16.DecodeRune(r, low); joined != utf8.RuneError {
			return joined, raw[6:]
		}
	}
	return utf8.RuneError, raw
}

// number scans a number and tells whether it is an integer literal.
func (s *scanner) number() (text []byte, integer, ok bool) {
	in, i := s.in, s.pos
	if i < len(in) && in[i] == '-' {
		i++
	}
	first := i
	i = digits(in, i)
	if i == first || in[first] == '0' && i > first+1 {
		return nil, false, s.fail("invalid number")
	}
	integer = true
	if i < len(in) && in[i] == '.' {
		from := i + 1
		if i = digits(in, from); i == from {
			return nil, false, s.fail("invalid number")
		}
		integer = false
	}
	if i < len(in) && (in[i] == 'e' || in[i] == 'E') {
		i++
		if i < len(in) && (in[i] == '+' || in[i] == '-') {
			i++
		}
		from := i
		if i = digits(in, from); i == from {
			return nil, false, s.fail("invalid number")
		}
		integer = false
	}
	text = in[s.pos:i]
	s.pos = i
	return text, integer, true
}

func digits(in []byte, i int) int {
	for i < len(in) && in[i] >= '0' && in[i] <= '9' {
		i++
	}
	return i
}

// literal scans true, false or null.
func (s *scanner) literal(word string) bool {
	if len(s.in)-s.pos < len(word) || string(s.in[s.pos:s.pos+len(word)]) != word {
		return s.unexpected("a value")
	}
	s.pos += len(word)
	return true
}

// enter and leave count the nesting.
func (s *scanner) enter() bool {
	s.depth++
	if s.depth > s.maxDepth {
		return s.fail("the document nests deeper than max_depth allows")
	}
	s.pos++
	return true
}

func (s *scanner) leave() { s.depth--; s.pos++ }

// skip checks the syntax of one value and passes it by.
func (s *scanner) skip() bool {
	switch c := s.space(); {
	case c == '"':
		_, _, ok := s.str()
		return ok
	case c == '{' || c == '[':
		return s.skipNested(c == '{')
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || c >= '0' && c <= '9':
		_, _, ok := s.number()
		return ok
	}
	return s.unexpected("a value")
}

func (s *scanner) skipNested(object bool) bool {
	if !s.enter() {
		return false
	}
	end := byte(']')
	if object {
		end = '}'
	}
	if s.space() == end {
		s.leave()
		return true
	}
	for {
		if object {
			if _, _, ok := s.name(); !ok {
				return false
			}
		}
		if !s.skip() {
			return false
		}
		more, ok := s.next(end)
		if !ok || !more {
			return ok
		}
	}
}

// name scans a member's name and the colon.
func (s *scanner) name() (raw []byte, escaped, ok bool) {
	if s.space() != '"' {
		return nil, false, s.unexpected("a name in quotes")
	}
	if raw, escaped, ok = s.str(); !ok {
		return nil, false, false
	}
	if s.space() != ':' {
		return nil, false, s.unexpected("a colon")
	}
	s.pos++
	return raw, escaped, true
}

// next passes the comma before the next element (more) or the end of the
// object or array.
func (s *scanner) next(end byte) (more, ok bool) {
	switch s.space() {
	case ',':
		s.pos++
		return true, true
	case end:
		s.leave()
		return false, true
	}
	return false, s.unexpected("a comma or the end of " + map[byte]string{']': "the array", '}': "the object"}[end])
}

// preview is the beginning of some input for an error text.
func preview(b []byte) string {
	const limit = 24
	if len(b) <= limit {
		return string(b)
	}
	return string(b[:limit]) + "..."
}
