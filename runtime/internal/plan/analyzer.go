package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Options say how expressions of a plan are resolved. The zero value is right for
// ANSI mode in UTC.
type Options struct {
	// Functions are the scalar functions; nil means those built in.
	Functions *expr.Registry
	// Zone is the session time zone; nil is UTC.
	Zone *time.Location
}

// FromSelect makes the plan of a query. It returns all faults it finds; the node
// is nil if there are any.
func FromSelect(q *sql.Query, cat Catalog, opts Options) (Node, []*sql.Error) {
	a := &analyzer{cat: cat, opts: opts}
	n := a.query(q)
	if len(a.errs) > 0 {
		return nil, a.errs
	}
	return n, nil
}

// analyzer turns syntax trees into nodes and collects faults. A method that has
// reported a fault returns nil or a stand-in, and nothing built on it reports
// again.
type analyzer struct {
	cat  Catalog
	opts Options
	errs []*sql.Error
	// faults counts reports, also of the same fault.
	faults int
	ctes   []cte
	// views are the views being expanded, outermost first.
	views []string
	// size counts what has been expanded so far, over all views.
	size *int
}

// maxExpanded is how many tables, views, named queries and aliases a query may come
// to when all are expanded: each of a chain of definitions that use the previous one
// twice doubles it.
const maxExpanded = 5000

// expand counts an expansion. Beyond the limit it reports false.
func (a *analyzer) expand() bool {
	if a.size == nil {
		a.size = new(int)
	}
	*a.size++
	return *a.size <= maxExpanded
}

// cte is a named query in scope, with the names that were in scope where it was
// defined.
type cte struct {
	def  *sql.CTE
	seen []cte
}

func (a *analyzer) report(errs ...*sql.Error) {
	for _, e := range errs {
		if e == nil {
			continue
		}
		a.faults++
		if slices.ContainsFunc(a.errs, func(o *sql.Error) bool { return *o == *e }) {
			continue // what stands in a named query is found wherever it is used
		}
		a.errs = append(a.errs, e)
	}
}

// scopeOf is what names mean above n.
func scopeOf(n Node) expr.Scope {
	var s expr.Scope
	for i, c := range n.Columns() {
		s.Columns = append(s.Columns, expr.ScopeColumn{Qualifier: c.Qualifier, Name: c.Name, Type: c.Type, Index: i})
	}
	return s
}

// resolve binds e to the columns of a scope. Aggregates, generators and windows
// are faults, except for what hook takes.
func (a *analyzer) resolve(e sql.Expr, s expr.Scope, hook hook) (expr.Node, *sql.Error) {
	return expr.Resolve(e, s, expr.ResolveOptions{
		Registry: a.opts.Functions, Zone: a.opts.Zone, OtherFunctions: otherFunctions(),
		Hook: func(e sql.Expr) (expr.Node, bool, *sql.Error) {
			if hook != nil {
				if n, ok, err := hook(e); ok || err != nil {
					return n, ok, err
				}
			}
			return a.special(e, s, hook)
		},
	})
}

// hook resolves what means something only in its place; see
// expr.ResolveOptions.
type hook func(e sql.Expr) (expr.Node, bool, *sql.Error)

// special handles what is known to the planner but not to package expr.
func (a *analyzer) special(e sql.Expr, s expr.Scope, hook hook) (expr.Node, bool, *sql.Error) {
	switch e := e.(type) {
	case *sql.ScalarSubquery, *sql.InSubquery, *sql.Exists:
		return nil, false, notYet(e.Loc(), "a subquery in an expression")
	case *sql.Call:
		return a.specialCall(e, s, hook)
	default:
	}
	return nil, false, nil
}

func (a *analyzer) specialCall(e *sql.Call, s expr.Scope, hook hook) (expr.Node, bool, *sql.Error) {
	name := callName(e)
	switch {
	case e.Over != nil:
		return nil, false, hinted(fail(ClassOver, e.Span, name+"() OVER: window functions over rows are not supported on streams"),
			"group by window(time, 'size') for windows of time")
	case name == "window_time":
		n, err := a.windowTime(e, s, hook)
		return n, err == nil, err
	case name == "window":
		return nil, false, fail(ClassAnalysis, e.Span, "window() can stand in the select list and in GROUP BY only")
	case name == "session_window":
		return nil, false, notYet(e.Span, "session_window()")
	case isGenerator(name):
		return nil, false, hinted(fail(ClassGenerator, e.Span, name+"() can stand only at the top of the select list or in LATERAL VIEW"),
			"compute it in a subquery: SELECT ... FROM (SELECT "+name+"(...) AS x FROM t)")
	case isAggregate(name):
		return nil, false, hinted(fail(ClassInvalidWhere, e.Span, "the aggregate "+sql.ColumnName(e)+" cannot stand where single rows are looked at, as in WHERE"),
			"conditions on groups belong into HAVING")
	case name == "monotonically_increasing_id":
		return nil, false, fail(ClassUnsupported, e.Span, "monotonically_increasing_id() has no meaning on a stream")
	}
	return nil, false, nil
}

// callName is the function's name in lower case, "" for a qualified one.
func callName(e *sql.Call) string {
	if len(e.Name.Parts) != 1 {
		return ""
	}
	return strings.ToLower(e.Name.Parts[0].Name)
}

func otherFunctions() []string {
	return append([]string{"window", "session_window", "window_time", "explode", "explode_outer", "posexplode", "posexplode_outer"}, aggregateNames()...)
}

// condition resolves a boolean expression; clause is WHERE, HAVING, ...
func (a *analyzer) condition(e sql.Expr, s expr.Scope, clause string, hook hook) expr.Node {
	n, err := a.resolve(e, s, hook)
	if err != nil {
		a.report(err)
		return nil
	}
	if k := n.Type().Kind; k != messages.Boolean && k != messages.Null {
		a.report(fail(ClassNotBoolean, e.Loc(), "the condition of "+clause+" is of type "+n.Type().String()+", not boolean"))
		return nil
	}
	return n
}

// mark returns the time mark of an expression: that of a column it only renames.
func mark(n expr.Node, in []Column) TimeMark {
	switch n := n.(type) {
	case *expr.Column:
		if n.Index < len(in) {
			return in[n.Index].Time
		}
	case *expr.FuncCall:
		if c := windowTimeOf(n); c != nil && c.Index < len(in) && in[c.Index].Time == WindowTime {
			return EventTime
		}
	default:
	}
	return NotTime
}
