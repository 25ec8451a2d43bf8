package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// ErrIncompatible marks a checkpoint that does not fit the query.
var ErrIncompatible = errors.New("checkpoint does not fit the query")

// ErrDuplicates marks a way back that would repeat rows which a sink has promised
// not to repeat.
var ErrDuplicates = errors.New("rows could be repeated")

// attemptOnce opens the store, runs one attempt to its end and closes the
// store. progressed reports whether an epoch was committed.
func (r *Runner) attemptOnce(ctx context.Context) (progressed, final bool, err error) {
	r.opened = false
	store, err := r.cfg.OpenStore(ctx)
	if errors.Is(err, epochs.ErrDamaged) {
		err = Unopened(r.cfg.Query, err)
	}
	if err != nil {
		return false, false, fault.At(fault.Location{Query: r.cfg.Query}, err)
	}
	defer func() {
		if cerr := store.Close(); cerr != nil && err == nil {
			err = fault.At(fault.Location{Query: r.cfg.Query}, cerr)
		}
	}()
	cfg, err := r.prepare(ctx, store)
	if err != nil {
		return false, false, fault.At(fault.Location{Query: r.cfg.Query}, err)
	}
	r.opened = true
	r.reportSpace("")
	if cfg.From != nil {
		w := r.watchRestore(store, cfg.From)
		defer w.end()
		cfg.Store = w
		r.mu.Lock()
		r.restore = w
		r.mu.Unlock()
	}
	return r.runAttempt(ctx, cfg)
}

func (r *Runner) runAttempt(ctx context.Context, cfg actors.AttemptConfig) (progressed, final bool, err error) {
	var from messages.Epoch
	if cfg.From != nil {
		from = cfg.From.Epoch
	}
	cfg.OnRunning = func() { r.running(from) }
	a, err := r.cfg.System.Start(ctx, cfg)
	if err != nil {
		return false, false, fault.Wrap(fault.Config, err, "")
	}
	r.mu.Lock()
	r.attempt, r.from = a, from
	draining, waiters := r.draining, r.waiters
	r.waiters = nil
	if !draining && r.state != Running {
		r.setState(Starting, "")
	}
	r.mu.Unlock()
	if draining {
		a.Drain()
	}
	for _, done := range waiters {
		a.RequestEpoch(r.again(done))
	}
	<-a.Done()
	r.mu.Lock()
	r.attempt = nil
	r.mu.Unlock()
	return a.Last() > from, a.Final(), a.Err()
}

// running notes that the attempt's sources read, from behind the given epoch.
func (r *Runner) running(from messages.Epoch) {
	r.mu.Lock()
	if r.restore != nil {
		r.restore.end()
		r.restore = nil
	}
	r.mu.Unlock()
	if from > 0 {
		r.cfg.Log.Info("query goes on from its checkpoint", "query", r.cfg.Query, "epoch", from)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state < Stopping {
		r.err = nil // the failure before is over
		r.setState(Running, "")
	}
}

// prepare picks the epoch to go on from.
func (r *Runner) prepare(ctx context.Context, store epochs.Segments) (actors.AttemptConfig, error) {
	cfg := r.cfg.Attempt
	stored, highest, err := store.Committed(ctx)
	if err != nil && !errors.Is(err, epochs.ErrDamaged) {
		return cfg, fault.Wrap(epochs.OpenKind(err), err, "read the checkpoint")
	}
	damage := err
	if err := fault.Inject("rec/open"); err != nil {
		return cfg, err
	}
	if cfg.From, err = r.choose(ctx, store, stored, damage); err != nil {
		return cfg, err
	}
	if cfg.Graph, err = r.cfg.Graph(); err != nil {
		return cfg, err
	}
	if cfg.Attempt, cfg.Incarnation, err = r.cfg.NextAttempt(cfg.From); err != nil {
		return cfg, err
	}
	if err := fault.Inject("rec/attempt"); err != nil {
		return cfg, err
	}
	cfg.Query, cfg.Store, cfg.Plan = r.cfg.Query, store, r.cfg.Plan
	cfg.AcceptDuplicates = r.cfg.AcceptDuplicates
	if cfg.From != nil && r.cfg.OnRestore != nil {
		r.cfg.OnRestore(cfg.From)
	}
	if rec := cfg.From; rec != nil && rec.Plan.MaxWatermark != cfg.Plan.MaxWatermark {
		r.cfg.Log.Warn("the watermark policy of the checkpoint holds; to change it start the query anew with --fresh "+r.cfg.Query, "query", r.cfg.Query)
		cfg.Plan.MaxWatermark = rec.Plan.MaxWatermark
	}
	cfg.NextEpoch = highest + 1
	return cfg, nil
}

// choose picks the record to go on from, nil for a fresh start, and gives up the
// newer ones. damage is what is wrong with the records, nil: nothing.
func (r *Runner) choose(ctx context.Context, store epochs.Segments, stored []epochs.StoredRecord, damage error) (*epochs.Record, error) {
	c, err := read(stored, damage)
	if err != nil {
		return nil, err
	}
	find := r.pick
	if r.cfg.RestoreEpoch != 0 {
		find = r.asked
	}
	rec, back, err := find(ctx, store, c)
	if err != nil || rec == nil {
		return nil, err
	}
	// Before anything is given up for a record that the query cannot go on from.
	if err := r.fits(ctx, rec); err != nil {
		return nil, err
	}
	if back {
		r.cfg.Log.Warn("the query goes back to an older epoch", "query", r.cfg.Query, "epoch", rec.Epoch)
		if err := store.Rewind(ctx, rec.Epoch); err != nil {
			return nil, fault.Wrap(epochs.OpenKind(err), err, "go back to epoch %d", rec.Epoch)
		}
	}
	r.cfg.RestoreEpoch, r.suspect = 0, nil
	return rec, nil
}

// fits returns why the query cannot go on from a record.
func (r *Runner) fits(ctx context.Context, rec *epochs.Record) error {
	if !r.cfg.Attempt.AllowDroppedState {
		g, err := r.cfg.Graph()
		if err != nil {
			return err
		}
		if err := CheckEnds(ctx, g, rec); err != nil {
			return err
		}
	}
	if r.cfg.CheckPlan == nil {
		return nil
	}
	return CheckPlan(r.cfg.CheckPlan, rec)
}

// Unopened says what to do about a checkpoint that is too damaged to be opened.
func Unopened(query string, err error) error {
	return fault.Wrap(fault.KindOf(err), err, "the checkpoint cannot be opened; put a copy of its directory back, or start anew with --fresh %s", query)
}

// CheckPlan asks check whether the state of a record fits; the error wraps
// ErrIncompatible.
func CheckPlan(check func(old epochs.Plan) error, rec *epochs.Record) error {
	if err := check(rec.Plan); err != nil {
		return incompatible(err, rec)
	}
	return nil
}

// CheckEnds looks for rows that only a sink which the graph does not have could
// publish, and for sources that took the place of others; the error wraps
// ErrIncompatible.
func CheckEnds(ctx context.Context, g *actors.Graph, rec *epochs.Record) error {
	if err := actors.Unpublished(g, rec); err != nil {
		return incompatible(err, rec)
	}
	if err := actors.ChangedSources(ctx, g, rec); err != nil {
		return incompatible(err, rec)
	}
	return nil
}

func incompatible(err error, rec *epochs.Record) error {
	return fault.Wrap(fault.Config, fmt.Errorf("%w: %w", ErrIncompatible, err), "epoch %d", rec.Epoch)
}
