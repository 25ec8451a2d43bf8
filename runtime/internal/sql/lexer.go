package sql

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexer cuts the source into tokens. It never fails: what is no token becomes an
// illegal one, which the parser reports when it gets there.
type lexer struct {
	src  string
	pos  int
	toks []token
}

// lex returns the tokens of src; the last one is tokenEOF.
func lex(src string) []token {
	l := lexer{src: src, toks: make([]token, 0, len(src)/4+4)}
	for {
		if !l.skipSpace() {
			continue
		}
		if l.pos >= len(src) {
			l.toks = append(l.toks, token{kind: tokenEOF, start: len(src), end: len(src)})
			return l.toks
		}
		l.next()
	}
}

// skipSpace moves past white space and comments. It returns false after an
// unterminated comment, for which it has added a token.
func (l *lexer) skipSpace() bool {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			l.pos++
		case c == 0xEF && strings.HasPrefix(l.src[l.pos:], "\uFEFF"):
			l.pos += len("\uFEFF")
		case c == 0xC2 && strings.HasPrefix(l.src[l.pos:], "\u00A0"):
			l.pos += len("\u00A0")
		case c == '-' && strings.HasPrefix(l.src[l.pos:], "--"):
			l.pos = lineCommentEnd(l.src, l.pos)
		case c == '/' && strings.HasPrefix(l.src[l.pos:], "/*"):
			end, ok := blockCommentEnd(l.src, l.pos)
			if !ok {
				l.add(tokenIllegal, "comment is not closed: add */", l.pos+2)
				l.pos = len(l.src)
				return false
			}
			l.pos = end
		default:
			return true
		}
	}
	return true
}

// lineCommentEnd returns the offset of the line end behind a comment at pos.
func lineCommentEnd(src string, pos int) int {
	if i := strings.IndexByte(src[pos:], '\n'); i >= 0 {
		return pos + i
	}
	return len(src)
}

// blockCommentEnd returns the offset behind a comment at pos, which may contain
// other comments.
func blockCommentEnd(src string, pos int) (int, bool) {
	depth := 0
	for pos < len(src) {
		switch {
		case strings.HasPrefix(src[pos:], "/*"):
			depth++
			pos += 2
		case strings.HasPrefix(src[pos:], "*/"):
			depth--
			pos += 2
			if depth == 0 {
				return pos, true
			}
		default:
			pos++
		}
	}
	return pos, false
}

// add appends a token from the current position to end and moves there.
func (l *lexer) add(kind tokenKind, text string, end int) {
	l.toks = append(l.toks, token{kind: kind, text: text, start: l.pos, end: end})
	l.pos = end
}

// next reads one token; the position is on its first byte.
func (l *lexer) next() {
	c := l.src[l.pos]
	switch {
	case isLetter(c) || c >= utf8.RuneSelf:
		l.word()
	case isDigit(c) || c == '.' && l.pos+1 < len(l.src) && isDigit(l.src[l.pos+1]) && !l.afterName():
		l.number()
	case c == '\'' || c == '"':
		l.quoted(tokenString, l.pos, true)
	case c == '`':
		l.backQuoted()
	default:
		l.operator()
	}
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// afterName reports whether the position is directly behind a name, where a point
// is a separator even before a digit.
func (l *lexer) afterName() bool {
	if len(l.toks) == 0 {
		return false
	}
	t := l.toks[len(l.toks)-1]
	return t.end == l.pos && (t.kind == tokenWord || t.kind == tokenQuoted || t.is("]") || t.is(")"))
}

// wordEnd returns the offset behind the letters, digits and underscores at pos.
func wordEnd(src string, pos int) int {
	for pos < len(src) {
		c := src[pos]
		if isLetter(c) || isDigit(c) {
			pos++
			continue
		}
		if c < utf8.RuneSelf {
			break
		}
		r, n := utf8.DecodeRuneInString(src[pos:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			break
		}
		pos += n
	}
	return pos
}

func (l *lexer) word() {
	end := wordEnd(l.src, l.pos)
	if end == l.pos || l.src[l.pos] >= utf8.RuneSelf && !startsWithLetter(l.src[l.pos:]) {
		l.illegalRune()
		return
	}
	if end-l.pos == 1 && end < len(l.src) && (l.src[end] == '\'' || l.src[end] == '"') {
		switch l.src[l.pos] {
		case 'x', 'X':
			l.quoted(tokenHex, end, false)
			return
		case 'r', 'R':
			l.quoted(tokenString, end, false)
			return
		}
	}
	k, _ := keyword(l.src[l.pos:end])
	l.add(tokenWord, k.text, end)
}

func startsWithLetter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r)
}

// illegalRune adds a token for a character that begins nothing.
func (l *lexer) illegalRune() {
	r, n := utf8.DecodeRuneInString(l.src[l.pos:])
	switch {
	case r == utf8.RuneError && n <= 1:
		l.add(tokenIllegal, fmt.Sprintf("byte 0x%02X is not valid UTF-8", l.src[l.pos]), l.pos+1)
	case r == '\u2018' || r == '\u2019' || r == '\u201C' || r == '\u201D':
		l.add(tokenIllegal, fmt.Sprintf("typographic quote %c: use ' instead", r), l.pos+n)
	default:
		l.add(tokenIllegal, fmt.Sprintf("unexpected character %q", r), l.pos+n)
	}
}

// quoted reads a string whose quote is at offset open; the token starts at the
// current position, which may be a prefix letter before it. With escapes, a
// backslash protects the next character and a doubled quote is part of the string.
func (l *lexer) quoted(kind tokenKind, open int, escapes bool) {
	quote := l.src[open]
	i := open + 1
	for i < len(l.src) {
		c := l.src[i]
		switch {
		case c == '\\' && escapes:
			i++
		case c == quote && escapes && i+1 < len(l.src) && l.src[i+1] == quote:
			i++
		case c == quote:
			l.finishQuoted(kind, i+1)
			return
		}
		i++
	}
	l.add(tokenIllegal, fmt.Sprintf("string is not closed: add %c", quote), open+1)
	l.pos = len(l.src)
}

// finishQuoted adds a quoted token unless its bytes are not text.
func (l *lexer) finishQuoted(kind tokenKind, end int) {
	if !utf8.ValidString(l.src[l.pos:end]) {
		l.add(tokenIllegal, "string is not valid UTF-8", end)
		return
	}
	l.add(kind, "", end)
}

func (l *lexer) backQuoted() {
	for i := l.pos + 1; i < len(l.src) && l.src[i] != '\n'; i++ {
		if l.src[i] != '`' {
			continue
		}
		if i+1 < len(l.src) && l.src[i+1] == '`' {
			i++
			continue
		}
		if i == l.pos+1 {
			l.add(tokenIllegal, "empty name in back quotes", i+1)
			return
		}
		l.finishQuoted(tokenQuoted, i+1)
		return
	}
	l.add(tokenIllegal, "name in back quotes is not closed: add `", l.pos+1)
	l.pos = lineCommentEnd(l.src, l.pos)
}

// number reads digits with point, exponent and suffix.
func (l *lexer) number() {
	s, i := l.src, l.pos
	digits := func() {
		for i < len(s) && isDigit(s[i]) {
			i++
		}
	}
	digits()
	if i < len(s) && s[i] == '.' {
		i++
		digits()
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			i = j
			digits()
		}
	}
	body := i
	i = wordEnd(s, i)
	if _, ok := numberSuffix(s[l.pos:body], s[body:i]); !ok {
		l.add(tokenIllegal, fmt.Sprintf("%q is neither a number nor a name: put values with a unit in quotes, names in back quotes", s[l.pos:i]), i)
		return
	}
	l.add(tokenNumber, "", i)
}

// numberSuffix returns the kind of a number from its body and suffix.
func numberSuffix(body, suffix string) (NumberKind, bool) {
	integer := !strings.ContainsAny(body, ".eE")
	switch strings.ToUpper(suffix) {
	case "":
		switch {
		case strings.ContainsAny(body, "eE"):
			return Double, true
		case integer:
			return Number, true
		}
		return Decimal, true
	case "L":
		return BigInt, integer
	case "S":
		return SmallInt, integer
	case "Y":
		return TinyInt, integer
	case "F":
		return Float, true
	case "D":
		return Double, true
	case "BD":
		return Decimal, true
	}
	return Number, false
}

// operator reads punctuation, the longest first.
func (l *lexer) operator() {
	rest := l.src[l.pos:]
	for n := min(3, len(rest)); n > 0; n-- {
		if op := operatorText(rest[:n]); op != "" {
			l.add(tokenOp, op, l.pos+n)
			return
		}
	}
	if rest[0] == '$' && len(rest) > 1 && rest[1] == '{' {
		l.add(tokenIllegal, "${...} is only replaced in files", l.pos+2)
		return
	}
	l.illegalRune()
}

// operatorText returns the one shared string of an operator, or "".
func operatorText(s string) string {
	switch s {
	case "<=>", ">>>", "<=", ">=", "<>", "!=", "==", "||", "<<", ">>", "->", "=>", "::",
		"(", ")", "[", "]", ",", ";", ".", ":", "=", "<", ">", "+", "-", "*", "/", "%", "&", "^", "|", "~", "!":
		return s
	}
	return ""
}
