package actors

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/limit"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// lazySource takes its time to acknowledge.
type lazySource struct {
	*sliceSource
	gate chan struct{} // closed: no more waiting

	mu   sync.Mutex
	acks []string
}

func (s *lazySource) Open(ctx context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	inner, err := s.sliceSource.Open(ctx, r)
	return &lazyReader{Reader: inner, src: s}, err
}

type lazyReader struct {
	connectors.Reader
	src *lazySource
}

func (r *lazyReader) Committed(ctx context.Context, next connectors.Offset) error {
	select {
	case <-r.src.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.src.mu.Lock()
	defer r.src.mu.Unlock()
	r.src.acks = append(r.src.acks, string(next))
	return nil
}

func lazyGraph(s *lazySource) *Graph {
	g := NewGraph()
	spec := s.spec()
	spec.Source = s
	g.Sink("sink", (&collectSink{}).spec(), Forward(g.Source("src", spec)))
	return g
}

func TestASlowAcknowledgementDoesNotPileUp(t *testing.T) {
	src := &lazySource{sliceSource: &sliceSource{parts: [][][2]int64{numbers(100, 3)}, batch: 10}, gate: make(chan struct{})}
	a, _ := start(t, lazyGraph(src), nil)
	for range 2 * MaxTasks {
		done := make(chan error, 1)
		a.RequestEpoch(func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	a.Drain()
	close(src.gate)
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if got := src.acks; len(got) == 0 || len(got) > 3 || got[len(got)-1] != "100" {
		t.Errorf("acknowledged offsets %v, want few and 100 as the last one", got)
	}
}

func TestTheFinalEpochIsAcknowledged(t *testing.T) {
	src := &lazySource{sliceSource: &sliceSource{parts: [][][2]int64{numbers(100, 3)}, batch: 10, bounded: true}, gate: make(chan struct{})}
	a, _ := start(t, lazyGraph(src), nil)
	time.AfterFunc(20*time.Millisecond, func() { close(src.gate) })
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if got := src.acks; len(got) == 0 || got[len(got)-1] != "100" {
		t.Errorf("acknowledged offsets %v, want 100 as the last one", got)
	}
}

// TestDroppedStateStaysDropped removes an operator with state and adds it again.
func TestDroppedStateStaysDropped(t *testing.T) {
	stores := map[string]func(t *testing.T) epochs.Segments{
		"in memory": func(t *testing.T) epochs.Segments {
			s, err := memstore.New(memstore.Options{}).Open()
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"on disk": func(t *testing.T) epochs.Segments {
			s, err := badgerstore.Open(t.Context(), t.TempDir(), badgerstore.Options{MinFree: 1})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			defer func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}()
			sys := NewSystem(SystemConfig{})
			defer sys.Close()
			src := &sliceSource{bounded: true, batch: 2, parts: [][][2]int64{nil}}
			var rec *epochs.Record
			run := func(limited bool) int {
				src.parts[0] = append(src.parts[0], numbers(4, 1)...)
				sink := &collectSink{}
				g := NewGraph()
				n := g.Source("src", src.spec())
				if limited {
					n = g.Operator("limit", 1, func() operator.Operator { return limit.New(limit.Config{Rows: 6}) }, Forward(n))
				}
				g.Sink("sink", sink.spec(), Forward(n))
				next := rec
				cfg := AttemptConfig{Graph: g, Query: "q", Attempt: 1, Store: store, From: rec, NextEpoch: 1, OnEpoch: func(r EpochReport) { next = r.Record }}
				if rec != nil {
					cfg.NextEpoch = rec.Epoch + 1
				}
				a, err := sys.Start(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := wait(t, a); err != nil {
					t.Fatal(err)
				}
				rec = next
				return len(sink.rows)
			}
			if got := []int{run(true), run(false), run(true), run(true)}; got[0] != 4 || got[1] != 4 || got[2] != 4 || got[3] != 2 {
				t.Errorf("rows let through %v, want 4, 4, then the limit of 6 anew: 4, 2", got)
			}
		})
	}
}

// wrongStore fails in a way that time does not cure.
type wrongStore struct {
	epochs.Segments
	check, commit, load error
}

func (s *wrongStore) Check(ctx context.Context) error {
	return cmp.Or(s.check, s.Segments.Check(ctx))
}

func (s *wrongStore) Commit(ctx context.Context, prev, e messages.Epoch, record []byte) error {
	return cmp.Or(s.commit, s.Segments.Commit(ctx, prev, e, record))
}

func (s *wrongStore) Load(ctx context.Context, r epochs.LoadRange, f func(epochs.Segment) error) error {
	return cmp.Or(s.load, s.Segments.Load(ctx, r, f))
}

func TestAStoreThatIsWrongEndsTheQuery(t *testing.T) {
	for name, s := range map[string]*wrongStore{
		"somebody else has written, before an epoch": {check: fmt.Errorf("witness: %w", epochs.ErrConflict)},
		"somebody else has written, at the commit":   {commit: fmt.Errorf("record: %w", epochs.ErrConflict)},
		"a segment is damaged":                       {load: fmt.Errorf("segment: %w", epochs.ErrDamaged)},
	} {
		t.Run(name, func(t *testing.T) {
			sys := NewSystem(SystemConfig{})
			defer sys.Close()
			s.Segments = openStore(t)
			src := &sliceSource{parts: [][][2]int64{numbers(10, 1)}, batch: 2}
			g := NewGraph()
			n := g.Operator("limit", 1, func() operator.Operator { return limit.New(limit.Config{Rows: 6}) }, Forward(g.Source("src", src.spec())))
			g.Sink("sink", (&collectSink{}).spec(), Forward(n))
			cfg := AttemptConfig{Graph: g, Query: "q", Attempt: 1, Store: s, NextEpoch: 1, EpochInterval: time.Millisecond}
			if s.load != nil {
				cfg.From, cfg.NextEpoch = &epochs.Record{Epoch: 1}, 2
			}
			a, err := sys.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := wait(t, a); fault.KindOf(err) != fault.Config {
				t.Errorf("got %v of kind %v, want one of kind config", err, fault.KindOf(err))
			}
		})
	}
}

// panicSink panics when it is closed.
type panicSink struct{ collectSink }

func (p *panicSink) Open(context.Context, connectors.WriteRequest) (connectors.Committer, error) {
	return panicCommitter{collectCommitter{&p.collectSink}}, nil
}

type panicCommitter struct{ collectCommitter }

func (panicCommitter) Close() error { panic("closed") }

func TestASinkThatPanicsInCloseHoldsNothingUp(t *testing.T) {
	src := &sliceSource{parts: [][][2]int64{numbers(10, 1)}, batch: 2, bounded: true}
	g := NewGraph()
	sink := &panicSink{}
	spec := sink.spec()
	spec.Sink = sink
	g.Sink("sink", spec, Forward(g.Source("src", src.spec())))
	a, _ := start(t, g, nil)
	if err := wait(t, a); err != nil {
		t.Error(err)
	}
	if len(sink.rows) != 10 {
		t.Errorf("got %d rows, want 10", len(sink.rows))
	}
}

// shredder emits each row as a batch of its own.
type shredder struct{ views *messages.Pool }

func (s *shredder) Open(*operator.Task) error { s.views = messages.NewViewPool(); return nil }
func (s *shredder) Close() error              { return nil }

func (s *shredder) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	for i := range b.Rows() {
		v := s.views.View(b)
		v.Select(append(v.SelectBuffer(1), int32(b.Row(i))))
		out.Emit(v.Publish())
	}
	return false, nil
}

func TestManySmallBatchesReachTheSink(t *testing.T) {
	sys := NewSystem(SystemConfig{})
	defer sys.Close()
	src := &sliceSource{parts: [][][2]int64{numbers(3000, 1)}, batch: operator.MaxEmit, bounded: true}
	sink := &collectSink{}
	g := NewGraph()
	n := g.Operator("shred", 1, func() operator.Operator { return &shredder{} }, Forward(g.Source("src", src.spec())))
	g.Sink("sink", sink.spec(), Forward(n))
	a, err := sys.Start(t.Context(), AttemptConfig{Graph: g, Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1, EpochInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	for i, r := range sink.rows {
		if r[1] != int64(i) {
			t.Fatalf("row %d is %v", i, r)
		}
	}
	if len(sink.rows) != 3000 {
		t.Errorf("got %d rows, want 3000", len(sink.rows))
	}
}
