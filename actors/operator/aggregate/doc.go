// Package aggregate is keyed aggregation: GROUP BY with or without a window, in
// the output modes append, update and complete.
//
// State is one record per group and time slice; see package state. A sliding
// window is a run of slices of the greatest common divisor of size and slide:
// a row updates one slice, and the slices of a window are combined when the
// window is emitted.
//
// A family of aggregate functions is one file that implements function; the
// table families in function.go lists them. To add one, write the file and add
// its line.
//
// Output is the window (a struct of start and end) if there is one, then the
// keys, then the results. In update mode a row means "the group now has this
// value": the output is an upsert by group key without row kinds, and groups
// dropped by the watermark emit nothing.
package aggregate
