package actors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// ErrStopped is the outcome of an attempt that was stopped without a drain.
var ErrStopped = errors.New("stopped")

// AttemptConfig says what to run and from where.
type AttemptConfig struct {
	Graph *Graph
	Query string
	// Attempt numbers the runs of the query in this process and before: it grows
	// with every start.
	Attempt uint64
	Store   epochs.Segments
	// From is the commit record to restore, nil to start afresh. It is not
	// changed.
	From *epochs.Record
	// AllowDroppedState goes on from a record that holds rows for a sink that the
	// graph does not have; see Unpublished.
	AllowDroppedState bool
	// AcceptDuplicates lets sinks go on from From although they have published newer
	// epochs; see connectors.WriteRequest.
	AcceptDuplicates bool
	// NextEpoch is larger than every epoch number ever seen in the store.
	NextEpoch messages.Epoch
	// Incarnation is the query's random identity when From is nil.
	Incarnation messages.ID128
	// PlanInfo goes into the commit record; its Operators are filled in here.
	Plan epochs.Plan
	// FlushAtEnd closes open windows when all input has ended: each operator is
	// brought to the event time at which what it holds is final.
	FlushAtEnd bool
	// FlushEpochs lets operators emit what they hold back in front of every marker.
	FlushEpochs bool
	// EpochInterval is the time between markers; 0 means 1 s.
	EpochInterval time.Duration
	// EpochTimeout fails an attempt whose epoch does not commit; 0 means 10 min.
	EpochTimeout time.Duration
	// Window is the number of batches in flight per (producer, consumer) pair;
	// 0 means 32. WindowBytes bounds their size; 0 means 4 MiB.
	Window, WindowBytes int
	// BatchRows is how many rows one read asks for; 0 means 1024.
	BatchRows int
	// StopTimeout is how long a failed attempt waits for its workers; 0 means 30 s.
	StopTimeout time.Duration
	// Uncommitted bounds what flows while no epoch can begin.
	Uncommitted Uncommitted
	// OnRunning, if not nil, is called once everything is restored and open and
	// sources read; it must not block.
	OnRunning func()
	// OnEpoch, if not nil, is called on an actor's goroutine with each durable
	// commit record; it must not block or change it.
	OnEpoch func(EpochReport)
	// OnStatus, if not nil, is called when a source, a sink or the checkpoint
	// protocol changes state, from any goroutine; it must not block.
	OnStatus func(StatusReport)
	// Witness, if not nil, is called after each commit record and before the sink
	// commits, in a worker.
	Witness func(messages.Epoch) error
}

// EpochReport describes a committed epoch.
type EpochReport struct {
	Record *epochs.Record
	// Duration is from injection to the durable commit record; Aligned is when
	// the last subtask had acknowledged.
	Duration, Aligned time.Duration
	// Bytes is what was written to the store, record included.
	Bytes int64
	// MaxEventTime is the largest watermark over the sources.
	MaxEventTime messages.EventTime
}

// StatusReport tells what a part of the attempt is waiting for.
type StatusReport struct {
	// Source and Partition name a reader, Sink a sink; all empty: the checkpoint
	// protocol.
	Source, Partition, Sink string
	Retrying, Blocked       bool
	Reason                  string
}

// Attempt is a running graph. All methods are safe for concurrent use.
type Attempt struct {
	sys     *System
	pid     *actor.PID
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	last    messages.Epoch
	final   bool
	metrics *Metrics

	// mu guards the fields below.
	mu      sync.Mutex
	over    bool
	waiting []*epochMsg // requests that have not been answered, in their order
}

// Start begins an attempt. It returns at once; what goes wrong is in Err. The
// attempt ends when ctx does.
func (s *System) Start(ctx context.Context, cfg AttemptConfig) (*Attempt, error) {
	if err := cfg.Graph.Check(); err != nil {
		return nil, err
	}
	if cfg.From != nil && !cfg.AllowDroppedState {
		if err := Unpublished(cfg.Graph, cfg.From); err != nil {
			return nil, err
		}
	}
	cfg.defaults()
	parent := ctx
	ctx, cancel := context.WithCancel(parent)
	a := &Attempt{sys: s, cancel: cancel, done: make(chan struct{}), metrics: newMetrics(cfg.Graph)}
	if cfg.From != nil {
		a.last = cfg.From.Epoch
	}
	q := newQueryActor(ctx, s, cfg, a)
	q.parent = parent
	a.pid = s.as.Root.Spawn(s.propsOf(func() actor.Actor { return q }))
	return a, nil
}

func (c *AttemptConfig) defaults() {
	set := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	set(&c.EpochInterval, time.Second)
	set(&c.EpochTimeout, 10*time.Minute)
	set(&c.StopTimeout, 30*time.Second)
	c.Store = &serialStore{Segments: c.Store}
	if c.Window == 0 {
		c.Window = 32
	}
	if c.WindowBytes == 0 {
		c.WindowBytes = 4 << 20
	}
	if c.BatchRows == 0 {
		c.BatchRows = 1024
	}
}

// Done is closed when the attempt has ended and all its goroutines have
// returned.
func (a *Attempt) Done() <-chan struct{} { return a.done }

// Err returns why the attempt ended: nil when it drained or its input ended,
// ErrStopped after Stop, else the failure. Only after Done.
func (a *Attempt) Err() error { <-a.done; return a.err }

// Last returns the last epoch that is known to be committed. Only after Done.
func (a *Attempt) Last() messages.Epoch { <-a.done; return a.last }

// Final reports whether the last epoch was the query's final one. Only after
// Done.
func (a *Attempt) Final() bool { <-a.done; return a.final }

// Metrics returns the attempt's live counters.
func (a *Attempt) Metrics() *Metrics { return a.metrics }

// Stop ends the attempt at once: nothing is lost, the next attempt goes on from
// the last committed epoch.
func (a *Attempt) Stop() {
	a.cancel()
	a.sys.as.Root.Send(a.pid, &failedMsg{err: ErrStopped})
}

// Drain stops reading, runs the rows in flight through, and ends the attempt
// with a final epoch.
func (a *Attempt) Drain() { a.sys.as.Root.Send(a.pid, &drainMsg{}) }

// RequestEpoch asks for an epoch that covers everything emitted by sources by
// now and flushes coalesced output; done is called with nil when it has
// committed in all sinks, or with an error when the attempt ends before.
func (a *Attempt) RequestEpoch(done func(error)) {
	m := &epochMsg{}
	m.done = func(err error) {
		if a.answer(m) {
			done(err)
		}
	}
	a.mu.Lock()
	over := a.over
	if !over {
		a.waiting = append(a.waiting, m)
	}
	a.mu.Unlock()
	if over {
		done(a.endError())
		return
	}
	a.sys.as.Root.Send(a.pid, m)
}

// answer reports whether a request still waits, and ends the wait.
func (a *Attempt) answer(m *epochMsg) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.waiting, m)
	if i < 0 {
		return false
	}
	a.waiting = slices.Delete(a.waiting, i, i+1)
	return true
}

// end closes done and answers the requests that the actor did not live to see.
func (a *Attempt) end() {
	close(a.done)
	a.mu.Lock()
	a.over = true
	left := slices.Clone(a.waiting)
	a.mu.Unlock()
	for _, m := range left {
		m.done(a.endError())
	}
}

// endError is the answer to those who wait for an epoch when there will be none
// any more: the final epoch covers everything.
func (a *Attempt) endError() error {
	if a.final || a.err != nil {
		return a.err
	}
	return ErrStopped
}

type (
	drainMsg struct{}
	epochMsg struct{ done func(error) }
)
