package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// retainTimeout bounds the questions to sources whether they still hold what an
// older epoch needs.
const retainTimeout = 30 * time.Second

// candidates are the records of a store that can be read, newest first, and what
// is wrong with it.
type candidates struct {
	records []*epochs.Record
	damage  error // of records, or lost ones
}

// read decodes the records.
func read(stored []epochs.StoredRecord, damage error) (*candidates, error) {
	c := &candidates{damage: damage}
	for _, s := range stored {
		rec, err := epochs.DecodeRecord(s.Data)
		switch {
		case err == nil:
			c.records = append(c.records, rec)
		case errors.Is(err, epochs.ErrDamaged):
			c.damage = errors.Join(c.damage, &epochs.RecordError{Epoch: s.Epoch, Err: err})
		default:
			return nil, fault.Wrap(fault.Config, err, "commit record %d", s.Epoch)
		}
	}
	return c, nil
}

// newest is the newest epoch that can be read, 0 if there is none.
func (c *candidates) newest() messages.Epoch {
	if len(c.records) == 0 {
		return 0
	}
	return c.records[0].Epoch
}

// find returns the record of an epoch, nil if there is none.
func (c *candidates) find(e messages.Epoch) *epochs.Record {
	for _, rec := range c.records {
		if rec.Epoch == e {
			return rec
		}
	}
	return nil
}

// newer reports whether something was committed after epoch e, readable or not.
func (c *candidates) newer(e messages.Epoch) bool {
	return c.newest() > e || epochs.NewestDamage(c.damage, e) != nil
}

func (c *candidates) list() string {
	var b strings.Builder
	for i, r := range c.records {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, r.Epoch)
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

// asked returns the record of RestoreEpoch; back says that there are newer epochs
// to be given up for it. Nothing is changed.
func (r *Runner) asked(ctx context.Context, store epochs.Segments, c *candidates) (rec *epochs.Record, back bool, err error) {
	want := r.cfg.RestoreEpoch
	if rec = c.find(want); rec == nil {
		return nil, false, fault.Wrap(fault.Config, ErrIncompatible, "epoch %d is not retained (retained: %s)", want, c.list())
	}
	if !c.newer(want) {
		return rec, false, nil
	}
	rep, err := epochs.VerifyState(ctx, store, rec)
	if err != nil {
		return nil, false, fault.Wrap(epochs.OpenKind(err), err, "verify epoch %d", want)
	}
	if len(rep.Damage) > 0 {
		return nil, false, fault.Wrap(fault.Config, damaged(rep.Damage[0]), "epoch %d cannot be gone back to; nothing was changed (retained: %s)", want, c.list())
	}
	if err := r.mayGoBack(ctx, rec); err != nil && !r.cfg.AcceptDuplicates {
		return nil, false, fault.Wrap(fault.Config, fmt.Errorf("%w: %w", ErrDuplicates, err), "go back to epoch %d (to accept that: --restore-epoch %s=%d --accept-duplicates)", want, r.cfg.Query, want)
	}
	return rec, true, nil
}

// pick returns the record to go on from: the newest, or after damage the newest
// that is whole, if nothing can come out wrong by that. back says that there are
// newer epochs to be given up for it. Nothing is changed.
func (r *Runner) pick(ctx context.Context, store epochs.Segments, c *candidates) (rec *epochs.Record, back bool, err error) {
	lost := epochs.NewestDamage(c.damage, c.newest())
	if lost == nil && r.suspect == nil {
		if c.damage != nil {
			r.cfg.Log.Warn("an older part of the checkpoint is damaged; the query goes on from its newest epoch, which is whole", "query", r.cfg.Query, "epoch", c.newest(), "error", c.damage)
		}
		if len(c.records) == 0 {
			return nil, false, nil // a fresh start
		}
		return c.records[0], false, nil
	}
	cause := lost
	if cause == nil {
		cause = r.suspect
	}
	whole, err := r.newestWhole(ctx, store, c)
	switch {
	case err != nil:
		return nil, false, err
	case whole == nil:
		return nil, false, fault.Wrap(fault.Config, damaged(cause), "the checkpoint is damaged and no retained epoch is whole; start anew with --fresh %s", r.cfg.Query)
	case lost == nil && whole == c.records[0]:
		return nil, false, r.suspect // the checkpoint is not what is damaged
	}
	if err := r.mayGoBack(ctx, whole); err != nil && !r.cfg.AcceptDuplicates {
		return nil, false, fault.Wrap(fault.Config, fmt.Errorf("%w (%w)", damaged(cause), err),
			"the checkpoint is damaged; epoch %d is whole, but rows could be repeated from there (to accept that: --restore-epoch %s=%d --accept-duplicates)", whole.Epoch, r.cfg.Query, whole.Epoch)
	}
	r.cfg.Log.Warn("the checkpoint is damaged; an older epoch is whole and can be gone back to", "query", r.cfg.Query, "epoch", whole.Epoch, "error", cause)
	return whole, true, nil
}

// damaged makes sure that err is known as damage.
func damaged(err error) error {
	if errors.Is(err, epochs.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %w", err, epochs.ErrDamaged)
}

// newestWhole returns the newest record whose state is whole, nil if there is
// none.
func (r *Runner) newestWhole(ctx context.Context, store epochs.Segments, c *candidates) (*epochs.Record, error) {
	for _, rec := range c.records {
		rep, err := epochs.VerifyState(ctx, store, rec)
		if err != nil {
			return nil, fault.Wrap(epochs.OpenKind(err), err, "verify epoch %d", rec.Epoch)
		}
		if len(rep.Damage) == 0 {
			return rec, nil
		}
		r.cfg.Log.Warn("an epoch of the checkpoint is damaged", "query", r.cfg.Query, "epoch", rec.Epoch, "error", rep.Damage[0], "errors", len(rep.Damage))
	}
	return nil, nil //nolint:nilnil // none is
}

// mayGoBack returns nil if the query may go on from an older epoch although
// sinks may have published newer ones, and else why not.
func (r *Runner) mayGoBack(ctx context.Context, rec *epochs.Record) error {
	g, err := r.cfg.Graph()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, retainTimeout)
	defer cancel()
	for _, n := range g.Nodes() {
		if s := n.SinkSpec(); s != nil && !repeatable(s.Offer) {
			return fmt.Errorf("sink %q is %s with visibility %s: what it may have published after epoch %d would be published again", n.Name(), s.Offer.Guarantee, s.Offer.Visibility, rec.Epoch)
		}
		if s := n.SourceSpec(); s != nil {
			if err := retained(ctx, n, s.Source, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// repeatable reports whether a sink may be given rows again that it has published:
// repeated rows are part of the promise, are recognised, or change nothing.
func repeatable(o connectors.Offer) bool {
	switch o.Guarantee {
	case connectors.AtLeastOnce, connectors.Converges:
		return true
	case connectors.ExactlyOnce:
		return o.Visibility == connectors.AtOnce
	case connectors.Transactional:
	}
	return false
}

// retained returns nil if the source still holds what follows a record.
func retained(ctx context.Context, n *actors.Node, src connectors.Source, rec *epochs.Record) error {
	if !src.Traits().Replayable {
		return fmt.Errorf("source %q cannot be read again", n.Name())
	}
	keeper, ok := src.(connectors.Retainer)
	if !ok {
		return fmt.Errorf("source %q cannot tell whether it still holds what follows epoch %d", n.Name(), rec.Epoch)
	}
	for i := range rec.Sources {
		s := &rec.Sources[i]
		if s.Source != n.Name() {
			continue
		}
		if err := keeper.Retains(ctx, s.Partition, s.Offset); err != nil {
			return fmt.Errorf("source %q, partition %q: %w", n.Name(), s.Partition, err)
		}
	}
	return nil
}

// suspicious reports whether an attempt has failed over damage that a look at the
// whole checkpoint may get around, once.
func (r *Runner) suspicious(err error) bool {
	if r.suspect != nil || !r.opened || !errors.Is(err, epochs.ErrDamaged) {
		return false
	}
	r.suspect = err
	return true
}
