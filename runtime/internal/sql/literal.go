package sql

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// stringValue returns the value of a string token as written, prefix and quotes
// included.
func stringValue(text string) string {
	if c := text[0]; c == 'r' || c == 'R' {
		return text[2 : len(text)-1]
	}
	quote, body := text[0], text[1:len(text)-1]
	if strings.IndexByte(body, '\\') < 0 && strings.IndexByte(body, quote) < 0 {
		return body
	}
	var b strings.Builder
	b.Grow(len(body))
	for i := 0; i < len(body); {
		c := body[i]
		switch {
		case c == quote: // doubled
			b.WriteByte(c)
			i += 2
		case c == '\\':
			i += writeEscape(&b, body[i:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// writeEscape writes the value of the escape sequence at the start of s, a
// backslash followed by at least one character, and returns its length. An escape
// of another character is that character; \% and \_ keep the backslash because
// they are patterns of LIKE.
func writeEscape(b *strings.Builder, s string) int {
	if len(s) < 2 {
		b.WriteByte('\\')
		return 1
	}
	switch c := s[1]; c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'b':
		b.WriteByte('\b')
	case 'Z':
		b.WriteByte(0x1A)
	case '%', '_':
		b.WriteString(s[:2])
	case 'u':
		return writeUnicode(b, s, 4)
	case 'U':
		return writeUnicode(b, s, 8)
	case '0', '1':
		if len(s) >= 4 && isOctal(s[2]) && isOctal(s[3]) {
			b.WriteRune(rune(c-'0')<<6 | rune(s[2]-'0')<<3 | rune(s[3]-'0'))
			return 4
		}
		if c == '0' {
			b.WriteByte(0)
		} else {
			b.WriteByte(c)
		}
	default:
		_, n := utf8.DecodeRuneInString(s[1:])
		b.WriteString(s[1 : 1+n])
		return 1 + n
	}
	return 2
}

func isOctal(c byte) bool { return '0' <= c && c <= '7' }

// writeUnicode writes \uXXXX (two of them for a surrogate pair) or \UXXXXXXXX and
// returns how much of s it read. Without enough digits the letter stands for itself.
func writeUnicode(b *strings.Builder, s string, digits int) int {
	r, ok := hexRune(s, digits)
	if !ok {
		b.WriteByte(s[1])
		return 2
	}
	n := 2 + digits
	if digits == 4 && utf16.IsSurrogate(r) && strings.HasPrefix(s[n:], "\\u") {
		if low, ok := hexRune(s[n:], 4); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				b.WriteRune(pair)
				return 2 * n
			}
		}
	}
	b.WriteRune(r) // a value that is no character becomes U+FFFD
	return n
}

// hexRune reads the digits behind the two characters of an escape.
func hexRune(s string, digits int) (rune, bool) {
	if len(s) < 2+digits {
		return 0, false
	}
	v, err := strconv.ParseUint(s[2:2+digits], 16, 32)
	if err != nil || v > utf8.MaxRune {
		return utf8.RuneError, err == nil
	}
	return rune(v), true
}

// quoteString returns s as a string literal.
func quoteString(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r == 0x7F:
			const hex = "0123456789abcdef"
			b.WriteString(`\u00`)
			b.WriteByte(hex[r>>4])
			b.WriteByte(hex[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// quoteName returns a name in back quotes.
func quoteName(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// hexValue reads the digits of X'...'.
func hexValue(text string) ([]byte, bool) {
	digits := text[2 : len(text)-1]
	if len(digits)%2 == 1 {
		digits = "0" + digits
	}
	out := make([]byte, len(digits)/2)
	for i := range out {
		v, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil || digits[2*i] == '+' {
			return nil, false
		}
		out[i] = byte(v)
	}
	return out, true
}
