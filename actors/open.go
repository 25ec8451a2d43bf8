package actors

import (
	"context"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// wire connects the subtask with its neighbours and opens, in the worker, its
// operators, reader and writer.
func (s *subtask) wire(m *wireMsg) {
	for i, l := range s.stage.outs {
		f := &fanout{link: l, views: messages.NewViewPool()}
		for _, c := range l.consumers(s.index) {
			o := &outlet{owner: s, pid: m.outs[i][c], input: l.inletOf(s.index, c), wm: messages.NoEventTime}
			s.outlet = append(s.outlet, o)
			f.outlets = append(f.outlets, o)
		}
		s.outs = append(s.outs, f)
		if !l.side {
			s.mains++
		}
	}
	s.wireLate()
	for _, r := range m.ins {
		s.inlets = append(s.inlets, &inlet{pid: r.pid, outlet: r.outlet, input: r.input, wm: messages.NoEventTime})
	}
	last := messages.Epoch(0)
	if s.from != nil {
		last = s.from.Epoch
	}
	s.barrier.aligner = epochs.NewAligner(len(s.inlets), last)
	o := &openedMsg{wm: messages.NoEventTime, ahead: messages.NoEventTime}
	s.opening = o
	s.worker.Submit(func() {
		o.err = s.openAll(o)
		s.post(o)
	})
}

// openAll runs in the worker.
func (s *subtask) openAll(m *openedMsg) error {
	if err := fault.Inject("rec/restore"); err != nil {
		return err
	}
	if err := s.openOperators(m); err != nil {
		return err
	}
	if s.sink != nil {
		var err error
		if m.writer, err = s.sink.committer.Writer(s.ctxIO, s.index, s.stage.parallelism); err != nil {
			return err
		}
	}
	if s.source != nil {
		return s.openReader(m)
	}
	return nil
}

func (s *subtask) openReader(m *openedMsg) error {
	spec := s.source.spec
	for range readSlots {
		r, err := spec.Rows()
		if err != nil {
			return err
		}
		r.SetSource(operator.HashID([]byte(s.stage.source.name)))
		m.slots = append(m.slots, r)
	}
	var err error
	m.reader, err = spec.Source.Open(s.ctxIO, connectors.ReadRequest{
		Partition: s.source.partition, Query: s.cfg.Query, Source: s.stage.source.name, Incarnation: s.cfg.Incarnation,
		EpochInterval: s.cfg.EpochInterval, From: s.source.offset, Bounded: spec.Bounded, MaxRows: s.source.throttle.batch(s.cfg.BatchRows),
	})
	return err
}

func (s *subtask) openOperators(m *openedMsg) error {
	if s.source != nil {
		m.wm = s.source.restoredWM
	}
	for i, n := range s.stage.ops {
		op := n.op()
		t := s.task(i, n)
		if err := op.Open(t); err != nil {
			return fault.At(fault.Location{Query: s.cfg.Query, Operator: n.name, Subtask: s.index, Parallelism: s.stage.parallelism}, err)
		}
		m.ops = append(m.ops, op)
		m.tasks = append(m.tasks, t)
		_, stateful := op.(operator.Stateful)
		switch c := s.restored(n.name); {
		case c == nil:
		case s.source == nil:
			low, high := s.rangeWatermark(t, c.Watermark)
			m.wm, m.ahead = max(m.wm, low), max(m.ahead, high)
		case stateful: // the only subtask; it is ahead of its partition if it closed windows at an end
			m.wm = max(m.wm, c.Watermark)
		}
		if p, ok := op.(partitionClock); ok && s.source != nil {
			m.clock = p
			p.Restore(s.source.restoredWM)
		}
		st, ok := op.(operator.Stateful)
		if !ok || s.from == nil {
			continue
		}
		if err := restore(s.ctxIO, s.cfg.Store, s.from, t, st.Snapshots()); err != nil {
			if storeFault(err) == fault.Config {
				err = fault.Wrap(fault.Config, err, "restore epoch %d (an older one may be whole: --restore-epoch)", s.from.Epoch)
			}
			return fault.At(fault.Location{Query: s.cfg.Query, Operator: n.name, Subtask: s.index, Parallelism: s.stage.parallelism}, err)
		}
	}
	return nil
}

// restored returns the counters of an operator in the record restored from.
func (s *subtask) restored(uid string) *epochs.Counters {
	if s.from == nil {
		return nil
	}
	for i := range s.from.Counters {
		if s.from.Counters[i].Operator == uid {
			return &s.from.Counters[i]
		}
	}
	return nil
}

// rangeWatermark returns the lowest and the highest watermark that the subtasks
// had reached which owned the key groups of t; wm if they are not on record.
func (s *subtask) rangeWatermark(t *operator.Task, wm messages.EventTime) (low, high messages.EventTime) {
	low, high = messages.MaxEventTime, messages.NoEventTime
	for _, r := range s.from.Ranges {
		if r.Operator == t.UID && r.From < t.To && t.From < r.To {
			low, high = min(low, r.Watermark), max(high, r.Watermark)
		}
	}
	if low > high || !s.stage.shared() {
		return wm, wm
	}
	return low, high
}

func (s *subtask) task(i int, n *Node) *operator.Task {
	from, to := operator.KeyRange(s.index, s.stage.parallelism)
	clock := s.sys.cfg.Clock
	return &operator.Task{
		Query: s.cfg.Query, UID: n.name, Index: s.index, Parallelism: s.stage.parallelism, From: from, To: to,
		Incarnation: s.cfg.Incarnation, Log: s.sys.cfg.Log, Now: clock.Mono,
		SetTimer:   func(d operator.Domain, at time.Duration) { s.setTimer(i, d, at) },
		Counters:   &epochs.Counters{Operator: n.name, Watermark: messages.NoEventTime},
		OnRowError: s.rowErrors(n),
		OnLate:     s.onLate(n),
	}
}

// rowErrors is the row error policy of a node; rows that are left out behind a
// source with a dead-letter sink go there.
func (s *subtask) rowErrors(n *Node) *operator.RowErrors {
	if n.errs == nil || !n.errs.Drop || s.letters == nil {
		return n.errs
	}
	return &operator.RowErrors{Drop: true, Report: s.badRow(n.errs.Report)}
}

// restore loads the key groups of a subtask and checks them against the chains
// of the commit record: a missing, extra or altered segment is damage.
func restore(ctx context.Context, store epochs.Segments, rec *epochs.Record, t *operator.Task, snap operator.Snapshotter) error {
	var check epochs.ChainCheck
	apply := func(seg epochs.Segment) error {
		check.Add(seg)
		if len(seg.Data) == 0 {
			return nil // given up while the operator was not part of the query
		}
		return snap.Restore(seg)
	}
	ranges := []epochs.LoadRange{{Operator: t.UID, From: t.From, To: t.To, UpTo: rec.Epoch}}
	ranges = append(ranges, epochs.LoadRange{Operator: t.UID, From: epochs.OperatorGroup, To: epochs.OperatorGroup + 1, UpTo: rec.Epoch})
	for _, r := range ranges {
		if err := store.Load(ctx, r, apply); err != nil {
			return err
		}
	}
	own := func(g uint16) bool { return g == epochs.OperatorGroup || t.From <= g && g < t.To }
	if errs := check.Finish(rec, t.UID, own); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// open takes over what the worker has opened.
func (s *subtask) open(m *openedMsg) {
	if m.err != nil {
		s.fail(m.err) // shutdown closes what is open
		return
	}
	links := make([]operator.Link, len(m.ops))
	for i := range m.ops {
		links[i] = operator.Link{Op: m.ops[i], Task: m.tasks[i]}
	}
	s.chain = operator.NewChain(links, m.wm, s)
	if s.source == nil {
		s.wm = m.wm
	}
	// The consumers start anew and must hear what they will not be told again.
	for _, o := range s.outlet {
		o.watermark(m.wm)
	}
	if m.ahead > m.wm {
		s.wm, s.catchUp = m.ahead, true
		s.chain.Watermark(m.ahead)
	}
	if s.source != nil {
		s.source.reader, s.source.slots, s.source.clock = m.reader, m.slots, m.clock
	}
	if s.sink != nil {
		s.sink.writer = m.writer
	}
	s.opening = nil
	s.opened = true
	s.ctx.Send(s.query, &subtaskReady{subtask: s.id})
}

// closeOpened closes what was opened for a subtask that is gone.
func (s *subtask) closeOpened(m *openedMsg) {
	for _, op := range m.ops {
		if err := op.Close(); err != nil {
			s.sys.cfg.Log.Warn("close operator", "query", s.cfg.Query, "operator", s.stage.name(), "error", err)
		}
	}
	if m.reader != nil {
		if err := m.reader.Close(); err != nil {
			s.sys.cfg.Log.Warn("close reader", "query", s.cfg.Query, "operator", s.stage.name(), "error", err)
		}
	}
	if m.writer != nil {
		if err := m.writer.Close(); err != nil {
			s.sys.cfg.Log.Warn("close writer", "query", s.cfg.Query, "operator", s.stage.name(), "error", err)
		}
	}
}

// start lets a source read.
func (s *subtask) start() {
	if s.source != nil {
		s.source.started = true
		s.source.activeAt = s.sys.cfg.Clock.Mono()
		s.nodes[0].Partitions.Add(1)
		s.poll()
	}
}

// timerSlot is the one timer of an operator.
type timerSlot struct {
	generation uint64
	at         time.Duration
	stop       func() bool
}

func (t *timerSlot) cancel() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

func (s *subtask) setTimer(op int, d operator.Domain, at time.Duration) {
	t := &s.timers[op]
	t.cancel()
	t.generation++
	t.at = at
	g := t.generation
	t.stop = s.sys.cfg.Clock.AfterFunc(at-s.sys.cfg.Clock.Mono(), func() {
		s.post(&timerMsg{op: op, domain: d, generation: g})
	})
}

func (s *subtask) timer(m *timerMsg) {
	t := &s.timers[m.op]
	if m.generation != t.generation || !s.opened {
		return
	}
	t.stop = nil
	s.tellChanged()
	s.chain.Timer(m.op, m.domain, t.at, messages.EventTimeOf(s.sys.cfg.Clock.Now()))
}
