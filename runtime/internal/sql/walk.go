package sql

// Inspect calls f for the expression e and, where f returns true, for the
// expressions below it, in the order of the text. Queries inside expressions are
// not entered.
func Inspect(e Expr, f func(Expr) bool) {
	if e == nil || !f(e) {
		return
	}
	for _, c := range Children(e) {
		Inspect(c, f)
	}
}

// Children returns the expressions directly below e, in the order of the text,
// without those of subqueries.
func Children(e Expr) []Expr {
	switch e := e.(type) {
	case *ColumnRef, *Star, *NullLit, *BoolLit, *NumberLit, *StringLit, *BinaryLit, *TypedLit, *IntervalLit, *Exists, *ScalarSubquery:
		return nil
	case *Unary:
		return []Expr{e.X}
	case *Binary:
		return []Expr{e.Left, e.Right}
	case *Between:
		return []Expr{e.X, e.Low, e.High}
	case *In:
		return append([]Expr{e.X}, e.List...)
	case *InSubquery:
		return []Expr{e.X}
	case *LikeExpr:
		return []Expr{e.X, e.Pattern}
	case *LikeList:
		return append([]Expr{e.X}, e.Patterns...)
	case *Is:
		return []Expr{e.X}
	case *IsDistinct:
		return []Expr{e.Left, e.Right}
	case *Case:
		return caseChildren(e)
	case *Cast:
		return []Expr{e.X}
	case *Call:
		return callChildren(e)
	case *Extract:
		return []Expr{e.From}
	case *Trim:
		return present(e.Chars, e.From)
	case *AtTimeZone:
		return []Expr{e.X, e.Zone}
	case *Index:
		return []Expr{e.X, e.Index}
	case *FieldAccess:
		return []Expr{e.X}
	case *Lambda:
		return []Expr{e.Body}
	case *Row:
		return e.Items
	}
	return nil
}

// present returns the expressions that are not nil.
func present(list ...Expr) []Expr {
	var out []Expr
	for _, e := range list {
		if e != nil {
			out = append(out, e)
		}
	}
	return out
}

func caseChildren(e *Case) []Expr {
	out := present(e.Operand)
	for _, w := range e.Whens {
		out = append(out, w.Cond, w.Result)
	}
	return append(out, present(e.Else)...)
}

func callChildren(e *Call) []Expr {
	out := append(append([]Expr{}, e.Args...), present(e.Filter)...)
	if e.Over == nil {
		return out
	}
	out = append(out, e.Over.PartitionBy...)
	for _, s := range e.Over.OrderBy {
		out = append(out, s.Expr)
	}
	if f := e.Over.Frame; f != nil {
		out = append(out, present(f.Start.N, f.End.N)...)
	}
	return out
}
