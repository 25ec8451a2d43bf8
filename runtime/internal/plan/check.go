package plan

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Mode is an output mode.
type Mode uint8

// The output modes. Batch is for plans of static tables only; the engine checks
// them but does not run them.
const (
	Append Mode = iota
	Update
	Complete
	Batch
)

// String names the mode as the option output_mode does.
func (m Mode) String() string { return [...]string{"append", "update", "complete", "batch"}[m] }

// ParseMode reads the option output_mode; "" is append.
func ParseMode(s string) (Mode, *sql.Error) {
	for m := Append; m <= Complete; m++ {
		if strings.EqualFold(s, m.String()) {
			return m, nil
		}
	}
	if s == "" {
		return Append, nil
	}
	return Append, fail(ClassIllegalArgument, sql.Span{}, fmt.Sprintf("output_mode: invalid mode %q, it is append, update or complete", s))
}

// Check says what of the plan a query with the given output mode cannot do: what
// no stream can do has the class of Spark's refusal, what this version cannot run
// has ClassNotYet. The plan is the one before optimizing.
func Check(n Node, mode Mode) []*sql.Error {
	c := &checker{mode: mode}
	c.streaming = Streaming(n)
	switch {
	case mode == Batch && c.streaming:
		Walk(n, func(n Node) {
			if s, ok := n.(*Scan); ok && s.Table.Streaming {
				c.report(fail(ClassUnsupported, s.span, "a query with the streaming source "+s.Table.Name+" must be started as a streaming query"))
			}
		})
		return c.errs
	case mode == Batch:
		return nil
	case !c.streaming:
		c.report(fail(ClassUnsupported, n.Loc(), "a streaming query without streaming source cannot run: no table in FROM is a stream"))
		return c.errs
	}
	c.node(n)
	c.whole(n)
	return c.errs
}

type checker struct {
	mode      Mode
	streaming bool
	errs      []*sql.Error
}

func (c *checker) report(e *sql.Error) { c.errs = append(c.errs, e) }

// stateful reports whether n is a streaming operator with state.
func stateful(n Node) bool {
	switch n := n.(type) {
	case *Aggregate, *Distinct:
		return Streaming(n)
	case *Join:
		return Streaming(n.Left) && Streaming(n.Right)
	default:
	}
	return false
}

// topAggregation returns the topmost streaming aggregation at or below n, nil if none.
func topAggregation(n Node) Node {
	switch n := n.(type) {
	case *Aggregate, *Distinct:
		if Streaming(n) {
			return n
		}
	default:
	}
	for _, in := range n.Inputs() {
		if a := topAggregation(in); a != nil {
			return a
		}
	}
	return nil
}

// node checks n and what is below it.
func (c *checker) node(n Node) {
	for _, in := range n.Inputs() {
		c.node(in)
	}
	if !Streaming(n) {
		return // the static side of a join is computed as a batch
	}
	switch n := n.(type) {
	case *Aggregate:
		c.aggregate(n)
	case *Distinct:
		c.distinct(n)
	case *Sort:
		if c.mode != Complete || topAggregation(n.Input) == nil {
			c.report(hinted(fail(ClassUnsupported, n.span, "a sort of a stream is supported only over an aggregation in complete mode"),
				"leave out ORDER BY, or use output_mode = 'complete' with GROUP BY"))
		}
	case *Limit:
		c.limit(n)
	case *Join:
		c.join(n)
	case *Union:
		c.union(n)
	case *SetOperation:
		c.setOperation(n)
	case *Watermark:
		c.watermark(n)
	default:
	}
}

// whole checks rules about the query as a whole.
func (c *checker) whole(n Node) {
	agg := topAggregation(n)
	if c.mode == Complete && agg == nil {
		c.report(hinted(fail(ClassOutputMode, n.Loc(), "complete mode is not supported when there are no streaming aggregations"),
			"use output_mode = 'append'"))
	}
}

// watermark refuses watermarks that do not speak about the rows of sources.
func (c *checker) watermark(n *Watermark) {
	below := ""
	Walk(n.Input, func(n Node) {
		switch n.(type) {
		case *Aggregate, *Distinct:
			below = "an aggregation"
		case *Limit:
			below = "LIMIT"
		default:
		}
	})
	if below != "" {
		c.report(hinted(notYet(n.span, "a watermark above "+below), "declare it on the source"))
	}
}

func (c *checker) aggregate(n *Aggregate) {
	c.chained(n, n.Input)
	c.oneTime(n)
	c.appendNeedsTime(n, n.cols[:len(n.Groups)])
	for i := range n.Calls {
		call := &n.Calls[i]
		if call.Distinct {
			c.report(hinted(fail(ClassUnsupported, call.Span, "the distinct aggregation "+call.String()+" is not supported on streams"),
				"use approx_count_distinct(), or size(collect_set())"))
		}
	}
}

// oneTime refuses an aggregation over two event times: which one is late?
func (c *checker) oneTime(n *Aggregate) {
	joined := false
	Walk(n.Input, func(n Node) {
		if j, ok := n.(*Join); ok {
			joined = joined || Streaming(j.Left) && Streaming(j.Right)
		}
	})
	if !joined {
		return
	}
	var times []string
	for _, col := range n.Input.Columns() {
		if col.Time != NotTime {
			times = append(times, strings.TrimPrefix(col.Qualifier+"."+col.Name, "."))
		}
	}
	if len(times) > 1 {
		c.report(hinted(fail(ClassTwoEventTimes, n.span, "there are several event times below the aggregation: "+strings.Join(times, ", ")),
			"select one of them in a subquery around the join"))
	}
}

// distinct checks DISTINCT, which groups by all its columns.
func (c *checker) distinct(n *Distinct) {
	c.chained(n, n.Input)
	c.appendNeedsTime(n, n.cols)
	for _, col := range n.cols {
		if hasMap(col.Type) {
			c.report(fail("UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE", n.span, "DISTINCT cannot compare values of type "+col.Type.String()+" (column "+col.Name+")"))
		}
	}
}

// appendNeedsTime: in append mode a group must become final.
func (c *checker) appendNeedsTime(n Node, groups []Column) {
	if c.mode != Append {
		return
	}
	for _, g := range groups {
		if g.Time != NotTime {
			return
		}
	}
	what, hint := "there is no watermark", "add WATERMARK FOR to the source and group by the event time"
	Walk(n, func(n Node) {
		if w, ok := n.(*Watermark); ok {
			what = "no grouping column is the event time " + w.cols[w.Column].Name
			hint = "add window(" + sql.FormatName(w.cols[w.Column].Name) + ", 'size') to GROUP BY"
		}
	})
	if strings.HasPrefix(what, "there") {
		if s := streamBelow(n); s != "" {
			hint = "add WATERMARK FOR ts AS ts - INTERVAL ... to CREATE SOURCE " + sql.FormatName(s) + " and group by window(ts, 'size')"
		}
	}
	c.report(hinted(fail(ClassOutputMode, n.Loc(),
		"append output mode is not supported for streaming aggregations without watermark: no group would ever be final, as "+what),
		hint+", or use output_mode = 'update'"))
}

// streamBelow names a stream below n.
func streamBelow(n Node) string {
	name := ""
	Walk(n, func(n Node) {
		if s, ok := n.(*Scan); ok && s.Table.Streaming {
			name = s.Table.Name
		}
	})
	return name
}

// chained refuses a stateful operator above another one where the lower one changes
// rows it has given. In append mode these are final, and they come before the
// watermark that released them: the operator above finds none of them late.
func (c *checker) chained(n, in Node) {
	below := firstStateful(in)
	if below == nil {
		return
	}
	if c.mode != Append {
		c.report(hinted(fail(ClassUnsupported, n.Loc(), "a stateful operator above another one threatens correctness in "+c.mode.String()+
			" mode: the lower one changes rows it has already given"), "use append mode, or two queries with a sink between them"))
		return
	}
}

// firstStateful returns the topmost stateful operator at or below n.
func firstStateful(n Node) Node {
	if stateful(n) {
		return n
	}
	for _, in := range n.Inputs() {
		if s := firstStateful(in); s != nil {
			return s
		}
	}
	return nil
}

func (c *checker) limit(n *Limit) {
	if n.Offset > 0 {
		c.report(hinted(fail(ClassUnsupported, n.span, "offset is not supported on streams"), "leave out OFFSET"))
	}
	if c.mode == Update {
		c.report(hinted(fail(ClassUnsupported, n.span, "limit is not supported in update mode: a row that was given may have to be taken back"),
			"use append mode, or complete mode with GROUP BY"))
	}
}

func (c *checker) union(n *Union) {
	for _, in := range n.In {
		if !Streaming(in) {
			c.report(hinted(fail(ClassUnsupported, n.span, "a union of streaming and static tables is not supported"), "write the static rows with a query of their own"))
			return
		}
	}
	if c.mode != Complete {
		return
	}
	for _, in := range n.In {
		if topAggregation(in) != nil {
			c.report(notYet(n.span, "UNION above an aggregation in complete mode"))
			return
		}
	}
}

func (c *checker) setOperation(n *SetOperation) {
	if n.Op == sql.Intersect {
		c.report(fail(ClassUnsupported, n.span, "intersect with a stream is not supported"))
		return
	}
	if Streaming(n.Right) {
		c.report(fail(ClassUnsupported, n.span, "except with a stream on the right is not supported"))
		return
	}
	c.report(notYet(n.span, "EXCEPT"))
}

// clocks returns the first expression of n that reads a clock, nil if none.
func clocks(nodes []expr.Node) *expr.FuncCall {
	var found *expr.FuncCall
	for _, n := range nodes {
		expr.Walk(n, func(n expr.Node) bool {
			if f, ok := n.(*expr.FuncCall); ok && found == nil && isClock(f.Func.Name) {
				found = f
			}
			return found == nil
		})
	}
	return found
}

func isClock(name string) bool {
	switch name {
	case "current_timestamp", "now", "current_date", "curdate", "localtimestamp", "unix_timestamp":
		return true
	}
	return false
}

// Expressions returns the expressions of a node itself.
func expressions(n Node) []expr.Node {
	switch n := n.(type) {
	case *Project:
		return n.Exprs
	case *Filter:
		return []expr.Node{n.Cond}
	case *Generate:
		return []expr.Node{n.Arg}
	case *Aggregate:
		var out []expr.Node
		for _, g := range n.Groups {
			out = append(out, g.Expr)
		}
		for i := range n.Calls {
			out = append(out, n.Calls[i].Args...)
			if f := n.Calls[i].Filter; f != nil {
				out = append(out, f)
			}
		}
		return out
	case *Sort:
		var out []expr.Node
		for _, k := range n.Keys {
			out = append(out, k.Expr)
		}
		return out
	default:
	}
	return nil
}
