// Package expr is the typed expression engine: what stands between an SQL or
// DataFrame expression and the operators that evaluate it row batch by row batch.
//
// It has three layers. Resolve turns the syntax tree of package sql into a Node
// tree whose columns are bound to positions and whose types are final (Call and
// the literal constructors do the same for Go code); functions come from an
// immutable Registry. Fold, Key, Columns and Deterministic let the planner work on
// nodes. Compile turns a node into an operator.Expr: closures over columns that
// own their scratch memory, allocate nothing once warm and evaluate what can fail
// for the selected rows only.
//
// The semantics are Spark's with ANSI mode on: three-valued logic, errors on
// overflow and bad casts, NULL from the try_ functions. With Options.NonANSI such
// errors give NULL or wrap around. The rules for implicit casts are the ANSI ones in
// both modes.
//
// Nodes and registries are immutable and may be shared. A compiled expression
// belongs to one goroutine.
//
//	node, err := expr.Call("upper", expr.NewColumn(0, "channel", messages.T(messages.String)))
//	e, err := expr.Compile(node, expr.Options{})
//	column, err := e.Eval(batch)
package expr
