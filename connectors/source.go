package connectors

import (
	"context"
	"time"

	"github.com/streamd-io/streamd/messages"
)

// Offset is a source's own encoding (JSON) of where to read next in one
// partition. It is stored in the commit record and shown in progress reports.
type Offset []byte

// Traits say what a source can promise; the planner derives the guarantee.
type Traits struct {
	// Replayable: reading again from an offset gives the same rows with the same
	// lineage, in the same order within the partition.
	Replayable bool
	// BrokerTime: rows carry a time given by the outside system, equal on replay.
	// Without it the arrival time is used and results that depend on it are not
	// repeatable.
	BrokerTime bool
	// Bounded: the source ends by itself (tests); available_now asks for it.
	Bounded bool
}

// Source is a configured place to read from. Its methods are safe for
// concurrent use.
type Source interface {
	// Schema is the schema of the rows, metadata columns included.
	Schema() *messages.Schema
	// Traits say what the source promises.
	Traits() Traits
	// Partitions lists the partitions, which are read independently. Names are
	// stable across restarts. It is called before Open, for each attempt and when a
	// checkpoint is compared with the query.
	Partitions(ctx context.Context) ([]string, error)
	// Open starts reading one partition. It may return before a connection
	// stands; trouble that waiting can cure shows as Status from Read.
	Open(ctx context.Context, r ReadRequest) (Reader, error)
}

// ReadRequest says what to read.
type ReadRequest struct {
	Partition string
	// Query and Source name the reader across restarts, for what it keeps in the
	// outside system. Incarnation tells a query from another one of the same name
	// that began afresh or belongs to another checkpoint directory.
	Query, Source string
	Incarnation   messages.ID128
	// EpochInterval is how often an epoch is meant to commit; it is how long rows
	// usually wait for Committed. 0 if it is not known.
	EpochInterval time.Duration
	// From is where to continue; nil means the configured start.
	From Offset
	// Bounded asks to read up to what the partition holds when it is opened and
	// then return io.EOF (trigger = available_now).
	Bounded bool
	// MaxRows is how many rows one Read may add at most, a soft limit.
	MaxRows int
}

// Reader reads one partition.
type Reader interface {
	// Read adds at least one record to dst, waiting for it if necessary, or
	// returns without rows when dst.Status has something new to say (caught up,
	// retrying). It takes what is there without waiting for more, up to the
	// requested number of rows, and sets dst.Next to the offset behind the last
	// record. io.EOF ends a bounded partition; rows added to dst in the same
	// call count. Errors that retrying can cure are retried inside; what is
	// returned ends the attempt, and its fault kind decides what follows.
	Read(ctx context.Context, dst *Rows) error
	// Committed tells that everything before next is durable, in order; when a call
	// takes longer than an epoch, the epochs meanwhile share the next one. The
	// final epoch of a query is told before it ends. Sources that must acknowledge
	// upstream do it here. It may be called while a Read is in progress.
	Committed(ctx context.Context, next Offset) error
	// Close releases everything. It is called exactly once, after the last Read
	// has returned.
	Close() error
}

// State is what a reader is doing.
type State uint8

// The reader states. Only a connected reader that is caught up may be idle.
const (
	Reading  State = iota // there may be more to read right now
	CaughtUp              // at the end of the partition as confirmed by the outside system
	Retrying              // cannot reach the outside system; Reason says why
)

// Status is a reader's report about itself.
type Status struct {
	State  State
	Reason string // for Retrying: what failed and what is being done
	// Lag is how many records the partition holds beyond Next, -1 if unknown.
	Lag int64
}
