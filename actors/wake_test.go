package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/eventtime"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
)

var timedSchema = messages.NewSchema(
	messages.Field{Name: "k", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "at", Type: messages.T(messages.Timestamp)},
)

// fedSource has two partitions whose rows (k, at) a test sends one by one; in
// between they are caught up.
type fedSource struct {
	feeds [2]chan [2]int64
}

func newFedSource() *fedSource {
	s := &fedSource{}
	for i := range s.feeds {
		s.feeds[i] = make(chan [2]int64)
	}
	return s
}

func (s *fedSource) Schema() *messages.Schema { return timedSchema }
func (s *fedSource) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true}
}
func (s *fedSource) Partitions(context.Context) ([]string, error) { return []string{"0", "1"}, nil }

func (s *fedSource) Open(_ context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	return &fedReader{rows: s.feeds[r.Partition[0]-'0']}, nil
}

type fedReader struct {
	rows chan [2]int64
	n    uint64
	told bool
}

func (r *fedReader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: 1})
	dst.Status.State = connectors.CaughtUp
	if !r.told {
		r.told = true
		return nil
	}
	select {
	case row := <-r.rows:
		b := dst.Builder()
		b.Column(0).AppendInt64(row[0])
		b.Column(1).AppendInt64(row[1])
		b.EndRow()
		b.EndUnit(r.n, 0)
		r.n++
		dst.Payloads++
		r.told = false
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (r *fedReader) Committed(context.Context, connectors.Offset) error { return nil }
func (r *fedReader) Close() error                                       { return nil }

// spy notes what the subtasks of an operator are told.
type spy struct {
	mu   sync.Mutex
	cond *sync.Cond
	wms  map[int]messages.EventTime
	rows map[int]int
}

func newSpy() *spy {
	s := &spy{wms: map[int]messages.EventTime{}, rows: map[int]int{}}
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *spy) until(ok func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		s.cond.Wait()
	}
}

func (s *spy) op() operator.Operator { return &spyOp{spy: s} }

type spyOp struct {
	spy   *spy
	index int
}

func (o *spyOp) Open(t *operator.Task) error { o.index = t.Index; return nil }
func (o *spyOp) Close() error                { return nil }
func (o *spyOp) Start(wm messages.EventTime) { o.note(wm, 0) }

func (o *spyOp) note(wm messages.EventTime, rows int) {
	o.spy.mu.Lock()
	defer o.spy.mu.Unlock()
	o.spy.rows[o.index] += rows
	if rows == 0 {
		o.spy.wms[o.index] = wm
	}
	o.spy.cond.Broadcast()
}

func (o *spyOp) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	o.note(0, b.Rows())
	return false, nil
}

func (o *spyOp) Watermark(wm messages.EventTime, _ operator.Output) (bool, error) {
	o.note(wm, 0)
	return false, nil
}

// spiedGraph is two partitions with event time and a delay of 5 µs, and a keyed
// operator with two subtasks.
func spiedGraph(s *fedSource, w *spy) *Graph {
	g := NewGraph()
	src := g.Source("src", SourceSpec{Source: s, IdleTimeout: 60 * time.Millisecond, Rows: func() (*connectors.Rows, error) {
		return connectors.NewRows(timedSchema, nil, connectors.FailOnError), nil
	}})
	timed := g.Operator("time", 0, func() operator.Operator {
		return eventtime.New(eventtime.Config{Column: 1, Delay: 5 * time.Microsecond})
	}, Forward(src))
	keyed := g.Operator("keyed", 2, w.op, Keyed(timed, 0))
	g.Sink("sink", (&collectSink{}).spec(), Forward(keyed))
	return g
}

// keyOf returns a key that belongs to the given one of two subtasks.
func keyOf(t *testing.T, subtask int) int64 {
	t.Helper()
	for k := range int64(1000) {
		b := messages.NewBuilder(timedSchema)
		b.Column(0).AppendInt64(k)
		b.Column(1).AppendInt64(0)
		b.EndRow()
		h := operator.HashKeys(nil, b.Finish(), []int{0})
		if operator.SubtaskOf(operator.GroupOf(h[0]), 2) == subtask {
			return k
		}
	}
	t.Fatal("no key")
	return 0
}

func TestEveryConsumerHearsThatAnIdlePartitionSpeaksAgain(t *testing.T) {
	sys := NewSystem(SystemConfig{})
	defer sys.Close()
	src, w := newFedSource(), newSpy()
	a, err := sys.Start(t.Context(), AttemptConfig{Graph: spiedGraph(src, w), Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1, EpochInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { a.Stop(); <-a.Done() }()
	k0, k1 := keyOf(t, 0), keyOf(t, 1)
	src.feeds[1] <- [2]int64{k0, 10}
	src.feeds[0] <- [2]int64{k0, 105}
	// Partition 1 has fallen silent: partition 0 decides.
	w.until(func() bool { return w.wms[0] == 100 && w.wms[1] == 100 })
	seen := w.rows[0]
	src.feeds[1] <- [2]int64{k0, 9} // does not move the watermark, and subtask 1 does not get it
	w.until(func() bool { return w.rows[0] > seen })
	flush(t, a) // what partition 1 has to say has come everywhere
	src.feeds[0] <- [2]int64{k1, 205}
	w.until(func() bool { return w.rows[1] > 0 })
	flush(t, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wms[0] != w.wms[1] {
		t.Errorf("watermarks are %d and %d behind the same marker", w.wms[0], w.wms[1])
	}
}

// flush waits for an epoch.
func flush(t *testing.T, a *Attempt) {
	t.Helper()
	done := make(chan error, 1)
	a.RequestEpoch(func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func openStore(t *testing.T) epochs.Segments {
	t.Helper()
	s, err := memstore.New(memstore.Options{}).Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSubtasksGoOnFromTheirOwnWatermarks(t *testing.T) {
	rec := &epochs.Record{
		Epoch: 7, Counters: []epochs.Counters{{Operator: "keyed", Watermark: 100}},
		Ranges: []epochs.RangeWatermark{{Operator: "keyed", To: 128, Watermark: 100}, {Operator: "keyed", From: 128, To: 256, Watermark: 200}},
	}
	for name, c := range map[string]struct {
		parallelism int
		want        map[int]messages.EventTime
	}{
		"as many subtasks": {2, map[int]messages.EventTime{0: 100, 1: 200}},
		"more subtasks":    {4, map[int]messages.EventTime{0: 100, 1: 100, 2: 200, 3: 200}},
		"one catches up":   {1, map[int]messages.EventTime{0: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			sys := NewSystem(SystemConfig{})
			defer sys.Close()
			store := openStore(t)
			data, err := epochs.EncodeRecord(rec)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Commit(t.Context(), 0, rec.Epoch, data); err != nil {
				t.Fatal(err)
			}
			src, w := newFedSource(), newSpy()
			g := spiedGraph(src, w)
			g.nodes[2].parallelism = c.parallelism
			last := make(chan *epochs.Record, 1)
			a, err := sys.Start(t.Context(), AttemptConfig{
				Graph: g, Query: "q", Attempt: 2, Store: store, From: rec, NextEpoch: 8, EpochInterval: time.Hour,
				OnEpoch: func(r EpochReport) { last <- r.Record },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { a.Stop(); <-a.Done() }()
			a.RequestEpoch(func(error) {})
			got := <-last
			w.mu.Lock()
			defer w.mu.Unlock()
			if d := cmp.Diff(w.wms, c.want); d != "" {
				t.Errorf("watermarks (-got +want)\n%s", d)
			}
			if c.parallelism == 2 {
				if d := cmp.Diff(got.Ranges, rec.Ranges); d != "" {
					t.Errorf("ranges on record (-got +want)\n%s", d)
				}
			}
		})
	}
}

// holder keeps the first batch until it is told to flush.
type holder struct{ held *messages.Batch }

func (h *holder) Open(*operator.Task) error { return nil }
func (h *holder) Close() error              { return nil }

func (h *holder) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	if h.held == nil {
		b.Retain(1)
		h.held = b
	}
	return false, nil
}

func (h *holder) Flush(_ messages.EventTime, out operator.Output) (bool, error) {
	if h.held != nil {
		out.Emit(h.held)
		h.held = nil
	}
	return false, nil
}

func TestWhatAnIdleSubtaskHeldBackDoesNotEndItsIdleness(t *testing.T) {
	sys := NewSystem(SystemConfig{})
	defer sys.Close()
	first, second, w := newFedSource(), newFedSource(), newSpy()
	g := NewGraph()
	timed := func(name string, s *fedSource) *Node {
		src := g.Source(name, SourceSpec{Source: s, IdleTimeout: 5 * time.Millisecond, Rows: func() (*connectors.Rows, error) {
			return connectors.NewRows(timedSchema, nil, connectors.FailOnError), nil
		}})
		return g.Operator(name+" time", 0, func() operator.Operator {
			return eventtime.New(eventtime.Config{Column: 1, Delay: 5 * time.Microsecond})
		}, Forward(src))
	}
	held := g.Operator("holder", 1, func() operator.Operator { return &holder{} }, Keyed(timed("first", first), 0))
	spied := g.Operator("spy", 1, w.op, Keyed(held, 0), Keyed(timed("second", second), 0))
	g.Sink("sink", (&collectSink{}).spec(), Forward(spied))
	a, err := sys.Start(t.Context(), AttemptConfig{Graph: g, Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1, EpochInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { a.Stop(); <-a.Done() }()
	first.feeds[0] <- [2]int64{1, 10}
	second.feeds[0] <- [2]int64{1, 105}
	w.until(func() bool { return w.wms[0] == 100 })
	flush(t, a)
	second.feeds[0] <- [2]int64{1, 205}
	w.until(func() bool { return w.rows[0] == 3 })
	flush(t, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.wms[0]; got != 200 {
		t.Errorf("the watermark is %d, want 200", got)
	}
}

// quietSource has no rows, but knows where they will begin.
type quietSource struct{ *fedSource }

func (s quietSource) Open(context.Context, connectors.ReadRequest) (connectors.Reader, error) {
	return &quietReader{}, nil
}

type quietReader struct {
	fedReader
	told bool
}

func (r *quietReader) Read(ctx context.Context, dst *connectors.Rows) error {
	if r.told {
		<-ctx.Done()
		return ctx.Err()
	}
	r.told = true
	dst.Status.State = connectors.CaughtUp
	dst.Next = append(dst.Next[:0], "17"...)
	return nil
}

func TestThePositionInAQuietStreamIsCommitted(t *testing.T) {
	sys := NewSystem(SystemConfig{})
	defer sys.Close()
	g := NewGraph()
	src := g.Source("src", SourceSpec{Source: quietSource{newFedSource()}, IdleTimeout: -1, Rows: func() (*connectors.Rows, error) {
		return connectors.NewRows(timedSchema, nil, connectors.FailOnError), nil
	}})
	g.Sink("sink", (&collectSink{}).spec(), Forward(src))
	records := make(chan *epochs.Record, 100)
	a, err := sys.Start(t.Context(), AttemptConfig{
		Graph: g, Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1, EpochInterval: time.Millisecond,
		OnEpoch: func(r EpochReport) { records <- r.Record },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { a.Stop(); <-a.Done() }()
	for range 2 { // partitions
		rec := <-records
		if string(rec.Sources[0].Offset) == "17" && string(rec.Sources[1].Offset) == "17" {
			return
		}
	}
	t.Error("two epochs without the positions")
}
