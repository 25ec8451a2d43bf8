package sql

import "unicode/utf8"

// Binding powers; an operator takes operands that bind at least as strongly. The
// order is Spark's: the predicates (IS, IN, LIKE, BETWEEN) bind weaker than
// comparisons, and NOT weaker than both.
const (
	bindAny = iota
	bindOr
	bindAnd
	bindNot
	bindPredicate
	bindComparison
	bindBitOr
	bindBitXor
	bindBitAnd
	bindShift
	bindAdd
	bindMul
	bindUnary
	bindPostfix
	bindPrimary
)

// binaryOp returns the operator a token stands for and its binding power.
func binaryOp(t token) (BinaryOp, int) {
	if t.kind != tokenOp && t.kind != tokenWord {
		return 0, 0
	}
	switch t.text {
	case "OR":
		return Or, bindOr
	case "AND":
		return And, bindAnd
	case "=", "==":
		return Eq, bindComparison
	case "<>", "!=":
		return NotEq, bindComparison
	case "<":
		return Less, bindComparison
	case "<=":
		return LessEq, bindComparison
	case ">":
		return Greater, bindComparison
	case ">=":
		return GreaterEq, bindComparison
	case "<=>":
		return NullSafeEq, bindComparison
	case "|":
		return BitOr, bindBitOr
	case "^":
		return BitXor, bindBitXor
	case "&":
		return BitAnd, bindBitAnd
	case "<<":
		return ShiftLeft, bindShift
	case ">>":
		return ShiftRight, bindShift
	case ">>>":
		return ShiftRightUnsigned, bindShift
	case "+":
		return Add, bindAdd
	case "-":
		return Sub, bindAdd
	case "||":
		return Concat, bindAdd
	case "*":
		return Mul, bindMul
	case "/":
		return Div, bindMul
	case "%":
		return Mod, bindMul
	case "DIV":
		return IntDiv, bindMul
	}
	return 0, 0
}

// binding returns the binding power operands of op have at least.
func (o BinaryOp) binding() int {
	switch o {
	case Mul, Div, Mod, IntDiv:
		return bindMul
	case Add, Sub, Concat:
		return bindAdd
	case ShiftLeft, ShiftRight, ShiftRightUnsigned:
		return bindShift
	case BitAnd:
		return bindBitAnd
	case BitXor:
		return bindBitXor
	case BitOr:
		return bindBitOr
	case And:
		return bindAnd
	case Or:
		return bindOr
	default:
		return bindComparison
	}
}

// expr reads an expression.
func (p *parser) expr() Expr { return p.exprAt(bindAny) }

// exprAt reads an expression of operators that bind at least as strongly as
// minimum.
func (p *parser) exprAt(minimum int) Expr {
	p.enter()
	start := p.peek().start
	left := p.infix(start, p.prefix(minimum), minimum)
	p.leave()
	return left
}

// infix reads the operators behind left, which begins at start.
func (p *parser) infix(start int, left Expr, minimum int) Expr {
	ceiling := bindPostfix
	for {
		if pred := p.predicateAhead(); pred != "" {
			if bindPredicate < minimum || bindPredicate > ceiling {
				return left
			}
			left, ceiling = p.predicate(start, left, pred), bindPredicate
			continue
		}
		t := p.peek()
		op, power := binaryOp(t)
		if power == 0 || power < minimum || power > ceiling {
			return left
		}
		p.next()
		right := p.exprAt(power + 1)
		left = &Binary{Span: p.from(start), Op: op, Left: left, Right: right, OpSpan: t.span()}
		ceiling = power
	}
}

// prefix reads an operand with its prefix operators.
func (p *parser) prefix(minimum int) Expr {
	t := p.peek()
	if t.kind != tokenOp && t.kind != tokenWord {
		return p.postfix(t.start, p.primary())
	}
	switch t.text {
	case "NOT", "!":
		if minimum > bindNot {
			p.failAt(t.span(), "NOT binds weaker than the operator before it", "put NOT and its operand in parentheses")
		}
		p.next()
		x := p.exprAt(bindNot)
		return &Unary{Span: p.from(t.start), Op: Not, X: x}
	case "-":
		if p.at(1).kind == tokenNumber {
			p.next()
			return p.postfix(t.start, p.number(t.start, "-"))
		}
		return p.unary(Minus)
	case "+":
		return p.unary(Plus)
	case "~":
		return p.unary(BitNot)
	}
	return p.postfix(t.start, p.primary())
}

func (p *parser) unary(op UnaryOp) Expr {
	t := p.next()
	x := p.exprAt(bindUnary)
	return &Unary{Span: p.from(t.start), Op: op, X: x}
}

// predicateAhead returns the keyword of the predicate that comes next, or "".
func (p *parser) predicateAhead() string {
	t := p.peek()
	if t.kind != tokenWord {
		return ""
	}
	if t.text == "NOT" {
		t = p.at(1)
		if t.text == "IS" {
			return ""
		}
	}
	switch t.text {
	case "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP":
		if t.kind == tokenWord {
			return t.text
		}
	}
	return ""
}

// predicate reads a predicate behind its first operand, which begins at start.
func (p *parser) predicate(start int, x Expr, word string) Expr {
	not := p.accept("NOT")
	p.next()
	switch word {
	case "IS":
		return p.isTest(start, x)
	case "IN":
		return p.in(start, x, not)
	case "BETWEEN":
		low := p.exprAt(bindComparison)
		p.expect("AND")
		high := p.exprAt(bindComparison)
		return &Between{Span: p.from(start), Not: not, X: x, Low: low, High: high}
	case "LIKE":
		return p.like(start, x, not, Like)
	case "ILIKE":
		return p.like(start, x, not, ILike)
	}
	return p.like(start, x, not, RLike)
}

func (p *parser) isTest(start int, x Expr) Expr {
	not := p.accept("NOT")
	if p.accept("DISTINCT") {
		p.expect("FROM")
		right := p.exprAt(bindComparison)
		return &IsDistinct{Span: p.from(start), Not: not, Left: x, Right: right}
	}
	var test IsTest
	switch {
	case p.accept("NULL"):
		test = IsNull
	case p.accept("TRUE"):
		test = IsTrue
	case p.accept("FALSE"):
		test = IsFalse
	case p.accept("UNKNOWN"):
		test = IsUnknown
	default:
		p.unexpected("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT")
	}
	return &Is{Span: p.from(start), Not: not, X: x, Test: test}
}

func (p *parser) in(start int, x Expr, not bool) Expr {
	open := p.expect("(")
	var q *Query
	var list []Expr
	if p.queryAhead() {
		q = p.query()
	} else {
		list = []Expr{p.expr()}
		if sub, ok := list[0].(*ScalarSubquery); ok && p.queryTailAhead() {
			q = p.queryFrom(open.end, sub.Query)
		} else {
			for p.accept(",") {
				list = append(list, p.expr())
			}
		}
	}
	p.expect(")")
	if q != nil {
		return &InSubquery{Span: p.from(start), Not: not, X: x, Query: q}
	}
	return &In{Span: p.from(start), Not: not, X: x, List: list}
}

// like reads what stands behind LIKE, ILIKE or RLIKE.
func (p *parser) like(start int, x Expr, not bool, op LikeOp) Expr {
	if op != RLike && p.isAny("ANY", "SOME", "ALL") && p.at(1).is("(") {
		all := p.next().text == "ALL"
		p.expect("(")
		patterns := p.exprList()
		p.expect(")")
		return &LikeList{Span: p.from(start), Op: op, Not: not, All: all, X: x, Patterns: patterns}
	}
	e := &LikeExpr{Op: op, Not: not, X: x, Pattern: p.exprAt(bindComparison)}
	if op != RLike && p.is("ESCAPE") {
		p.next()
		s := p.str("escape character")
		r, n := utf8.DecodeRuneInString(s.Value)
		if n == 0 || n != len(s.Value) || r == 0 {
			p.failAt(s.Span, "ESCAPE takes a string of one character", "")
		}
		e.Escape = r
	}
	e.Span = p.from(start)
	return e
}

// postfix reads field accesses, subscripts, casts and time zones behind x, which
// begins at start.
func (p *parser) postfix(start int, x Expr) Expr {
	for {
		switch {
		case p.is("."):
			p.next()
			field := p.fieldName("field")
			x = &FieldAccess{Span: p.from(start), X: x, Field: field}
		case p.accept("["):
			index := p.expr()
			p.expect("]")
			x = &Index{Span: p.from(start), X: x, Index: index}
		case p.accept("::"):
			t := p.typeName()
			x = &Cast{Span: p.from(start), X: x, Type: t}
		case p.isSeq("AT", "TIME", "ZONE"):
			p.acceptSeq("AT", "TIME", "ZONE")
			zone := p.primary()
			x = &AtTimeZone{Span: p.from(start), X: x, Zone: zone}
		default:
			return x
		}
	}
}

// exprList reads one or more expressions separated by commas.
func (p *parser) exprList() []Expr {
	list := []Expr{p.expr()}
	for p.accept(",") {
		list = append(list, p.expr())
	}
	return list
}
