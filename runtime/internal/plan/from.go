package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// relation plans an entry of FROM. Nil: a fault was reported.
func (a *analyzer) relation(r sql.Relation) Node {
	switch r := r.(type) {
	case nil:
		return &Values{Rows: [][]expr.Node{{}}}
	case *sql.TableRef:
		return a.table(r)
	case *sql.DerivedTable:
		if r.Lateral {
			a.report(notYet(r.Span, "LATERAL"))
			return nil
		}
		n := a.query(r.Query)
		if r.Sample != nil {
			a.report(fail(ClassUnsupported, r.Sample.Span, "sampling of a stream is not supported"))
		}
		return a.named(a.watermarked(n, r.Watermark), r.Alias)
	case *sql.TableFunc:
		a.report(notYet(r.Span, "the table function "+r.Call.Name.String()+"()"))
		return nil
	case *sql.Join:
		return a.join(r)
	}
	return nil
}

// table plans a name in FROM: a named query of WITH, a view or a table.
func (a *analyzer) table(r *sql.TableRef) Node {
	if r.Sample != nil {
		a.report(fail(ClassUnsupported, r.Sample.Span, "sampling of a stream is not supported"))
	}
	n := a.lookup(r)
	if n == nil {
		return nil
	}
	if r.Stream && !Streaming(n) {
		a.report(hinted(fail(ClassAnalysis, r.Span, r.Name.String()+" is not a stream"), "leave out STREAM"))
		return nil
	}
	return a.named(a.watermarked(n, r.Watermark), r.Alias)
}

func (a *analyzer) lookup(r *sql.TableRef) Node {
	name := r.Name.String()
	if !a.expand() {
		a.report(fail(ClassAnalysis, r.Span, "the query comes to more than "+itoa(maxExpanded)+" tables when views and WITH are expanded"))
		return nil
	}
	if len(r.Name.Parts) == 1 {
		for i := len(a.ctes) - 1; i >= 0; i-- {
			if strings.EqualFold(a.ctes[i].def.Name.Name, name) {
				return a.expandCTE(a.ctes[i], r)
			}
		}
	}
	var rel Relation
	if a.cat != nil {
		rel = a.cat.Relation(name)
	}
	switch t := rel.(type) {
	case *Table:
		return scanOf(t, r.Span)
	case *View:
		return a.expandView(t, r)
	}
	e := fail(ClassTableNotFound, r.Name.Span, "there is no source, table or view "+name)
	var names []string
	for _, c := range a.ctes {
		names = append(names, c.def.Name.Name)
	}
	if a.cat != nil {
		names = append(names, a.cat.Names()...)
	}
	if near, ok := sql.Nearest(name, names); ok {
		e.Hint = "did you mean " + sql.FormatName(near) + "?"
	} else if len(names) > 0 {
		e.Hint = "known: " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	a.report(e)
	return nil
}

// expandCTE plans a named query where it is used; names defined after it are not
// in its scope.
func (a *analyzer) expandCTE(c cte, r *sql.TableRef) Node {
	saved := a.ctes
	a.ctes = c.seen
	n := a.query(c.def.Query)
	a.ctes = saved
	return a.alias(n, c.def.Name.Name, c.def.Columns, r.Span)
}

// expandView plans a view. Its text is another one, so faults in it stand where
// the view is used.
func (a *analyzer) expandView(v *View, r *sql.TableRef) Node {
	if slices.ContainsFunc(a.views, func(n string) bool { return strings.EqualFold(n, v.Name) }) {
		a.report(fail(ClassAnalysis, r.Span, "the view "+v.Name+" refers to itself: "+strings.Join(append(a.views, v.Name), " -> ")))
		return nil
	}
	inner := &analyzer{cat: a.cat, opts: a.opts, views: append(slices.Clone(a.views), v.Name), size: a.size}
	n := inner.query(v.Query)
	for _, e := range inner.errs {
		a.report(&sql.Error{Class: e.Class, Msg: "view " + v.Name + ": " + e.Msg, Hint: e.Hint, Span: r.Span})
	}
	if len(inner.errs) > 0 {
		return nil
	}
	return a.alias(n, v.Name, v.Columns, r.Span)
}

// NewScan returns the node that reads a table, with the watermark the table
// declares above it.
func NewScan(t *Table) Node { return scanOf(t, sql.Span{}) }

func scanOf(t *Table, span sql.Span) Node {
	s := &Scan{Table: t, base: base{span: span}}
	for _, f := range t.Schema.Fields {
		s.cols = append(s.cols, Column{Qualifier: t.Name, Name: f.Name, Type: f.Type})
	}
	if t.Watermark == nil || !t.Streaming {
		return s
	}
	i := t.Schema.Index(t.Watermark.Column)
	if i < 0 {
		return s // CREATE SOURCE has refused it
	}
	return newWatermark(s, i, t.Watermark, span)
}

func newWatermark(in Node, column int, d *WatermarkDecl, span sql.Span) *Watermark {
	w := &Watermark{Input: in, Column: column, Delay: d.Delay, base: base{span: span, cols: slices.Clone(in.Columns())}}
	w.cols[column].Time = EventTime
	if isWindow(w.cols[column].Type) {
		w.cols[column].Time = WindowTime
	}
	return w
}

// watermarked applies WATERMARK column DELAY OF interval.
func (a *analyzer) watermarked(n Node, w *sql.WatermarkClause) Node {
	if n == nil || w == nil {
		return n
	}
	t, err := a.resolve(w.Expr, scopeOf(n), nil)
	if err != nil {
		a.report(err)
		return nil
	}
	var column int
	if c, ok := t.(*expr.Column); ok && w.Alias == nil {
		column = c.Index
	} else {
		name := sql.ColumnName(w.Expr)
		if w.Alias != nil {
			name = w.Alias.Name
		}
		p := identity(n, w.Span)
		p.Exprs = append(p.Exprs, t)
		p.cols = append(p.cols, Column{Name: name, Type: t.Type()})
		n, column = p, len(p.cols)-1
	}
	var delay sql.Interval
	if w.Delay != nil {
		delay = w.Delay.Value
	}
	d, err := DelayOf(delay, w.Span)
	if err != nil {
		a.report(err)
		return nil
	}
	out, err := addWatermark(n, column, d, w.Span)
	a.report(err)
	return out
}

// addWatermark checks and adds a watermark. On static tables it has no effect.
func addWatermark(n Node, column int, d time.Duration, span sql.Span) (Node, *sql.Error) {
	c := n.Columns()[column]
	if k := c.Type.Kind; k != messages.Timestamp && k != messages.TimestampNTZ && !isWindow(c.Type) {
		return n, hinted(fail(ClassEventTimeType, span, "the event time "+c.Name+" is of type "+c.Type.String()+", not timestamp"),
			"cast it, or declare the column as TIMESTAMP")
	}
	if !Streaming(n) {
		return n, nil
	}
	var twice *Watermark
	Walk(n, func(n Node) {
		if w, ok := n.(*Watermark); ok {
			twice = w
		}
	})
	if twice != nil {
		return n, fail(ClassWatermarkTwice, span, "redefining a watermark is not allowed: the stream already has one on "+
			twice.cols[twice.Column].Name)
	}
	return newWatermark(n, column, &WatermarkDecl{Delay: d}, span), nil
}

// identity is a projection that passes all columns on.
func identity(n Node, span sql.Span) *Project {
	p := &Project{Input: n, base: base{span: span, cols: slices.Clone(n.Columns())}}
	for i, c := range p.cols {
		p.Exprs = append(p.Exprs, expr.NewColumn(i, c.Name, c.Type))
	}
	return p
}

// named applies AS name (columns).
func (a *analyzer) named(n Node, t *sql.TableAlias) Node {
	if t == nil {
		return n
	}
	return a.alias(n, t.Name.Name, t.Columns, t.Span)
}

func (a *analyzer) alias(n Node, name string, columns []sql.Ident, span sql.Span) Node {
	if n == nil {
		return nil
	}
	if len(columns) > 0 && len(columns) != len(n.Columns()) {
		a.report(fail(ClassNumColumns, span, name+" names "+plural(len(columns), "column")+" of "+plural(len(n.Columns()), "column")))
		return nil
	}
	out := NewAlias(n, name).(*Alias)
	out.span = span
	out.cols = renamed(out.cols, columns)
	return out
}

// NewAlias gives all columns of n the qualifier name.
func NewAlias(n Node, name string) Node {
	out := &Alias{Input: n, Name: name, base: base{span: n.Loc(), cols: slices.Clone(n.Columns())}}
	for i := range out.cols {
		out.cols[i].Qualifier = name
	}
	return out
}

// join plans a join, so that everything in it is checked; Check refuses it.
func (a *analyzer) join(r *sql.Join) Node {
	left, right := a.relation(r.Left), a.relation(r.Right)
	if left == nil || right == nil {
		return nil
	}
	j := &Join{Kind: r.Kind, Left: left, Right: right, base: base{span: r.Span}}
	j.cols = append(slices.Clone(left.Columns()), right.Columns()...)
	if r.On != nil {
		j.On = a.condition(r.On, scopeOf(j), "ON", nil)
	}
	for _, u := range r.Using {
		a.using(j, u)
	}
	if r.Kind == sql.LeftSemiJoin || r.Kind == sql.LeftAntiJoin {
		j.cols = left.Columns()
	}
	if len(r.Using) > 0 {
		j.cols = mergeUsing(left.Columns(), j.cols[len(left.Columns()):], r.Using)
	}
	return j
}

// using adds the equality of a column of USING to the condition of a join.
func (a *analyzer) using(j *Join, u sql.Ident) {
	var sides []expr.Node
	for _, side := range []Node{j.Left, j.Right} {
		n, err := scopeOf(side).Lookup([]sql.Ident{u})
		if err != nil {
			a.report(err)
			return
		}
		if c, ok := n.(*expr.Column); ok && side == j.Right {
			n = expr.NewColumn(len(j.Left.Columns())+c.Index, c.Name, c.Of)
		}
		sides = append(sides, n)
	}
	equal, err := expr.Call("=", sides...)
	if err == nil && j.On != nil {
		equal, err = expr.Call("and", j.On, equal)
	}
	if err != nil {
		a.report(fail(ClassAnalysis, u.Span, "USING ("+u.Name+"): "+err.Error()))
		return
	}
	j.On = equal
}

// mergeUsing leaves out the columns of USING on the right-hand side.
func mergeUsing(left, right []Column, using []sql.Ident) []Column {
	out := slices.Clone(left)
	for _, c := range right {
		if !slices.ContainsFunc(using, func(u sql.Ident) bool { return strings.EqualFold(u.Name, c.Name) }) {
			out = append(out, c)
		}
	}
	return out
}
