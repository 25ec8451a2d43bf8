// Package foreach is a sink that hands rows to code of a Go program.
//
// The program gives a function that makes a Writer, once per attempt and
// subtask; a Writer is used by one goroutine. The rows of one subtask and one
// epoch are a set: Open(partition, epoch), Process for each row if Open returned
// true, then Close. Whoever opens a connection or a transaction does so in Open.
//
// There are two ways to use it. By default rows are handed over at once, in the
// epoch that is open when they arrive; a restart hands the rows of epochs that
// had not committed over again, divided otherwise and under numbers that may differ
// (at least once). With visibility = 'epoch' the rows wait until their epoch has
// committed. Then the pair of partition and epoch always stands for the same
// rows, also after a crash, and a Writer that remembers the last epoch of each
// partition, in the same transaction as the rows, processes each row once by
// returning false for what it has seen (exactly once). In update mode only the last row of
// each key is handed over, in complete mode the last whole table of the epoch; see
// package held, which also bounds the rows that wait.
package foreach

import (
	"context"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Writer takes the rows of one partition of the result.
type Writer interface {
	// Open begins a set of rows. When it returns false the rows of the set are
	// left out. Close is called after every Open that returned.
	Open(partition int, epoch messages.Epoch) (bool, error)
	// Process takes one row, which must not be kept after the call.
	Process(r Row) error
	// Close ends the set. err is what ended it early, from Open, Process or the
	// engine, and nil after the last row. The error that Close returns fails the
	// attempt, so that the set comes again.
	Close(err error) error
}

// Row is one row of the result. It is valid during the call it is passed to.
type Row struct {
	batch *messages.Batch
	index int
	id    messages.ID128
	hasID bool
}

// Schema is the schema of the row.
func (r Row) Schema() *messages.Schema { return r.batch.Schema() }

// Value returns the value of a column; see format.ValueAt for its type.
func (r Row) Value(column int) any { return format.ValueAt(r.batch.Column(column), r.index) }

// Values returns the values of all columns, owned by the caller.
func (r Row) Values() []any { return format.RowAt(r.batch, r.index) }

// Kind tells what the row does to the result: in append and complete mode it is
// always an insert.
func (r Row) Kind() messages.RowKind {
	if k := r.batch.Kinds(); k != nil {
		return k[r.index]
	}
	return messages.Insert
}

// Frame tells, in complete mode, whether the row's batch begins or ends a whole
// table.
func (r Row) Frame() messages.Frame { return r.batch.Frame() }

// ID is the identity of the row, equal when a row is handed over again. ok is
// false when the query gives its rows no stable identity.
func (r Row) ID() (id messages.ID128, ok bool) { return r.id, r.hasID }

// Batch and Index give access without allocation: the row is physical row Index
// of Batch.
func (r Row) Batch() *messages.Batch { return r.batch }

// Index is the physical index of the row in Batch.
func (r Row) Index() int { return r.index }

type sink struct {
	make func() Writer
}

// NewSink returns a sink whose writers are made by f, which must be safe for
// concurrent use.
func NewSink(f func() Writer) connectors.Sink { return &sink{make: f} }

// Traits implements connectors.Sink.
func (s *sink) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{
		Append: true, Update: true, Complete: true,
		Guarantees: []connectors.Offer{
			{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce},
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
			{Guarantee: connectors.AtLeastOnce, Visibility: connectors.PerEpoch},
		},
	}
}

// Open implements connectors.Sink.
func (s *sink) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	if q.Schema == nil {
		return nil, fault.New(fault.Internal, "foreach sink: the result has no schema")
	}
	if q.Offer.Visibility == connectors.PerEpoch {
		return newEpochCommitter(s, q)
	}
	return &committer{sink: s, request: q}, nil
}

// userError says that the program's code failed. What it returns may carry a
// kind of its own; without one it restarts the attempt.
func userError(err error, doing string) error {
	if err == nil {
		return nil
	}
	kind := fault.Restart
	if k := fault.KindOf(err); k != fault.Internal {
		kind = k
	}
	return fault.Wrap(kind, err, "foreach sink: %s", doing)
}
