package sql

import (
	"fmt"
	"strconv"
	"strings"
)

// primary reads an operand without operators.
func (p *parser) primary() Expr {
	t := p.peek()
	switch t.kind {
	case tokenNumber:
		return p.number(t.start, "")
	case tokenString:
		s := p.str("value")
		return &s
	case tokenHex:
		return p.hex()
	case tokenQuoted:
		return p.columnOrCall()
	case tokenOp:
		if t.text == "(" {
			return p.parenthesized()
		}
		if t.text == "*" {
			p.failAt(t.span(), "* can only stand in a select list or as in count(*)", "")
		}
	case tokenWord:
		if e := p.keywordExpr(t); e != nil {
			return e
		}
		if isName(t) || p.isWordFunction(t) {
			return p.columnOrCall()
		}
	}
	if p.at(-1).is(",") && (t.kind == tokenEOF || t.is("FROM") || t.is(")") || t.is(";")) {
		p.failAt(p.at(-1).span(), "expected an expression behind the comma, found "+p.describe(t), "remove the comma")
	}
	if p.at(-1).is("SELECT") && t.is("FROM") {
		p.failAt(t.span(), "expected an expression, found "+p.describe(t), "name the columns, or write SELECT * for all of them")
	}
	p.unexpected("an expression")
	return nil
}

// isWordFunction reports whether a reserved word is used as a function.
func (p *parser) isWordFunction(t token) bool {
	switch t.text {
	case "LEFT", "RIGHT", "LIKE", "ILIKE", "RLIKE", "EXISTS":
		return p.at(1).is("(")
	}
	return false
}

// keywordExpr reads an expression that begins with a keyword, or returns nil if
// the word is used as a name.
func (p *parser) keywordExpr(t token) Expr {
	paren := p.at(1).is("(")
	switch t.text {
	case "NULL":
		p.next()
		return &NullLit{Span: t.span()}
	case "TRUE", "FALSE":
		p.next()
		return &BoolLit{Span: t.span(), Value: t.text == "TRUE"}
	case "CASE":
		return p.caseExpr()
	case "EXISTS":
		if after := p.at(2); paren && (after.is("SELECT") || after.is("WITH") || after.is("VALUES") || after.is("(")) {
			return p.exists()
		}
	case "CAST", "TRY_CAST":
		if paren {
			return p.cast()
		}
	case "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "POSITION", "OVERLAY":
		if paren {
			return p.keywordCall(t)
		}
	case "INTERVAL":
		if p.intervalAhead() {
			return p.interval()
		}
	case "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ":
		if p.at(1).kind == tokenString {
			return p.typedLiteral()
		}
	case "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "CURRENT_USER", "LOCALTIMESTAMP":
		if !paren && !p.at(1).is(".") && !p.at(1).is("->") {
			id := p.toIdent(p.next())
			return &Call{Span: id.Span, Name: Name{Span: id.Span, Parts: []Ident{id}}}
		}
	}
	return nil
}

// number reads a number token; sign is "-" or "" and stands at start.
func (p *parser) number(start int, sign string) Expr {
	t := p.next()
	text := p.src[t.start:t.end]
	body := strings.TrimRight(text, "LlSsYyFfDdBb")
	kind, _ := numberSuffix(body, text[len(body):])
	if sign != "" {
		body = sign + body
	}
	lit := &NumberLit{Span: Span{start, t.end}, Kind: kind, Text: body}
	p.checkNumber(lit)
	return lit
}

// checkNumber refuses a number that is too large for the type its suffix asks for.
func (p *parser) checkNumber(lit *NumberLit) {
	var err error
	switch lit.Kind {
	case TinyInt:
		_, err = strconv.ParseInt(lit.Text, 10, 8)
	case SmallInt:
		_, err = strconv.ParseInt(lit.Text, 10, 16)
	case BigInt:
		_, err = strconv.ParseInt(lit.Text, 10, 64)
	case Float:
		_, err = strconv.ParseFloat(lit.Text, 32)
	case Double:
		_, err = strconv.ParseFloat(lit.Text, 64)
	case Number, Decimal: // no suffix, or one without a range
	}
	if err != nil {
		name := [...]string{TinyInt: "tinyint", SmallInt: "smallint", BigInt: "bigint", Float: "float", Double: "double"}[lit.Kind]
		p.failAt(lit.Span, "number "+lit.In(p.src)+" is out of the range of "+name, "")
	}
}

func (p *parser) hex() Expr {
	t := p.next()
	v, ok := hexValue(p.src[t.start:t.end])
	if !ok {
		p.failAt(t.span(), "X'...' takes hexadecimal digits only", "")
	}
	return &BinaryLit{Span: t.span(), Value: v}
}

func (p *parser) typedLiteral() Expr {
	t := p.next()
	kind := TimestampType
	switch t.text {
	case "DATE":
		kind = DateType
	case "TIMESTAMP_NTZ":
		kind = TimestampNTZType
	}
	s := p.str("literal")
	return &TypedLit{Span: p.from(t.start), Kind: kind, Text: s.Value}
}

// columnOrCall reads a name and what follows it: a call's arguments or fields.
func (p *parser) columnOrCall() Expr {
	parts := []Ident{p.toIdent(p.next())}
	for p.is(".") && (p.at(1).kind == tokenWord || p.at(1).kind == tokenQuoted) {
		p.next()
		parts = append(parts, p.toIdent(p.next()))
	}
	span := parts[0].To(parts[len(parts)-1].Span)
	if p.is("(") {
		return p.call(Name{Span: span, Parts: parts})
	}
	return &ColumnRef{Span: span, Parts: parts}
}

// queryAhead reports whether the next token begins a query.
func (p *parser) queryAhead() bool { return p.isAny("SELECT", "WITH", "VALUES") }

// parenthesized reads (expression), (a, b) or (query).
func (p *parser) parenthesized() Expr {
	open := p.next()
	if p.queryAhead() {
		q := p.query()
		p.expect(")")
		return &ScalarSubquery{Span: p.from(open.start), Query: q}
	}
	first := p.expr()
	if sub, ok := first.(*ScalarSubquery); ok && p.queryTailAhead() {
		q := p.queryFrom(open.end, sub.Query)
		p.expect(")")
		return &ScalarSubquery{Span: p.from(open.start), Query: q}
	}
	if p.is(",") {
		items := []Expr{first}
		for p.accept(",") {
			items = append(items, p.expr())
		}
		p.expect(")")
		return &Row{Span: p.from(open.start), Items: items}
	}
	p.expect(")")
	return first
}

// exists reads EXISTS (query), or a call of the function exists whose first
// argument is in parentheses.
func (p *parser) exists() Expr {
	id := p.toIdent(p.next())
	open := p.expect("(")
	if p.queryAhead() {
		q := p.query()
		p.expect(")")
		return &Exists{Span: p.from(id.Start), Query: q}
	}
	first := p.expr()
	if sub, ok := first.(*ScalarSubquery); ok && !p.is(",") {
		q := sub.Query
		if p.queryTailAhead() {
			q = p.queryFrom(open.end, q)
		}
		p.expect(")")
		return &Exists{Span: p.from(id.Start), Query: q}
	}
	c := &Call{Name: Name{Span: id.Span, Parts: []Ident{id}}, Args: []Expr{first}}
	for p.accept(",") {
		c.Args = append(c.Args, p.callArg())
	}
	return p.closeCall(c)
}

func (p *parser) caseExpr() Expr {
	c := &Case{}
	start := p.next().start
	if !p.is("WHEN") {
		c.Operand = p.expr()
	}
	for p.is("WHEN") {
		w := p.next()
		cond := p.expr()
		p.expect("THEN")
		result := p.expr()
		c.Whens = append(c.Whens, When{Span: p.from(w.start), Cond: cond, Result: result})
	}
	if len(c.Whens) == 0 {
		p.unexpected("WHEN")
	}
	if p.accept("ELSE") {
		c.Else = p.expr()
	}
	if !p.accept("END") {
		p.unexpected("END")
	}
	c.Span = p.from(start)
	return c
}

func (p *parser) cast() Expr {
	t := p.next()
	p.expect("(")
	x := p.expr()
	p.expect("AS")
	typ := p.typeName()
	p.expect(")")
	return &Cast{Span: p.from(t.start), Try: t.text == "TRY_CAST", X: x, Type: typ}
}

// star reads * or, with a qualifier already read, the * of t.*.
func (p *parser) star(qualifier []Ident) Expr {
	t := p.expect("*")
	s := &Star{Qualifier: qualifier}
	start := t.start
	if len(qualifier) > 0 {
		start = qualifier[0].Start
	}
	if p.isSeq("EXCEPT", "(") && isName(p.at(2)) {
		p.next()
		s.Except = p.identList("column")
	}
	s.Span = p.from(start)
	return s
}

// starAhead reads * or t.* if that comes next, else it returns nil.
func (p *parser) starAhead() Expr {
	if p.is("*") {
		return p.star(nil)
	}
	i := p.pos
	for isName(p.toks[i]) && p.toks[i+1].is(".") {
		i += 2
	}
	if i == p.pos || !p.toks[i].is("*") {
		return nil
	}
	var qualifier []Ident
	for !p.is("*") {
		qualifier = append(qualifier, p.toIdent(p.next()))
		p.next()
	}
	return p.star(qualifier)
}

// intervalAhead reports whether the word INTERVAL begins a literal.
func (p *parser) intervalAhead() bool {
	t := p.at(1)
	if t.is("-") || t.is("+") {
		t = p.at(2)
	}
	return t.kind == tokenNumber || t.kind == tokenString
}

// interval reads an interval literal in one of its three forms: value unit ...,
// 'text' unit TO unit, or 'value unit ...'.
func (p *parser) interval() *IntervalLit {
	start := p.next().start
	lit := &IntervalLit{}
	var sum intervalSum
	for first := true; first || p.intervalPartAhead(); first = false {
		negative := false
		if p.isAny("-", "+") {
			negative = p.next().is("-")
		}
		text, at := p.intervalText()
		unitToken := p.peek()
		unit, ok := unitByName(unitToken.span().In(p.src))
		switch {
		case (unitToken.kind != tokenWord || !ok) && first && strings.ContainsAny(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"):
			p.intervalError(at, sum.addText(text, negative))
			lit.From, lit.To = sum.from, sum.to
			return p.finishInterval(lit, start, sum)
		case unitToken.kind != tokenWord || !ok:
			p.unitExpected(unitToken)
		case first && p.at(1).is("TO"):
			p.intervalRange(lit, &sum, text, negative, at)
			return p.finishInterval(lit, start, sum)
		}
		p.next()
		p.intervalError(at, sum.addNumber(text, negative, unit))
	}
	lit.From, lit.To = sum.from, sum.to
	return p.finishInterval(lit, start, sum)
}

// intervalText reads the number or string of an interval part.
func (p *parser) intervalText() (string, Span) {
	t := p.peek()
	if t.kind == tokenString {
		s := p.str("interval")
		return strings.TrimSpace(s.Value), s.Span
	}
	if t.kind != tokenNumber {
		p.unexpected("a number for the interval")
	}
	p.next()
	return p.src[t.start:t.end], t.span()
}

// intervalPartAhead reports whether another value with a unit follows, as in
// INTERVAL 1 HOUR 30 MINUTES.
func (p *parser) intervalPartAhead() bool {
	i := 0
	if p.at(0).is("-") || p.at(0).is("+") {
		i = 1
	}
	v, u := p.at(i), p.at(i+1)
	if v.kind != tokenNumber && v.kind != tokenString || u.kind != tokenWord {
		return false
	}
	_, ok := unitByName(u.span().In(p.src))
	return ok
}

func (p *parser) unitExpected(t token) {
	hint := "write INTERVAL 10 SECONDS or INTERVAL '10 seconds'"
	if t.kind == tokenWord {
		if u, ok := Nearest(t.span().In(p.src), unitNames); ok {
			hint = fmt.Sprintf("did you mean %s?", strings.ToUpper(u))
		}
	}
	p.failAt(t.span(), "expected a unit of time for the interval, found "+p.describe(t), hint)
}

// intervalRange reads unit TO unit, which says what the fields of text are.
func (p *parser) intervalRange(lit *IntervalLit, sum *intervalSum, text string, negative bool, at Span) {
	first := p.next()
	p.expect("TO")
	last := p.next()
	from, fromOK := fieldByName(first.span().In(p.src))
	to, toOK := fieldByName(last.span().In(p.src))
	if !fromOK || !toOK || from >= to || (from <= MonthUnit) != (to <= MonthUnit) {
		p.failAt(first.span().To(last.span()), fmt.Sprintf("intervals have no fields %s TO %s",
			strings.ToUpper(first.span().In(p.src)), strings.ToUpper(last.span().In(p.src))),
			"YEAR TO MONTH, or from DAY, HOUR, MINUTE to a smaller one of HOUR, MINUTE, SECOND")
	}
	lit.From, lit.To = from, to
	p.intervalError(at, sum.addFields(text, negative, from, to))
}

// intervalError reports a value that is not an interval.
func (p *parser) intervalError(at Span, err error) {
	if err != nil {
		p.failAt(at, err.Error(), "")
	}
}

// finishInterval stores the sum, whose fields must be of one kind.
func (p *parser) finishInterval(lit *IntervalLit, start int, sum intervalSum) *IntervalLit {
	lit.Span = p.from(start)
	lit.Text = lit.In(p.src)
	if lit.From <= MonthUnit && lit.To > MonthUnit {
		p.failAt(lit.Span, "an interval cannot mix years or months with days or times", "add two intervals")
	}
	value, err := sum.literal()
	p.intervalError(lit.Span, err)
	lit.Value = value
	return lit
}
