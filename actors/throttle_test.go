package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
)

// countingSink lets a test wait for a number of rows.
type countingSink struct {
	collectSink
	cond *sync.Cond
}

func newCountingSink() *countingSink {
	s := &countingSink{}
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *countingSink) Open(context.Context, connectors.WriteRequest) (connectors.Committer, error) {
	return countingCommitter{collectCommitter{&s.collectSink}, s}, nil
}

type countingCommitter struct {
	collectCommitter
	s *countingSink
}

func (k countingCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	return countingWriter{collectWriter(k.collectCommitter), k.s}, nil
}

type countingWriter struct {
	collectWriter
	s *countingSink
}

func (w countingWriter) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	defer w.s.cond.Broadcast()
	return w.collectWriter.Write(ctx, b, ids)
}

// wait waits until at least n rows have come and returns how many have.
func (s *countingSink) wait(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.rows) < n {
		s.cond.Wait()
	}
	return len(s.rows)
}

// throttled starts three partitions of 100 rows, ten in a read, at 100 rows a
// second together.
func throttled(t *testing.T) (*Attempt, *countingSink, *connectortest.Clock) {
	t.Helper()
	clock := connectortest.NewClock(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	sys := NewSystem(SystemConfig{Clock: clock})
	t.Cleanup(sys.Close)
	src := &sliceSource{parts: [][][2]int64{numbers(100, 3), numbers(100, 3), numbers(100, 3)}, batch: 10}
	spec := src.spec()
	spec.MaxRowsPerSecond = 100
	sink := newCountingSink()
	ss := sink.spec()
	ss.Sink = sink
	g := NewGraph()
	g.Sink("sink", ss, Forward(g.Source("src", spec)))
	a, err := sys.Start(t.Context(), AttemptConfig{Graph: g, Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1, EpochInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return a, sink, clock
}

// TestTheRateOfASourceIsThatOfAllItsPartitions: ten rows a tenth of a second, and
// a marker waits for none of them.
func TestTheRateOfASourceIsThatOfAllItsPartitions(t *testing.T) {
	a, sink, clock := throttled(t)
	defer func() { a.Stop(); <-a.Done() }()
	for want := 10; want <= 300; want += 10 {
		sink.wait(want)
		flush(t, a)
		if got := sink.wait(want); got != want {
			t.Fatalf("%d rows after %v, want %d", got, clock.Mono(), want)
		}
		clock.Advance(100 * time.Millisecond)
	}
}

func TestADrainDoesNotWaitForTheRate(t *testing.T) {
	a, sink, _ := throttled(t)
	sink.wait(10)
	a.Drain() // the clock stands still
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if got := sink.wait(0); got != 10 {
		t.Errorf("%d rows, want 10", got)
	}
}

func TestReadsOfALimitedSourceAreSmall(t *testing.T) {
	for _, c := range []struct {
		perSecond int64
		want      int
	}{{0, 1024}, {1, 1}, {100, 5}, {10_000, 500}, {1_000_000, 1024}} {
		if got := newThrottle(c.perSecond).batch(1024); got != c.want {
			t.Errorf("limit %d: reads of %d rows, want %d", c.perSecond, got, c.want)
		}
	}
}
