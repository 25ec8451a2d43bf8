package actors

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
)

// brittleSink fails at one write and counts the calls behind it.
type brittleSink struct {
	collectSink
	writes, behind atomic.Int64
}

type brittleCommitter struct {
	collectCommitter
	b *brittleSink
}

type brittleWriter struct {
	collectWriter
	b *brittleSink
}

func (b *brittleSink) Open(context.Context, connectors.WriteRequest) (connectors.Committer, error) {
	return brittleCommitter{collectCommitter{&b.collectSink}, b}, nil
}

func (c brittleCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	return brittleWriter{collectWriter{&c.b.collectSink}, c.b}, nil
}

var errBrittle = errors.New("the sink has had enough")

func (w brittleWriter) Write(context.Context, *messages.Batch, []messages.ID128) error {
	switch n := w.b.writes.Add(1); {
	case n == 5:
		return errBrittle
	case n > 5:
		w.b.behind.Add(1)
	}
	return nil
}

func TestNothingIsWrittenBehindAFailedWrite(t *testing.T) {
	src := &sliceSource{parts: [][][2]int64{numbers(1000, 13)}, batch: 1}
	sink := &brittleSink{}
	g := NewGraph()
	g.Sink("out", SinkSpec{Sink: sink, Schema: testSchema}, Forward(g.Source("src", src.spec())))
	a, _ := start(t, g, nil)
	if err := wait(t, a); !errors.Is(err, errBrittle) {
		t.Errorf("got %v, want the sink's error", err)
	}
	if n := sink.behind.Load(); n != 0 {
		t.Errorf("%d writes followed the failed one", n)
	}
}

// slowSource opens its readers only when the attempt is over.
type slowSource struct {
	sliceSource
	opening chan struct{}
	closed  atomic.Int64
}

type slowReader struct {
	connectors.Reader
	s *slowSource
}

func (r slowReader) Close() error { r.s.closed.Add(1); return r.Reader.Close() }

func (s *slowSource) Open(ctx context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	s.opening <- struct{}{}
	<-ctx.Done()
	rd, err := s.sliceSource.Open(ctx, r)
	return slowReader{rd, s}, err
}

func TestWhatIsOpenedTooLateIsClosed(t *testing.T) {
	src := &slowSource{sliceSource: sliceSource{parts: [][][2]int64{numbers(10, 3)}, batch: 7}, opening: make(chan struct{})}
	spec := src.spec()
	spec.Source = src
	g := NewGraph()
	g.Sink("out", (&collectSink{}).spec(), Forward(g.Source("src", spec)))
	a, _ := start(t, g, nil)
	<-src.opening
	a.Stop()
	if err := wait(t, a); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
	if n := src.closed.Load(); n != 1 {
		t.Errorf("the reader was closed %d times, want once", n)
	}
}

func TestTheFinalEpochAnswersLateRequests(t *testing.T) {
	src := &sliceSource{parts: [][][2]int64{numbers(10, 3)}, bounded: true, batch: 7}
	g := NewGraph()
	g.Sink("out", (&collectSink{}).spec(), Forward(g.Source("src", src.spec())))
	a, _ := start(t, g, nil)
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 1)
	a.RequestEpoch(func(err error) { answers <- err })
	if err := <-answers; err != nil {
		t.Errorf("got %v, want nil: everything is committed", err)
	}
}

func TestTheEndOfTheContextStopsTheAttempt(t *testing.T) {
	src := &sliceSource{parts: [][][2]int64{numbers(10, 3)}, batch: 7}
	g := NewGraph()
	g.Sink("out", (&collectSink{}).spec(), Forward(g.Source("src", src.spec())))
	ctx, cancel := context.WithCancel(t.Context())
	sys := NewSystem(SystemConfig{})
	defer sys.Close()
	store, err := memstore.New(memstore.Options{}).Open()
	if err != nil {
		t.Fatal(err)
	}
	a, err := sys.Start(ctx, AttemptConfig{Graph: g, Query: "q", Attempt: 1, Store: store, NextEpoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := wait(t, a); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
}

func TestASubtaskThatNobodyFeedsIsNotStarted(t *testing.T) {
	src := &sliceSource{parts: [][][2]int64{numbers(100, 13), numbers(50, 7)}, bounded: true, batch: 7}
	sink := &collectSink{}
	g := NewGraph()
	op := g.Operator("id", 5, func() operator.Operator { return &identity{} }, Forward(g.Source("src", src.spec())))
	g.Sink("out", sink.spec(), Forward(op))
	a, _ := start(t, g, nil)
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if len(sink.rows) != 150 {
		t.Errorf("got %d rows, want 150", len(sink.rows))
	}
}
