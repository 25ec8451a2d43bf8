package deploy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
)

const (
	// restoreEvery is the time between two log lines about a long restore.
	restoreEvery = 5 * time.Second
	// spaceRetry is how long a query that cannot start waits for disk space.
	spaceRetry = time.Second
)

// restoring counts what has been read of a checkpoint and says so while an
// attempt restores. Its methods are safe for concurrent use.
type restoring struct {
	epochs.Segments
	query string
	epoch uint64
	log   interface{ Info(string, ...any) }
	clock connectors.Clock

	bytes atomic.Int64
	total int64

	// mu guards the fields below.
	mu    sync.Mutex
	over  bool
	stop  func() bool
	begun time.Duration
}

// watchRestore wraps the store of an attempt that goes on from a record.
func (r *Runner) watchRestore(store epochs.Segments, rec *epochs.Record) *restoring {
	w := &restoring{Segments: store, query: r.cfg.Query, epoch: uint64(rec.Epoch), log: r.cfg.Log, clock: r.cfg.System.Clock()}
	for i := range rec.Chains {
		w.total += rec.Chains[i].BaseBytes + rec.Chains[i].DeltaBytes
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = w.clock.Mono()
	w.stop = w.clock.AfterFunc(restoreEvery, w.tick)
	return w
}

// Load counts what is read until the restore is over.
func (w *restoring) Load(ctx context.Context, r epochs.LoadRange, f func(epochs.Segment) error) error {
	return w.Segments.Load(ctx, r, func(s epochs.Segment) error {
		w.bytes.Add(int64(len(s.Data)))
		return f(s)
	})
}

func (w *restoring) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.log.Info("restoring the checkpoint", "query", w.query, "epoch", w.epoch, "read_bytes", w.bytes.Load(), "of_bytes", w.total, "since", (w.clock.Mono() - w.begun).Round(time.Second))
	w.stop = w.clock.AfterFunc(restoreEvery, w.tick)
}

// end stops the log lines.
func (w *restoring) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.stop()
}

// String says how far the restore is, for the status of the query.
func (w *restoring) String() string {
	return fmt.Sprintf("restoring epoch %d, %d of %d MB read", w.epoch, w.bytes.Load()>>20, w.total>>20)
}

// Restoring says how far an attempt has come that restores, "" when none does.
func (r *Runner) Restoring() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restore == nil || r.state != Starting && r.state != Restarting {
		return ""
	}
	return r.restore.String()
}

// awaitSpace waits, if an attempt could not begin because the disk is full, until
// it is worth another look. That is no failure: it takes as long as it takes, and
// the query says so. over reports that the query has been stopped meanwhile.
func (r *Runner) awaitSpace(ctx context.Context, err error) (waited, over bool) {
	if r.opened || !errors.Is(err, epochs.ErrNoSpace) {
		return false, false
	}
	r.mu.Lock()
	if r.state < Stopping {
		r.setState(Starting, "")
	}
	r.mu.Unlock()
	r.reportSpace(err.Error())
	return true, !pause(ctx, r.cfg.System.Clock(), spaceRetry)
}

// reportSpace says that the query waits for disk space, "": no longer.
func (r *Runner) reportSpace(reason string) {
	if f := r.cfg.Attempt.OnStatus; f != nil && (reason != "" || r.noSpace) {
		f(actors.StatusReport{Blocked: reason != "", Reason: reason})
	}
	r.noSpace = reason != ""
}
