package epochs

import (
	"context"
	"errors"

	"github.com/streamd-io/streamd/messages"
)

// KeyGroups is the number of key groups of every keyed operator. A key belongs
// to the group of the top 8 bits of its hash, for ever.
const KeyGroups = 256

// OperatorGroup is the group number under which state that is not keyed is
// stored: one blob per operator and subtask-independent.
const OperatorGroup = KeyGroups

// SegmentID names a segment: one key group of one operator at one epoch.
type SegmentID struct {
	Operator string // uid, stable across restarts of the same query
	Group    uint16 // key group 0..255, or OperatorGroup
	Epoch    messages.Epoch
}

// Segment is an immutable piece of keyed state. A base holds the whole group, a
// delta what changed since the group's previous segment.
type Segment struct {
	SegmentID
	Base bool
	Data []byte
}

// Retain is how many committed epochs stay restorable.
const Retain = 3

// Errors that a store's callers branch on. They are wrapped with details.
var (
	// ErrLocked: another process (or session) uses the directory.
	ErrLocked = errors.New("checkpoint directory is in use")
	// ErrConflict: the previous commit record is not the expected one; somebody
	// else writes to this store.
	ErrConflict = errors.New("commit record changed by somebody else")
	// ErrDamaged: stored data is missing or does not match its checksum.
	ErrDamaged = errors.New("checkpoint is damaged")
	// ErrNewerFormat: written by a newer version.
	ErrNewerFormat = errors.New("checkpoint was written by a newer version")
	// ErrNoSpace: too little free disk space for another epoch.
	ErrNoSpace = errors.New("not enough free disk space for a checkpoint")
)

// Segments is the durable side of one query: its segments and commit records.
// All methods may be called from any goroutine, but Put, Commit, Rewind and Drop
// calls are made one at a time.
type Segments interface {
	// Committed lists the retained commit records, newest first, verified as far
	// as the record itself goes. Highest is the largest epoch number seen
	// anywhere in the store, committed or not; 0 for an empty store. If some
	// records are damaged, the others are returned together with an error that
	// wraps ErrDamaged.
	Committed(ctx context.Context) (records []StoredRecord, highest messages.Epoch, err error)
	// Check reports whether another epoch may be started: free disk space, quota.
	// It is cheap. The error wraps ErrNoSpace and says how much is missing.
	Check(ctx context.Context) error
	// Put makes segments of epoch e durable before it returns. It may be called
	// several times per epoch, but only once per segment, and only for epochs
	// after the newest record. The store keeps no reference to Data. When it
	// fails, part of the segments may have been stored, and the store may have to
	// be reopened like after a failed Commit.
	Put(ctx context.Context, e messages.Epoch, segs []Segment) error
	// Commit durably writes the record of epoch e if the newest record is that
	// of prev (0: none); otherwise it returns ErrConflict. Everything of epoch e
	// must have been Put before. When it fails for another reason the outcome is
	// unknown and the caller must reopen the store to learn it.
	Commit(ctx context.Context, prev, e messages.Epoch, record []byte) error
	// Load calls f for the segments of the given operator and key groups
	// [from, to) with epoch <= upTo, ordered by group and then epoch. Data is
	// valid only during the call. Segments that are older than the newest base at
	// or before upTo may be left out; segments of epochs before the newest record
	// that were never committed are. An error of f ends the call and is returned
	// as it is.
	Load(ctx context.Context, r LoadRange, f func(Segment) error) error
	// Rewind forgets the records newer than that of epoch to, and their segments,
	// durably before it returns: the query goes on from an older epoch. The
	// numbers that were used stay used. It fails if there is no record of epoch to.
	Rewind(ctx context.Context, to messages.Epoch) error
	// Drop forgets segments and records that no retained epoch needs: for every
	// (operator, group) everything before its newest base at or before keep, all
	// segments with epoch > committed that no record covers (left by failed
	// attempts), and records older than keep. The newest record always stays. It
	// may do the work lazily. While an attempt runs, committed is the newest
	// epoch it has injected, so that segments of an epoch in flight stay.
	Drop(ctx context.Context, keep, committed messages.Epoch) error
	// Size is the number of bytes on disk, an estimate.
	Size() int64
	// Close releases lock and files. No other call may be in progress.
	Close() error
}

// StoredRecord is a commit record as stored.
type StoredRecord struct {
	Epoch messages.Epoch
	Data  []byte
}

// LoadRange selects segments to load.
type LoadRange struct {
	Operator string
	From, To uint16 // key groups [From, To)
	UpTo     messages.Epoch
}
