package actors

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// queryActor runs one attempt: it deploys the stages, hosts the Coordinator,
// writes commit records, and takes everything down when the attempt ends. It
// does little enough itself that nothing in it should fail.
type queryActor struct {
	sys   *System
	cfg   AttemptConfig
	att   *Attempt
	ctxIO context.Context
	ctx   actor.Context
	self  *actor.PID

	parent  context.Context // the caller's; the attempt ends with it
	unwatch func() bool

	worker  Worker // deploys, checks, writes records
	commits Worker // commits sinks
	names   map[string]int

	stages   []*stage
	subtasks []*subtaskRef
	sinks    []*sinkRef
	waiting  int // subtasks that are not ready yet
	reading  int // source subtasks that still read
	// throttles are those of the sources.
	throttles map[*Node]*throttle
	// unfinished is how many source subtasks have not acknowledged the final epoch.
	unfinished int

	coord     *epochs.Coordinator
	stopTimer func() bool
	timerGen  uint64
	open      map[messages.Epoch]*openEpoch
	chains    chainList
	base      map[string]epochs.Counters
	dropped   []epochs.SegmentID // groups of operators that are no longer there
	stashes   map[string]*stash  // by sink
	requests  []func(error)
	history   []messages.Epoch // the newest committed epochs, oldest first
	injected  messages.Epoch
	gate      gate
	changed   bool // there is something to commit, in this attempt
	draining  bool
	retried   string // why the last sink commit is being repeated; logged once

	closing  bool
	finished bool // Finish was reached: the end is a good one
	cause    error
	children int
}

type subtaskRef struct {
	pid   *actor.PID
	stage *stage
	index int
}

type sinkRef struct {
	node      *Node
	committer connectors.Committer
	stash     *stash
}

type chainKey struct {
	operator string
	group    uint16
}

// openEpoch is an injected epoch that its sinks have not confirmed yet.
type openEpoch struct {
	marker   messages.Marker
	acks     []*subtaskAck
	injected time.Duration
	aligned  time.Duration
	record   *epochs.Record
	requests []func(error)
	bytes    int64
}

type (
	deployedMsg struct {
		stages     []*stage
		partitions map[*Node][]string
		sinks      []*sinkRef
		err        error
	}
	coordTimer struct{ generation uint64 }
	checkedMsg struct{ err error }
	recordMsg  struct {
		epoch messages.Epoch
		bytes int64
		err   error
	}
	sinksDoneMsg struct {
		epoch messages.Epoch
		err   error
	}
	retryCommit  struct{ epoch messages.Epoch }
	askedEpoch   struct{} // a sink asks for an early epoch
	stopDeadline struct{}
)

func newQueryActor(ctx context.Context, s *System, cfg AttemptConfig, a *Attempt) *queryActor {
	q := &queryActor{
		sys: s, cfg: cfg, att: a, ctxIO: ctx, names: map[string]int{},
		open: map[messages.Epoch]*openEpoch{}, base: map[string]epochs.Counters{},
		stashes: map[string]*stash{},
	}
	for name := range sinkNames(cfg.Graph) {
		q.stashes[name] = newStash(cfg.Store, name)
	}
	if r := cfg.From; r != nil {
		q.cfg.Incarnation = r.Incarnation
		q.history = append(q.history, r.Epoch)
		q.takeChains(r.Chains)
		for _, c := range r.Counters {
			q.base[c.Operator] = c
		}
	}
	return q
}

// takeChains goes on with the chains of a record. State of operators that the
// graph no longer has is given up with the first epoch, and so are the rows of
// sinks; see Unpublished.
func (q *queryActor) takeChains(chains []epochs.Chain) {
	have := map[string]bool{}
	for _, n := range q.cfg.Graph.nodes {
		have[n.name] = true
	}
	for _, c := range chains {
		if sink, ok := stashOf(c.Operator); ok && q.stashes[sink] != nil {
			q.stashes[sink].chains[chainKey{c.Operator, c.Group}] = c
			continue
		}
		*q.chains.at(c.Operator, c.Group) = c
		if gone := c.Segments == 1 && c.BaseBytes == 0; !have[c.Operator] && !gone {
			q.dropped = append(q.dropped, epochs.SegmentID{Operator: c.Operator, Group: c.Group})
		}
	}
}

// Receive handles one message.
func (q *queryActor) Receive(ctx actor.Context) {
	defer func() {
		if v := recover(); v != nil {
			q.fail(fault.Recovered(v, debug.Stack()))
		}
	}()
	q.ctx = ctx
	switch m := ctx.Message().(type) {
	case *actor.Started:
		q.self = ctx.Self()
		q.unwatch = context.AfterFunc(q.parent, func() { q.post(&failedMsg{err: ErrStopped}) })
		q.worker = q.newWorker("coordinator")
		q.commits = q.newWorker("sink commits")
		q.worker.Submit(func() { q.post(q.deploy()) })
	case *actor.Terminated:
		q.children--
		q.maybeDone()
	case *stoppedMsg:
		q.names[m.name]--
		if q.names[m.name] == 0 {
			delete(q.names, m.name)
		}
		q.maybeDone()
	case *stopDeadline:
		q.giveUp()
	case *failedMsg:
		q.fail(m.err)
	case *epochMsg:
		q.request(m)
	default:
		if !q.closing {
			q.protocol(m)
		} else if d, ok := m.(*deployedMsg); ok {
			q.sinks = d.sinks
			q.closeSinks()
		}
	}
}

func (q *queryActor) protocol(msg any) {
	switch m := msg.(type) {
	case *deployedMsg:
		q.spawn(m)
	case *subtaskReady:
		q.ready()
	case *gateTick:
		q.gate.ticking = false
		q.gateLook()
	case *coordTimer:
		if m.generation == q.timerGen {
			q.tick()
		}
	case *changedMsg:
		q.changed = true // also what restored timers do before all subtasks are ready
		if q.coord != nil {
			q.step(epochs.Changed{})
		}
	case *checkedMsg:
		q.checked(m.err)
	case *subtaskAck:
		q.acked(m)
	case *recordMsg:
		q.recorded(m)
	case *sinksDoneMsg:
		q.sinksDone(m)
	case *retryCommit:
		q.commitSinks(m.epoch)
	case *askedEpoch:
		if q.coord != nil { // before that there are no rows to ask for
			q.step(epochs.EpochAsked{})
		}
	case *drainMsg:
		q.drain()
	case *readingStopped:
		q.readingEnded()
	case *sourceDone:
		if q.unfinished--; q.unfinished == 0 {
			q.close()
		}
	}
}

// deploy runs in the worker: it finds the partitions, recovers the sinks and
// plans the stages.
func (q *queryActor) deploy() (m *deployedMsg) {
	m = &deployedMsg{partitions: map[*Node][]string{}}
	defer func() {
		if v := recover(); v != nil { // what has been opened must be closed
			m.err = fault.Recovered(v, debug.Stack())
		}
	}()
	counts := map[*Node]int{}
	for _, n := range q.cfg.Graph.nodes {
		if n.source == nil {
			continue
		}
		ps, err := n.source.Source.Partitions(q.ctxIO)
		if err == nil && len(ps) == 0 {
			err = fault.New(fault.Config, "the source has no partition")
		}
		if err != nil {
			m.err = fault.At(fault.Location{Query: q.cfg.Query, Operator: n.name}, err)
			return m
		}
		m.partitions[n] = ps
		counts[n] = len(ps)
	}
	q.reportSources(m.partitions)
	m.stages = planStages(q.cfg.Graph, counts)
	for _, n := range q.cfg.Graph.nodes {
		if n.sink == nil {
			continue
		}
		if err := q.openSink(n, m); err != nil {
			m.err = fault.At(fault.Location{Query: q.cfg.Query, Operator: n.name}, err)
			return m
		}
	}
	return m
}

func (q *queryActor) openSink(n *Node, m *deployedMsg) error {
	stash := q.stashes[n.name]
	c, err := n.sink.Sink.Open(q.ctxIO, connectors.WriteRequest{
		Query: q.cfg.Query, Sink: n.name, Incarnation: q.cfg.Incarnation, Attempt: q.cfg.Attempt,
		Schema: n.sink.Schema, Offer: n.sink.Offer, KeyColumns: n.sink.KeyColumns, OnRetrying: q.sinkRetrying(n.name),
		AcceptDuplicates: q.cfg.AcceptDuplicates,
		Stash:            stash, AskEpoch: func() { q.post(&askedEpoch{}) },
	})
	if err != nil {
		return err
	}
	m.sinks = append(m.sinks, &sinkRef{node: n, committer: c, stash: stash})
	var epoch messages.Epoch
	var token connectors.Token
	if r := q.cfg.From; r != nil {
		epoch = r.Epoch
		for _, s := range r.Sinks {
			if s.Sink == n.name {
				token = s.Token
			}
		}
	}
	if err := fault.Inject("rec/sink"); err != nil {
		return err
	}
	return c.Recover(q.ctxIO, epoch, token)
}

// spawn starts the subtasks and tells each its neighbours.
func (q *queryActor) spawn(m *deployedMsg) {
	q.sinks = m.sinks
	if m.err != nil {
		q.fail(m.err)
		return
	}
	q.stages = m.stages
	pids := make([][]*actor.PID, len(m.stages))
	pool := &messagePool{}
	for _, st := range m.stages {
		for i := range st.parallelism {
			s := q.newSubtask(st, i, m.partitions, pool)
			pid := q.ctx.Spawn(q.sys.propsOf(func() actor.Actor { return s }))
			q.children++
			pids[st.index] = append(pids[st.index], pid)
			q.subtasks = append(q.subtasks, &subtaskRef{pid: pid, stage: st, index: i})
			if st.source != nil {
				q.reading++
				q.unfinished++
			}
		}
	}
	q.waiting = len(q.subtasks)
	// Consumers first: a producer may send as soon as it is wired, and stages are
	// numbered with the rows.
	for _, ref := range slices.Backward(q.subtasks) {
		q.ctx.Send(ref.pid, q.wiring(ref, pids))
	}
}

func (q *queryActor) wiring(ref *subtaskRef, pids [][]*actor.PID) *wireMsg {
	w := &wireMsg{}
	for _, l := range ref.stage.outs {
		w.outs = append(w.outs, pids[l.to.index])
	}
	for _, l := range ref.stage.ins {
		for _, p := range l.producers(ref.index) {
			w.ins = append(w.ins, inletRef{pid: pids[l.from.index][p], outlet: l.outletOf(p, ref.index), input: l.input})
		}
	}
	return w
}

func (q *queryActor) newSubtask(st *stage, i int, partitions map[*Node][]string, pool *messagePool) *subtask {
	s := &subtask{
		sys: q.sys, cfg: &q.cfg, ctxIO: q.ctxIO, query: q.self, stage: st, id: len(q.subtasks), index: i,
		pool: pool, views: messages.NewViewPool(), wm: messages.NoEventTime, from: q.cfg.From,
		timers: make([]timerSlot, len(st.ops)),
	}
	s.worker = q.sysWorker(s.workerName("state"))
	for _, n := range nodesOf(st) {
		s.nodes = append(s.nodes, &q.att.metrics.Nodes[n.index])
	}
	if st.source != nil {
		s.source = q.newSource(s, st.source, partitions[st.source][i])
		for _, l := range st.outs {
			if l.side && l.late == nil {
				s.letters = newDeadLetters(q.cfg.Query, s.source, st.source.name)
			}
		}
	}
	if st.sink != nil {
		k := &sinkHalf{s: s, spec: st.sink.sink, base: sinkBase(q.cfg.Incarnation, st.sink.name)}
		for _, r := range q.sinks {
			if r.node == st.sink {
				k.committer = r.committer
			}
		}
		k.writes = q.sysWorker(s.workerName("writer"))
		k.flushes = q.looseWorker(s.workerName("flush"))
		s.sink = k
	}
	return s
}

// throttle returns what the partitions of a source share.
func (q *queryActor) throttle(n *Node) *throttle {
	if q.throttles == nil {
		q.throttles = map[*Node]*throttle{}
	}
	t, ok := q.throttles[n]
	if !ok {
		t = newThrottle(n.source.MaxRowsPerSecond)
		q.throttles[n] = t
	}
	return t
}

func (q *queryActor) newSource(s *subtask, n *Node, partition string) *sourceHalf {
	h := &sourceHalf{
		spec: n.source, partition: partition, frozen: map[messages.Epoch]connectors.Offset{}, restoredWM: messages.NoEventTime,
		reads: q.looseWorker("read of " + n.name + "/" + partition), acks: q.sysWorker(s.workerName("reader")),
		throttle: q.throttle(n),
	}
	if q.cfg.From == nil {
		return h
	}
	for _, st := range q.cfg.From.Sources {
		if st.Source == n.name && st.Partition == partition {
			h.restore(&st, q)
		}
	}
	return h
}

func nodesOf(st *stage) []*Node {
	var ns []*Node
	if st.source != nil {
		ns = append(ns, st.source)
	}
	ns = append(ns, st.ops...)
	if st.sink != nil {
		ns = append(ns, st.sink)
	}
	return ns
}

// sysWorker makes a worker whose end is reported by stoppedMsg under its name.
func (q *queryActor) sysWorker(name string) Worker {
	q.names[name]++
	return q.looseWorker(name)
}

// looseWorker makes a worker that is stopped from the end of another one.
func (q *queryActor) looseWorker(name string) Worker {
	return q.sys.cfg.Executor.Worker(name, func(err error) { q.post(&failedMsg{err: err}) })
}

func (q *queryActor) newWorker(name string) Worker { return q.sysWorker(name) }

func (q *queryActor) post(msg any) { q.sys.as.Root.Send(q.self, msg) }

// fail ends the attempt for the given reason; the first one counts.
func (q *queryActor) fail(err error) {
	if q.closing {
		return
	}
	q.cause = err
	if q.ctxIO.Err() != nil {
		q.cause = ErrStopped // whatever fails now fails for that reason
	}
	q.close()
}

// close takes everything down: the context ends, subtasks stop, and when all
// actors and workers have returned the attempt is done.
func (q *queryActor) close() {
	q.closing = true
	q.att.cancel()
	q.gate.close()
	if q.stopTimer != nil {
		q.stopTimer()
	}
	for _, ref := range q.subtasks {
		q.ctx.Stop(ref.pid)
	}
	q.stopTimer = q.sys.cfg.Clock.AfterFunc(q.cfg.StopTimeout, func() { q.post(&stopDeadline{}) })
	root, self := q.sys.as.Root, q.self
	q.commits.Stop(func() { root.Send(self, &stoppedMsg{name: "sink commits"}) })
	q.worker.Stop(func() { root.Send(self, &stoppedMsg{name: "coordinator"}) })
	q.maybeDone()
}

// maybeDone ends the attempt when nothing of it is left.
func (q *queryActor) maybeDone() {
	if !q.closing || q.children > 0 || len(q.names) > 0 {
		return
	}
	q.closeSinks()
	q.finish()
}

func (q *queryActor) closeSinks() {
	for _, s := range q.sinks {
		warn := func(err error) {
			if err != nil {
				q.sys.cfg.Log.Warn("close sink", "query", q.cfg.Query, "operator", s.node.name, "error", err)
			}
		}
		guard(func() { warn(s.committer.Close()) }, warn) // a panic must not keep the others open
	}
	q.sinks = nil
}

// giveUp ends the attempt although something does not return.
func (q *queryActor) giveUp() {
	names := make([]string, 0, len(q.names))
	for n := range q.names {
		names = append(names, n)
	}
	sort.Strings(names)
	q.cause = fault.New(fault.Config, "%s did not stop within %s (after: %v)", strings.Join(names, ", "), q.cfg.StopTimeout, q.cause)
	q.names, q.children = nil, 0
	q.finish()
}

func (q *queryActor) finish() {
	select {
	case <-q.att.done:
		return
	default:
	}
	if !q.finished {
		q.att.err = q.cause
		if q.cause == nil {
			q.att.err = ErrStopped
		}
	}
	q.att.final = q.finished
	if !q.finished {
		q.att.err = fault.At(fault.Location{Query: q.cfg.Query}, q.att.err)
	}
	for _, done := range q.requests {
		done(q.att.endError())
	}
	for _, o := range q.open {
		for _, done := range o.requests {
			done(q.att.endError())
		}
	}
	q.stopTimer()
	q.unwatch()
	q.att.end()
	q.ctx.Stop(q.self)
}

func (q *queryActor) request(m *epochMsg) {
	if q.closing {
		if !q.finished {
			m.done(fmt.Errorf("the query is stopping: %w", ErrStopped))
			return
		}
		m.done(nil) // the final epoch covers everything
		return
	}
	q.requests = append(q.requests, m.done)
	if q.coord != nil {
		q.step(epochs.EpochRequested{})
	}
}
