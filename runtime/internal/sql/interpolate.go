package sql

import (
	"fmt"
	"strings"
)

// Interpolate replaces ${NAME} by the value lookup returns and ${NAME:-default} by
// the value or, where there is none or it is empty, by the default. It runs before
// parsing: errors found by the parser have positions in the text returned here,
// while errors of Interpolate have positions in src.
//
// References are replaced everywhere but in comments, in strings too, and what is
// put in is not looked at again. A value that contains a quote can end the string
// around it: the environment is trusted like the file itself. $${ writes ${.
func Interpolate(src string, lookup func(name string) (string, bool)) (string, []*Error) {
	if !strings.Contains(src, "${") {
		return src, nil
	}
	var b strings.Builder
	var errs []*Error
	var quote byte
	raw := false // in r'...' a backslash is an ordinary character
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case strings.HasPrefix(src[i:], "$${"):
			b.WriteString("${")
			i += 3
			continue
		case strings.HasPrefix(src[i:], "${"):
			value, end, err := expand(src, i, lookup)
			if err != nil {
				errs = append(errs, err)
			}
			b.WriteString(value)
			i = end
			continue
		case quote == 0 && strings.HasPrefix(src[i:], "--"):
			end := lineCommentEnd(src, i)
			b.WriteString(src[i:end])
			i = end
			continue
		case quote == 0 && strings.HasPrefix(src[i:], "/*"):
			end, _ := blockCommentEnd(src, i)
			b.WriteString(src[i:end])
			i = end
			continue
		case quote != 0 && quote != '`' && !raw && c == '\\' && i+1 < len(src) && src[i+1] != '$':
			b.WriteString(src[i : i+2])
			i += 2
			continue
		case quote == 0 && (c == '\'' || c == '"' || c == '`'):
			quote, raw = c, isRawQuote(src, i)
		case c == quote:
			quote = 0
		}
		b.WriteByte(c)
		i++
	}
	return b.String(), errs
}

// isRawQuote reports whether the quote at offset i follows the prefix r.
func isRawQuote(src string, i int) bool {
	if i == 0 || src[i-1] != 'r' && src[i-1] != 'R' {
		return false
	}
	return i == 1 || !isLetter(src[i-2]) && !isDigit(src[i-2])
}

// expand returns the value of the reference at offset start and the offset behind
// it.
func expand(src string, start int, lookup func(string) (string, bool)) (string, int, *Error) {
	fail := func(end int, msg, hint string) (string, int, *Error) {
		return "", end, &Error{Class: ClassSyntax, Msg: msg, Hint: hint, Span: Span{start, end}}
	}
	size := strings.IndexAny(src[start:], "}\n")
	if size < 0 || src[start+size] != '}' {
		end := lineCommentEnd(src, start)
		return fail(end, "${ is not closed on its line: add }", "write $${ for the characters ${")
	}
	end := start + size + 1
	name, fallback, hasDefault := strings.Cut(src[start+2:end-1], ":-")
	if !isPlainName(name) {
		return fail(end, fmt.Sprintf("%q is not the name of a variable", name), "write ${NAME} or ${NAME:-default}")
	}
	value, ok := lookup(name)
	switch {
	case hasDefault && (!ok || value == ""):
		return fallback, end, nil
	case !ok:
		return fail(end, "variable "+name+" is not set", fmt.Sprintf("set it, or write ${%s:-default}", name))
	}
	return value, end, nil
}
