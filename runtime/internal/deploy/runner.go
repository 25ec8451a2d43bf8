package deploy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Config says what to run and how.
type Config struct {
	System *actors.System
	Query  string
	// OpenStore opens the query's store; it is called before each attempt, since
	// after a failed commit only reopening tells what is durable.
	OpenStore func(ctx context.Context) (epochs.Segments, error)
	// NextAttempt returns a number larger than that of every earlier attempt of
	// the query, in this process or another, and the query's random identity. Both
	// are durable when it returns: rows are published under the identity before
	// the first commit record exists, and a restart must know them again. from is
	// the record that the attempt goes on from, nil: none.
	NextAttempt func(from *epochs.Record) (attempt uint64, incarnation messages.ID128, err error)
	// Graph makes the graph; called before each attempt.
	Graph func() (*actors.Graph, error)
	// Plan describes the graph for the commit record.
	Plan epochs.Plan
	// CheckPlan decides whether state of the plan old fits; nil accepts all.
	CheckPlan func(old epochs.Plan) error
	// Attempt holds the settings for attempts; what identifies and restores one
	// is filled in here.
	Attempt actors.AttemptConfig
	// RestoreEpoch, if not 0, is the epoch to go back to, once.
	RestoreEpoch messages.Epoch
	// AcceptDuplicates lets the query go back to an older epoch although sinks may
	// have published newer ones and would publish them again.
	AcceptDuplicates bool
	Restart          RestartPolicy
	Log              *slog.Logger
	// OnRestore, if not nil, is called before each attempt that goes on from a
	// checkpoint, with its record; it must not block.
	OnRestore func(*epochs.Record)
	// OnState is called with each change of state, one at a time; it must not
	// block.
	OnState func(State, string)
}

// RestartPolicy says how often and how fast a failed query is started again.
// The zero value works.
type RestartPolicy struct {
	// MaxRestarts is how many attempts may fail in a row without committing an
	// epoch in between; 0 means 10, negative none at all. A full disk is tried
	// again for as long as it is full.
	MaxRestarts int
	// MinDelay and MaxDelay bound the pause before the next attempt, which
	// doubles with each failure; 0 means 100 ms and 10 s.
	MinDelay, MaxDelay time.Duration
}

// State is what a query is doing.
type State uint8

// The states, in the usual order.
const (
	Starting   State = iota // opening the checkpoint, sources and sinks
	Running                 // rows flow
	Restarting              // an attempt failed, the next one follows
	Stopping                // draining
	Stopped                 // stopped by the user; goes on from its checkpoint
	Ended                   // all input has been read and its results committed
	Failed                  // stopped by an error that a restart cannot cure
)

// String names the state in lower case.
func (s State) String() string {
	return [...]string{"starting", "running", "restarting", "stopping", "stopped", "ended", "failed"}[s]
}

// Over reports whether the state is final.
func (s State) Over() bool { return s >= Stopped }

// Runner keeps one query running. Its methods are safe for concurrent use.
type Runner struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	// suspect is the damage over which an attempt has failed, until the checkpoint
	// has been looked at; opened tells that the attempt got as far as restoring.
	// Both belong to run.
	suspect error
	opened  bool
	noSpace bool // it was said that the query waits for disk space

	// mu guards the fields below.
	mu       sync.Mutex
	attempt  *actors.Attempt
	draining bool
	state    State
	err      error
	restarts int
	from     messages.Epoch
	restore  *restoring // nil while no attempt restores
	waiters  []func(error)
}

// New returns a runner whose query runs once Start is called, until ctx ends, it
// is drained, its input ends or it fails for good.
func New(ctx context.Context, cfg Config) *Runner {
	ctx, cancel := context.WithCancel(ctx)
	return &Runner{cfg: cfg, ctx: ctx, cancel: cancel, done: make(chan struct{})}
}

// Start begins to run the query. It is called once; what the functions of the
// Config need must be in place by then, they are called from now on.
func (r *Runner) Start() { go r.run(r.ctx) }

// Done is closed when the query is over and nothing of it is left.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Err returns why the query failed, or the latest failure while it restarts.
func (r *Runner) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// State returns what the query is doing.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Restarts is how often the query has been started again.
func (r *Runner) Restarts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restarts
}

// From is the epoch the latest attempt went on from; 0: it started afresh.
func (r *Runner) From() messages.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from
}

// Metrics returns the live counters of the current attempt, nil between
// attempts.
func (r *Runner) Metrics() *actors.Metrics {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempt == nil {
		return nil
	}
	return r.attempt.Metrics()
}

// Drain stops reading, runs rows in flight through and ends with a final epoch.
// A query that is between two attempts just stops.
func (r *Runner) Drain() {
	r.mu.Lock()
	a := r.attempt
	r.draining = true
	if !r.state.Over() {
		r.setState(Stopping, "")
	}
	r.mu.Unlock()
	if a != nil {
		a.Drain()
	} else {
		r.cancel()
	}
}

// Stop ends the query at once; it can go on from its last committed epoch.
func (r *Runner) Stop() { r.cancel() }

// RequestEpoch calls done once an epoch that covers everything emitted by the
// sources by now has committed in all sinks. It survives restarts.
func (r *Runner) RequestEpoch(done func(error)) {
	r.mu.Lock()
	a := r.attempt
	over := r.state.Over()
	if !over && a == nil {
		r.waiters = append(r.waiters, done)
	}
	r.mu.Unlock()
	switch {
	case over:
		done(r.overError())
	case a != nil:
		a.RequestEpoch(r.again(done))
	}
}

// again passes a request on to the next attempt when this one fails.
func (r *Runner) again(done func(error)) func(error) {
	return func(err error) {
		if err == nil {
			done(nil)
			return
		}
		r.mu.Lock()
		over := r.state.Over()
		if !over {
			r.waiters = append(r.waiters, done)
		}
		r.mu.Unlock()
		if over {
			done(r.overError())
		}
	}
}

func (r *Runner) overError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overErrorLocked()
}

func (r *Runner) overErrorLocked() error {
	if r.err != nil {
		return r.err
	}
	return fmt.Errorf("query %q is %s", r.cfg.Query, r.state)
}

// setState notes and reports a state. The caller holds mu.
func (r *Runner) setState(s State, reason string) {
	if r.state == s && reason == "" {
		return
	}
	r.state = s
	if r.cfg.OnState != nil {
		r.cfg.OnState(s, reason)
	}
}

func (r *Runner) run(ctx context.Context) {
	defer close(r.done)
	defer r.cancel()
	failures := 0
	for {
		progressed, final, err := r.attemptOnce(ctx)
		if progressed {
			failures, r.suspect = 0, nil
		} else if r.suspicious(err) {
			continue // with a look at the whole checkpoint
		} else if waited, over := r.awaitSpace(ctx, err); over {
			r.end(Stopped, nil)
			return
		} else if waited {
			continue
		}
		if over, state := r.judge(ctx, final, err, failures); over {
			if state == Stopped && err != nil {
				r.interrupted(failures)
			} else {
				r.end(state, err)
			}
			return
		}
		failures++
		delay := r.cfg.Restart.delay(failures)
		r.mu.Lock()
		r.err = err
		r.restarts++
		r.setState(Restarting, fmt.Sprintf("%v; next attempt in %s", err, delay))
		r.mu.Unlock()
		r.cfg.Log.Warn("query failed, restarting", append(r.failure(err), slog.Duration("delay", delay), slog.Int("failures", failures))...)
		if !pause(ctx, r.cfg.System.Clock(), delay) {
			r.interrupted(failures)
			return
		}
	}
}

// interrupted ends a query that is told to between two attempts. A drain has to
// say so when attempts have failed: what they had read is in no epoch.
func (r *Runner) interrupted(failures int) {
	r.mu.Lock()
	draining, last := r.draining, r.err
	r.mu.Unlock()
	if !draining || failures == 0 || last == nil {
		r.end(Stopped, nil)
		return
	}
	r.end(Failed, fault.Wrap(fault.KindOf(last), last, "told to stop while it was being restarted, so that there is no final epoch; the next start goes on from the last one; it had failed"))
}

// judge decides whether the query is over after an attempt.
func (r *Runner) judge(ctx context.Context, final bool, err error, failures int) (bool, State) {
	r.mu.Lock()
	draining := r.draining
	r.mu.Unlock()
	switch {
	case err == nil && draining:
		return true, Stopped
	case err == nil && final:
		return true, Ended
	case ctx.Err() != nil || errors.Is(err, actors.ErrStopped):
		return true, Stopped
	case fault.Reaction(fault.KindOf(err)) == fault.Fail || fault.KindOf(err) == fault.BadRow:
		return true, Failed
	case draining:
		return true, Failed // a drain that failed is not retried: nothing is lost
	}
	// A full disk is nobody's fault, and lasts until somebody looks.
	return !epochs.NoSpace(err) && r.cfg.Restart.exhausted(failures), Failed
}

func (r *Runner) end(s State, err error) {
	r.mu.Lock()
	r.err = nil
	if s == Failed {
		r.err = err
		r.cfg.Log.Error("query failed", r.failure(err)...)
	}
	r.setState(s, "")
	waiters := r.waiters
	r.waiters = nil
	over := r.overErrorLocked()
	r.mu.Unlock()
	for _, done := range waiters {
		done(over)
	}
}

// failure is what the log says about an error: for a panic with the stack.
func (r *Runner) failure(err error) []any {
	attrs := []any{slog.String("query", r.cfg.Query), slog.Any("error", err)}
	if p, ok := errors.AsType[*fault.Panic](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	return attrs
}

func (p RestartPolicy) exhausted(failures int) bool {
	limit := p.MaxRestarts
	if limit == 0 {
		limit = 10
	}
	return failures >= max(limit, 0)
}

func (p RestartPolicy) delay(failures int) time.Duration {
	lo, hi := p.MinDelay, p.MaxDelay
	if lo == 0 {
		lo = 100 * time.Millisecond
	}
	if hi == 0 {
		hi = 10 * time.Second
	}
	d := lo << min(failures-1, 20)
	return min(d, hi)
}

// pause waits for d; it reports false when ctx ended first.
func pause(ctx context.Context, clock connectors.Clock, d time.Duration) bool {
	c := make(chan struct{})
	stop := clock.AfterFunc(d, func() { close(c) })
	select {
	case <-c:
		return true
	case <-ctx.Done():
		stop()
		return false
	}
}
