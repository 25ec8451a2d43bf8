package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/streamd-io/streamd/epochs"
)

// CheckpointReport says what is wrong with the checkpoint of a query.
type CheckpointReport struct {
	Query string `json:"query"`
	// Epochs are those whose records could be read, newest first.
	Epochs []uint64 `json:"epochs"`
	// Segments and Bytes of state were read and compared with the records.
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"`
	// Operators whose rows were checked.
	Operators int `json:"operators"`
	// Problems has a line per fault; empty: the checkpoint is whole.
	Problems []string `json:"problems"`
}

// Verify reads everything that a query could go on from: all retained records,
// each segment against the checksums of the records, and whether the rows of each
// operator add up.
func (c *Checkpoints) Verify(ctx context.Context, query string) (*CheckpointReport, error) {
	if err := c.known(query); err != nil {
		return nil, err
	}
	rep := &CheckpointReport{Query: query, Epochs: []uint64{}, Problems: []string{}}
	if err := c.from.checkIdentity(query); err != nil {
		rep.problem(err)
	}
	store, err := c.from.open(ctx, query)
	if errors.Is(err, fs.ErrNotExist) {
		return rep, nil // it never got as far as its first epoch
	}
	if err != nil {
		rep.problem(err)
		return rep, nil
	}
	err = rep.verify(ctx, store)
	return rep, errors.Join(err, store.Close())
}

func (rep *CheckpointReport) problem(err error) { rep.Problems = append(rep.Problems, err.Error()) }

func (rep *CheckpointReport) verify(ctx context.Context, store epochs.Segments) error {
	records, problems, err := readRecords(ctx, store)
	if err != nil {
		return err
	}
	for _, p := range problems {
		rep.problem(p)
	}
	for i, r := range records {
		rep.Epochs = append(rep.Epochs, uint64(r.Epoch))
		state, err := epochs.VerifyState(ctx, store, r.Record)
		if err != nil {
			return err
		}
		rep.Segments += state.Segments
		rep.Bytes += state.Bytes
		for _, d := range state.Damage {
			rep.problem(fmt.Errorf("epoch %d: %w", r.Epoch, d))
		}
		var before *epochs.Record
		if i+1 < len(records) {
			before = records[i+1].Record
		}
		rep.rows(r.Record, before)
	}
	return nil
}

// rows checks the row counters of a record; before is the retained one before it,
// if any.
func (rep *CheckpointReport) rows(r, before *epochs.Record) {
	for i := range r.Counters {
		rep.Operators++
		if err := r.Counters[i].Balance(); err != nil {
			rep.problem(fmt.Errorf("epoch %d: %w", r.Epoch, err))
		}
	}
	switch {
	case before != nil && before.Epoch == r.Prev:
		for _, err := range epochs.UnevenEdges(before.Counters, r.Counters) {
			rep.problem(fmt.Errorf("epoch %d, since epoch %d: %w", r.Epoch, before.Epoch, err))
		}
	case r.Attempt == 1: // all of it was counted by one attempt
		for _, err := range epochs.UnevenEdges(nil, r.Counters) {
			rep.problem(fmt.Errorf("epoch %d: %w", r.Epoch, err))
		}
	}
}
