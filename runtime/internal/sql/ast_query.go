package sql

// Query is a query expression: an optional WITH list, a body, and the clauses
// that apply to the whole of the body.
type Query struct {
	Span
	With         []CTE
	Body         QueryBody
	OrderBy      []SortItem
	SortBy       []SortItem
	DistributeBy []Expr
	ClusterBy    []Expr
	// Limit is nil without LIMIT and for LIMIT ALL.
	Limit  Expr
	Offset Expr
}

// CTE is one named query of a WITH list.
type CTE struct {
	Span
	Name    Ident
	Columns []Ident
	Query   *Query
}

// QueryBody is what a query computes before ORDER BY and LIMIT: *Select,
// *SetOperation, *Values, or a *Query in parentheses with clauses of its own.
//
//sumtype:decl
type QueryBody interface {
	Node
	queryBody()
}

// SetOp is a set operator.
type SetOp uint8

// The set operators.
const (
	Union SetOp = iota + 1
	Intersect
	Except
)

// String returns the operator's word.
func (o SetOp) String() string { return [...]string{"", "UNION", "INTERSECT", "EXCEPT"}[o] }

// SetOperation is left op [ALL] right. Without ALL, duplicates are removed.
type SetOperation struct {
	Span
	Op    SetOp
	All   bool
	Left  QueryBody
	Right QueryBody
}

// Values is VALUES row, row, ...; every row has at least one item.
type Values struct {
	Span
	Rows [][]Expr
}

// Select is one SELECT block.
type Select struct {
	Span
	Distinct bool
	Items    []SelectItem
	// From is nil for a SELECT without FROM. Tables separated by commas are joined
	// by cross joins.
	From         Relation
	LateralViews []LateralView
	Where        Expr
	GroupBy      *GroupBy
	Having       Expr
	Windows      []NamedWindow
}

// SelectItem is one entry of the select list.
type SelectItem struct {
	Span
	Expr Expr
	// Aliases is empty without AS; several names (AS (a, b)) name the columns of a
	// generator function.
	Aliases []Ident
}

// GroupingKind distinguishes the forms of GROUP BY.
type GroupingKind uint8

// The forms of GROUP BY.
const (
	PlainGrouping GroupingKind = iota
	Rollup
	Cube
	GroupingSets
)

// String returns the words of the form; "" for PlainGrouping.
func (k GroupingKind) String() string {
	return [...]string{"", "ROLLUP", "CUBE", "GROUPING SETS"}[k]
}

// GroupBy is a GROUP BY clause.
type GroupBy struct {
	Span
	// All is GROUP BY ALL; Items is then empty.
	All   bool
	Items []GroupItem
	// With is Rollup or Cube for GROUP BY a, b WITH ROLLUP | CUBE.
	With GroupingKind
}

// GroupItem is one entry of GROUP BY: an expression (an integer literal is the
// number of a select item), or for the other kinds the listed sets.
type GroupItem struct {
	Span
	Kind GroupingKind
	Expr Expr
	Sets [][]Expr
}

// NamedWindow is one entry of the WINDOW clause.
type NamedWindow struct {
	Span
	Name   Ident
	Window *Window
}

// NullsOrder says where NULL sorts.
type NullsOrder uint8

// The NULL orders; NullsDefault is first for ASC and last for DESC.
const (
	NullsDefault NullsOrder = iota
	NullsFirst
	NullsLast
)

// SortItem is one entry of ORDER BY.
type SortItem struct {
	Span
	Expr  Expr
	Desc  bool
	Nulls NullsOrder
}

// LateralView is LATERAL VIEW [OUTER] function(...) [table] [AS a, b].
type LateralView struct {
	Span
	Outer   bool
	Call    *Call
	Table   *Ident
	Columns []Ident
}

// Relation is something in FROM.
//
//sumtype:decl
type Relation interface {
	Node
	relation()
}

// TableAlias is AS name [(columns)].
type TableAlias struct {
	Span
	Name    Ident
	Columns []Ident
}

// WatermarkClause is WATERMARK column DELAY OF interval after a table.
type WatermarkClause struct {
	Span
	Expr Expr
	// Alias names a computed event-time column; nil for a plain column.
	Alias *Ident
	Delay *IntervalLit
}

// SampleKind is the unit of TABLESAMPLE.
type SampleKind uint8

// The units of TABLESAMPLE.
const (
	SamplePercent SampleKind = iota + 1
	SampleRows
	SampleBucket
)

// Sample is TABLESAMPLE (n PERCENT | n ROWS | BUCKET n OUT OF m).
type Sample struct {
	Span
	Kind SampleKind
	N    Expr
	// Of is m of BUCKET n OUT OF m, else nil.
	Of Expr
}

// TableRef is a named source, table, view or common table expression.
type TableRef struct {
	Span
	Name Name
	// Stream is set for STREAM t and STREAM(t).
	Stream    bool
	Sample    *Sample
	Watermark *WatermarkClause
	Alias     *TableAlias
}

// DerivedTable is a query in FROM.
type DerivedTable struct {
	Span
	Lateral   bool
	Query     *Query
	Sample    *Sample
	Watermark *WatermarkClause
	Alias     *TableAlias
}

// TableFunc is a function in FROM, such as range(10).
type TableFunc struct {
	Span
	Lateral bool
	Call    *Call
	Alias   *TableAlias
}

// JoinKind is a kind of join.
type JoinKind uint8

// The kinds of joins.
const (
	InnerJoin JoinKind = iota + 1
	LeftJoin
	RightJoin
	FullJoin
	LeftSemiJoin
	LeftAntiJoin
	CrossJoin
)

// String returns the words of the join as printed before JOIN.
func (k JoinKind) String() string {
	return [...]string{"", "INNER", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI", "CROSS"}[k]
}

// Join is left join right. At most one of On and Using is set.
type Join struct {
	Span
	Kind  JoinKind
	Left  Relation
	Right Relation
	On    Expr
	Using []Ident
}

func (*Select) queryBody()       {}
func (*SetOperation) queryBody() {}
func (*Values) queryBody()       {}
func (*Query) queryBody()        {}

func (*TableRef) relation()     {}
func (*DerivedTable) relation() {}
func (*TableFunc) relation()    {}
func (*Join) relation()         {}
