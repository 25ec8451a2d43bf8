package actors

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"sort"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// commitRetry is the pause before a sink commit that failed for a passing
// reason is tried again.
const commitRetry = 200 * time.Millisecond

// ready counts subtasks that have opened; with the last one the protocol starts
// and sources read.
func (q *queryActor) ready() {
	q.waiting--
	if q.waiting > 0 {
		return
	}
	var last messages.Epoch
	if q.cfg.From != nil {
		last = q.cfg.From.Epoch
	}
	q.coord = epochs.NewCoordinator(epochs.CoordinatorConfig{
		Interval: q.cfg.EpochInterval, Timeout: q.cfg.EpochTimeout, Subtasks: len(q.subtasks),
		Committed: last, Next: q.cfg.NextEpoch,
		Flush: q.cfg.FlushEpochs,
	})
	q.step(epochs.Started{})
	if q.changed {
		q.step(epochs.Changed{})
	}
	q.gate.limits, q.gate.since = q.cfg.Uncommitted, q.sys.cfg.Clock.Mono()
	q.toSources(&startMsg{})
	if len(q.requests) > 0 {
		q.step(epochs.EpochRequested{})
	}
	if q.cfg.OnRunning != nil {
		q.cfg.OnRunning()
	}
}

func (q *queryActor) toSources(msg any) {
	for _, ref := range q.subtasks {
		if ref.stage.source != nil {
			q.ctx.Send(ref.pid, msg)
		}
	}
}

func (q *queryActor) drain() {
	if q.draining {
		return
	}
	q.draining = true
	if q.coord == nil {
		q.fail(ErrStopped) // nothing has been read yet, so there is nothing to drain
		return
	}
	q.toSources(&stopReading{})
}

// readingEnded counts sources that have stopped: after a drain, or since they
// have ended. With the last one the final epoch is due.
func (q *queryActor) readingEnded() {
	q.reading--
	switch {
	case q.reading > 0:
	case q.holdsRows():
		// The rows that are left go into an epoch of their own, so that the record of
		// the final one can tell that they have been published.
		q.requests = append(q.requests, func(err error) {
			if err == nil {
				q.step(epochs.DrainRequested{})
			}
		})
		q.step(epochs.EpochRequested{})
	default:
		q.step(epochs.DrainRequested{})
	}
}

// holdsRows reports whether a sink publishes rows only after their epoch has
// committed.
func (q *queryActor) holdsRows() bool {
	return slices.ContainsFunc(q.sinks, func(s *sinkRef) bool { return s.node.sink.Offer.Visibility == connectors.PerEpoch })
}

// step tells the Coordinator and does what it asks for.
func (q *queryActor) step(ev epochs.Event) {
	// Actions are copied: carrying one out may lead to another step.
	for _, a := range append([]epochs.Action(nil), q.coord.Step(q.sys.cfg.Clock.Mono(), ev)...) {
		if q.closing {
			return
		}
		q.act(a)
	}
}

func (q *queryActor) act(a epochs.Action) {
	switch a := a.(type) {
	case epochs.SetTimer:
		q.setTimer(a.At)
	case epochs.Precheck:
		store, ctx := q.cfg.Store, q.ctxIO
		q.worker.Submit(func() { q.post(&checkedMsg{err: store.Check(ctx)}) })
	case epochs.Inject:
		q.injectMarker(a.Marker)
	case epochs.WriteRecord:
		q.writeRecord(a.Epoch, a.Prev)
	case epochs.CommitSinks:
		q.commitSinks(a.Epoch)
	case epochs.AckSources:
		q.acknowledge(a.Epoch)
	case epochs.ReportBlocked:
		q.gateBlocked(a.Err)
	case epochs.Finish:
		q.finished = true // whatever fails now
		if q.unfinished == 0 {
			q.close()
		}
	case epochs.Fail:
		q.fail(a.Err)
	}
}

// checked passes on the outcome of a precheck. Space may come back; for anything
// else that is wrong with the store there is no use in waiting.
func (q *queryActor) checked(err error) {
	if err != nil && !errors.Is(err, epochs.ErrNoSpace) {
		q.fail(fault.Wrap(storeFault(err), err, "look at the checkpoint before the next epoch"))
		return
	}
	q.step(epochs.Ready{Err: err})
}

// tick passes on that the interval is over. A sink whose rows wait for an epoch
// counts as a change.
func (q *queryActor) tick() {
	for _, s := range q.sinks {
		if a, ok := s.committer.(connectors.EpochAsker); ok && a.WantsEpoch() {
			q.step(epochs.Changed{})
			break
		}
	}
	q.step(epochs.TimerFired{})
}

func (q *queryActor) setTimer(at time.Duration) {
	if q.stopTimer != nil {
		q.stopTimer()
	}
	q.timerGen++
	g := q.timerGen
	q.stopTimer = q.sys.cfg.Clock.AfterFunc(at-q.sys.cfg.Clock.Mono(), func() { q.post(&coordTimer{generation: g}) })
}

func (q *queryActor) injectMarker(m messages.Marker) {
	if err := fault.Inject("mark/inject"); err != nil {
		q.fail(err)
		return
	}
	o := &openEpoch{marker: m, injected: q.sys.cfg.Clock.Mono()}
	if m.Flush {
		o.requests, q.requests = q.requests, nil
	}
	q.open[m.Epoch] = o
	q.injected = m.Epoch
	q.gateMarker()
	for _, s := range q.sinks {
		s.committer.Begin(m.Epoch)
	}
	q.toSources(&injectMsg{marker: m})
}

func (q *queryActor) acked(m *subtaskAck) {
	if o := q.open[m.epoch]; o != nil {
		o.acks = append(o.acks, m)
		o.aligned = q.sys.cfg.Clock.Mono()
	}
	q.step(epochs.SubtaskAcked{Subtask: m.subtask, Epoch: m.epoch})
}

// writeRecord collects the sinks' tokens and writes the commit record, in the
// worker.
func (q *queryActor) writeRecord(e, prev messages.Epoch) {
	o := q.open[e]
	dropped := q.dropChains(e)
	rec := q.record(o, e, prev)
	if q.closing {
		return // its rows do not add up
	}
	o.record = rec
	w := recordWriter{store: q.cfg.Store, sinks: append([]*sinkRef(nil), q.sinks...), tokens: q.tokens(o), dropped: dropped, unconfirmed: e}
	for open := range q.open {
		w.unconfirmed = min(w.unconfirmed, open)
	}
	ctx, witness := q.ctxIO, q.cfg.Witness
	q.worker.Submit(func() {
		m := &recordMsg{epoch: e}
		m.bytes, m.err = w.write(ctx, rec)
		if m.err == nil && witness != nil {
			m.err = witness(e)
		}
		q.post(m)
	})
}

// recordWriter is what it takes to complete a commit record in the worker.
type recordWriter struct {
	store       epochs.Segments
	sinks       []*sinkRef
	tokens      map[*Node][]connectors.Token
	dropped     []epochs.Segment
	unconfirmed messages.Epoch // the oldest epoch that the sinks have not confirmed
}

// write prepares the sinks and writes the record. It returns the bytes written
// here and by the sinks.
func (w *recordWriter) write(ctx context.Context, rec *epochs.Record) (int64, error) {
	total := int64(0)
	for _, s := range w.sinks {
		if err := fault.Inject("sink/prepare"); err != nil {
			return 0, err
		}
		t, err := s.committer.Prepare(ctx, rec.Epoch, w.tokens[s.node])
		if err != nil {
			return 0, fault.At(fault.Location{Query: rec.Query, Operator: s.node.name, Epoch: uint64(rec.Epoch)}, err)
		}
		rec.Sinks = append(rec.Sinks, epochs.SinkState{Sink: s.node.name, Epoch: rec.Epoch, Token: t})
		chains, dropped, bytes := s.stash.settle(rec.Epoch, w.unconfirmed, rec.Final)
		rec.Chains = append(rec.Chains, chains...)
		w.dropped = append(w.dropped, dropped...)
		total += bytes
	}
	sortChains(rec.Chains)
	if len(w.dropped) > 0 {
		if err := w.store.Put(ctx, rec.Epoch, w.dropped); err != nil {
			return 0, fault.Wrap(fault.Restart, err, "give up %d segments in epoch %d", len(w.dropped), rec.Epoch)
		}
	}
	data, err := epochs.EncodeRecord(rec)
	if err != nil {
		return 0, err
	}
	if err := fault.Inject("epoch/commit.write"); err != nil {
		return 0, err
	}
	if err := w.store.Commit(ctx, rec.Prev, rec.Epoch, data); err != nil {
		return 0, fault.Wrap(storeFault(err), err, "write commit record %d", rec.Epoch)
	}
	return total + int64(len(data)), fault.Inject("epoch/commit.synced")
}

// dropChains gives up the state of operators that are no longer there: an empty
// base replaces the segments of each group, so that the store forgets them and an
// operator that gets the name later starts without state.
func (q *queryActor) dropChains(e messages.Epoch) []epochs.Segment {
	segs := make([]epochs.Segment, len(q.dropped))
	for i, id := range q.dropped {
		id.Epoch = e
		segs[i] = epochs.Segment{SegmentID: id, Base: true}
		q.extendChain(segmentInfo{id: id, base: true, sum: crc32.Checksum(nil, castagnoli)})
	}
	q.dropped = nil
	return segs
}

// record makes the commit record of an epoch from the acknowledgements.
func (q *queryActor) record(o *openEpoch, e, prev messages.Epoch) *epochs.Record {
	rec := &epochs.Record{
		Epoch: e, Prev: prev, Attempt: q.cfg.Attempt, Query: q.cfg.Query, Incarnation: q.cfg.Incarnation,
		WallMicros: q.sys.cfg.Clock.Now().UnixMicro(), Final: o.marker.Final, Plan: q.cfg.Plan,
	}
	sums := map[string]*epochs.Counters{}
	for _, a := range o.acks {
		if a.source != nil {
			rec.Sources = append(rec.Sources, *a.source)
		}
		for i := range a.counters {
			addCounters(sums, &a.counters[i])
		}
		for _, s := range a.segs {
			q.extendChain(s)
			o.bytes += int64(s.bytes)
		}
	}
	rec.Ranges = q.ranges(o.acks)
	q.keepAbsent(rec)
	q.account(sums, o)
	for _, c := range sums {
		c.AddRows(q.base[c.Operator])
		rec.Counters = append(rec.Counters, *c)
	}
	rec.Chains = slices.Clone(q.chains)
	sort.Slice(rec.Sources, func(i, j int) bool {
		a, b := rec.Sources[i], rec.Sources[j]
		return a.Source < b.Source || a.Source == b.Source && a.Partition < b.Partition
	})
	sort.Slice(rec.Counters, func(i, j int) bool { return rec.Counters[i].Operator < rec.Counters[j].Operator })
	q.publishCounters(rec)
	return rec
}

// keepAbsent carries over the positions of partitions that a source does not
// list at present, so that one that comes back goes on where it stopped.
func (q *queryActor) keepAbsent(rec *epochs.Record) {
	if q.cfg.From == nil {
		return
	}
	have := map[[2]string]bool{}
	for _, s := range rec.Sources {
		have[[2]string{s.Source, s.Partition}] = true
	}
	for _, s := range q.cfg.From.Sources {
		if !have[[2]string{s.Source, s.Partition}] {
			rec.Sources = append(rec.Sources, s)
		}
	}
}

// addCounters sums the subtasks of an operator. If their watermarks differ the
// smallest counts; see ranges.
func addCounters(sums map[string]*epochs.Counters, c *epochs.Counters) {
	sum := sums[c.Operator]
	if sum == nil {
		cp := *c
		sums[c.Operator] = &cp
		return
	}
	sum.AddRows(*c)
	sum.StateRows += c.StateRows
	sum.StateBytes += c.StateBytes
	sum.Watermark = min(sum.Watermark, c.Watermark)
}

// ranges notes the watermarks of operators whose subtasks all hear the same
// inputs and differ nevertheless: when an idle input has spoken again, those that
// had heard of another input's progress before are ahead of the others. None may
// go back after a restart: it would emit windows again.
func (q *queryActor) ranges(acks []*subtaskAck) []epochs.RangeWatermark {
	differ := map[string]bool{}
	first := map[string]messages.EventTime{}
	var all []epochs.RangeWatermark
	for _, a := range acks {
		ref := q.subtasks[a.subtask]
		if !ref.stage.shared() || ref.stage.parallelism == 1 {
			continue
		}
		from, to := operator.KeyRange(ref.index, ref.stage.parallelism)
		for i := range a.counters {
			c := &a.counters[i]
			if wm, ok := first[c.Operator]; !ok {
				first[c.Operator] = c.Watermark
			} else if wm != c.Watermark {
				differ[c.Operator] = true
			}
			all = append(all, epochs.RangeWatermark{Operator: c.Operator, From: from, To: to, Watermark: c.Watermark})
		}
	}
	all = slices.DeleteFunc(all, func(r epochs.RangeWatermark) bool { return !differ[r.Operator] })
	slices.SortFunc(all, func(a, b epochs.RangeWatermark) int {
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.From, b.From))
	})
	return all
}

func (q *queryActor) publishCounters(rec *epochs.Record) {
	for i := range q.att.metrics.Nodes {
		n := &q.att.metrics.Nodes[i]
		for _, c := range rec.Counters {
			if c.Operator == n.Name {
				n.Late.Store(int64(c.Late))
				n.StateRows.Store(c.StateRows)
				n.StateBytes.Store(c.StateBytes)
			}
		}
	}
}

func (q *queryActor) extendChain(s segmentInfo) {
	c := q.chains.at(s.id.Operator, s.id.Group)
	if s.base || c.Segments == 0 {
		*c = epochs.Chain{Operator: s.id.Operator, Group: s.id.Group, Base: s.id.Epoch}
	}
	if s.base {
		c.BaseBytes = int64(s.bytes)
	} else {
		c.DeltaBytes += int64(s.bytes)
	}
	c.Sum = epochs.ChainSum(c.Sum, s.sum, s.base)
	c.Segments++
	c.Last = s.id.Epoch
}

func (q *queryActor) tokens(o *openEpoch) map[*Node][]connectors.Token {
	out := map[*Node][]connectors.Token{}
	for _, a := range o.acks {
		st := q.subtasks[a.subtask].stage
		if st.sink != nil {
			out[st.sink] = append(out[st.sink], a.token)
		}
	}
	return out
}

func (q *queryActor) recorded(m *recordMsg) {
	if m.err != nil {
		q.fail(m.err)
		return
	}
	o := q.open[m.epoch]
	o.bytes += m.bytes
	q.att.last = m.epoch
	if q.cfg.OnEpoch != nil {
		q.cfg.OnEpoch(q.report(o))
	}
	q.step(epochs.RecordSynced{Epoch: m.epoch})
}

func (q *queryActor) report(o *openEpoch) EpochReport {
	r := EpochReport{Record: o.record, Bytes: o.bytes, Aligned: o.aligned - o.injected, MaxEventTime: messages.NoEventTime}
	r.Duration = q.sys.cfg.Clock.Mono() - o.injected
	for _, s := range o.record.Sources {
		r.MaxEventTime = max(r.MaxEventTime, s.Watermark)
	}
	return r
}

// commitSinks commits an epoch in every sink; what fails for a passing reason is
// tried again, for as long as it takes.
func (q *queryActor) commitSinks(e messages.Epoch) {
	sinks := append([]*sinkRef(nil), q.sinks...)
	rec, ctx := q.open[e].record, q.ctxIO
	q.commits.Submit(func() {
		m := &sinksDoneMsg{epoch: e}
		for _, s := range sinks {
			if m.err = fault.Inject("sink/commit"); m.err != nil {
				break
			}
			if m.err = s.committer.Commit(ctx, e, tokenOf(rec, s.node.name)); m.err != nil {
				m.err = fault.At(fault.Location{Query: rec.Query, Operator: s.node.name, Epoch: uint64(e)}, m.err)
				break
			}
		}
		q.post(m)
	})
}

func tokenOf(rec *epochs.Record, sink string) connectors.Token {
	for _, s := range rec.Sinks {
		if s.Sink == sink {
			return s.Token
		}
	}
	return nil
}

func (q *queryActor) sinksDone(m *sinksDoneMsg) {
	switch {
	case m.err == nil:
		q.retried = ""
		q.step(epochs.SinksCommitted{Epoch: m.epoch})
	case fault.KindOf(m.err) == fault.Transient:
		if text := m.err.Error(); text != q.retried {
			q.retried = text
			q.sys.cfg.Log.Warn("sink commit, trying again", "query", q.cfg.Query, "epoch", m.epoch, "error", m.err)
		}
		e := m.epoch
		q.sys.cfg.Clock.AfterFunc(commitRetry, func() { q.post(&retryCommit{epoch: e}) })
	default:
		q.fail(m.err)
	}
}

// acknowledge ends an epoch: sources may forget it, and so may the store what
// only older epochs needed.
func (q *queryActor) acknowledge(e messages.Epoch) {
	o := q.open[e]
	delete(q.open, e)
	q.toSources(&committedMsg{epoch: e, final: o.marker.Final})
	for _, done := range o.requests {
		done(nil)
	}
	q.history = append(q.history, e)
	if len(q.history) < epochs.Retain {
		return // older epochs stay until there are enough newer ones
	}
	q.history = q.history[len(q.history)-epochs.Retain:]
	// The precheck of the next epoch may be in front of this task in the worker, so
	// that the epoch may have stored segments by the time the task runs.
	keep, injected := q.history[0], q.injected+1
	store, ctx, log, query := q.cfg.Store, q.ctxIO, q.sys.cfg.Log, q.cfg.Query
	q.worker.Submit(func() {
		if err := store.Drop(ctx, keep, injected); err != nil && ctx.Err() == nil {
			log.Warn("drop old checkpoint data", "query", query, "epoch", e, "error", err)
		}
	})
}

// sinkRetrying passes on what a committer says about its connection.
func (q *queryActor) sinkRetrying(sink string) func(reason string) {
	report := q.cfg.OnStatus
	if report == nil {
		return nil
	}
	return func(reason string) { report(StatusReport{Sink: sink, Retrying: reason != "", Reason: reason}) }
}

func (q *queryActor) reportBlocked(err error) {
	if q.cfg.OnStatus == nil {
		return
	}
	r := StatusReport{Blocked: err != nil}
	if err != nil {
		r.Reason = err.Error()
	}
	q.cfg.OnStatus(r)
}
