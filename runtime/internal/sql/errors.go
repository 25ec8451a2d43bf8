package sql

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ClassSyntax is the class of every error this package reports.
const ClassSyntax = "PARSE_SYNTAX_ERROR"

// Error is one thing wrong with the text. The planner reports its own errors in
// the same form, with other classes.
type Error struct {
	// Class is a stable name in upper case that programs may compare.
	Class string
	// Msg says what is wrong, without position.
	Msg string
	// Hint says what to write instead; it may be empty.
	Hint string
	// Span is the part of the text the error is about.
	Span Span
}

// Error returns class, message and hint on one line. It has no position because
// the error does not know the text; use Render where the text is at hand.
func (e *Error) Error() string {
	s := e.Class + ": " + e.Msg
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Position returns the line and column of a byte offset, both counted from 1.
// Columns count characters, not bytes. Offsets outside the text are moved to its
// nearest end.
func Position(src string, offset int) (line, column int) {
	offset = max(0, min(offset, len(src)))
	line = 1 + strings.Count(src[:offset], "\n")
	begin := strings.LastIndexByte(src[:offset], '\n') + 1
	return line, 1 + utf8.RuneCountInString(src[begin:offset])
}

// Render returns the error as a person wants to see it: "file:line:col: CLASS:
// text", the source line, a line with carets under the place, and the hint. The
// text ends in a line feed. src must be the text that was parsed.
func Render(file, src string, e *Error) string {
	line, column := Position(src, e.Span.Start)
	var b strings.Builder
	b.WriteString(file)
	b.WriteByte(':')
	b.WriteString(strconv.Itoa(line))
	b.WriteByte(':')
	b.WriteString(strconv.Itoa(column))
	b.WriteString(": ")
	b.WriteString(e.Class)
	b.WriteString(": ")
	b.WriteString(e.Msg)
	b.WriteByte('\n')
	writeCaret(&b, src, e.Span)
	if e.Hint != "" {
		b.WriteString("  hint: ")
		b.WriteString(e.Hint)
		b.WriteByte('\n')
	}
	return b.String()
}

// excerptWidth is the number of characters of a source line shown on each side of
// an error; generated SQL has very long lines.
const excerptWidth = 120

// writeCaret writes the source line of the span and the line of carets below it.
func writeCaret(b *strings.Builder, src string, span Span) {
	at := max(0, min(span.Start, len(src)))
	begin := strings.LastIndexByte(src[:at], '\n') + 1
	end := len(src)
	if i := strings.IndexByte(src[at:], '\n'); i >= 0 {
		end = at + i
	}
	before := []rune(strings.TrimSuffix(src[begin:at], "\r"))
	rest := []rune(strings.TrimSuffix(src[at:end], "\r"))
	marked := utf8.RuneCountInString(src[at:max(at, min(span.End, end))])
	marked = max(1, min(marked, len(rest), excerptWidth))
	if len(before) > excerptWidth {
		before = append([]rune("..."), before[len(before)-excerptWidth:]...)
	}
	if len(rest) > excerptWidth {
		rest = append(rest[:excerptWidth:excerptWidth], []rune("...")...)
	}
	b.WriteString("  ")
	for _, r := range before {
		b.WriteRune(visible(r))
	}
	for _, r := range rest {
		b.WriteRune(visible(r))
	}
	b.WriteString("\n  ")
	for _, r := range before {
		if r == '\t' {
			b.WriteByte('\t')
			continue
		}
		b.WriteString("  "[:runeWidth(r)])
	}
	for i := range marked {
		width := 1
		if i < len(rest) {
			width = max(1, runeWidth(rest[i]))
		}
		b.WriteString("^^"[:width])
	}
	b.WriteByte('\n')
}

// visible keeps control characters in the source from moving the caret line or
// writing escape sequences to a terminal.
func visible(r rune) rune {
	if r != '\t' && unicode.IsControl(r) {
		return '\uFFFD'
	}
	return r
}

// runeWidth returns how many columns a terminal uses for r: 0, 1 or 2.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me), r == 0x200B, r == 0x200D:
		return 0
	case r >= 0x1100 && r <= 0x115F, r >= 0x2E80 && r <= 0xA4CF && r != 0x303F,
		r >= 0xAC00 && r <= 0xD7A3, r >= 0xF900 && r <= 0xFAFF, r >= 0xFE30 && r <= 0xFE6F,
		r >= 0xFF00 && r <= 0xFF60, r >= 0xFFE0 && r <= 0xFFE6,
		r >= 0x1F300 && r <= 0x1F64F, r >= 0x1F680 && r <= 0x1F6FF, r >= 0x1F900 && r <= 0x1F9FF,
		r >= 0x20000 && r <= 0x3FFFD:
		return 2
	}
	return 1
}
