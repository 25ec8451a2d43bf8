package plan

import (
	"slices"
	"strings"

	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// plain plans a block without aggregates.
func (b *block) plain(s *sql.Select, order []sql.SortItem) Node {
	if !b.resolveItems(noAggregates) {
		return nil
	}
	at, ok := b.resolveOrder(order, noAggregates)
	if !ok {
		return nil
	}
	in := b.in
	if b.gen != nil {
		in = b.gen.node(in)
	}
	if b.win != nil {
		in = b.win.node(in)
	}
	return b.finish(in, s, order, at)
}

func (w *windowCall) node(in Node) *Generate {
	spec := w.spec
	g := &Generate{Input: in, Kind: AssignWindows, Arg: w.time, Window: &spec, base: base{span: w.span}}
	g.cols = append(slices.Clone(in.Columns()), w.column())
	return g
}

func (w *windowCall) column() Column {
	return Column{Name: "window", Type: w.typ, Time: w.mark}
}

// finish puts the projection of the items on in, then DISTINCT and ORDER BY.
// The items' nodes are bound to in.
func (b *block) finish(in Node, s *sql.Select, order []sql.SortItem, at []int) Node {
	p := &Project{Input: in, base: base{span: s.Span}}
	place := make([]int, len(b.items)) // of the items' first columns
	visible := 0
	for i, it := range b.items {
		place[i] = len(p.cols)
		if b.gen != nil && b.gen.item == i {
			for k, c := range b.gen.cols {
				p.Exprs = append(p.Exprs, expr.NewColumn(b.gen.at+k, c.Name, c.Type))
				p.cols = append(p.cols, c)
			}
		} else {
			p.Exprs = append(p.Exprs, it.node)
			p.cols = append(p.cols, outputColumn(it, in.Columns()))
		}
		if !it.hidden {
			visible = len(p.cols)
		}
	}
	var out Node = p
	if s.Distinct {
		if visible < len(p.cols) {
			b.a.report(fail(ClassUnsupported, order[0].Span, "ORDER BY of a SELECT DISTINCT must name columns of the select list"))
			return nil
		}
		out = &Distinct{Input: out, base: base{span: s.Span, cols: out.Columns()}}
	}
	if len(order) > 0 {
		srt := &Sort{Input: out, base: base{span: order[0].Span.To(order[len(order)-1].Span), cols: out.Columns()}}
		for k, o := range order {
			c := p.cols[place[at[k]]]
			srt.Keys = append(srt.Keys, sortKey(o, expr.NewColumn(place[at[k]], c.Name, c.Type)))
		}
		out = srt
	}
	if visible < len(p.cols) {
		top := identity(out, s.Span)
		top.Exprs, top.cols = top.Exprs[:visible], top.cols[:visible]
		out = top
	}
	return out
}

// outputColumn describes the column of an item.
func outputColumn(it item, in []Column) Column {
	c := Column{Name: it.name, Type: it.node.Type(), Time: mark(it.node, in)}
	if col, ok := it.node.(*expr.Column); ok && col.Index < len(in) && strings.EqualFold(in[col.Index].Name, it.name) {
		c.Qualifier = in[col.Index].Qualifier
	}
	return c
}

// grouped plans a block with GROUP BY, HAVING or aggregates.
func (b *block) grouped(s *sql.Select, order []sql.SortItem) Node {
	if b.gen != nil {
		b.a.report(hinted(fail(ClassGenerator, b.gen.call.Span, callName(b.gen.call)+"() cannot stand beside GROUP BY and aggregates"),
			"compute it in a subquery below"))
		return nil
	}
	groups, ok := b.groups(s.GroupBy)
	itemsOK := b.resolveItems(overGroups)
	var having expr.Node
	if s.Having != nil {
		having = b.a.condition(s.Having, b.names, "HAVING", b.hook(len(b.items), overGroups))
		itemsOK = itemsOK && having != nil
	}
	at, orderOK := b.resolveOrder(order, overGroups)
	if !ok || !itemsOK || !orderOK {
		return nil
	}
	agg, ok := b.build(groups, s)
	if !ok {
		return nil
	}
	m := above{b: b, groups: groups, plain: s.GroupBy == nil}
	for i := range b.items {
		it := &b.items[i]
		it.node = m.bind(it.node, it.expr, it.span)
	}
	if having != nil {
		having = m.bind(having, s.Having, s.Having.Loc())
	}
	if m.failed {
		return nil
	}
	var in Node = agg
	if having != nil {
		f := newFilter(in, having, s.Having.Loc())
		f.Having = true
		in = f
	}
	return b.finish(in, s, order, at)
}

// groups binds the grouping expressions to the virtual input.
func (b *block) groups(g *sql.GroupBy) ([]expr.Node, bool) {
	if g == nil {
		return nil, true
	}
	if g.With != sql.PlainGrouping {
		b.a.report(groupingSets(g.With, g.Span))
		return nil, false
	}
	before := b.a.faults
	exprs := b.groupExprs(g)
	var out []expr.Node
	for _, e := range exprs {
		n, err := b.group(e)
		if err != nil {
			b.a.report(err)
			continue
		}
		if !slices.ContainsFunc(out, func(o expr.Node) bool { return expr.Equal(o, n) }) {
			out = append(out, n)
		}
	}
	return out, b.a.faults == before
}

func groupingSets(k sql.GroupingKind, span sql.Span) *sql.Error {
	return hinted(fail(ClassUnsupported, span, k.String()+" is not supported on streams"), "write one query per grouping")
}

// groupExprs lists the expressions of GROUP BY: those written, those that
// numbers stand for, or with ALL the items without aggregates.
func (b *block) groupExprs(g *sql.GroupBy) []item {
	var out []item
	if g.All {
		for _, it := range b.items {
			found := false
			sql.Inspect(it.expr, func(e sql.Expr) bool {
				if c, ok := e.(*sql.Call); ok && c.Over == nil && isAggregate(callName(c)) {
					found = true
				}
				return !found
			})
			if !found {
				out = append(out, it)
			}
		}
		return out
	}
	for _, gi := range g.Items {
		if gi.Kind != sql.PlainGrouping {
			b.a.report(groupingSets(gi.Kind, gi.Span))
			continue
		}
		i, err := position(gi.Expr, len(b.items), ClassGroupByPos, "GROUP BY")
		switch {
		case err != nil:
			b.a.report(err)
		case i >= 0:
			it := b.items[i]
			it.span = gi.Expr.Loc()
			out = append(out, it)
		default:
			out = append(out, item{expr: gi.Expr, span: gi.Expr.Loc()})
		}
	}
	return out
}

// group binds one grouping expression.
func (b *block) group(it item) (expr.Node, *sql.Error) {
	if it.expr == nil {
		return it.node, nil
	}
	return b.a.resolve(it.expr, b.names, b.hook(len(b.items), inGroupBy))
}

// build makes the Aggregate. The window is part of it if it is a grouping column
// and used nowhere below; else a Generate makes it.
func (b *block) build(groups []expr.Node, s *sql.Select) (*Aggregate, bool) {
	inside := b.win != nil && slices.ContainsFunc(groups, b.isWindow)
	for i := range b.calls {
		inside = inside && !b.calls[i].reads(b.winAt)
	}
	for _, g := range groups {
		inside = inside && (b.isWindow(g) || !slices.Contains(expr.Columns(g), b.winAt))
	}
	in := b.in
	if b.win != nil && !inside {
		in = b.win.node(in)
	}
	agg := &Aggregate{Input: in, Calls: b.calls, base: base{span: s.Span}}
	if s.GroupBy != nil {
		agg.span = s.GroupBy.Span
	}
	for _, g := range groups {
		if inside && b.isWindow(g) {
			spec := b.win.spec
			agg.Groups = append(agg.Groups, Group{Expr: b.win.time, Window: &spec})
			agg.cols = append(agg.cols, b.win.column())
			continue
		}
		if t := g.Type(); hasMap(t) {
			b.a.report(fail("GROUP_EXPRESSION_TYPE_IS_NOT_ORDERABLE", agg.span, "values of type "+t.String()+" cannot be grouped by"))
			return nil, false
		}
		agg.Groups = append(agg.Groups, Group{Expr: g})
		agg.cols = append(agg.cols, groupColumn(g, in.Columns()))
	}
	for i, c := range b.calls {
		agg.cols = append(agg.cols, Column{Name: b.titles[i], Type: c.Type})
	}
	return agg, true
}

func groupColumn(g expr.Node, in []Column) Column {
	if c, ok := g.(*expr.Column); ok {
		return in[c.Index]
	}
	return Column{Name: g.String(), Type: g.Type(), Time: mark(g, in)}
}

// isWindow reports whether n is the window column of the virtual input.
func (b *block) isWindow(n expr.Node) bool {
	c, ok := n.(*expr.Column)
	return ok && b.win != nil && c.Index == b.winAt
}

// reads reports whether the call uses a column.
func (c *AggCall) reads(column int) bool {
	nodes := slices.Clone(c.Args)
	if c.Filter != nil {
		nodes = append(nodes, c.Filter)
	}
	return slices.ContainsFunc(nodes, func(n expr.Node) bool { return slices.Contains(expr.Columns(n), column) })
}

// above rebinds expressions from the virtual input to the Aggregate's columns.
type above struct {
	b      *block
	groups []expr.Node
	plain  bool // there is no GROUP BY
	failed bool
}

// bind replaces grouping expressions and aggregates by the columns that hold
// them. What is left of the input is a fault, reported at its place in e.
func (m *above) bind(n expr.Node, e sql.Expr, span sql.Span) expr.Node {
	bad := -1
	out := m.replace(n, &bad)
	if bad < 0 {
		return out
	}
	m.failed = true
	name := n.String()
	if bad < len(m.b.in.Columns()) {
		name = m.b.in.Columns()[bad].Name
	} else if bad == m.b.winAt {
		name = "window"
	}
	at := m.place(e, bad, span)
	if m.plain {
		m.b.a.report(hinted(fail(ClassMissingGroupBy, at, "the query has aggregates but no GROUP BY, so the column "+name+" has no single value"),
			"add GROUP BY "+sql.FormatName(name)+", or take first("+sql.FormatName(name)+")"))
		return n
	}
	m.b.a.report(hinted(fail(ClassMissingAggregate, at, "the column "+name+" is neither in GROUP BY nor inside an aggregate"),
		"add "+sql.FormatName(name)+" to GROUP BY, or take first("+sql.FormatName(name)+")"))
	return n
}

// place finds where the column stands in the text.
func (m *above) place(e sql.Expr, column int, span sql.Span) sql.Span {
	at, found := span, false
	sql.Inspect(e, func(x sql.Expr) bool {
		ref, ok := x.(*sql.ColumnRef)
		if !ok || found {
			return !found
		}
		if n, err := m.b.names.Lookup(ref.Parts); err == nil && slices.Contains(expr.Columns(n), column) {
			at, found = ref.Span, true
		}
		return !found
	})
	return at
}

func (m *above) replace(n expr.Node, bad *int) expr.Node {
	for i, g := range m.groups {
		if expr.Equal(g, n) {
			return expr.NewColumn(i, n.String(), n.Type())
		}
	}
	if c, ok := n.(*expr.Column); ok {
		if c.Index < m.b.aggBase {
			*bad = c.Index
			return n
		}
		return expr.NewColumn(len(m.groups)+c.Index-m.b.aggBase, c.Name, c.Of)
	}
	children := expr.Children(n)
	if len(children) == 0 {
		return n
	}
	for i, c := range children {
		children[i] = m.replace(c, bad)
	}
	return expr.WithChildren(n, children)
}
