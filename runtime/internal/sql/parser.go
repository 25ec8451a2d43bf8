package sql

import (
	"fmt"
	"strings"
)

// Limits bounds what the parser accepts; the zero value has the defaults. They
// protect against exhausting the stack or memory on text from outside.
type Limits struct {
	// StatementBytes is the largest statement in bytes, comments within it
	// included; default 64 KiB.
	StatementBytes int
	// Depth is how deep expressions, queries and types may be nested; default 200.
	Depth int
}

const (
	defaultStatementBytes = 64 << 10
	defaultDepth          = 200
)

func (l Limits) withDefaults() Limits {
	if l.StatementBytes <= 0 {
		l.StatementBytes = defaultStatementBytes
	}
	if l.Depth <= 0 {
		l.Depth = defaultDepth
	}
	return l
}

// ParseScript parses statements separated by semicolons with default limits; see
// [Limits.ParseScript].
func ParseScript(src string) ([]Statement, []*Error) { return Limits{}.ParseScript(src) }

// ParseStatement parses one statement, which may end in a semicolon.
func ParseStatement(src string) (Statement, error) { return Limits{}.ParseStatement(src) }

// ParseExpr parses an expression; * alone is one too.
func ParseExpr(src string) (Expr, error) { return Limits{}.ParseExpr(src) }

// ParseSelectItem parses an expression with an optional alias, as in a select
// list: what selectExpr takes.
func ParseSelectItem(src string) (SelectItem, error) { return Limits{}.ParseSelectItem(src) }

// ParseDataType parses a data type such as array<int>.
func ParseDataType(src string) (TypeName, error) { return Limits{}.ParseDataType(src) }

// ParseScript parses statements separated by semicolons; empty statements are
// skipped. After an error it goes on behind the next semicolon, so that all
// statements in error are reported at once. The statements returned are those
// without errors, in order.
func (l Limits) ParseScript(src string) ([]Statement, []*Error) {
	p := newParser(src, l)
	p.script = true
	var stmts []Statement
	var errs []*Error
	for {
		for p.accept(";") {
		}
		if p.peek().kind == tokenEOF {
			return stmts, errs
		}
		stmt, err := guard(p, p.scriptStatement)
		faults := p.later
		p.later, p.lenient = nil, false
		errs = append(errs, faults...)
		if err == nil && len(faults) > 0 {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			p.resync()
			continue
		}
		stmts = append(stmts, stmt)
	}
}

// ParseStatement parses one statement, which may end in a semicolon. The error is
// an *Error.
func (l Limits) ParseStatement(src string) (Statement, error) {
	return whole(src, l, func(p *parser) Statement {
		p.checkSize()
		stmt := p.statement()
		for p.accept(";") {
		}
		if p.peek().kind != tokenEOF && p.at(-1).is(";") {
			p.failAt(p.peek().span(), "expected one statement, found a second one", "")
		}
		return stmt
	})
}

// ParseExpr parses an expression. The error is an *Error.
func (l Limits) ParseExpr(src string) (Expr, error) {
	return whole(src, l, func(p *parser) Expr {
		p.checkSize()
		if p.is("*") {
			return p.star(nil)
		}
		return p.expr()
	})
}

// ParseSelectItem parses an expression with an optional alias. The error is an
// *Error.
func (l Limits) ParseSelectItem(src string) (SelectItem, error) {
	return whole(src, l, func(p *parser) SelectItem {
		p.checkSize()
		return p.selectItem()
	})
}

// ParseDataType parses a data type. The error is an *Error.
func (l Limits) ParseDataType(src string) (TypeName, error) {
	return whole(src, l, func(p *parser) TypeName {
		p.checkSize()
		return p.typeName()
	})
}

// whole runs a parse function and checks that it has used up the text.
func whole[T any](src string, l Limits, parse func(*parser) T) (T, error) {
	p := newParser(src, l)
	v, err := guard(p, func() T {
		v := parse(p)
		if p.peek().kind != tokenEOF {
			p.unexpected("end of text")
		}
		return v
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// bailout carries the first error of a statement up to guard. Parse functions
// therefore return trees only, and no check of an error can be forgotten.
type bailout struct{ err *Error }

// guard runs a parse function and turns its bailout into an error.
func guard[T any](p *parser, parse func() T) (v T, err *Error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case bailout:
			err = r.err
			p.depth = 0
		default:
			panic(r)
		}
	}()
	return parse(), nil
}

// parser reads tokens; pos is the one to read next.
type parser struct {
	src    string
	toks   []token
	pos    int
	depth  int
	limits Limits
	// alias is the index of the last alias written without AS, or -1. A misspelt
	// keyword is often taken for an alias and only the token behind it is in error.
	alias int
	// later are faults behind which the statement could be read on. lenient says that
	// an unknown type of a column is one.
	later   []*Error
	lenient bool
	script  bool // several statements are read
}

func newParser(src string, l Limits) *parser {
	return &parser{src: src, toks: lex(src), limits: l.withDefaults(), alias: -1}
}

// peek returns the next token without reading it.
func (p *parser) peek() token { return p.toks[p.pos] }

// at returns the token n places from the next one; past the end it is the last.
func (p *parser) at(n int) token {
	return p.toks[max(0, min(p.pos+n, len(p.toks)-1))]
}

// next reads a token.
func (p *parser) next() token {
	t := p.toks[p.pos]
	if t.kind == tokenIllegal {
		p.failAt(t.span(), t.text, "")
	}
	if t.kind != tokenEOF {
		p.pos++
	}
	return t
}

func (p *parser) is(text string) bool { return p.toks[p.pos].is(text) }

// isAny reports whether the next token is one of the given ones.
func (p *parser) isAny(texts ...string) bool {
	for _, t := range texts {
		if p.is(t) {
			return true
		}
	}
	return false
}

// isSeq reports whether the next tokens are the given ones.
func (p *parser) isSeq(texts ...string) bool {
	for i, t := range texts {
		if !p.at(i).is(t) {
			return false
		}
	}
	return true
}

// accept reads the next token if it is the given one.
func (p *parser) accept(text string) bool {
	if !p.is(text) {
		return false
	}
	p.pos++
	return true
}

// acceptSeq reads the given tokens if they all come next.
func (p *parser) acceptSeq(texts ...string) bool {
	if !p.isSeq(texts...) {
		return false
	}
	p.pos += len(texts)
	return true
}

// expect reads the given operator or keyword or fails.
func (p *parser) expect(text string) token {
	if !p.is(text) {
		p.unexpected(text)
	}
	return p.next()
}

// from returns the range from start to the last token read.
func (p *parser) from(start int) Span {
	end := start
	if p.pos > 0 {
		end = max(start, p.toks[p.pos-1].end)
	}
	return Span{Start: start, End: end}
}

// enter counts a level of nesting; the caller calls leave.
func (p *parser) enter() {
	p.depth++
	if p.depth > p.limits.Depth {
		p.failAt(p.peek().span(), fmt.Sprintf("nested deeper than %d levels", p.limits.Depth),
			"use a view or WITH to name parts of the statement")
	}
}

func (p *parser) leave() { p.depth-- }

// checkSize fails if the text up to the next semicolon is too long.
func (p *parser) checkSize() {
	start, i := p.peek().start, p.pos
	for p.toks[i].kind != tokenEOF && !p.toks[i].is(";") {
		i++
	}
	if size := p.toks[i].start - start; size > p.limits.StatementBytes {
		p.failAt(p.peek().span(), fmt.Sprintf("statement has %d bytes, the limit is %d", size, p.limits.StatementBytes),
			"split it into views")
	}
}

// resync moves behind the next semicolon.
func (p *parser) resync() {
	for p.peek().kind != tokenEOF {
		t := p.toks[p.pos]
		p.pos++
		if t.is(";") {
			return
		}
	}
}

// failAt ends the parse of this statement with an error.
func (p *parser) failAt(at Span, msg, hint string) {
	panic(bailout{&Error{Class: ClassSyntax, Msg: msg, Hint: hint, Span: at}})
}

// describe returns the token as error messages show it.
func (p *parser) describe(t token) string {
	switch t.kind {
	case tokenEOF:
		return "the end of the text"
	case tokenString:
		return "a string"
	}
	s := p.src[t.start:t.end]
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "..."
	}
	if strings.Contains(s, "`") {
		return s
	}
	return `"` + s + `"`
}

// unexpected fails at the next token. expected lists what could stand there: words
// and operators in upper case are shown in quotes, descriptions as they are.
func (p *parser) unexpected(expected ...string) {
	t := p.peek()
	if t.kind == tokenIllegal {
		p.failAt(t.span(), t.text, "")
	}
	names := make([]string, len(expected))
	for i, e := range expected {
		names[i] = e
		if _, known := keywords[e]; known || operatorText(e) != "" {
			names[i] = `"` + e + `"`
		}
	}
	msg := "expected " + joinOr(names) + ", found " + p.describe(t)
	at, hint := p.guess(t, expected)
	p.failAt(at, msg, hint)
}

// guess looks for the misspelt keyword behind an error at t and returns where the
// error is best shown.
func (p *parser) guess(t token, expected []string) (Span, string) {
	words := expected
	if p.alias >= 0 && p.alias == p.pos-1 {
		prev := p.toks[p.alias]
		if w, ok := Nearest(p.src[prev.start:prev.end], clauseWordList); ok {
			return prev.span(), fmt.Sprintf("did you mean %s instead of %q?", w, prev.span().In(p.src))
		}
	}
	if t.kind == tokenWord && !isReserved(t.text) {
		word := t.span().In(p.src)
		if w, ok := Nearest(word, words); ok && keywords[w].text != "" && !strings.EqualFold(w, word) {
			return t.span(), fmt.Sprintf("did you mean %s?", w)
		}
		if w, ok := Nearest(word, clauseWordList); ok && !strings.EqualFold(w, word) {
			return t.span(), fmt.Sprintf("did you mean %s?", w)
		}
	}
	if t.kind == tokenWord && isReserved(t.text) && len(expected) > 0 && strings.HasPrefix(expected[0], "a name") && expected[0] != "a name for the table" {
		return t.span(), fmt.Sprintf("%s is reserved: write %s to use it as a name", t.text, quoteName(t.span().In(p.src)))
	}
	return t.span(), ""
}

// joinOr joins words with commas and a final "or".
func joinOr(words []string) string {
	switch len(words) {
	case 0:
		return "something else"
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// isName reports whether t can be a name.
func isName(t token) bool {
	return t.kind == tokenQuoted || t.kind == tokenWord && (t.text == "" || !isReserved(t.text))
}

// toIdent returns a word or quoted token as a name.
func (p *parser) toIdent(t token) Ident {
	text := p.src[t.start:t.end]
	if t.kind == tokenQuoted {
		text = text[1 : len(text)-1]
		if strings.Contains(text, "``") {
			text = strings.ReplaceAll(text, "``", "`")
		}
	}
	return Ident{Span: t.span(), Name: text}
}

// ident reads a name; what says of what, for the error.
func (p *parser) ident(what string) Ident {
	if !isName(p.peek()) {
		p.unexpected("a name for the " + what)
	}
	return p.toIdent(p.next())
}

// fieldName reads a name behind a point or AS, where reserved words are no trouble.
func (p *parser) fieldName(what string) Ident {
	if t := p.peek(); t.kind != tokenWord && t.kind != tokenQuoted {
		p.unexpected("a name for the " + what)
	}
	return p.toIdent(p.next())
}

// name reads a possibly qualified name.
func (p *parser) name(what string) Name {
	parts := []Ident{p.ident(what)}
	for p.is(".") && (p.at(1).kind == tokenWord || p.at(1).kind == tokenQuoted) {
		p.next()
		parts = append(parts, p.fieldName(what))
	}
	return Name{Span: parts[0].To(parts[len(parts)-1].Span), Parts: parts}
}

// identList reads (a, b, ...).
func (p *parser) identList(what string) []Ident {
	p.expect("(")
	list := []Ident{p.ident(what)}
	for p.accept(",") {
		list = append(list, p.ident(what))
	}
	p.expect(")")
	return list
}

// str reads a string literal; adjacent literals are joined.
func (p *parser) str(what string) StringLit {
	t := p.peek()
	if t.kind != tokenString {
		p.unexpected("a string for the " + what)
	}
	p.next()
	value := stringValue(p.src[t.start:t.end])
	if p.peek().kind == tokenString {
		var b strings.Builder
		b.WriteString(value)
		for p.peek().kind == tokenString {
			n := p.next()
			b.WriteString(stringValue(p.src[n.start:n.end]))
		}
		value = b.String()
	}
	return StringLit{Span: p.from(t.start), Value: value}
}
