package plan

import (
	"slices"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
)

// Optimize returns a plan with the same rows and columns that costs less:
// constants folded, conditions moved down, projections merged, columns that nobody
// reads left out down to the scans. Watermarks stay where they are, over every row
// that the plan as written lets them see, and the state of stateful operators is
// the same as before.
func Optimize(n Node, opts expr.Options) Node {
	cols := n.Columns()
	n = foldAll(n, opts)
	n = normalize(unalias(n))
	n = pushFilters(n)
	n = collapse(n)
	n = prune(n)
	n = collapse(n)
	return restore(n, cols)
}

// restore gives the plan's result the names that were asked for.
func restore(n Node, cols []Column) Node {
	same := slices.EqualFunc(n.Columns(), cols, func(a, b Column) bool { return a.Name == b.Name })
	if same {
		return n
	}
	if p, ok := n.(*Project); ok {
		out := *p
		out.cols = slices.Clone(cols)
		return &out
	}
	p := identity(n, n.Loc())
	p.cols = slices.Clone(cols)
	return p
}

// mapInputs returns n with f applied to its inputs; n itself if nothing changes.
func mapInputs(n Node, f func(Node) Node) Node {
	in := n.Inputs()
	out := make([]Node, len(in))
	changed := false
	for i, x := range in {
		out[i] = f(x)
		changed = changed || out[i] != x
	}
	if !changed {
		return n
	}
	return withInputs(n, out)
}

// withInputs returns n over other inputs that have the same columns at the places
// n looks at. The columns of nodes that pass their input on follow it.
func withInputs(n Node, in []Node) Node {
	switch n := n.(type) {
	case *Watermark:
		c := *n
		c.Input = in[0]
		return &c
	case *Project:
		c := *n
		c.Input = in[0]
		return &c
	case *Filter:
		c := *n
		c.Input, c.cols = in[0], in[0].Columns()
		return &c
	case *Generate:
		c := *n
		c.Input = in[0]
		return &c
	case *Aggregate:
		c := *n
		c.Input = in[0]
		return &c
	case *Union:
		c := *n
		c.In = in
		return &c
	case *Sort:
		c := *n
		c.Input, c.cols = in[0], in[0].Columns()
		return &c
	case *Limit:
		c := *n
		c.Input, c.cols = in[0], in[0].Columns()
		return &c
	case *Distinct:
		c := *n
		c.Input, c.cols = in[0], in[0].Columns()
		return &c
	case *Join:
		c := *n
		c.Left, c.Right = in[0], in[1]
		return &c
	case *SetOperation:
		c := *n
		c.Left, c.Right = in[0], in[1]
		return &c
	case *Alias:
		c := *n
		c.Input = in[0]
		return &c
	default:
	}
	return n
}

// mapExprs returns n with f applied to its own expressions.
func mapExprs(n Node, f func(expr.Node) expr.Node) Node {
	all := func(list []expr.Node) []expr.Node {
		out := make([]expr.Node, len(list))
		for i, e := range list {
			out[i] = f(e)
		}
		return out
	}
	switch n := n.(type) {
	case *Project:
		c := *n
		c.Exprs = all(n.Exprs)
		return &c
	case *Filter:
		c := *n
		c.Cond = f(n.Cond)
		return &c
	case *Generate:
		c := *n
		c.Arg = f(n.Arg)
		return &c
	case *Aggregate:
		return mapAggregate(n, f, all)
	case *Sort:
		c := *n
		c.Keys = slices.Clone(n.Keys)
		for i := range c.Keys {
			c.Keys[i].Expr = f(c.Keys[i].Expr)
		}
		return &c
	case *Join:
		c := *n
		if n.On != nil {
			c.On = f(n.On)
		}
		return &c
	default:
	}
	return n
}

func mapAggregate(n *Aggregate, f func(expr.Node) expr.Node, all func([]expr.Node) []expr.Node) Node {
	c := *n
	c.Groups, c.Calls = slices.Clone(n.Groups), slices.Clone(n.Calls)
	for i := range c.Groups {
		c.Groups[i].Expr = f(c.Groups[i].Expr)
	}
	for i := range c.Calls {
		c.Calls[i].Args = all(c.Calls[i].Args)
		if c.Calls[i].Filter != nil {
			c.Calls[i].Filter = f(c.Calls[i].Filter)
		}
	}
	return &c
}

// foldAll computes what is constant. Conditions that are always true go.
func foldAll(n Node, opts expr.Options) Node {
	n = mapInputs(n, func(in Node) Node { return foldAll(in, opts) })
	n = mapExprs(n, func(e expr.Node) expr.Node { return expr.Transform(expr.Fold(e, opts), simplify) })
	if f, ok := n.(*Filter); ok {
		if lit, ok := f.Cond.(*expr.Literal); ok {
			if yes, _ := lit.Truth(); yes {
				return f.Input
			}
		}
	}
	return n
}

// simplify takes away the side of AND and OR that decides nothing.
func simplify(n expr.Node) expr.Node {
	f, ok := n.(*expr.FuncCall)
	if !ok || len(f.Args) != 2 || f.Func.Name != "and" && f.Func.Name != "or" {
		return n
	}
	for i, a := range f.Args {
		if lit, ok := a.(*expr.Literal); ok {
			if v, known := lit.Truth(); known && v == (f.Func.Name == "and") && f.Args[1-i].Type().Kind == messages.Boolean {
				return f.Args[1-i]
			}
		}
	}
	return n
}

// unalias removes nodes that only rename: above them columns are numbers.
func unalias(n Node) Node {
	n = mapInputs(n, unalias)
	if a, ok := n.(*Alias); ok {
		return a.Input
	}
	return n
}

// normalize brings a plan into the form that can be lowered.
func normalize(n Node) Node { return windowFirst(plainWindows(placeWatermarks(groupDistinct(n)))) }

// windowFirst brings the columns of aggregations into the order in which the operator
// gives them: the window, then the other groups, then the results.
func windowFirst(n Node) Node {
	n = mapInputs(n, windowFirst)
	agg, ok := n.(*Aggregate)
	if !ok {
		return n
	}
	at := agg.Window()
	if at <= 0 {
		return n
	}
	c := *agg
	c.Groups = slices.Concat(agg.Groups[at:at+1], agg.Groups[:at], agg.Groups[at+1:])
	c.cols = slices.Concat(agg.cols[at:at+1], agg.cols[:at], agg.cols[at+1:])
	to := upTo(len(agg.cols))
	to[at] = 0
	for i := range at {
		to[i] = i + 1
	}
	return pick(&c, to, agg.cols)
}

// plainWindows makes ordinary grouping columns of windows over a time that the
// watermark of the stream does not speak about: they are never late and never final.
func plainWindows(n Node) Node {
	n = mapInputs(n, plainWindows)
	agg, ok := n.(*Aggregate)
	if !ok {
		return n
	}
	at := agg.Window()
	if at < 0 || agg.cols[at].Time != NotTime || !hasWatermark(agg.Input) {
		return n
	}
	c := *agg
	g := &Generate{Input: agg.Input, Kind: AssignWindows, Arg: agg.Groups[at].Expr, Window: agg.Groups[at].Window, base: base{span: agg.span}}
	g.cols = append(slices.Clone(agg.Input.Columns()), agg.cols[at])
	c.Input, c.Groups = g, slices.Clone(agg.Groups)
	c.Groups[at] = Group{Expr: expr.NewColumn(len(g.cols)-1, "window", agg.cols[at].Type)}
	return &c
}

func hasWatermark(n Node) bool {
	found := false
	Walk(n, func(n Node) {
		_, ok := n.(*Watermark)
		found = found || ok
	})
	return found
}

// groupDistinct makes a grouping by all columns of each DISTINCT: the same rows, and
// in every output mode they come when those of a grouping do.
func groupDistinct(n Node) Node {
	n = mapInputs(n, groupDistinct)
	d, ok := n.(*Distinct)
	if !ok {
		return n
	}
	agg := &Aggregate{Input: d.Input, base: d.base}
	for i, c := range d.cols {
		agg.Groups = append(agg.Groups, Group{Expr: expr.NewColumn(i, c.Name, c.Type)})
	}
	return agg
}

// placeWatermarks moves watermarks below unions, since each source has its own, and
// limits below projections, to the sort whose part they are.
func placeWatermarks(n Node) Node {
	switch x := n.(type) {
	case *Watermark:
		if u, ok := x.Input.(*Union); ok {
			out := make([]Node, len(u.In))
			for i, in := range u.In {
				w := newWatermark(in, x.Column, &WatermarkDecl{Delay: x.Delay}, x.span)
				out[i] = w
			}
			c := *u
			c.In, c.cols = out, x.cols
			n = &c
		}
	case *Limit:
		if p, ok := x.Input.(*Project); ok {
			n = withInputs(p, []Node{withInputs(x, []Node{p.Input})})
		}
	default:
	}
	return mapInputs(n, placeWatermarks)
}

// pushFilters moves each condition down as far as it goes.
func pushFilters(n Node) Node {
	n = mapInputs(n, pushFilters)
	if f, ok := n.(*Filter); ok && expr.Deterministic(f.Cond) {
		return push(f)
	}
	return n
}

// push moves one condition below its input where that gives the same rows. A
// condition is never taken apart or joined with another one: the order in which
// conditions are tried decides which rows raise errors. It stays above watermarks,
// limits and aggregates.
func push(f *Filter) Node {
	switch in := f.Input.(type) {
	case *Project:
		if !slices.ContainsFunc(expr.Columns(f.Cond), func(i int) bool { return !simple(in.Exprs[i]) }) {
			below := push(f.over(in.Input, substitute(f.Cond, in.Exprs)))
			return withInputs(in, []Node{below})
		}
	case *Union:
		out := make([]Node, len(in.In))
		for i, x := range in.In {
			out[i] = push(f.over(x, f.Cond))
		}
		return withInputs(in, out)
	case *Generate:
		width := len(in.Input.Columns())
		if in.Keep == nil && !slices.ContainsFunc(expr.Columns(f.Cond), func(i int) bool { return i >= width }) {
			return withInputs(in, []Node{push(f.over(in.Input, f.Cond))})
		}
	default:
	}
	return f
}

// over is the filter with another condition over another input.
func (n *Filter) over(in Node, cond expr.Node) *Filter {
	f := newFilter(in, cond, n.span)
	f.Having = n.Having
	return f
}

// simple reports whether an expression costs next to nothing and cannot fail, so
// that it may be computed twice.
func simple(n expr.Node) bool {
	switch n := n.(type) {
	case *expr.Column, *expr.Literal:
		return true
	case *expr.Field:
		return simple(n.X)
	default:
	}
	return false
}

// substitute replaces columns by the expressions that compute them.
func substitute(n expr.Node, by []expr.Node) expr.Node {
	return expr.Transform(n, func(n expr.Node) expr.Node {
		if c, ok := n.(*expr.Column); ok {
			return by[c.Index]
		}
		return n
	})
}

// renumber moves columns to other places.
func renumber(n expr.Node, to []int) expr.Node {
	return expr.Transform(n, func(n expr.Node) expr.Node {
		if c, ok := n.(*expr.Column); ok && to[c.Index] != c.Index {
			return expr.NewColumn(to[c.Index], c.Name, c.Of)
		}
		return n
	})
}

// collapse merges projections into the node above and removes those that do
// nothing.
func collapse(n Node) Node {
	n = mapInputs(n, collapse)
	switch n := n.(type) {
	case *Project:
		if in, ok := n.Input.(*Project); ok && mergeable(n, in) {
			out := mapExprs(n, func(e expr.Node) expr.Node { return substitute(e, in.Exprs) })
			return collapse(withInputs(out, []Node{in.Input}))
		}
		if isIdentity(n) {
			return n.Input
		}
	case *Aggregate:
		if in, ok := n.Input.(*Project); ok && !n.KeepInput && mergeable(n, in) {
			out := mapExprs(n, func(e expr.Node) expr.Node { return substitute(e, in.Exprs) })
			return collapse(withInputs(out, []Node{in.Input}))
		}
	default:
	}
	return n
}

// mergeable reports whether the expressions of in can be put in place of the
// columns n reads: nothing costly twice, nothing that differs from call to call.
func mergeable(n Node, in *Project) bool {
	uses := make([]int, len(in.Exprs))
	for _, e := range expressions(n) {
		expr.Walk(e, func(e expr.Node) bool {
			if c, ok := e.(*expr.Column); ok {
				uses[c.Index]++
			}
			return true
		})
	}
	for i, e := range in.Exprs {
		if uses[i] > 1 && !simple(e) || !expr.Deterministic(e) {
			return false
		}
	}
	return true
}

// isIdentity reports whether a projection passes its input on as it is.
func isIdentity(p *Project) bool {
	if len(p.Exprs) != len(p.Input.Columns()) {
		return false
	}
	for i, e := range p.Exprs {
		if c, ok := e.(*expr.Column); !ok || c.Index != i {
			return false
		}
	}
	return true
}
