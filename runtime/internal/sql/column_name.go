package sql

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ColumnName returns the name of an output column without alias, as Spark names
// it: the last part of a plain column, "window" for window(...), and else the
// expression in Spark's own notation such as "count(1)", "(value + 1)" or
// "CAST(a AS INT)". Columns inside an expression are written as in the source; use
// [ColumnNameFunc] where the schema is known.
func ColumnName(e Expr) string { return ColumnNameFunc(e, nil) }

// ColumnNameFunc is ColumnName with a function that returns how a column inside an
// expression is written: Spark leaves out qualifiers but keeps the names around a
// struct field, which only a schema can tell apart. A nil function writes columns
// as in the source.
func ColumnNameFunc(e Expr, column func(*ColumnRef) string) string {
	switch e := e.(type) {
	case *ColumnRef:
		return e.Parts[len(e.Parts)-1].Name
	case *FieldAccess:
		return e.Field.Name
	case *Call:
		switch name := strings.ToLower(e.Name.Base()); name {
		case "window", "session_window":
			return name
		}
	default: // named after its text
	}
	n := namer{column: column}
	n.expr(e)
	return n.b.String()
}

// namer writes expressions in the notation of column names. Lambda parameters in
// scope are in bound.
type namer struct {
	b      strings.Builder
	column func(*ColumnRef) string
	bound  []Ident
}

func (n *namer) str(s string) { n.b.WriteString(s) }

func (n *namer) list(list []Expr) {
	for i, e := range list {
		if i > 0 {
			n.str(", ")
		}
		n.expr(e)
	}
}

// parts writes texts and expressions one after the other.
func (n *namer) parts(parts ...any) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			n.str(p)
		case Expr:
			n.expr(p)
		}
	}
}

func (n *namer) expr(e Expr) {
	switch e := e.(type) {
	case *NullLit, *BoolLit, *NumberLit, *StringLit, *BinaryLit, *TypedLit, *IntervalLit:
		n.literal(e)
	case *ColumnRef:
		n.columnRef(e)
	case *Star:
		n.str("*")
	case *Unary:
		n.unary(e)
	case *Binary:
		n.binary(e)
	case *Between, *In, *InSubquery, *LikeExpr, *LikeList, *Is, *IsDistinct:
		n.predicate(e)
	case *Exists:
		n.str("exists()")
	case *ScalarSubquery:
		n.str("scalarsubquery()")
	case *Case:
		n.caseExpr(e)
	case *Cast:
		word := "CAST("
		if e.Try {
			word = "TRY_CAST("
		}
		n.parts(word, e.X, " AS "+Format(e.Type)+")")
	case *Call:
		n.call(e)
	case *Extract:
		n.parts("extract("+e.Field.Name+" FROM ", e.From, ")")
	case *Trim:
		if e.Chars == nil {
			n.parts("TRIM("+e.Side.String()+" FROM ", e.From, ")")
			return
		}
		n.parts("TRIM("+e.Side.String()+" ", e.Chars, " FROM ", e.From, ")")
	case *AtTimeZone:
		n.parts("(", e.X, " AT TIME ZONE ", e.Zone, ")")
	case *Index:
		n.parts(e.X, "[", e.Index, "]")
	case *FieldAccess:
		n.parts(e.X, "."+e.Field.Name)
	case *Lambda:
		n.lambda(e)
	case *Row:
		n.str("struct(")
		n.list(e.Items)
		n.str(")")
	}
}

func (n *namer) columnRef(e *ColumnRef) {
	if len(e.Parts) == 1 {
		for _, p := range n.bound {
			if strings.EqualFold(p.Name, e.Parts[0].Name) {
				n.str("namedlambdavariable()")
				return
			}
		}
	}
	if n.column != nil {
		n.str(n.column(e))
		return
	}
	n.str(Name{Parts: e.Parts}.String())
}

func (n *namer) literal(e Expr) {
	switch e := e.(type) {
	case *BoolLit:
		n.str(strconv.FormatBool(e.Value))
	case *StringLit:
		n.str(e.Value)
	case *NumberLit:
		n.str(e.displayText())
	default:
		n.str(Format(e))
	}
}

// displayText returns the number without suffix; floating-point numbers as Java
// prints them.
func (e *NumberLit) displayText() string {
	switch e.Kind {
	case Double, Float:
		bits := 64
		if e.Kind == Float {
			bits = 32
		}
		v, err := strconv.ParseFloat(e.Text, bits)
		if err == nil {
			return javaFloat(v, bits)
		}
	case Number, TinyInt, SmallInt, BigInt:
		digits := strings.TrimLeft(strings.TrimPrefix(e.Text, "-"), "0")
		if digits == "" {
			return "0"
		}
		if strings.HasPrefix(e.Text, "-") {
			return "-" + digits
		}
		return digits
	case Decimal:
		if !strings.ContainsAny(e.Text, "eE") {
			return decimalText(e.Text)
		}
	}
	return e.Text
}

// decimalText returns a decimal with exactly one leading digit or more, and without
// a point at its end.
func decimalText(text string) string {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative && strings.Trim(whole, "0.") != "" {
		return "-" + whole
	}
	return whole
}

// javaFloat formats like Double.toString: plain from 0.001 to 10 million, with an
// exponent outside, and always with a digit behind the point.
func javaFloat(v float64, bits int) string {
	if math.IsInf(v, 1) {
		return "Infinity"
	}
	if math.IsInf(v, -1) {
		return "-Infinity"
	}
	if a := math.Abs(v); v == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(v, 'f', -1, bits)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, bits), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	sign, digits := "", strings.TrimLeft(exponent, "+")
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	return mantissa + "E" + sign + strings.TrimLeft(digits, "0")
}

func (n *namer) unary(e *Unary) {
	switch e.Op {
	case Not:
		n.parts("(NOT ", e.X, ")")
	case BitNot:
		n.parts("~", e.X)
	default:
		n.parts("("+e.Op.String()+" ", e.X, ")")
	}
}

func (n *namer) binary(e *Binary) {
	switch e.Op {
	case Concat:
		n.parts("concat(", e.Left, ", ", e.Right, ")")
	case NotEq:
		n.parts("(NOT (", e.Left, " = ", e.Right, "))")
	case IntDiv:
		n.parts("(", e.Left, " div ", e.Right, ")")
	default:
		n.parts("(", e.Left, " "+e.Op.String()+" ", e.Right, ")")
	}
}

func (n *namer) predicate(e Expr) {
	switch e := e.(type) { //nolint:gochecksumtype // called with predicates only, and panics otherwise
	case *Between:
		n.negated(e.Not, func() { n.parts("between(", e.X, ", ", e.Low, ", ", e.High, ")") })
	case *In:
		n.negated(e.Not, func() {
			n.parts("(", e.X, " IN (")
			n.list(e.List)
			n.str("))")
		})
	case *InSubquery:
		n.negated(e.Not, func() { n.parts("(", e.X, " IN (listquery()))") })
	case *LikeExpr:
		n.negated(e.Not, func() { n.like(e) })
	case *LikeList:
		n.likeList(e)
	case *Is:
		n.is(e)
	case *IsDistinct:
		n.negated(!e.Not, func() { n.parts("(", e.Left, " <=> ", e.Right, ")") })
	default:
		panic(fmt.Sprintf("sql: %T is no predicate", e))
	}
}

// negated writes (NOT x) or x.
func (n *namer) negated(not bool, write func()) {
	if !not {
		write()
		return
	}
	n.str("(NOT ")
	write()
	n.str(")")
}

func (n *namer) like(e *LikeExpr) {
	escape := ""
	if e.Escape != 0 && e.Escape != '\\' {
		escape = " ESCAPE '" + string(e.Escape) + "'"
	}
	switch e.Op {
	case Like:
		n.parts(e.X, " LIKE ", e.Pattern, escape)
	case ILike:
		n.parts("ilike(", e.X, ", ", e.Pattern, ")")
	case RLike:
		n.parts("RLIKE(", e.X, ", ", e.Pattern, ")")
	}
}

func (n *namer) likeList(e *LikeList) {
	name := "likeany("
	if e.All {
		name = "likeall("
	}
	if e.Not {
		name = "not" + name
	}
	n.parts(name, e.X, ", ")
	n.list(e.Patterns)
	n.str(")")
}

func (n *namer) is(e *Is) {
	switch e.Test {
	case IsTrue:
		n.negated(e.Not, func() { n.parts("(", e.X, " <=> true)") })
	case IsFalse:
		n.negated(e.Not, func() { n.parts("(", e.X, " <=> false)") })
	default:
		word := " IS NULL)"
		if e.Not {
			word = " IS NOT NULL)"
		}
		n.parts("(", e.X, word)
	}
}

func (n *namer) caseExpr(e *Case) {
	n.str("CASE")
	for _, w := range e.Whens {
		if e.Operand != nil {
			n.parts(" WHEN (", e.Operand, " = ", w.Cond, ") THEN ", w.Result)
		} else {
			n.parts(" WHEN ", w.Cond, " THEN ", w.Result)
		}
	}
	if e.Else != nil {
		n.parts(" ELSE ", e.Else)
	}
	n.str(" END")
}

func (n *namer) call(e *Call) {
	name := strings.ToLower(e.Name.String())
	switch {
	case name == "if" && len(e.Args) == 3:
		n.parts("(IF(", e.Args[0], ", ", e.Args[1], ", ", e.Args[2], "))")
		return
	case name == "count" && len(e.Args) == 1 && isPlainStar(e.Args[0]):
		n.str("count(1)")
	default:
		n.str(name + "(")
		if e.Distinct {
			n.str("DISTINCT ")
		}
		n.list(e.Args)
		n.str(")")
	}
	if e.Filter != nil {
		n.parts(" FILTER (WHERE ", e.Filter, ")")
	}
	if e.Over != nil {
		n.str(" OVER ")
		n.window(e.Over)
	}
}

// isPlainStar reports whether e is * without qualifier.
func isPlainStar(e Expr) bool {
	s, ok := e.(*Star)
	return ok && len(s.Qualifier) == 0 && len(s.Except) == 0
}

func (n *namer) window(w *Window) {
	if w.Name != nil {
		n.str(w.Name.Name)
		return
	}
	n.str("(")
	space := ""
	if len(w.PartitionBy) > 0 {
		n.str("PARTITION BY ")
		n.list(w.PartitionBy)
		space = " "
	}
	for i, s := range w.OrderBy {
		if i == 0 {
			n.str(space + "ORDER BY ")
		} else {
			n.str(", ")
		}
		n.expr(s.Expr)
		n.str(sortText(s))
		space = " "
	}
	if w.Frame != nil {
		var p printer
		p.str(w.Frame.Unit.String() + " BETWEEN ")
		p.bound(w.Frame.Start)
		p.str(" AND ")
		p.bound(w.Frame.End)
		n.str(space + p.b.String())
	}
	n.str(")")
}

// sortText returns the direction and the NULL order in full.
func sortText(s SortItem) string {
	text, first := " ASC", s.Nulls != NullsLast
	if s.Desc {
		text, first = " DESC", s.Nulls == NullsFirst
	}
	if first {
		return text + " NULLS FIRST"
	}
	return text + " NULLS LAST"
}

func (n *namer) lambda(e *Lambda) {
	n.bound = append(n.bound, e.Params...)
	n.parts("lambdafunction(", e.Body)
	for range e.Params {
		n.str(", namedlambdavariable()")
	}
	n.str(")")
	n.bound = n.bound[:len(n.bound)-len(e.Params)]
}
