package catalogstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// ErrState: a checkpoint holds state, so that its records alone do not make it up.
var ErrState = errors.New("the checkpoint holds state")

// Copy copies the checkpoint of a query without state, its records and the highest
// epoch, into an empty store. The error wraps ErrState, and nothing is copied, if a
// record speaks of segments. It is not atomic: the copy counts when it is complete.
func Copy(ctx context.Context, from, to epochs.Segments) error {
	if err := Movable(ctx, from); err != nil {
		return err
	}
	records, highest, err := from.Committed(ctx)
	if err != nil {
		return err
	}
	prev := messages.Epoch(0)
	for _, r := range slices.Backward(records) {
		if err := to.Commit(ctx, prev, r.Epoch, r.Data); err != nil {
			return fmt.Errorf("copy commit record %d: %w", r.Epoch, err)
		}
		prev = r.Epoch
	}
	if highest <= prev {
		return nil
	}
	// A segment of an epoch that is never committed keeps its number from being used
	// again.
	id := epochs.SegmentID{Group: epochs.OperatorGroup, Epoch: highest}
	return to.Put(ctx, highest, []epochs.Segment{{SegmentID: id, Base: true}})
}

// Movable reports why Copy would refuse a checkpoint: it wraps ErrState if a record
// speaks of segments, epochs.ErrDamaged if the records are not complete.
func Movable(ctx context.Context, from epochs.Segments) error {
	records, _, err := from.Committed(ctx)
	if err != nil {
		return fmt.Errorf("read the checkpoint to be moved: %w", err)
	}
	for _, r := range records {
		rec, err := epochs.DecodeRecord(r.Data)
		if err != nil {
			return fmt.Errorf("commit record %d: %w", r.Epoch, err)
		}
		if len(rec.Chains) > 0 {
			return fmt.Errorf("epoch %d: %w", r.Epoch, ErrState)
		}
	}
	return nil
}
