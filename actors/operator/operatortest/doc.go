// Package operatortest runs an operator in every way a host may run it and
// checks that the outcome is the same.
//
// A Case is input, time and expected output in steps. Verify runs each case row
// by row, everything in one batch, cut at every place (complete tables too, with
// batches of theirs interleaved between inputs), with selection vectors,
// with every call emitting as little as it can, as several subtasks, saved and
// restored into a fresh instance at every boundary, as another number of
// subtasks, and with a crash behind every snapshot. In each run the output must
// be the expected one, the counters must balance and nobody may hold a batch in
// the end.
//
// An operator without a test that calls Verify does not land.
package operatortest
