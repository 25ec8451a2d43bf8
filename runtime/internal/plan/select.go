package plan

import (
	"slices"
	"strings"

	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// block is a SELECT block being planned. Its expressions are first bound to a
// virtual input: the columns of FROM, then those of the generator of the select
// list, then the time window, then one per aggregate call.
type block struct {
	a     *analyzer
	in    Node
	items []item
	// names is what names mean: the columns of FROM and the window.
	names expr.Scope

	gen     *genCall
	win     *windowCall
	winAt   int // virtual column of the window
	aggBase int // virtual column of the first aggregate
	calls   []AggCall
	keys    []string // of calls
	titles  []string // column names of calls
}

// item is an entry of the select list, stars being expanded.
type item struct {
	// expr is nil for a column that a star stands for.
	expr    sql.Expr
	aliases []sql.Ident
	name    string
	span    sql.Span
	node    expr.Node
	// hidden columns are there for ORDER BY only.
	hidden bool
}

// genCall is the generator of the select list.
type genCall struct {
	kind  GeneratorKind
	outer bool
	arg   expr.Node
	cols  []Column
	call  *sql.Call
	item  int
	at    int // its first virtual column
}

// selectBlock plans a SELECT block with the ORDER BY of its query.
func (a *analyzer) selectBlock(s *sql.Select, order []sql.SortItem) Node {
	in := a.relation(s.From)
	if in == nil {
		return nil
	}
	for i := range s.LateralViews {
		if in = a.lateralView(in, &s.LateralViews[i]); in == nil {
			return nil
		}
	}
	if s.Where != nil {
		if cond := a.condition(s.Where, scopeOf(in), "WHERE", nil); cond != nil {
			in = newFilter(in, cond, s.Where.Loc())
		}
	}
	return a.selectOver(in, s, order)
}

// selectOver plans what comes after FROM and WHERE.
func (a *analyzer) selectOver(in Node, s *sql.Select, order []sql.SortItem) Node {
	b := &block{a: a, in: in}
	before := a.faults
	b.expand(s.Items)
	b.findWindow(s, order)
	b.findGenerator()
	if a.faults > before {
		return nil
	}
	if s.GroupBy != nil || s.Having != nil || b.aggregates(order) {
		return b.grouped(s, order)
	}
	return b.plain(s, order)
}

func newFilter(in Node, cond expr.Node, span sql.Span) *Filter {
	return &Filter{Input: in, Cond: cond, base: base{span: span, cols: in.Columns()}}
}

// lateralView plans LATERAL VIEW.
func (a *analyzer) lateralView(in Node, v *sql.LateralView) Node {
	kind, outer, ok := generatorOf(callName(v.Call))
	if !ok {
		a.report(fail(ClassGenerator, v.Call.Span, v.Call.Name.String()+"() makes no rows"))
		return nil
	}
	g, err := a.generator(v.Call, kind, in)
	if err == nil && len(v.Columns) > 0 && len(v.Columns) != len(g.cols) {
		err = fail(ClassNumColumns, v.Span, v.Call.Name.String()+"() gives "+plural(len(g.cols), "column")+", not "+plural(len(v.Columns), "column"))
	}
	if err != nil {
		a.report(err)
		return nil
	}
	g.outer = outer || v.Outer
	g.cols = renamed(g.cols, v.Columns)
	if v.Table != nil {
		for i := range g.cols {
			g.cols[i].Qualifier = v.Table.Name
		}
	}
	return g.node(in)
}

// generator understands a call of a function that makes rows.
func (a *analyzer) generator(c *sql.Call, kind GeneratorKind, in Node) (*genCall, *sql.Error) {
	if len(c.Args) != 1 {
		return nil, fail(expr.ClassWrongNumArgs, c.Span, callName(c)+" takes 1 argument, not "+plural(len(c.Args), "argument"))
	}
	arg, err := a.resolve(c.Args[0], scopeOf(in), nil)
	if err != nil {
		return nil, err
	}
	cols, ok := generated(kind, arg.Type())
	if !ok {
		return nil, fail(expr.ClassMismatch, c.Args[0].Loc(), callName(c)+"() needs an array or a map, not "+arg.Type().String())
	}
	return &genCall{kind: kind, arg: arg, cols: cols, call: c}, nil
}

func (g *genCall) node(in Node) *Generate {
	return &Generate{
		Input: in, Kind: g.kind, Arg: g.arg, Outer: g.outer,
		base: base{span: g.call.Span, cols: append(slices.Clone(in.Columns()), g.cols...)},
	}
}

// expand makes the list of items, with a column for each that a star means.
func (b *block) expand(items []sql.SelectItem) {
	for _, it := range items {
		star, ok := it.Expr.(*sql.Star)
		if !ok {
			n := item{expr: it.Expr, aliases: it.Aliases, span: it.Span, name: sql.ColumnName(it.Expr)}
			if len(it.Aliases) == 1 {
				n.name = it.Aliases[0].Name
			}
			b.items = append(b.items, n)
			continue
		}
		b.star(star)
	}
}

func (b *block) star(star *sql.Star) {
	scope := scopeOf(b.in)
	if len(star.Qualifier) > 1 {
		b.a.report(fail(ClassAnalysis, star.Span, "only a table can stand before .*"))
		return
	}
	left := slices.Clone(star.Except)
	any := false
	for i, c := range b.in.Columns() {
		if len(star.Qualifier) == 1 && !strings.EqualFold(c.Qualifier, star.Qualifier[0].Name) {
			continue
		}
		any = true
		out := slices.IndexFunc(left, func(x sql.Ident) bool { return strings.EqualFold(x.Name, c.Name) })
		if out >= 0 {
			left = slices.Delete(left, out, out+1)
			continue
		}
		b.items = append(b.items, item{name: c.Name, span: star.Span, node: expr.NewColumn(i, c.Name, c.Type)})
	}
	for _, x := range left {
		_, err := scope.Lookup([]sql.Ident{x})
		b.a.report(err)
	}
	if !any {
		if len(star.Qualifier) == 1 {
			b.starOf(star)
			return
		}
		b.a.report(fail(ClassAnalysis, star.Span, "SELECT * needs a table"))
	}
}

// starOf expands column.* of a struct.
func (b *block) starOf(star *sql.Star) {
	n, err := scopeOf(b.in).Lookup(star.Qualifier)
	if err != nil && strings.EqualFold(star.Qualifier[0].Name, "window") {
		for _, field := range []string{"start", "end"} { // of the window that GROUP BY makes
			ref := &sql.ColumnRef{Span: star.Span, Parts: append(slices.Clone(star.Qualifier), sql.Ident{Span: star.Span, Name: field})}
			b.items = append(b.items, item{expr: ref, name: field, span: star.Span})
		}
		return
	}
	if err != nil {
		b.a.report(err)
		return
	}
	if len(n.Type().Fields) == 0 {
		b.a.report(fail(ClassAnalysis, star.Span, n.String()+" is neither a table nor a struct"))
	}
	for i, f := range n.Type().Fields {
		b.items = append(b.items, item{name: f.Name, span: star.Span, node: &expr.Field{X: n, Index: i}})
	}
}

// inspect walks all expressions of the block that may have windows and
// aggregates.
func (b *block) inspect(s *sql.Select, order []sql.SortItem, f func(sql.Expr) bool) {
	for _, it := range b.items {
		sql.Inspect(it.expr, f)
	}
	if s != nil {
		if s.GroupBy != nil {
			for _, g := range s.GroupBy.Items {
				sql.Inspect(g.Expr, f)
			}
		}
		sql.Inspect(s.Having, f)
	}
	for _, o := range order {
		sql.Inspect(o.Expr, f)
	}
}

// findWindow looks for calls of window(): all must be the same.
func (b *block) findWindow(s *sql.Select, order []sql.SortItem) {
	b.names = scopeOf(b.in)
	sessions := false
	b.inspect(s, order, func(e sql.Expr) bool {
		c, ok := e.(*sql.Call)
		if ok && callName(c) == "session_window" {
			if !sessions { // before columns of it are missed
				b.a.report(notYet(c.Span, "session_window()"))
			}
			sessions = true
			return false
		}
		if !ok || callName(c) != "window" || c.Over != nil {
			return true
		}
		w, err := b.a.window(c, b.in)
		switch {
		case err != nil:
			b.a.report(err)
		case b.win == nil:
			b.win = w
		case b.win.key() != w.key():
			b.a.report(hinted(fail(ClassAnalysis, c.Span, "multiple time window expressions would result in a cartesian product of rows"),
				"compute them in separate subqueries"))
		}
		return false
	})
	b.winAt = len(b.in.Columns())
	b.aggBase = b.winAt + 1
	if b.win == nil {
		return
	}
	if _, err := b.names.Lookup([]sql.Ident{{Name: "window"}}); err != nil {
		b.names.Columns = append(b.names.Columns, expr.ScopeColumn{Name: "window", Type: b.win.typ, Index: b.winAt})
	}
}

// findGenerator looks for the generator of the select list: at most one, at the
// top of an item.
func (b *block) findGenerator() {
	for i, it := range b.items {
		c, ok := it.expr.(*sql.Call)
		if !ok {
			continue
		}
		kind, outer, ok := generatorOf(callName(c))
		if !ok {
			continue
		}
		if b.gen != nil {
			b.a.report(hinted(fail(ClassGenerator, c.Span, "there can be only one "+callName(c)+"() in a select list"), "use a subquery or LATERAL VIEW"))
			return
		}
		g, err := b.a.generator(c, kind, b.in)
		if err != nil {
			b.a.report(err)
			return
		}
		g.outer, g.item, g.at = outer, i, len(b.in.Columns())
		if len(it.aliases) > 0 && len(it.aliases) != len(g.cols) {
			b.a.report(fail(ClassNumColumns, it.span, callName(c)+"() gives "+plural(len(g.cols), "column")+", not "+plural(len(it.aliases), "name")))
			return
		}
		g.cols = renamed(g.cols, it.aliases)
		b.gen = g
		b.winAt += len(g.cols)
		b.aggBase += len(g.cols)
		for i := range b.names.Columns { // the window's place has moved
			if b.names.Columns[i].Index >= g.at {
				b.names.Columns[i].Index = b.winAt
			}
		}
	}
}

// aggregates reports whether an aggregate function is called.
func (b *block) aggregates(order []sql.SortItem) bool {
	found := false
	b.inspect(nil, order, func(e sql.Expr) bool {
		if c, ok := e.(*sql.Call); ok && c.Over == nil && isAggregate(callName(c)) {
			found = true
		}
		return !found
	})
	return found
}

// place is where in a SELECT block an expression stands.
type place uint8

const (
	noAggregates place = iota
	inGroupBy
	overGroups // the select list, HAVING and ORDER BY of a block with aggregates
)

// hook resolves what has a meaning in a select list: windows, the names of
// earlier items (the first upTo), and where they may stand aggregates.
func (b *block) hook(upTo int, where place) hook {
	return func(e sql.Expr) (expr.Node, bool, *sql.Error) {
		switch e := e.(type) {
		case *sql.Call:
			if e.Over != nil {
				if !Streaming(b.in) {
					return nil, false, notYet(e.Span, "a window function over rows of a static table")
				}
				return nil, false, nil
			}
			name := callName(e)
			if name == "window" && b.win != nil {
				return expr.NewColumn(b.winAt, "window", b.win.typ), true, nil
			}
			f, ok := aggregateOf(name)
			switch {
			case ok && where == overGroups:
				n, err := b.aggregate(e, f, upTo)
				return n, err == nil, err
			case ok && where == inGroupBy:
				return nil, false, hinted(fail(ClassGroupByAggregate, e.Span, "GROUP BY cannot contain the aggregate "+sql.ColumnName(e)),
					"compute it in a subquery")
			}
		case *sql.ColumnRef:
			if _, err := b.names.Lookup(e.Parts); err != nil {
				return b.alias(e, upTo, where)
			}
		default:
		}
		return nil, false, nil
	}
}

// alias resolves the name of another select item, and fields of it.
func (b *block) alias(e *sql.ColumnRef, upTo int, where place) (expr.Node, bool, *sql.Error) {
	for i := range min(upTo, len(b.items)) {
		it := &b.items[i]
		if it.expr == nil || len(it.aliases) != 1 || !strings.EqualFold(it.aliases[0].Name, e.Parts[0].Name) {
			continue
		}
		if b.gen != nil && b.gen.item == i {
			if len(b.gen.cols) != 1 || len(e.Parts) != 1 {
				return nil, false, nil
			}
			return expr.NewColumn(b.gen.at, b.gen.cols[0].Name, b.gen.cols[0].Type), true, nil
		}
		if !b.a.expand() {
			return nil, false, fail(ClassAnalysis, e.Span, "the query comes to more than "+itoa(maxExpanded)+" expressions when aliases are expanded")
		}
		x := it.expr
		for _, p := range e.Parts[1:] {
			x = &sql.FieldAccess{Span: e.Span, X: x, Field: p}
		}
		n, err := b.a.resolve(x, b.names, b.hook(i, where))
		return n, err == nil, err
	}
	return nil, false, nil
}

// aggregate gives an aggregate call its virtual column.
func (b *block) aggregate(c *sql.Call, f aggFunc, upTo int) (expr.Node, *sql.Error) {
	call, err := b.a.aggCall(c, f, b.names, b.hook(upTo, noAggregates))
	if err != nil {
		return nil, err
	}
	k := call.key()
	i := slices.Index(b.keys, k)
	if i < 0 {
		i = len(b.calls)
		b.calls = append(b.calls, *call)
		b.keys = append(b.keys, k)
		b.titles = append(b.titles, sql.ColumnName(c))
	}
	return expr.NewColumn(b.aggBase+i, b.titles[i], call.Type), nil
}

// resolveItems binds the items to the virtual input.
func (b *block) resolveItems(where place) bool {
	before := b.a.faults
	for i := range b.items {
		it := &b.items[i]
		if it.node != nil || b.gen != nil && b.gen.item == i {
			continue
		}
		n, err := b.a.resolve(it.expr, b.names, b.hook(i, where))
		if err != nil {
			b.a.report(err)
			continue
		}
		if len(it.aliases) > 1 {
			b.a.report(fail(ClassNumColumns, it.span, "only a generator can have several names"))
			continue
		}
		it.node = n
	}
	return b.a.faults == before
}

// resolveOrder binds ORDER BY. Entries that are no select items become hidden
// ones; the result has the item of each entry.
func (b *block) resolveOrder(order []sql.SortItem, where place) (at []int, ok bool) {
	before := b.a.faults
	visible := len(b.items)
	for _, o := range order {
		i, err := position(o.Expr, visible, ClassOrderByPos, "ORDER BY")
		if err != nil {
			b.a.report(err)
			continue
		}
		if i < 0 {
			i = b.orderItem(o, visible, where)
		}
		at = append(at, i)
	}
	return at, b.a.faults == before
}

func (b *block) orderItem(o sql.SortItem, visible int, where place) int {
	if ref, ok := o.Expr.(*sql.ColumnRef); ok && len(ref.Parts) == 1 {
		for i := range visible {
			if strings.EqualFold(b.items[i].name, ref.Parts[0].Name) {
				return i
			}
		}
	}
	n, err := b.a.resolve(o.Expr, b.names, b.hook(visible, where))
	if err != nil {
		b.a.report(err)
		return 0
	}
	for i := range b.items {
		if b.items[i].node != nil && expr.Equal(b.items[i].node, n) {
			return i
		}
	}
	b.items = append(b.items, item{expr: o.Expr, name: sql.ColumnName(o.Expr), node: n, span: o.Span, hidden: true})
	return len(b.items) - 1
}
