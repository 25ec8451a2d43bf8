package plan

import (
	"slices"
	"strconv"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func plural(n int, what string) string {
	s := strconv.Itoa(n) + " " + what
	if n != 1 {
		s += "s"
	}
	return s
}

// query plans a query expression. Nil: a fault was reported.
func (a *analyzer) query(q *sql.Query) Node {
	saved := a.ctes
	defer func() { a.ctes = saved }()
	for i := range q.With {
		seen := slices.Clip(a.ctes)
		c := cte{def: &q.With[i], seen: seen}
		a.ctes = append(seen, c)
		a.expandCTE(c, &sql.TableRef{Span: c.def.Span}) // faults count even if nobody uses it
	}
	order := q.OrderBy
	if len(q.SortBy) > 0 {
		order = q.SortBy
	}
	for _, e := range append(slices.Clone(q.DistributeBy), q.ClusterBy...) {
		a.report(hinted(fail(ClassUnsupported, e.Loc(), "DISTRIBUTE BY and CLUSTER BY have no meaning in a continuous query"), "leave it out"))
	}
	n := a.body(q.Body, order)
	return a.limit(n, q)
}

// body plans the body of a query with its ORDER BY.
func (a *analyzer) body(b sql.QueryBody, order []sql.SortItem) Node {
	switch b := b.(type) {
	case *sql.Select:
		return a.selectBlock(b, order)
	case *sql.Query:
		return a.sort(a.query(b), order)
	case *sql.SetOperation:
		return a.sort(a.setOperation(b), order)
	case *sql.Values:
		return a.sort(a.values(b), order)
	}
	return nil
}

func (a *analyzer) setOperation(b *sql.SetOperation) Node {
	left, right := a.body(b.Left, nil), a.body(b.Right, nil)
	if left == nil || right == nil {
		return nil
	}
	n, err := newUnion([]Node{left, right}, b.Span)
	if err != nil {
		a.report(err)
		return nil
	}
	if b.Op != sql.Union {
		return &SetOperation{Op: b.Op, Left: left, Right: right, base: base{span: b.Span, cols: n.cols}}
	}
	if !b.All {
		return &Distinct{Input: n, base: base{span: b.Span, cols: n.cols}}
	}
	return n
}

// newUnion puts inputs of equal width together; columns of different types are
// cast to the common one.
func newUnion(in []Node, span sql.Span) (*Union, *sql.Error) {
	var flat []Node
	for _, n := range in {
		if u, ok := n.(*Union); ok {
			flat = append(flat, u.In...)
			continue
		}
		flat = append(flat, n)
	}
	first := flat[0].Columns()
	u := &Union{base: base{span: span, cols: make([]Column, len(first))}}
	for i, c := range first {
		u.cols[i] = Column{Name: c.Name, Type: c.Type, Time: c.Time}
	}
	for _, n := range flat[1:] {
		cols := n.Columns()
		if len(cols) != len(first) {
			return nil, fail(ClassNumColumns, span, "the sides of UNION have "+plural(len(first), "column")+" and "+plural(len(cols), "column"))
		}
		for i, c := range cols {
			t, err := commonType(u.cols[i].Type, c.Type)
			if err != nil {
				return nil, fail(ClassColumnTypes, span, "column "+strconv.Itoa(i+1)+" of UNION is "+u.cols[i].Type.String()+" on one side and "+
					c.Type.String()+" on the other")
			}
			u.cols[i].Type = t
			if c.Time == NotTime {
				u.cols[i].Time = NotTime
			}
		}
	}
	for _, n := range flat {
		n, err := castTo(n, u.cols)
		if err != nil {
			return nil, err
		}
		u.In = append(u.In, n)
	}
	return u, nil
}

// commonType is the type that values of both types take side by side: the one
// COALESCE gives.
func commonType(x, y messages.Type) (messages.Type, error) {
	if x.Equal(y) {
		return x, nil
	}
	n, err := expr.Call("coalesce", expr.NewColumn(0, "x", x), expr.NewColumn(1, "y", y))
	if err != nil {
		return x, err
	}
	return n.Type(), nil
}

// castTo casts the columns of n to the given types.
func castTo(n Node, cols []Column) (Node, *sql.Error) {
	p := identity(n, n.Loc())
	changed := false
	for i, c := range cols {
		if p.cols[i].Type.Equal(c.Type) {
			continue
		}
		e, err := expr.NewCast(p.Exprs[i], c.Type, false)
		if err != nil {
			return nil, err
		}
		p.Exprs[i], p.cols[i].Type, p.cols[i].Time = e, c.Type, NotTime
		changed = true
	}
	if !changed {
		return n, nil
	}
	return p, nil
}

// values plans VALUES.
func (a *analyzer) values(b *sql.Values) Node {
	v := &Values{base: base{span: b.Span}}
	for r, row := range b.Rows {
		var nodes []expr.Node
		for i, e := range row {
			n, err := a.resolve(e, expr.Scope{}, nil)
			if err != nil {
				a.report(err)
				return nil
			}
			nodes = append(nodes, n)
			if r == 0 {
				v.cols = append(v.cols, Column{Name: "col" + strconv.Itoa(i+1), Type: n.Type()})
				continue
			}
			if i >= len(v.cols) || len(row) != len(v.cols) {
				a.report(fail(ClassNumColumns, b.Span, "the rows of VALUES have different numbers of columns"))
				return nil
			}
			t, cerr := commonType(v.cols[i].Type, n.Type())
			if cerr != nil {
				a.report(fail(ClassColumnTypes, e.Loc(), "column "+strconv.Itoa(i+1)+" of VALUES is "+v.cols[i].Type.String()+" and "+n.Type().String()))
				return nil
			}
			v.cols[i].Type = t
		}
		v.Rows = append(v.Rows, nodes)
	}
	return v
}

// sort plans ORDER BY over finished columns.
func (a *analyzer) sort(n Node, order []sql.SortItem) Node {
	if n == nil || len(order) == 0 {
		return n
	}
	var keys []SortKey
	for _, item := range order {
		i, err := position(item.Expr, len(n.Columns()), ClassOrderByPos, "ORDER BY")
		if err != nil {
			a.report(err)
			continue
		}
		if i >= 0 {
			c := n.Columns()[i]
			keys = append(keys, sortKey(item, expr.NewColumn(i, c.Name, c.Type)))
			continue
		}
		e, rerr := a.resolve(item.Expr, scopeOf(n), nil)
		if rerr != nil {
			a.report(rerr)
			continue
		}
		keys = append(keys, sortKey(item, e))
	}
	return &Sort{Input: n, Keys: keys, base: base{span: order[0].Span, cols: n.Columns()}}
}

func sortKey(item sql.SortItem, e expr.Node) SortKey {
	k := SortKey{Expr: e, Desc: item.Desc, NullsFirst: !item.Desc}
	switch item.Nulls {
	case sql.NullsFirst:
		k.NullsFirst = true
	case sql.NullsLast:
		k.NullsFirst = false
	default:
	}
	return k
}

// position returns the index that an integer in GROUP BY or ORDER BY stands for,
// -1 for other expressions.
func position(e sql.Expr, columns int, class, clause string) (int, *sql.Error) {
	lit, ok := e.(*sql.NumberLit)
	if !ok || lit.Kind != sql.Number {
		return -1, nil
	}
	i, err := strconv.Atoi(lit.Text)
	if err != nil || i < 1 || i > columns {
		return -1, fail(class, lit.Span, clause+" "+lit.Text+": there are columns 1 to "+strconv.Itoa(columns))
	}
	return i - 1, nil
}

// limit plans LIMIT and OFFSET.
func (a *analyzer) limit(n Node, q *sql.Query) Node {
	if n == nil || q.Limit == nil && q.Offset == nil {
		return n
	}
	l := &Limit{Input: n, N: -1, base: base{span: q.Span, cols: n.Columns()}}
	if q.Limit != nil {
		l.span = q.Limit.Loc()
		l.N = a.count(q.Limit, "LIMIT")
	}
	if q.Offset != nil {
		l.span = q.Offset.Loc()
		l.Offset = a.count(q.Offset, "OFFSET")
	}
	return l
}

// count evaluates the constant of LIMIT or OFFSET.
func (a *analyzer) count(e sql.Expr, clause string) int64 {
	n, err := a.resolve(e, expr.Scope{}, nil)
	if err != nil {
		a.report(err)
		return 0
	}
	lit, ok := expr.Fold(n, expr.Options{}).(*expr.Literal)
	if !ok {
		a.report(fail("INVALID_LIMIT_LIKE_EXPRESSION.IS_UNFOLDABLE", e.Loc(), clause+" needs a constant"))
		return 0
	}
	v, ok := lit.Int64()
	if !ok || v < 0 {
		a.report(fail("INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE", e.Loc(), clause+" needs a whole number that is not negative"))
		return 0
	}
	return v
}
