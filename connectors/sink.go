package connectors

import (
	"context"
	"fmt"

	"github.com/streamd-io/streamd/messages"
)

// Guarantee is what a sink promises about each result row.
type Guarantee uint8

// The guarantees.
const (
	AtLeastOnce   Guarantee = iota // a failure may repeat rows of the last epochs
	ExactlyOnce                    // every row once
	Converges                      // the last value per key is right; readers may see older ones during recovery
	Transactional                  // exactly once, and readers never see half an epoch
)

// Visibility says when readers see a row.
type Visibility uint8

// The visibilities.
const (
	AtOnce   Visibility = iota // when the row is produced
	PerEpoch                   // after the epoch that holds it has committed
)

// String names the guarantee as the option does.
func (g Guarantee) String() string {
	switch g {
	case AtLeastOnce:
		return "at_least_once"
	case ExactlyOnce:
		return "exactly_once"
	case Converges:
		return "converges"
	case Transactional:
		return "transactional"
	}
	return fmt.Sprintf("guarantee(%d)", uint8(g))
}

// String names the visibility as the option does.
func (v Visibility) String() string {
	switch v {
	case AtOnce:
		return "at_once"
	case PerEpoch:
		return "epoch"
	}
	return fmt.Sprintf("visibility(%d)", uint8(v))
}

// SinkTraits say what a sink can do; the planner checks the query against them.
type SinkTraits struct {
	// Modes the sink takes: append, update, complete.
	Append, Update, Complete bool
	// Guarantees lists the pairs the sink offers.
	Guarantees []Offer
	// SingleWriter asks for all rows to come through one subtask (console).
	SingleWriter bool
}

// Offer is a guarantee at a visibility.
type Offer struct {
	Guarantee  Guarantee
	Visibility Visibility
}

// Sink is a configured place to write to. Its methods are safe for concurrent
// use.
type Sink interface {
	Traits() SinkTraits
	// Open returns the committer of one attempt of one query. Nothing may be
	// written before its Recover has returned.
	Open(ctx context.Context, r WriteRequest) (Committer, error)
}

// WriteRequest identifies who writes what.
type WriteRequest struct {
	Query string // the query's name
	Sink  string // uid of the sink within the query, stable across restarts
	// Incarnation is the query's random identity, kept in the checkpoint.
	Incarnation messages.ID128
	Attempt     uint64 // grows with every start; fences older attempts
	Schema      *messages.Schema
	Offer       Offer
	// KeyColumns are the columns that identify a row in update mode, else nil.
	KeyColumns []int
	// Stash keeps rows in the checkpoint until their epoch has committed. It is there
	// from Open to Close. The engine always gives one.
	Stash Stash
	// AcceptDuplicates: the user has said that rows may be published twice. A sink
	// that has published a newer epoch than the one Recover is given, and that would
	// refuse to start for it, sets its records back to that epoch instead, logs how
	// many epochs may be repeated, and goes on. It changes nothing else, least of all
	// what fences other attempts; an attempt that starts later, without it, finds the
	// records as if the newer epochs had never been published.
	AcceptDuplicates bool
	// AskEpoch, if not nil, asks for an epoch before the interval is over, because
	// the rows of the open one come near a limit of the sink. It does not block, may
	// be called from any goroutine until Close returns, and asking again before the
	// marker comes changes nothing. Rows that are on their way to the sink still
	// come before the marker.
	AskEpoch func()
	// OnRetrying, if not nil, takes what the committer has to say about the outside
	// system: the reason when it starts to wait for it, Recover included, and ""
	// once rows can be written again. It may be called from any goroutine until
	// Close returns and does not block.
	OnRetrying func(reason string)
}

// Stash keeps bytes in the checkpoint of an epoch, for committers that publish
// rows after the commit; package held does it for them. What is put becomes part
// of the epoch with its commit record, is verified when it is loaded, and is
// forgotten when it can no longer be needed. Its methods are safe for concurrent
// use.
type Stash interface {
	// Put makes data part of epoch e: it is durable before the commit record of e
	// is. It is called from a Flush or the Prepare of that epoch, which does not
	// return before it, and at most once for each epoch and part. part is less than
	// MaxStashParts, and usually the subtask. data is not empty, and may be changed
	// once Put returns.
	// The kind of the error says whether another attempt may help.
	Put(ctx context.Context, e messages.Epoch, part uint16, data []byte) error
	// Load calls f with the parts of a committed epoch in ascending order: of the
	// newest epoch, or of the one before it if the attempt has not confirmed that one
	// by Commit or Recover. An epoch without parts is not an error. A part that is
	// missing or damaged is one, before f sees it, and ends the query. data is valid
	// during the call. An error of f ends the call and is returned as it is.
	Load(ctx context.Context, e messages.Epoch, f func(part uint16, data []byte) error) error
}

// MaxStashParts bounds the part numbers of a Stash.
const MaxStashParts = 1 << 15

// Token is what a sink needs to finish or repeat an epoch. It is stored in the
// commit record; its encoding (JSON) is the sink's own.
type Token []byte

// Committer speaks for one (query, sink) during one attempt. The engine calls
// Recover once; then Writer for each subtask; then, for every epoch in order,
// Begin, each writer's Flush, Prepare, and after the commit record is durable
// Commit. Prepare of epoch n+1 may come before Commit of epoch n, that of n+2
// may not.
type Committer interface {
	// Recover fences older attempts and finishes or undoes what they left: rows
	// of committed epochs must end up visible, and rows of later epochs either
	// invisible or known, so that writing them again has no effect. last is the
	// token of the last committed epoch, nil if there is none. Neither Commit of
	// that epoch nor that of the one before needs to have happened, so a token
	// must hold all that is needed for epochs whose Commit has not returned. It is
	// repeated from the start when it fails or the process dies inside it.
	Recover(ctx context.Context, epoch messages.Epoch, last Token) error
	// Writer opens the writer of one subtask. Subtasks may call it at the same time.
	Writer(ctx context.Context, subtask, parallelism int) (Writer, error)
	// Begin is called when epoch e's marker is injected. It must not block.
	Begin(e messages.Epoch)
	// Prepare turns the writers' tokens of epoch e into the sink's token for the
	// commit record.
	Prepare(ctx context.Context, e messages.Epoch, tokens []Token) (Token, error)
	// Commit makes epoch e final. It is idempotent and retried until it succeeds
	// or returns an error that is not transient.
	Commit(ctx context.Context, e messages.Epoch, t Token) error
	// Close releases everything, writers included. Called once, at the end.
	Close() error
}

// EpochAsker is implemented by committers that hold rows back until an epoch
// commits. It is looked up once.
type EpochAsker interface {
	Committer
	// WantsEpoch reports whether an epoch should start although nothing upstream
	// has changed, because rows wait for one longer than they should. It is asked
	// once per epoch interval, is safe for concurrent use and does not block.
	WantsEpoch() bool
}

// Writer takes the rows of one subtask. One goroutine calls Write, Flush is
// called from another one, in epoch order, while Write goes on.
type Writer interface {
	// Write takes the selected rows of b in order. ids has one identity per
	// selected row when the plan gives rows stable identities, else it is nil.
	// It blocks while too much is in flight and keeps neither b nor ids. After it
	// has failed only Close follows, so that no row overtakes those that failed.
	Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error
	// Cut marks the end of epoch e in the row sequence; it must not block. It
	// returns the function that waits until every row written before the cut is
	// acknowledged and returns the subtask's token for the epoch.
	Cut(e messages.Epoch) (Flush, error)
	// Close stops the writer without waiting for rows in flight.
	Close() error
}

// Flush waits for the rows of an epoch; see Writer.Cut.
type Flush func(ctx context.Context) (Token, error)
