package sql

import (
	"encoding/hex"
	"fmt"
	"strings"
)

func (p *printer) exprs(list []Expr) {
	for i, e := range list {
		p.when(i > 0, ", ")
		p.expr(e, bindAny)
	}
}

// bindingOf returns how strongly the outermost operator of e binds.
func bindingOf(e Expr) int {
	switch e := e.(type) {
	case *Binary:
		return e.Op.binding()
	case *Between, *In, *InSubquery, *LikeExpr, *LikeList, *Is, *IsDistinct:
		return bindPredicate
	case *Unary:
		if e.Op == Not {
			return bindNot
		}
		return bindUnary
	case *NumberLit:
		if strings.HasPrefix(e.Text, "-") {
			return bindUnary
		}
	case *AtTimeZone, *Index, *FieldAccess:
		return bindPostfix
	case *Lambda:
		return bindAny
	default: // begins and ends with tokens of its own
	}
	return bindPrimary
}

// expr writes an expression, in parentheses if it binds weaker than minimum.
func (p *printer) expr(e Expr, minimum int) {
	if bindingOf(e) < minimum {
		p.str("(")
		defer p.str(")")
	}
	switch e := e.(type) {
	case *NullLit, *BoolLit, *NumberLit, *StringLit, *BinaryLit, *TypedLit, *IntervalLit:
		p.literal(e)
	case *ColumnRef:
		p.names(e.Parts, ".")
	case *Star:
		p.star(e)
	case *Unary:
		p.unary(e)
	case *Binary:
		p.expr(e.Left, e.Op.binding())
		p.str(" " + e.Op.String() + " ")
		p.expr(e.Right, e.Op.binding()+1)
	case *Between, *In, *InSubquery, *LikeExpr, *LikeList, *Is, *IsDistinct:
		p.predicate(e)
	case *Exists:
		p.str("EXISTS ")
		p.subquery(e.Query)
	case *ScalarSubquery:
		p.subquery(e.Query)
	case *Case:
		p.caseExpr(e)
	case *Cast:
		p.when(e.Try, "TRY_")
		p.str("CAST(")
		p.expr(e.X, bindAny)
		p.str(" AS ")
		p.typeName(e.Type)
		p.str(")")
	case *Call:
		p.call(e, false)
	case *Extract:
		p.str("EXTRACT(" + e.Field.Name + " FROM ")
		p.expr(e.From, bindAny)
		p.str(")")
	case *Trim:
		p.trim(e)
	case *AtTimeZone:
		p.expr(e.X, bindPostfix)
		p.str(" AT TIME ZONE ")
		p.expr(e.Zone, bindPrimary)
	case *Index:
		p.expr(e.X, bindPostfix)
		p.str("[")
		p.expr(e.Index, bindAny)
		p.str("]")
	case *FieldAccess:
		p.fieldAccess(e)
	case *Lambda:
		p.lambda(e)
	case *Row:
		p.str("(")
		p.exprs(e.Items)
		p.str(")")
	}
}

func (p *printer) literal(e Expr) {
	switch e := e.(type) { //nolint:gochecksumtype // called with literals only, and panics otherwise
	case *NullLit:
		p.str("NULL")
	case *BoolLit:
		p.when(e.Value, "TRUE")
		p.when(!e.Value, "FALSE")
	case *NumberLit:
		p.str(e.Text + e.suffix())
	case *StringLit:
		p.str(quoteString(e.Value))
	case *BinaryLit:
		p.str("X'" + strings.ToUpper(hex.EncodeToString(e.Value)) + "'")
	case *TypedLit:
		p.str(strings.ToUpper(e.Kind.String()) + " " + quoteString(e.Text))
	case *IntervalLit:
		p.interval(e)
	default:
		panic(fmt.Sprintf("sql: %T is no literal", e))
	}
}

// suffix returns the letters that make the parser read the same kind again.
func (e *NumberLit) suffix() string {
	exponent := strings.ContainsAny(e.Text, "eE")
	switch e.Kind {
	case TinyInt:
		return "Y"
	case SmallInt:
		return "S"
	case BigInt:
		return "L"
	case Float:
		return "F"
	case Double:
		if !exponent {
			return "D"
		}
	case Decimal:
		if exponent || !strings.Contains(e.Text, ".") {
			return "BD"
		}
	case Number:
	}
	return ""
}

func (p *printer) interval(e *IntervalLit) {
	p.str("INTERVAL '" + e.Value.Fields(e.From, e.To) + "' " + e.From.String())
	p.when(e.From != e.To, " TO "+e.To.String())
}

func (p *printer) star(e *Star) {
	for _, id := range e.Qualifier {
		p.name(id.Name)
		p.str(".")
	}
	p.str("*")
	if len(e.Except) > 0 {
		p.str(" EXCEPT ")
		p.nameList(e.Except)
	}
}

func (p *printer) unary(e *Unary) {
	if e.Op == Not {
		p.str("NOT ")
		p.expr(e.X, bindNot)
		return
	}
	p.str(e.Op.String())
	if e.Op == Minus && startsWithNumber(e.X) {
		// Without parentheses the sign would become a part of the number.
		p.str("(")
		p.expr(e.X, bindAny)
		p.str(")")
		return
	}
	p.when(e.Op != BitNot, " ")
	p.expr(e.X, bindUnary)
}

// startsWithNumber reports whether the text of an operand of a prefix operator
// begins with a digit.
func startsWithNumber(e Expr) bool {
	for {
		switch x := e.(type) {
		case *NumberLit:
			return !strings.HasPrefix(x.Text, "-")
		case *Index:
			e = x.X
		case *AtTimeZone:
			e = x.X
		case *FieldAccess:
			e = x.X
		default:
			return false
		}
	}
}

func (p *printer) predicate(e Expr) {
	not := func(not bool, word string) {
		p.when(not, " NOT")
		p.str(" " + word + " ")
	}
	switch e := e.(type) { //nolint:gochecksumtype // called with predicates only, and panics otherwise
	case *Between:
		p.expr(e.X, bindPredicate)
		not(e.Not, "BETWEEN")
		p.expr(e.Low, bindComparison)
		p.str(" AND ")
		p.expr(e.High, bindComparison)
	case *In:
		p.expr(e.X, bindPredicate)
		not(e.Not, "IN")
		p.str("(")
		p.exprs(e.List)
		p.str(")")
	case *InSubquery:
		p.expr(e.X, bindPredicate)
		not(e.Not, "IN")
		p.subquery(e.Query)
	case *LikeExpr:
		p.expr(e.X, bindPredicate)
		not(e.Not, e.Op.String())
		p.expr(e.Pattern, bindComparison)
		p.when(e.Escape != 0, " ESCAPE "+quoteString(string(e.Escape)))
	case *LikeList:
		p.expr(e.X, bindPredicate)
		not(e.Not, e.Op.String())
		p.when(e.All, "ALL ")
		p.when(!e.All, "ANY ")
		p.str("(")
		p.exprs(e.Patterns)
		p.str(")")
	case *Is:
		p.expr(e.X, bindPredicate)
		p.str(" IS ")
		p.when(e.Not, "NOT ")
		p.str(e.Test.String())
	case *IsDistinct:
		p.expr(e.Left, bindPredicate)
		p.str(" IS ")
		p.when(e.Not, "NOT ")
		p.str("DISTINCT FROM ")
		p.expr(e.Right, bindComparison)
	default:
		panic(fmt.Sprintf("sql: %T is no predicate", e))
	}
}

func (p *printer) caseExpr(e *Case) {
	p.str("CASE ")
	if e.Operand != nil {
		p.expr(e.Operand, bindAny)
		p.str(" ")
	}
	for _, w := range e.Whens {
		p.str("WHEN ")
		p.expr(w.Cond, bindAny)
		p.str(" THEN ")
		p.expr(w.Result, bindAny)
		p.str(" ")
	}
	if e.Else != nil {
		p.str("ELSE ")
		p.expr(e.Else, bindAny)
		p.str(" ")
	}
	p.str("END")
}

// call writes a function call. A call in FROM may not begin with a reserved word.
func (p *printer) call(c *Call, inFrom bool) {
	if len(c.Name.Parts) == 1 && !inFrom && callsPlainly(c) {
		p.str(c.Name.Parts[0].Name)
	} else if len(c.Name.Parts) == 1 && keywordCalls[strings.ToUpper(c.Name.Base())] {
		p.str(quoteName(c.Name.Base()))
	} else {
		p.names(c.Name.Parts, ".")
	}
	p.str("(")
	p.when(c.Distinct, "DISTINCT ")
	p.exprs(c.Args)
	p.str(")")
	if c.Filter != nil {
		p.str(" FILTER (WHERE ")
		p.expr(c.Filter, bindAny)
		p.str(")")
	}
	p.when(c.IgnoreNulls, " IGNORE NULLS")
	if c.Over != nil {
		p.str(" OVER ")
		p.window(c.Over)
	}
}

// keywordCalls are functions whose parentheses may hold more than plain arguments.
var keywordCalls = wordSet("EXTRACT SUBSTRING SUBSTR TRIM POSITION OVERLAY EXISTS")

// callsPlainly reports whether the name of a keyword function or a reserved word
// can be written as it is with these arguments.
func callsPlainly(c *Call) bool {
	switch name := strings.ToUpper(c.Name.Base()); name {
	case "LEFT", "RIGHT", "LIKE", "ILIKE", "RLIKE":
		return true
	case "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "CURRENT_USER", "LOCALTIMESTAMP":
		return true
	case "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "POSITION", "OVERLAY", "EXISTS":
		if len(c.Args) == 0 || c.Distinct {
			return false
		}
		switch first := c.Args[0].(type) {
		case *ColumnRef, *StringLit:
			return true
		case *Call:
			return !keywordCalls[strings.ToUpper(first.Name.Base())]
		default:
			return false
		}
	}
	return false
}

// simple writes an expression in parentheses unless it begins with a name.
func (p *printer) simple(e Expr) {
	switch e := e.(type) {
	case *ColumnRef:
		p.expr(e, bindAny)
		return
	case *Call:
		if !callsPlainly(e) {
			p.expr(e, bindAny)
			return
		}
	default: // in parentheses
	}
	p.str("(")
	p.expr(e, bindAny)
	p.str(")")
}

func (p *printer) trim(e *Trim) {
	p.str("TRIM(" + e.Side.String() + " ")
	if e.Chars != nil {
		if s, ok := e.Chars.(*StringLit); ok {
			p.literal(s)
		} else {
			p.simple(e.Chars)
		}
		p.str(" ")
	}
	p.str("FROM ")
	p.expr(e.From, bindAny)
	p.str(")")
}

func (p *printer) fieldAccess(e *FieldAccess) {
	switch e.X.(type) {
	case *ColumnRef, *NumberLit, *AtTimeZone:
		// The point would join the name, the number or the time zone.
		p.str("(")
		p.expr(e.X, bindAny)
		p.str(")")
	default:
		p.expr(e.X, bindPostfix)
	}
	p.str(".")
	p.name(e.Field.Name)
}

func (p *printer) lambda(e *Lambda) {
	if len(e.Params) == 1 {
		p.name(e.Params[0].Name)
	} else {
		p.nameList(e.Params)
	}
	p.str(" -> ")
	p.expr(e.Body, bindAny)
}

func (p *printer) window(w *Window) {
	if w.Name != nil {
		p.name(w.Name.Name)
		return
	}
	p.str("(")
	space := ""
	if len(w.PartitionBy) > 0 {
		p.str("PARTITION BY ")
		p.exprs(w.PartitionBy)
		space = " "
	}
	if len(w.OrderBy) > 0 {
		p.sortClause(space+"ORDER BY ", w.OrderBy)
		space = " "
	}
	if w.Frame != nil {
		p.str(space + w.Frame.Unit.String() + " BETWEEN ")
		p.bound(w.Frame.Start)
		p.str(" AND ")
		p.bound(w.Frame.End)
	}
	p.str(")")
}

func (p *printer) bound(b Bound) {
	switch b.Kind {
	case UnboundedPreceding:
		p.str("UNBOUNDED PRECEDING")
	case CurrentRow:
		p.str("CURRENT ROW")
	case UnboundedFollowing:
		p.str("UNBOUNDED FOLLOWING")
	case Preceding:
		p.expr(b.N, bindComparison)
		p.str(" PRECEDING")
	case Following:
		p.expr(b.N, bindComparison)
		p.str(" FOLLOWING")
	}
}
