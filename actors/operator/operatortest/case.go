package operatortest

import (
	"time"

	"github.com/streamd-io/streamd/messages"
)

// Case is one story. Values of rows are written as Go values: nil for NULL,
// bool, any integer or float, string, messages.Decimal128,
// messages.IntervalValue, messages.EventTime, and []any for arrays and structs
// (maps: [][]any pairs as []any).
type Case struct {
	Name string
	// Inputs are the schemas of the inputs.
	Inputs []*messages.Schema
	Steps  []Step
	// Want is the output of the whole story as a multiset.
	Want [][]any
	// Key, if not nil, lists output columns: the output is an upsert by them, and
	// only the last row of each key counts. Rows that repeat the value that is
	// there are fine.
	Key []int
	// Table means that the output is complete tables and the last one counts.
	Table bool
	// WantTable, if not nil, returns the complete table that must come out when
	// the latest complete tables of the inputs are these; nil stands for an input
	// that has brought none yet. Each table that goes in must bring out exactly
	// one, in every way the case is run. Want may then be left out.
	WantTable func(latest [][][]any) [][]any
	// Resend means that the operator does not save the tables of its inputs:
	// behind each restart every input sends its latest one again before anything
	// else. What that brings out is held to WantTable too, but counts apart.
	Resend bool
	// KeyColumns lists, per input, the columns by which rows are distributed over
	// subtasks. nil means that the operator runs as one subtask only.
	KeyColumns [][]int
	// Interleave means that the outcome does not depend on the order in which
	// inputs take turns.
	Interleave bool
	// Empty means that no state is left in the end.
	Empty bool
	// Late and Filtered are the counters in the end. Of tables that are
	// interleaved by seed Filtered is not compared: what a limit drops then
	// depends on who comes first.
	Late, Filtered uint64
	// Ordered means that Want and WantTable are also the order of the output of
	// one subtask.
	Ordered bool
}

// Step is something that happens. Make it by one of the functions below.
type Step struct {
	kind  stepKind
	input int
	rows  [][]any
	wm    messages.EventTime
	after time.Duration
	frame messages.Frame // of the part of a table
}

type stepKind uint8

const (
	rowsStep stepKind = iota
	watermarkStep
	advanceStep
	flushStep
	tableStep
)

// Rows delivers a unit: rows between which the watermark does not move.
func Rows(input int, rows ...[]any) Step { return Step{kind: rowsStep, input: input, rows: rows} }

// Table delivers a complete table to the only input, perhaps without rows. It
// travels as any run of batches between messages.FrameStart and FrameEnd.
// Snapshots are only taken where no table is on its way. A case with tables runs
// as one subtask.
func Table(rows ...[]any) Step { return TableOn(0, rows...) }

// TableOn is Table for an operator with several inputs.
func TableOn(input int, rows ...[]any) Step { return Step{kind: tableStep, input: input, rows: rows} }

// Watermark moves the watermark of an input. The combined one is the minimum
// over all inputs.
func Watermark(input int, at messages.EventTime) Step {
	return Step{kind: watermarkStep, input: input, wm: at}
}

// Advance lets processing time pass; timers that become due fire.
func Advance(d time.Duration) Step { return Step{kind: advanceStep, after: d} }

// Flush asks for everything that is held back to coalesce.
func Flush() Step { return Step{kind: flushStep} }

// Row makes a row.
func Row(values ...any) []any { return values }
