// Package operator defines what a step of a query is: the contract of
// operators, the expressions they evaluate, the task they run as, and the chain
// that fuses several into direct calls.
//
// Operators know no actors, no edges and no clocks. An operator is a plain
// struct that one goroutine calls; it never blocks, does no IO and does not keep
// a batch beyond the call without retaining it. Its results depend on rows,
// watermarks and timers in their order, never on how rows are cut into batches
// and never on the wall clock.
package operator
