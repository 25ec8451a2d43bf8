package sql

// Expr is a scalar, aggregate or boolean expression, or a star.
//
//sumtype:decl
type Expr interface {
	Node
	expr()
}

// ColumnRef is a column, possibly qualified, possibly followed by struct fields:
// which part is which can only be told with a schema.
type ColumnRef struct {
	Span
	Parts []Ident
}

// Star is * or t.*, also as the argument of count(*).
type Star struct {
	Span
	Qualifier []Ident
	// Except lists the columns left out by * EXCEPT (a, b).
	Except []Ident
}

// NullLit is NULL.
type NullLit struct{ Span }

// BoolLit is TRUE or FALSE.
type BoolLit struct {
	Span
	Value bool
}

// NumberKind is the type a number literal asks for.
type NumberKind uint8

// The kinds of numbers. Number is a literal of digits only: an int if it fits,
// else a bigint, else a decimal. The others carry a suffix or, for Decimal, a
// point, and for Double, an exponent.
const (
	Number NumberKind = iota
	TinyInt
	SmallInt
	BigInt
	Float
	Double
	Decimal
)

// NumberLit is a number. Text has the sign, digits, point and exponent but no
// suffix, so that strconv and big.Rat can read it.
type NumberLit struct {
	Span
	Kind NumberKind
	Text string
}

// StringLit is a string with escapes resolved and adjacent literals joined.
type StringLit struct {
	Span
	Value string
}

// BinaryLit is X'...'.
type BinaryLit struct {
	Span
	Value []byte
}

// TypedLit is DATE '...', TIMESTAMP '...' or TIMESTAMP_NTZ '...'. The text is
// not checked here because its meaning depends on the time zone.
type TypedLit struct {
	Span
	Kind TypeKind
	Text string
}

// IntervalLit is INTERVAL in any of its forms. A literal has either year and
// month fields, then only Months of Value is set, or day to second fields, then
// only Micros is set (a day being 24 hours).
type IntervalLit struct {
	Span
	Value Interval
	// From and To are the largest and smallest field written.
	From IntervalUnit
	To   IntervalUnit
	// Text is the literal as it stands in the source.
	Text string
}

// UnaryOp is a prefix operator.
type UnaryOp uint8

// The prefix operators.
const (
	Not UnaryOp = iota + 1
	Minus
	Plus
	BitNot
)

// String returns the operator as printed.
func (o UnaryOp) String() string { return [...]string{"", "NOT", "-", "+", "~"}[o] }

// Unary is op x.
type Unary struct {
	Span
	Op UnaryOp
	X  Expr
}

// BinaryOp is an operator between two operands.
type BinaryOp uint8

// The binary operators, by falling strength within groups.
const (
	Mul BinaryOp = iota + 1
	Div
	Mod
	IntDiv
	Add
	Sub
	Concat
	ShiftLeft
	ShiftRight
	ShiftRightUnsigned
	BitAnd
	BitXor
	BitOr
	Eq
	NotEq
	Less
	LessEq
	Greater
	GreaterEq
	NullSafeEq
	And
	Or
)

// String returns the operator as printed.
func (o BinaryOp) String() string {
	return [...]string{
		"", "*", "/", "%", "DIV", "+", "-", "||", "<<", ">>", ">>>", "&", "^", "|",
		"=", "<>", "<", "<=", ">", ">=", "<=>", "AND", "OR",
	}[o]
}

// Binary is left op right.
type Binary struct {
	Span
	Op    BinaryOp
	Left  Expr
	Right Expr
	// OpSpan is where the operator stands.
	OpSpan Span
}

// Between is x [NOT] BETWEEN low AND high.
type Between struct {
	Span
	Not  bool
	X    Expr
	Low  Expr
	High Expr
}

// In is x [NOT] IN (list).
type In struct {
	Span
	Not  bool
	X    Expr
	List []Expr
}

// InSubquery is x [NOT] IN (query).
type InSubquery struct {
	Span
	Not   bool
	X     Expr
	Query *Query
}

// Exists is EXISTS (query).
type Exists struct {
	Span
	Query *Query
}

// ScalarSubquery is a query in parentheses used as a value.
type ScalarSubquery struct {
	Span
	Query *Query
}

// LikeOp is a kind of pattern matching.
type LikeOp uint8

// The kinds of pattern matching.
const (
	Like LikeOp = iota + 1
	ILike
	RLike
)

// String returns the operator's word.
func (o LikeOp) String() string { return [...]string{"", "LIKE", "ILIKE", "RLIKE"}[o] }

// LikeExpr is x [NOT] LIKE | ILIKE | RLIKE pattern [ESCAPE 'c'].
type LikeExpr struct {
	Span
	Op      LikeOp
	Not     bool
	X       Expr
	Pattern Expr
	// Escape is the escape character; 0 where ESCAPE is missing (then it is \).
	Escape rune
}

// LikeList is x [NOT] LIKE | ILIKE ANY | ALL (patterns).
type LikeList struct {
	Span
	Op       LikeOp
	Not      bool
	All      bool
	X        Expr
	Patterns []Expr
}

// IsTest is what IS tests for.
type IsTest uint8

// The tests of IS.
const (
	IsNull IsTest = iota + 1
	IsTrue
	IsFalse
	IsUnknown
)

// String returns the word after IS.
func (t IsTest) String() string { return [...]string{"", "NULL", "TRUE", "FALSE", "UNKNOWN"}[t] }

// Is is x IS [NOT] NULL | TRUE | FALSE | UNKNOWN.
type Is struct {
	Span
	Not  bool
	X    Expr
	Test IsTest
}

// IsDistinct is left IS [NOT] DISTINCT FROM right.
type IsDistinct struct {
	Span
	Not   bool
	Left  Expr
	Right Expr
}

// When is one branch of CASE.
type When struct {
	Span
	Cond   Expr
	Result Expr
}

// Case is CASE [operand] WHEN ... THEN ... [ELSE ...] END.
type Case struct {
	Span
	Operand Expr
	Whens   []When
	Else    Expr
}

// Cast is CAST(x AS type), TRY_CAST(x AS type) or x::type.
type Cast struct {
	Span
	Try  bool
	X    Expr
	Type TypeName
}

// Call is a function call. Words that stand for a call without parentheses
// (current_timestamp) and the keyword forms of substring, position and overlay
// are calls too.
type Call struct {
	Span
	Name     Name
	Distinct bool
	Args     []Expr
	// Filter is the condition of FILTER (WHERE ...), or nil.
	Filter Expr
	// IgnoreNulls is set for IGNORE NULLS after the parentheses.
	IgnoreNulls bool
	// Over is the window of an OVER clause, or nil.
	Over *Window
}

// Window is the window of an OVER clause: a name, or a specification.
type Window struct {
	Span
	// Name refers to an entry of the WINDOW clause; nil for (...).
	Name        *Ident
	PartitionBy []Expr
	OrderBy     []SortItem
	Frame       *Frame
}

// FrameUnit is ROWS or RANGE.
type FrameUnit uint8

// The units of a frame.
const (
	Rows FrameUnit = iota + 1
	Range
)

// String returns the unit's word.
func (u FrameUnit) String() string { return [...]string{"", "ROWS", "RANGE"}[u] }

// BoundKind is the kind of one end of a frame.
type BoundKind uint8

// The kinds of frame bounds.
const (
	UnboundedPreceding BoundKind = iota + 1
	Preceding
	CurrentRow
	Following
	UnboundedFollowing
)

// Bound is one end of a frame. N is set for Preceding and Following.
type Bound struct {
	Span
	Kind BoundKind
	N    Expr
}

// Frame is ROWS | RANGE BETWEEN start AND end; the short form has CURRENT ROW as
// its end.
type Frame struct {
	Span
	Unit  FrameUnit
	Start Bound
	End   Bound
}

// Extract is EXTRACT(field FROM x). Field is as written.
type Extract struct {
	Span
	Field Ident
	From  Expr
}

// TrimSide is the end of the string TRIM works on.
type TrimSide uint8

// The sides of TRIM.
const (
	TrimBoth TrimSide = iota + 1
	TrimLeading
	TrimTrailing
)

// String returns the side's word.
func (s TrimSide) String() string { return [...]string{"", "BOTH", "LEADING", "TRAILING"}[s] }

// Trim is TRIM([side] [chars] FROM x); trim(x) is a Call.
type Trim struct {
	Span
	Side TrimSide
	// Chars is nil where white space is removed.
	Chars Expr
	From  Expr
}

// AtTimeZone is x AT TIME ZONE zone.
type AtTimeZone struct {
	Span
	X    Expr
	Zone Expr
}

// Index is x[i]: an array element or a map value.
type Index struct {
	Span
	X     Expr
	Index Expr
}

// FieldAccess is x.field where x is not a plain name.
type FieldAccess struct {
	Span
	X     Expr
	Field Ident
}

// Lambda is x -> body or (x, y) -> body, an argument of a higher-order function.
type Lambda struct {
	Span
	Params []Ident
	Body   Expr
}

// Row is (a, b, ...) with at least two items: a struct without field names.
type Row struct {
	Span
	Items []Expr
}

func (*ColumnRef) expr()      {}
func (*Star) expr()           {}
func (*NullLit) expr()        {}
func (*BoolLit) expr()        {}
func (*NumberLit) expr()      {}
func (*StringLit) expr()      {}
func (*BinaryLit) expr()      {}
func (*TypedLit) expr()       {}
func (*IntervalLit) expr()    {}
func (*Unary) expr()          {}
func (*Binary) expr()         {}
func (*Between) expr()        {}
func (*In) expr()             {}
func (*InSubquery) expr()     {}
func (*Exists) expr()         {}
func (*ScalarSubquery) expr() {}
func (*LikeExpr) expr()       {}
func (*LikeList) expr()       {}
func (*Is) expr()             {}
func (*IsDistinct) expr()     {}
func (*Case) expr()           {}
func (*Cast) expr()           {}
func (*Call) expr()           {}
func (*Extract) expr()        {}
func (*Trim) expr()           {}
func (*AtTimeZone) expr()     {}
func (*Index) expr()          {}
func (*FieldAccess) expr()    {}
func (*Lambda) expr()         {}
func (*Row) expr()            {}
