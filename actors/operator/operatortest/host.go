package operatortest

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// emitLimit is what a single call of an operator may emit: MaxEmit is a rough
// bound.
const emitLimit = 2 * operator.MaxEmit

// callLimit is how often an operator may ask to go on: a call that does not end
// is a mistake too.
const callLimit = 1 << 16

// reporter is what the checks need of a test.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any) // does not return
}

// subtask is one instance of the operator and what it has been told.
type subtask struct {
	h        *host
	op       operator.Operator
	task     *operator.Task
	chain    *operator.Chain
	counters epochs.Counters
	timer    time.Duration // 0: none
	emitted  int           // by the call in progress
}

// host runs subtasks the way an actor does.
type host struct {
	t      reporter
	c      *Case
	w      way
	newOp  func() operator.Operator
	subs   []*subtask
	now    time.Duration
	wms    []messages.EventTime
	wm     messages.EventTime
	epoch  messages.Epoch
	stored []epochs.Segment
	saved  epochs.Counters // of the latest snapshot, all subtasks

	batches []*messages.Batch // everything that went in or came out
	out     [][]string        // rows that count
	tables  map[int][][]string
	open    map[int]bool // a table has been started by the subtask
	parts   []part       // tables that came in, per input
	want    int          // number of tables that must have come out
	ended   int          // number that have
	schema  *messages.Schema
	trash   bool // output belongs to an attempt that is about to crash
	fed     uint64
	emitted uint64
	fail    error
}

func newHost(t reporter, c *Case, w way, newOp func() operator.Operator) *host {
	h := &host{t: t, c: c, w: w, newOp: newOp, wm: messages.NoEventTime, tables: map[int][][]string{}, open: map[int]bool{}}
	for range c.Inputs {
		h.wms = append(h.wms, messages.NoEventTime)
	}
	h.parts = make([]part, len(c.Inputs))
	h.start(w.parallelism(0), nil)
	return h
}

// start makes the subtasks and restores them from segments.
func (h *host) start(n int, segs []epochs.Segment) {
	h.subs = nil
	for i := range n {
		s := &subtask{h: h, op: h.newOp()}
		from, to := operator.KeyRange(i, n)
		s.task = &operator.Task{
			Query: "test", UID: "op", Index: i, Parallelism: n, From: from, To: to,
			Incarnation: messages.ID128{Hi: 1, Lo: 2}, Log: slog.New(slog.DiscardHandler),
			Now:      func() time.Duration { return h.now },
			SetTimer: func(_ operator.Domain, at time.Duration) { s.timer = at },
			Counters: &s.counters,
		}
		if i == 0 {
			s.counters = h.saved
		}
		if err := s.op.Open(s.task); err != nil {
			h.t.Fatalf("open: %v", err)
		}
		if st, ok := s.op.(operator.Stateful); ok {
			restore(h.t, st.Snapshots(), segs, from, to)
		}
		s.chain = operator.NewChain([]operator.Link{{Op: s.op, Task: s.task}}, h.wm, s)
		h.subs = append(h.subs, s)
	}
}

// restore gives a subtask the segments of its key groups: per group the newest
// base and what follows it.
func restore(t reporter, sn operator.Snapshotter, segs []epochs.Segment, from, to uint16) {
	chains := map[uint16][]epochs.Segment{}
	for _, seg := range segs {
		if seg.Base {
			chains[seg.Group] = nil
		}
		chains[seg.Group] = append(chains[seg.Group], seg)
	}
	for g, chain := range chains {
		if g != epochs.OperatorGroup && (g < from || g >= to) {
			continue
		}
		for _, seg := range chain {
			if err := sn.Restore(seg); err != nil {
				t.Fatalf("restore group %d, epoch %d: %v", g, seg.Epoch, err)
			}
		}
	}
}

// Emit takes output of the operator.
func (s *subtask) Emit(b *messages.Batch) {
	h := s.h
	s.emitted += b.Rows()
	h.batches = append(h.batches, b)
	defer b.Release()
	if h.trash {
		return
	}
	h.schema = b.Schema()
	h.emitted += uint64(b.Rows())
	rows := rowTexts(b)
	if !h.c.tables() {
		h.out = append(h.out, rows...)
		return
	}
	i := s.task.Index
	if b.Frame()&messages.FrameStart != 0 {
		if h.open[i] {
			h.t.Error("a table begins before the one before it has ended")
		}
		h.open[i], h.tables[i] = true, nil
	}
	if !h.open[i] {
		h.t.Error("rows of a table come outside of a frame")
	}
	h.tables[i] = append(h.tables[i], rows...)
	if b.Frame()&messages.FrameEnd != 0 {
		h.open[i] = false
		h.ended++
	}
}

// Watermark takes what the chain passes on.
func (s *subtask) Watermark(messages.EventTime) {}

// run lets the subtask work until nothing is left to do.
func (s *subtask) run() {
	for calls := 0; s.chain.Busy() && s.h.fail == nil; calls++ {
		if calls == callLimit {
			s.h.fail = fmt.Errorf("not finished after %d calls", calls)
			return
		}
		s.emitted = 0
		if err := s.chain.Step(); err != nil {
			s.h.fail = err
			return
		}
		if s.emitted > emitLimit {
			s.h.t.Errorf("one call emitted %d rows; it should return more = true after about %d", s.emitted, operator.MaxEmit)
		}
	}
}

// play does one action.
func (h *host) play(a action) {
	switch a.kind {
	case rowsStep:
		h.deliver(a)
	case watermarkStep:
		h.advanceWatermark(a.input, a.wm)
	case advanceStep:
		h.advance(a.after)
	case tableStep:
		h.deliverTable(a.Step)
	case flushStep:
		for _, s := range h.subs {
			s.chain.Flush(h.wall())
			s.run()
		}
	}
}

func (h *host) wall() messages.EventTime { return messages.EventTime(h.now.Microseconds()) }

func (h *host) advanceWatermark(input int, wm messages.EventTime) {
	h.wms[input] = max(h.wms[input], wm)
	low := messages.MaxEventTime
	for _, w := range h.wms {
		low = min(low, w)
	}
	if low <= h.wm {
		return
	}
	h.wm = low
	for _, s := range h.subs {
		s.chain.Watermark(low)
		s.run()
	}
}

// deliver sends the rows of an action to their subtasks, in order. Marks inside
// a batch are watermarks of the only input.
func (h *host) deliver(a action) {
	if !h.trash {
		h.fed += uint64(len(a.rows))
	}
	for i, s := range h.subs {
		rows, marks, first := a.rows, a.marks, messages.NoEventTime
		if len(h.subs) > 1 {
			rows, marks, first = h.share(a, i)
		}
		if first != messages.NoEventTime {
			s.chain.Watermark(first)
			s.run()
		}
		if len(rows) > 0 {
			b := build(h.c.Inputs[a.input], Step{rows: rows}, marks, h.w.sparse)
			h.batches = append(h.batches, b)
			s.chain.Deliver(a.input, b)
			s.run()
		}
		if n := len(a.marks); n > 0 {
			// A subtask whose last row lies before the last mark hears of it so.
			s.chain.Watermark(a.marks[n-1].At)
			s.run()
		}
	}
	if n := len(a.marks); n > 0 {
		h.wms[a.input] = max(h.wms[a.input], a.marks[n-1].At)
		h.wm = max(h.wm, a.marks[n-1].At)
	}
}

// share returns the rows of a for subtask i, with the marks moved to the last
// of its rows before them, and the watermark reached before its first row.
func (h *host) share(a action, i int) (rows [][]any, marks []messages.Mark, first messages.EventTime) {
	first = messages.NoEventTime
	all := build(h.c.Inputs[a.input], Step{rows: a.rows}, nil, false)
	hashes := operator.HashKeys(nil, all, h.c.KeyColumns[a.input])
	all.Release()
	next := 0
	for r, row := range a.rows {
		if operator.SubtaskOf(operator.GroupOf(hashes[r]), len(h.subs)) == i {
			rows = append(rows, row)
		}
		for ; next < len(a.marks) && int(a.marks[next].Row) == r; next++ {
			if len(rows) == 0 {
				first = a.marks[next].At
				continue
			}
			m := messages.Mark{Row: int32(len(rows) - 1), At: a.marks[next].At}
			if n := len(marks); n > 0 && marks[n-1].Row == m.Row {
				marks[n-1] = m
			} else {
				marks = append(marks, m)
			}
		}
	}
	return rows, marks, first
}

func (h *host) advance(d time.Duration) {
	end := h.now + d
	for {
		var due *subtask
		for _, s := range h.subs {
			if s.timer > 0 && s.timer <= end && (due == nil || s.timer < due.timer) {
				due = s
			}
		}
		if due == nil {
			break
		}
		at := due.timer
		due.timer = 0
		h.now = max(h.now, at)
		due.chain.Timer(0, operator.ProcessingTime, at, h.wall())
		due.run()
	}
	h.now = end
}

// snapshotter returns the state of an operator, nil if it has none.
func (s *subtask) snapshotter() operator.Snapshotter {
	if st, ok := s.op.(operator.Stateful); ok {
		return st.Snapshots()
	}
	return nil
}

// freeze begins a snapshot of all subtasks and saves the counters.
func (h *host) freeze() {
	h.epoch++
	h.saved = epochs.Counters{}
	for _, s := range h.subs {
		h.saved.AddRows(s.counters)
		if sn := s.snapshotter(); sn != nil {
			sn.Freeze(h.epoch)
		}
	}
}

// encode does one small slice of every subtask's snapshot, or all of it.
func (h *host) encode(all bool) {
	for _, s := range h.subs {
		sn := s.snapshotter()
		if sn == nil {
			continue
		}
		until := func() bool { return !all }
		for done := false; !done; {
			var err error
			done, err = sn.Encode(until, func(seg epochs.Segment) error {
				seg.Data = slices.Clone(seg.Data)
				h.stored = append(h.stored, seg)
				return nil
			})
			if err != nil {
				h.t.Fatalf("encode: %v", err)
			}
			if !all {
				break
			}
		}
	}
}

// stop closes all instances.
func (h *host) stop() {
	for _, s := range h.subs {
		if err := s.chain.Close(); err != nil {
			h.t.Errorf("close: %v", err)
		}
	}
}

// check compares the outcome with what the case says.
func (h *host) check() {
	total, state := epochs.Counters{}, int64(0)
	for _, s := range h.subs {
		total.AddRows(s.counters)
		total.Rule = max(s.counters.Rule, epochs.AnyRows)
		if sn := s.snapshotter(); sn != nil {
			state += sn.Rows()
		}
	}
	if h.c.Empty && state != 0 {
		h.t.Errorf("%d state entries are left, want none", state)
	}
	h.checkCounters(total)
	h.checkTables()
	h.checkRows()
	for i, b := range h.batches {
		if n := b.Holders(); n != 0 {
			h.t.Errorf("batch %d of %d is still held %d times", i, len(h.batches), n)
		}
	}
}

func (h *host) checkCounters(k epochs.Counters) {
	if k.In != h.fed {
		h.t.Errorf("%d rows were counted in, want %d", k.In, h.fed)
	}
	if k.Out != h.emitted {
		h.t.Errorf("%d rows were counted out, want %d", k.Out, h.emitted)
	}
	filtered := h.c.Filtered
	if h.c.takesTables() && h.w.seed != 0 {
		filtered = k.Filtered
	}
	if k.Late != h.c.Late || k.Filtered != filtered {
		h.t.Errorf("%d late and %d filtered rows, want %d and %d", k.Late, k.Filtered, h.c.Late, h.c.Filtered)
	}
	if err := k.Balance(); err != nil {
		h.t.Error(err)
	}
	if k.Late > math.MaxInt32 || k.Filtered > math.MaxInt32 {
		h.t.Errorf("a counter went below zero: %+v", k)
	}
}
