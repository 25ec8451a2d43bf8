package operator

import (
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Stateful is implemented by operators that keep state. The host finds the
// state here after Open and restores it before the first call of Process.
type Stateful interface {
	Snapshots() Snapshotter
}

// Starter is told once, after Open and after the state has been restored and
// before any other call, the watermark the operator starts with: the one its
// state was saved with, NoEventTime without a checkpoint. Watermark is only
// called for advances beyond it.
type Starter interface {
	Start(wm messages.EventTime)
}

// Snapshotter is the host's view of an operator's state; package state has the
// implementation. It belongs to the operator's goroutine.
type Snapshotter interface {
	// Kind and Schema describe the state for the commit record, so that a changed
	// query is noticed: the kind of operator, and keys, values and window in one
	// canonical line.
	Describe() (kind, schema string, format uint32)
	// Freeze begins the snapshot of epoch e: the state as it is now. It takes
	// microseconds; the previous snapshot has been encoded.
	Freeze(e messages.Epoch)
	// Encode works on the frozen snapshot until it is complete (done) or until
	// reports true, and passes finished segments to emit, which takes over Data.
	Encode(until func() bool, emit func(epochs.Segment) error) (done bool, err error)
	// Restore applies a segment, group by group and in epoch order.
	Restore(seg epochs.Segment) error
	// Rows is the number of entries held, Bytes what they take.
	Rows() int64
	Bytes() int64
}
