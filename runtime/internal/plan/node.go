package plan

import (
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Node is a step of a logical plan: a small immutable struct with its inputs,
// expressions bound to the columns of these, and the columns it gives.
//
//sumtype:decl
type Node interface {
	// Columns are the output columns. The slice must not be changed.
	Columns() []Column
	// Inputs are the nodes below, in order. The slice must not be changed.
	Inputs() []Node
	// Loc is where the step stands in the SQL text; zero for the DataFrame API.
	Loc() sql.Span
	node()
}

// Column is an output column of a node.
type Column struct {
	// Qualifier is the table or alias the column can be qualified with; "" if none.
	Qualifier string
	Name      string
	Type      messages.Type
	// Time tells whether the column is the event time of a stream.
	Time TimeMark
}

// TimeMark says that a column is event time: the watermark speaks about it. It
// survives renaming but no computation.
type TimeMark uint8

// The marks.
const (
	NotTime    TimeMark = iota
	EventTime           // a timestamp under a watermark
	WindowTime          // a window over such a timestamp: its end counts
)

// base has what all nodes have.
type base struct {
	span sql.Span
	cols []Column
}

// Columns returns the output columns.
func (b *base) Columns() []Column { return b.cols }

// Loc returns where the step stands in the text.
func (b *base) Loc() sql.Span { return b.span }

func (*base) node() {}

// Scan reads a table.
type Scan struct {
	base
	Table *Table
	// Needed says per column of the table whether the query reads it; nil means
	// all. Columns that are not needed are NULL. Set by Optimize.
	Needed []bool
}

// Inputs returns nil.
func (*Scan) Inputs() []Node { return nil }

// Values is a constant table; a SELECT without FROM stands on one with one row
// and no columns.
type Values struct {
	base
	Rows [][]expr.Node
}

// Inputs returns nil.
func (*Values) Inputs() []Node { return nil }

// Watermark declares the event time of its input: the watermark is the greatest
// value seen minus the delay.
type Watermark struct {
	base
	Input  Node
	Column int
	Delay  time.Duration
}

// Inputs returns the input.
func (n *Watermark) Inputs() []Node { return []Node{n.Input} }

// Project computes one expression per output column.
type Project struct {
	base
	Input Node
	Exprs []expr.Node
}

// Inputs returns the input.
func (n *Project) Inputs() []Node { return []Node{n.Input} }

// Filter keeps the rows for which the condition is true.
type Filter struct {
	base
	Input Node
	Cond  expr.Node
	// Having is set for the condition of HAVING.
	Having bool
}

// Inputs returns the input.
func (n *Filter) Inputs() []Node { return []Node{n.Input} }

// GeneratorKind says how a Generate makes rows.
type GeneratorKind uint8

// The kinds of generators.
const (
	Explode GeneratorKind = iota
	PosExplode
	// AssignWindows makes a row per time window its argument, a timestamp, is in;
	// none for NULL.
	AssignWindows
)

// Generate makes any number of rows from each: those of the input with the
// columns of the generator behind them.
type Generate struct {
	base
	Input Node
	Kind  GeneratorKind
	// Arg is the array, map or timestamp.
	Arg expr.Node
	// Outer keeps a row with NULLs where the generator makes none.
	Outer bool
	// Window is set for AssignWindows.
	Window *WindowSpec
	// Keep are the input columns that are passed on, before the generated ones; nil
	// means all. Set by Optimize.
	Keep []int
}

// Inputs returns the input.
func (n *Generate) Inputs() []Node { return []Node{n.Input} }

// WindowSpec describes time windows: [Start + k*Slide, Start + k*Slide + Size) on
// the time axis for every integer k, in microseconds since 1970 in UTC.
type WindowSpec struct {
	Size, Slide, Start time.Duration
}

// Group is one grouping column.
type Group struct {
	// Expr is the expression, or for a window its timestamp.
	Expr expr.Node
	// Window is not nil for window(...).
	Window *WindowSpec
}

// AggCall is one aggregate function of an Aggregate.
type AggCall struct {
	// Name is the function in lower case: count, sum, ...
	Name string
	// Args are the arguments, none for count(*).
	Args []expr.Node
	// Filter is the condition of FILTER (WHERE ...), or nil.
	Filter expr.Node
	// Distinct is refused by Check on streams.
	Distinct bool
	// IgnoreNulls is IGNORE NULLS of first, last and any_value.
	IgnoreNulls bool
	Type        messages.Type
	// Span is where the call stands.
	Span sql.Span
}

// Aggregate groups rows. Its columns are those of the groups, then those of the
// calls.
type Aggregate struct {
	base
	Input  Node
	Groups []Group
	Calls  []AggCall
	// KeepInput: rows that are left out as late are wanted with all columns of Input.
	KeepInput bool
}

// Inputs returns the input.
func (n *Aggregate) Inputs() []Node { return []Node{n.Input} }

// Window returns the index of the group that is a time window, or -1.
func (n *Aggregate) Window() int {
	for i := range n.Groups {
		if n.Groups[i].Window != nil {
			return i
		}
	}
	return -1
}

// Union has the rows of all inputs, by position. All have the same types.
type Union struct {
	base
	In []Node
}

// Inputs returns the inputs.
func (n *Union) Inputs() []Node { return n.In }

// SortKey is one entry of ORDER BY.
type SortKey struct {
	Expr       expr.Node
	Desc       bool
	NullsFirst bool
}

// Sort orders the whole result table.
type Sort struct {
	base
	Input Node
	Keys  []SortKey
}

// Inputs returns the input.
func (n *Sort) Inputs() []Node { return []Node{n.Input} }

// Limit keeps the first N rows, and none of the first Offset.
type Limit struct {
	base
	Input  Node
	N      int64 // negative: no limit, only an offset
	Offset int64
}

// Inputs returns the input.
func (n *Limit) Inputs() []Node { return []Node{n.Input} }

// Distinct removes duplicate rows. Optimize makes an Aggregate without calls of it.
type Distinct struct {
	base
	Input Node
}

// Inputs returns the input.
func (n *Distinct) Inputs() []Node { return []Node{n.Input} }

// Join combines two inputs. The engine refuses it for now.
type Join struct {
	base
	Kind        sql.JoinKind
	Left, Right Node
	// On is the condition over the columns of both, nil for a cross join.
	On expr.Node
}

// Inputs returns both inputs.
func (n *Join) Inputs() []Node { return []Node{n.Left, n.Right} }

// SetOperation is INTERSECT or EXCEPT. The engine refuses it.
type SetOperation struct {
	base
	Op          sql.SetOp
	Left, Right Node
}

// Inputs returns both inputs.
func (n *SetOperation) Inputs() []Node { return []Node{n.Left, n.Right} }

// Alias gives all columns a new qualifier.
type Alias struct {
	base
	Input Node
	Name  string
}

// Inputs returns the input.
func (n *Alias) Inputs() []Node { return []Node{n.Input} }

// Streaming reports whether a stream is below n.
func Streaming(n Node) bool {
	if s, ok := n.(*Scan); ok {
		return s.Table.Streaming
	}
	for _, in := range n.Inputs() {
		if Streaming(in) {
			return true
		}
	}
	return false
}

// Schema returns the output columns of n as a schema.
func Schema(n Node) *messages.Schema {
	cols := n.Columns()
	fields := make([]messages.Field, len(cols))
	for i, c := range cols {
		fields[i] = messages.Field{Name: c.Name, Type: c.Type}
	}
	return messages.NewSchema(fields...)
}

// Walk calls f for n and everything below, parents first.
func Walk(n Node, f func(Node)) {
	f(n)
	for _, in := range n.Inputs() {
		Walk(in, f)
	}
}
