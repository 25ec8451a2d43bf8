package plan

import (
	"slices"
	"time"

	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// NewFilter keeps the rows of in for which cond is true.
func NewFilter(in Node, cond sql.Expr, opts Options) (Node, []*sql.Error) {
	a := &analyzer{opts: opts}
	n := a.condition(cond, scopeOf(in), "filter", nil)
	if len(a.errs) > 0 {
		return nil, a.errs
	}
	return newFilter(in, n, cond.Loc()), nil
}

// NewSelect computes a select list over in: expressions, stars, window(), one
// generator, and aggregates over all rows.
func NewSelect(in Node, items []sql.SelectItem, opts Options) (Node, []*sql.Error) {
	return NewAggregate(in, nil, items, opts)
}

// NewAggregate groups the rows of in and computes a select list over the groups.
// The list names the grouping columns it wants. Without grouping expressions it
// is NewSelect.
func NewAggregate(in Node, groups []sql.Expr, items []sql.SelectItem, opts Options) (Node, []*sql.Error) {
	a := &analyzer{opts: opts}
	s := &sql.Select{Items: items}
	if len(groups) > 0 {
		s.GroupBy = &sql.GroupBy{}
		for _, g := range groups {
			s.GroupBy.Items = append(s.GroupBy.Items, sql.GroupItem{Span: g.Loc(), Expr: g})
		}
	}
	n := a.selectOver(in, s, nil)
	if len(a.errs) > 0 {
		return nil, a.errs
	}
	return n, nil
}

// NewWithColumn adds a column at the end, or replaces the one of that name.
func NewWithColumn(in Node, name string, e sql.Expr, opts Options) (Node, []*sql.Error) {
	i := Schema(in).Index(name)
	if i < 0 {
		return NewSelect(in, []sql.SelectItem{{Expr: &sql.Star{}}, {Expr: e, Aliases: []sql.Ident{{Name: name}}}}, opts)
	}
	a := &analyzer{opts: opts}
	n, err := a.resolve(e, scopeOf(in), nil)
	if err != nil {
		return nil, []*sql.Error{err}
	}
	p := identity(in, e.Loc())
	p.Exprs[i] = n
	p.cols[i] = Column{Name: name, Type: n.Type(), Time: mark(n, in.Columns())}
	return p, nil
}

// NewDrop leaves out the columns of the given names; unknown names have no effect.
func NewDrop(in Node, names ...string) Node {
	p := &Project{Input: in, base: base{span: in.Loc()}}
	drop := map[int]bool{}
	for _, name := range names {
		if i := Schema(in).Index(name); i >= 0 {
			drop[i] = true
		}
	}
	for i, c := range in.Columns() {
		if !drop[i] {
			p.Exprs = append(p.Exprs, expr.NewColumn(i, c.Name, c.Type))
			p.cols = append(p.cols, c)
		}
	}
	return p
}

// NewRename renames the columns of in, as many as there are names.
func NewRename(in Node, names []string) (Node, []*sql.Error) {
	if len(names) != len(in.Columns()) {
		return nil, []*sql.Error{fail(ClassNumColumns, in.Loc(), plural(len(names), "name")+" for "+plural(len(in.Columns()), "column"))}
	}
	p := identity(in, in.Loc())
	for i, name := range names {
		p.cols[i].Name = name
	}
	return p, nil
}

// NewWatermark declares event time: the column and how much later than the
// newest a row may come. On static tables it has no effect.
func NewWatermark(in Node, column string, delay time.Duration) (Node, []*sql.Error) {
	n, err := scopeOf(in).Lookup([]sql.Ident{{Name: column}})
	if err != nil {
		return nil, []*sql.Error{err}
	}
	if delay < 0 {
		return nil, []*sql.Error{fail(ClassIllegalArgument, sql.Span{}, "the delay of the watermark must not be negative")}
	}
	c, ok := n.(*expr.Column)
	if !ok {
		return nil, []*sql.Error{fail(ClassAnalysis, sql.Span{}, column+" is not a column")}
	}
	out, err := addWatermark(in, c.Index, delay, sql.Span{})
	if err != nil {
		return nil, []*sql.Error{err}
	}
	return out, nil
}

// NewUnion has the rows of all inputs, by position.
func NewUnion(in ...Node) (Node, []*sql.Error) {
	if len(in) == 1 {
		return in[0], nil
	}
	u, err := newUnion(in, sql.Span{})
	if err != nil {
		return nil, []*sql.Error{err}
	}
	return u, nil
}

// NewSort orders the result.
func NewSort(in Node, order []sql.SortItem, opts Options) (Node, []*sql.Error) {
	a := &analyzer{opts: opts}
	n := a.sort(in, order)
	if len(a.errs) > 0 {
		return nil, a.errs
	}
	return n, nil
}

// NewLimit keeps the first n rows.
func NewLimit(in Node, n int64) (Node, []*sql.Error) {
	if n < 0 {
		return nil, []*sql.Error{fail(ClassIllegalArgument, sql.Span{}, "the limit must not be negative")}
	}
	return &Limit{Input: in, N: n, base: base{span: in.Loc(), cols: slices.Clone(in.Columns())}}, nil
}

// NewDistinct removes duplicate rows.
func NewDistinct(in Node) Node {
	return &Distinct{Input: in, base: base{span: in.Loc(), cols: in.Columns()}}
}
