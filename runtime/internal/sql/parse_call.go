package sql

// call reads the parentheses of a function call and the clauses behind them.
func (p *parser) call(name Name) *Call {
	c := &Call{Name: name}
	p.expect("(")
	if !p.is(")") {
		switch {
		case p.accept("DISTINCT"):
			c.Distinct = true
		case p.is("ALL") && p.quantifierAhead():
			p.next()
		}
		c.Args = p.callArgs()
	}
	p.expect(")")
	p.callSuffix(c)
	return c
}

// callSuffix reads FILTER, IGNORE NULLS and OVER.
func (p *parser) callSuffix(c *Call) {
	if p.acceptSeq("FILTER", "(", "WHERE") {
		c.Filter = p.expr()
		p.expect(")")
	}
	if p.acceptSeq("IGNORE", "NULLS") {
		c.IgnoreNulls = true
	} else {
		p.acceptSeq("RESPECT", "NULLS")
	}
	if p.is("OVER") && (p.at(1).is("(") || isName(p.at(1))) {
		p.next()
		c.Over = p.windowRef()
	}
	c.Span = p.from(c.Name.Start)
}

// quantifierAhead reports whether the next word is followed by an operand, so that
// it is a quantifier and no name.
func (p *parser) quantifierAhead() bool {
	t := p.at(1)
	switch t.kind {
	case tokenNumber, tokenString, tokenHex, tokenQuoted:
		return true
	case tokenOp:
		return t.text == "*" || t.text == "~"
	case tokenWord:
		return t.text == "" || !isReserved(t.text) || t.is("CASE") || t.is("NOT") || t.is("NULL") || t.is("TRUE") || t.is("FALSE")
	}
	return false
}

func (p *parser) callArgs() []Expr {
	args := []Expr{p.callArg()}
	for p.accept(",") {
		args = append(args, p.callArg())
	}
	return args
}

// callArg reads an argument: a star, a lambda or an expression.
func (p *parser) callArg() Expr {
	if s := p.starAhead(); s != nil {
		return s
	}
	return p.lambdaOrExpr()
}

// lambdaOrExpr reads x -> body, (x, y) -> body or an expression.
func (p *parser) lambdaOrExpr() Expr {
	start := p.peek().start
	var params []Ident
	switch {
	case isName(p.peek()) && p.at(1).is("->"):
		params = []Ident{p.toIdent(p.next())}
	case p.is("(") && p.lambdaListAhead():
		params = p.identList("parameter")
	default:
		return p.expr()
	}
	p.expect("->")
	p.enter()
	body := p.lambdaOrExpr()
	p.leave()
	return &Lambda{Span: p.from(start), Params: params, Body: body}
}

// lambdaListAhead reports whether (a, b, ...) -> comes next.
func (p *parser) lambdaListAhead() bool {
	i := p.pos + 1
	for isName(p.toks[i]) {
		i++
		if p.toks[i].is(")") {
			return p.toks[i+1].is("->")
		}
		if !p.toks[i].is(",") {
			return false
		}
		i++
	}
	return false
}

// windowRef reads a window name or a specification in parentheses.
func (p *parser) windowRef() *Window {
	start := p.peek().start
	w := &Window{}
	if !p.is("(") {
		id := p.ident("window")
		w.Name = &id
		w.Span = id.Span
		return w
	}
	p.next()
	if p.is("PARTITION") || p.isSeq("DISTRIBUTE", "BY") {
		p.next()
		p.expect("BY")
		w.PartitionBy = p.exprList()
	}
	if p.is("ORDER") || p.isSeq("SORT", "BY") {
		p.next()
		p.expect("BY")
		w.OrderBy = p.sortItems()
	}
	if p.isAny("ROWS", "RANGE") {
		w.Frame = p.frame()
	}
	if !p.is(")") {
		p.unexpected(")", "PARTITION", "ORDER", "ROWS", "RANGE")
	}
	p.next()
	w.Span = p.from(start)
	return w
}

func (p *parser) frame() *Frame {
	t := p.next()
	f := &Frame{Unit: Rows}
	if t.text == "RANGE" {
		f.Unit = Range
	}
	if p.accept("BETWEEN") {
		f.Start = p.bound()
		p.expect("AND")
		f.End = p.bound()
	} else {
		f.Start = p.bound()
		f.End = Bound{Span: f.Start.Span, Kind: CurrentRow}
	}
	f.Span = p.from(t.start)
	return f
}

func (p *parser) bound() Bound {
	start := p.peek().start
	b := Bound{}
	switch {
	case p.acceptSeq("CURRENT", "ROW"):
		b.Kind = CurrentRow
	case p.acceptSeq("UNBOUNDED", "PRECEDING"):
		b.Kind = UnboundedPreceding
	case p.acceptSeq("UNBOUNDED", "FOLLOWING"):
		b.Kind = UnboundedFollowing
	default:
		b.N = p.exprAt(bindComparison)
		switch {
		case p.accept("PRECEDING"):
			b.Kind = Preceding
		case p.accept("FOLLOWING"):
			b.Kind = Following
		default:
			p.unexpected("PRECEDING", "FOLLOWING")
		}
	}
	b.Span = p.from(start)
	return b
}

// keywordCall reads a function whose arguments may be separated by keywords. All
// of them also take plain arguments.
func (p *parser) keywordCall(t token) Expr {
	id := p.toIdent(p.next())
	name := Name{Span: id.Span, Parts: []Ident{id}}
	switch {
	case t.text == "EXTRACT" && p.at(1).kind == tokenWord && p.at(2).is("FROM"):
		return p.extract(id.Start)
	case t.text == "TRIM":
		if e := p.trim(name); e != nil {
			return e
		}
		return p.call(name)
	case t.text == "EXTRACT" || p.at(1).is(")") || p.at(1).is("DISTINCT"):
		return p.call(name)
	}
	p.expect("(")
	c := &Call{Name: name}
	if t.text == "POSITION" {
		if p.position(c) {
			return p.closeCall(c)
		}
	} else {
		c.Args = []Expr{p.callArg()}
	}
	if t.text == "OVERLAY" && p.accept("PLACING") {
		c.Args = append(c.Args, p.expr())
		p.expect("FROM")
		c.Args = append(c.Args, p.expr())
		if p.accept("FOR") {
			c.Args = append(c.Args, p.expr())
		}
		return p.closeCall(c)
	}
	if (t.text == "SUBSTRING" || t.text == "SUBSTR") && p.accept("FROM") {
		c.Args = append(c.Args, p.expr())
		if p.accept("FOR") {
			c.Args = append(c.Args, p.expr())
		}
		return p.closeCall(c)
	}
	for p.accept(",") {
		c.Args = append(c.Args, p.callArg())
	}
	return p.closeCall(c)
}

// position reads the first argument of position and, if IN separates them, the
// second one; then it returns true.
func (p *parser) position(c *Call) bool {
	if s := p.starAhead(); s != nil {
		c.Args = []Expr{s}
		return false
	}
	start := p.peek().start
	first := p.exprAt(bindComparison)
	if p.accept("IN") {
		c.Args = []Expr{first, p.expr()}
		return true
	}
	c.Args = []Expr{p.infix(start, first, bindAny)}
	return false
}

func (p *parser) closeCall(c *Call) Expr {
	p.expect(")")
	p.callSuffix(c)
	return c
}

func (p *parser) extract(start int) Expr {
	p.expect("(")
	field := p.toIdent(p.next())
	p.expect("FROM")
	x := p.expr()
	p.expect(")")
	return &Extract{Span: p.from(start), Field: field, From: x}
}

// trim reads TRIM(... FROM x). It returns nil, having read nothing, for trim(x).
func (p *parser) trim(name Name) Expr {
	back := p.pos
	p.expect("(")
	side := TrimSide(0)
	if p.isAny("BOTH", "LEADING", "TRAILING") && (p.at(1).is("FROM") || p.quantifierAhead() || p.at(1).is("(") || p.at(1).is("-")) {
		side = map[string]TrimSide{"BOTH": TrimBoth, "LEADING": TrimLeading, "TRAILING": TrimTrailing}[p.next().text]
	}
	if side == 0 && (p.is(")") || p.is("*") || p.is("DISTINCT")) {
		p.pos = back
		return nil
	}
	t := &Trim{Side: side}
	if side == 0 {
		t.Side = TrimBoth
	}
	if !p.is("FROM") {
		t.Chars = p.expr()
		if side == 0 && !p.is("FROM") {
			return p.closeCall(p.trimCall(name, t.Chars))
		}
	}
	p.expect("FROM")
	t.From = p.expr()
	p.expect(")")
	t.Span = p.from(name.Start)
	return t
}

// trimCall returns the call trim(first, ...) with the closing parenthesis unread.
func (p *parser) trimCall(name Name, first Expr) *Call {
	c := &Call{Name: name, Args: []Expr{first}}
	for p.accept(",") {
		c.Args = append(c.Args, p.callArg())
	}
	return c
}
