package operator

import (
	"log/slog"
	"time"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Task is what an operator instance is told about itself. It lives as long as
// the operator and belongs to its goroutine.
type Task struct {
	Query string
	// UID names the operator within the query, equal for all its subtasks and
	// across restarts.
	UID string
	// Index of Parallelism: which subtask this is. It owns key groups [From, To).
	Index, Parallelism int
	From, To           uint16
	// Incarnation is the query's random identity, for lineage.
	Incarnation messages.ID128
	Log         *slog.Logger
	// Now is the host's monotonic clock, for emission intervals and time slices;
	// results must not depend on it.
	Now func() time.Duration
	// SetTimer asks for one call of Timed.Timer at the given monotonic time; it
	// replaces an earlier request of the domain that has not fired.
	SetTimer func(d Domain, at time.Duration)
	// Counters are the operator's row counters; the operator adds to them and
	// the host stores them in the commit record. Open may set their Rule.
	Counters *epochs.Counters
	// OnLate, if not nil, is told about each late row, besides counting it. The row
	// is of the batch being processed.
	OnLate func(b *messages.Batch, row int)
	// OnRowError says what a stateless operator does with rows whose expressions
	// fail; nil means to fail.
	OnRowError *RowErrors
}

// RowErrors is the policy for rows that a stateless expression cannot handle.
type RowErrors struct {
	// Drop leaves the row out and counts it; otherwise the failing expression's
	// value becomes NULL.
	Drop bool
	// Report, if not nil, is told about each such row (dead letter). It must copy
	// what it keeps.
	Report func(b *messages.Batch, row int, err error)
}

// KeyRange returns the key groups [from, to) of subtask index of parallelism.
func KeyRange(index, parallelism int) (from, to uint16) {
	return uint16((index*epochs.KeyGroups + parallelism - 1) / parallelism),
		uint16(((index+1)*epochs.KeyGroups + parallelism - 1) / parallelism)
}

// SubtaskOf returns the subtask of parallelism that owns the key group, the
// inverse of KeyRange.
func SubtaskOf(group uint16, parallelism int) int {
	return int(group) * parallelism / epochs.KeyGroups
}
