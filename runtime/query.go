package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/deploy"
)

// Status says what a query is doing right now.
type Status struct {
	// State is starting, running, retrying, blocked, restarting, stopping,
	// stopped, ended or failed.
	State string `json:"state"`
	// Message explains the state in words.
	Message string `json:"message"`
	// IsDataAvailable and IsTriggerActive are Spark's: a source has more to read;
	// rows are being processed.
	IsDataAvailable bool `json:"isDataAvailable"`
	IsTriggerActive bool `json:"isTriggerActive"`
	// Restarts counts the attempts that failed and were followed by another.
	Restarts int `json:"restarts"`
	// ResumedFrom is the epoch the current run went on from, 0 if none.
	ResumedFrom uint64 `json:"resumedFromEpoch"`
}

// States lists the values of Status.State.
func States() []string {
	return []string{"starting", "running", "retrying", "blocked", "restarting", "stopping", "stopped", "ended", "failed"}
}

// Query is a handle on a running query. Its methods are safe for concurrent use.
type Query struct {
	session *Session
	name    string
	runID   string
	explain string
	sources map[string]connectors.Source // by node, to know their ends
	runner  *deploy.Runner
	maker   progressMaker
	flush   []func()      // logs what the samplers have kept back
	told    chan struct{} // closed when the listeners know of the start

	// mu guards the fields below.
	mu       sync.Mutex
	id       string
	recent   []*Progress    // oldest first
	base     *epochs.Record // what the first attempt went on from, nil: nothing
	restored bool           // base is known
	retrying map[string]string
	blocked  string
}

// Name is the query's name: its identity across runs.
func (q *Query) Name() string { return q.name }

// ID identifies the query across restarts: it comes from the checkpoint. It is
// empty until a checkpoint has been read or the first epoch has committed.
func (q *Query) ID() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.id
}

// RunID is new with every start.
func (q *Query) RunID() string { return q.runID }

// Explain describes plan, stages, verdict and guarantee.
func (q *Query) Explain() string { return q.explain }

// Status says what the query is doing.
func (q *Query) Status() Status {
	state, err := q.runner.State(), q.runner.Err()
	s := Status{State: state.String(), Message: message(state), Restarts: q.runner.Restarts(), ResumedFrom: uint64(q.runner.From())}
	if err != nil {
		s.Message = err.Error()
	}
	partitions, caughtUp := q.readPartitions()
	restoring := q.runner.Restoring()
	q.mu.Lock() // after the runner's lock, which onState is called with
	defer q.mu.Unlock()
	waits := ""
	if parts := slices.Sorted(maps.Keys(q.retrying)); len(parts) > 0 {
		waits = parts[0] + ": " + q.retrying[parts[0]]
	}
	switch {
	case state == deploy.Starting && q.blocked != "":
		s.State, s.Message = "blocked", "checkpoint paused: "+q.blocked
	case state == deploy.Starting && restoring != "":
		s.Message = "Initializing: " + restoring
	case state == deploy.Starting && waits != "":
		s.State, s.Message = "retrying", waits
	case state == deploy.Stopping && q.blocked != "":
		s.Message += "; checkpoint paused: " + q.blocked
	case state == deploy.Stopping && waits != "":
		s.Message += "; " + waits
	case state == deploy.Running:
		q.describeRunning(&s, waits, partitions, caughtUp)
	}
	return s
}

// readPartitions counts the partitions that are read, and those that are at their
// end.
func (q *Query) readPartitions() (partitions, caughtUp int64) {
	m := q.runner.Metrics()
	if m == nil {
		return 0, 0
	}
	for i := range m.Nodes {
		partitions += m.Nodes[i].Partitions.Load()
		caughtUp += m.Nodes[i].CaughtUp.Load()
	}
	return partitions, caughtUp
}

// describeRunning says more about a query that runs. The caller holds mu.
func (q *Query) describeRunning(s *Status, waits string, partitions, caughtUp int64) {
	s.IsTriggerActive = true
	s.IsDataAvailable = caughtUp < partitions
	switch {
	case q.blocked != "":
		s.State, s.Message = "blocked", "checkpoint paused: "+q.blocked
	case waits != "":
		s.State, s.Message = "retrying", waits
	case partitions > 0 && !s.IsDataAvailable:
		s.Message = "Waiting for data to arrive"
	}
}

func message(s deploy.State) string {
	switch s {
	case deploy.Starting:
		return "Initializing"
	case deploy.Running:
		return "Processing new data"
	case deploy.Restarting:
		return "Restarting"
	case deploy.Stopping:
		return "Draining"
	case deploy.Failed:
		return "Failed"
	case deploy.Ended:
		return "All input has been read"
	default:
		return "Stopped"
	}
}

// LastProgress describes the last committed epoch, nil before the first.
func (q *Query) LastProgress() *Progress {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.recent) == 0 {
		return nil
	}
	return q.recent[len(q.recent)-1]
}

// RecentProgress describes the last epochs, at most 100, oldest first.
func (q *Query) RecentProgress() []*Progress {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]*Progress(nil), q.recent...)
}

// Metrics returns the live row counters of the current attempt, nil while none
// runs.
func (q *Query) Metrics() *actors.Metrics { return q.runner.Metrics() }

// Err returns why the query failed, nil while it runs or when it ended well.
func (q *Query) Err() error { return q.runner.Err() }

// Done is closed when the query is over and nothing of it is left.
func (q *Query) Done() <-chan struct{} { return q.runner.Done() }

// Wait blocks until the query is over and returns why it failed, nil if it
// ended or was stopped; or until ctx ends, and returns its error.
func (q *Query) Wait(ctx context.Context) error {
	select {
	case <-q.runner.Done():
		return q.runner.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop drains the query: it stops reading, runs the rows in flight through,
// commits a final epoch and ends. When ctx ends first the query is stopped at
// once, without loss: it goes on from its last epoch.
func (q *Query) Stop(ctx context.Context) error {
	q.runner.Drain()
	select {
	case <-q.runner.Done():
		return q.runner.Err()
	case <-ctx.Done():
	}
	why := q.Status().Message
	q.runner.Stop()
	<-q.runner.Done()
	return fmt.Errorf("query %q did not drain in time (%s); it goes on from its last epoch at the next start: %w", q.name, why, ctx.Err())
}

// ender is implemented by sources that can say where their partitions end now.
type ender interface {
	// Ends returns the offset behind the last record there is, by partition.
	Ends(ctx context.Context) (map[string]connectors.Offset, error)
	// Reached reports whether offset is at or behind end.
	Reached(offset, end connectors.Offset) bool
}

// ProcessAllAvailable blocks until everything that the sources held when it was
// called has been processed and committed. It is meant for tests, and works with
// sources that know their end (memory).
func (q *Query) ProcessAllAvailable(ctx context.Context) error {
	ends := map[string]map[string]connectors.Offset{}
	for node, s := range q.sources {
		if e, ok := s.(ender); ok {
			m, err := e.Ends(ctx)
			if err != nil {
				return err
			}
			ends[node] = m
		}
	}
	for {
		if err := q.epoch(ctx); err != nil {
			return err
		}
		if q.reached(ends) {
			return nil
		}
	}
}

// epoch waits for an epoch that covers what sources have emitted by now.
func (q *Query) epoch(ctx context.Context) error {
	done := make(chan error, 1)
	q.runner.RequestEpoch(func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reached compares the last record with the ends.
func (q *Query) reached(ends map[string]map[string]connectors.Offset) bool {
	rec := q.record()
	if rec == nil {
		return false
	}
	for node, parts := range ends {
		src, ok := q.sources[node].(ender)
		for part, end := range parts {
			there := false
			for _, s := range rec.Sources {
				there = there || ok && s.Source == node && s.Partition == part && src.Reached(s.Offset, end)
			}
			if !there {
				return false
			}
		}
	}
	return true
}

// onRestore is called by the runner with the record that an attempt goes on from:
// what progress is counted from.
func (q *Query) onRestore(rec *epochs.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.id = uuidOf(rec.Incarnation)
	q.maker.id = q.id
	q.maker.prev = rec
	if !q.restored {
		q.base = rec
	}
	q.restored = true
}

// onEpoch is called by the runner with each durable record.
func (q *Query) onEpoch(r actors.EpochReport) {
	q.mu.Lock()
	q.restored = true // a later attempt goes on from what this run has committed
	if q.id == "" {
		q.id = uuidOf(r.Record.Incarnation)
		q.maker.id = q.id
	}
	p := q.maker.make(r, q.session.sys.Clock().Now())
	q.recent = append(q.recent, p)
	if len(q.recent) > progressRing {
		q.recent = q.recent[1:]
	}
	q.mu.Unlock()
	<-q.told
	for _, l := range q.session.listeners() {
		l.OnProgress(q, p)
	}
}

func (q *Query) onStatus(r actors.StatusReport) {
	q.mu.Lock()
	defer q.mu.Unlock()
	part := r.Sink
	switch {
	case r.Source != "":
		part = r.Source + " partition " + r.Partition
	case r.Sink == "":
		q.logChange(q.blocked, r.Reason, "checkpoint")
		q.blocked = r.Reason
		return
	}
	q.logChange(q.retrying[part], r.Reason, part)
	delete(q.retrying, part)
	if r.Retrying {
		q.retrying[part] = r.Reason
	}
}

// logChange logs that a part of the query begins or ceases to wait. Reasons come
// and go while it waits; the first one is logged.
func (q *Query) logChange(was, is, part string) {
	switch {
	case was == "" && is != "":
		q.session.cfg.Log.Warn("query waits", "query", q.name, "for", part, "reason", is)
	case was != "" && is == "":
		q.session.cfg.Log.Info("query has stopped waiting", "query", q.name, "for", part)
	}
}

// onState is called by the runner, with its lock held. What an attempt has
// reported ends with it.
func (q *Query) onState(s deploy.State, _ string) {
	if s != deploy.Restarting && !s.Over() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.retrying)
	q.blocked = ""
}

// record is the last commit record, nil before the first.
func (q *Query) record() *epochs.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.maker.prev
}

// StateRows returns the number of entries of each stateful operator, from source
// to sink, at the last epoch.
func (q *Query) StateRows() []int64 {
	var out []int64
	if rec := q.record(); rec != nil {
		for _, o := range rec.Plan.Operators {
			if c, ok := countersOf(rec, o.UID); ok {
				out = append(out, c.StateRows)
			}
		}
	}
	return out
}

// LateRows is the number of rows dropped behind the watermark since the query
// first started.
func (q *Query) LateRows() uint64 {
	var n uint64
	if rec := q.record(); rec != nil {
		for _, c := range rec.Counters {
			n += c.Late
		}
	}
	return n
}

// Watermark returns the query's watermark at the last epoch; ok is false while
// there is none.
func (q *Query) Watermark() (at time.Time, ok bool) {
	rec := q.record()
	if rec == nil {
		return time.Time{}, false
	}
	wm := watermarkOf(rec)
	if wm == messages.NoEventTime {
		return time.Time{}, false
	}
	return wm.Time(), true
}

func uuidOf(id messages.ID128) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", id.Hi>>32, id.Hi>>16&0xffff, id.Hi&0xffff, id.Lo>>48, id.Lo&0xffffffffffff)
}
