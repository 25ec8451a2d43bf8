// Package plan turns queries into graphs that run. SQL and the DataFrame API
// share one logical plan, made of Nodes whose expressions are resolved when a node
// is made:
//
//	FromSelect(query, catalog, Options) (Node, []*sql.Error)   SQL
//	NewScan, NewFilter, NewSelect, NewAggregate, NewUnion, ... DataFrame
//
// What follows is the same for both:
//
//	Check(node, mode) []*sql.Error        what a stream cannot do, by output mode
//	Optimize(node, expr.Options) Node     same rows, less work
//	Compile(node, CompileConfig) (*Compiled, error)
//
// Compile checks and optimizes by itself. A Compiled has the actors.Graph, what goes
// into the commit record, the replay verdict with its reason, guarantee and
// visibility of the sink, and the text of EXPLAIN. CheckState compares what a
// checkpoint says with a new plan.
//
// A Catalog gives tables and views; a Table has a Handle through which the compiled
// query reads. The package opens nothing: whatever it needs to know of the outside
// comes from traits.
//
// Faults are *sql.Error with class, place and hint, several at once. Nodes are
// immutable and may be shared by goroutines and plans.
package plan
