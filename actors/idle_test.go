package actors

import (
	"context"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/eventtime"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
)

// saying is what a reader is made to say in one Read: a row, or a state.
type saying struct {
	row   *[2]int64
	state connectors.State
}

// outageSource has two partitions that say what a test makes them say. One that is
// told nothing blocks in its first Read.
type outageSource struct {
	fedSource
	says [2]chan saying
}

func (s *outageSource) Open(_ context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	return &outageReader{says: s.says[r.Partition[0]-'0']}, nil
}

type outageReader struct {
	fedReader
	says chan saying
}

func (r *outageReader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: 1})
	select {
	case x := <-r.says:
		dst.Status.State = x.state
		if x.row != nil {
			b := dst.Builder()
			b.Column(0).AppendInt64(x.row[0])
			b.Column(1).AppendInt64(x.row[1])
			b.EndRow()
			b.EndUnit(r.n, 0)
			r.n++
			dst.Payloads++
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// outage is a query with an idle timeout of a minute under a clock of its own.
type outage struct {
	t      *testing.T
	src    *outageSource
	a      *Attempt
	w      *spy
	clock  *connectortest.Clock
	status chan StatusReport
	key    int64
}

func newOutage(t *testing.T) *outage {
	o := &outage{t: t, src: &outageSource{}, w: newSpy(), clock: connectortest.NewClock(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)), status: make(chan StatusReport, 10), key: keyOf(t, 0)}
	for i := range o.src.says {
		o.src.says[i] = make(chan saying)
	}
	g := NewGraph()
	src := g.Source("src", SourceSpec{Source: o.src, IdleTimeout: time.Minute, Rows: func() (*connectors.Rows, error) {
		return connectors.NewRows(timedSchema, nil, connectors.FailOnError), nil
	}})
	timed := g.Operator("time", 0, func() operator.Operator {
		return eventtime.New(eventtime.Config{Column: 1, Delay: 5 * time.Microsecond})
	}, Forward(src))
	g.Sink("sink", (&collectSink{}).spec(), Forward(g.Operator("keyed", 1, o.w.op, Keyed(timed, 0))))
	sys := NewSystem(SystemConfig{Clock: o.clock})
	t.Cleanup(sys.Close)
	var err error
	o.a, err = sys.Start(t.Context(), AttemptConfig{
		Graph: g, Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1, EpochInterval: time.Hour, EpochTimeout: 100 * time.Hour,
		OnStatus: func(r StatusReport) { o.status <- r },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.a.Stop(); <-o.a.Done() })
	return o
}

// row makes a partition say a row, and then that it has caught up.
func (o *outage) row(partition int, at int64) {
	o.src.says[partition] <- saying{row: &[2]int64{o.key, at}}
	o.src.says[partition] <- saying{state: connectors.CaughtUp}
}

func (o *outage) watermark() messages.EventTime {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	return o.w.wms[0]
}

// holds checks that time alone does not move the watermark.
func (o *outage) holds(want messages.EventTime) {
	o.t.Helper()
	for range 10 {
		flush(o.t, o.a)
		o.clock.Advance(5 * time.Minute)
	}
	flush(o.t, o.a)
	if got := o.watermark(); got != want {
		o.t.Fatalf("watermark %d, want %d", got, want)
	}
}

// TestAnUnreachablePartitionIsNotIdle: however long it is out of reach, the
// watermark does not pass it; only once it is confirmed to be at its end, and for
// the timeout from then on.
func TestAnUnreachablePartitionIsNotIdle(t *testing.T) {
	o := newOutage(t)
	o.row(0, 105)
	o.row(1, 15)
	o.w.until(func() bool { return o.w.wms[0] == 10 })
	o.src.says[1] <- saying{state: connectors.Retrying}
	for r := range o.status {
		if r.Retrying {
			break
		}
	}
	o.holds(10)
	o.row(0, 205)
	o.holds(10)
	o.row(1, 25) // it is back with what is not late
	o.w.until(func() bool { return o.w.wms[0] == 20 })
	flush(t, o.a)
	if got := o.watermark(); got != 20 {
		t.Errorf("watermark %d, want 20", got)
	}
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		o.w.until(func() bool { return o.w.wms[0] == 200 })
	}()
	for { // the partition has caught up and falls silent
		o.clock.Advance(time.Minute)
		select {
		case <-idle:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// TestAPartitionThatWasNeverReachedIsNotIdle: the wait for silence begins when it
// has caught up, not with the attempt.
func TestAPartitionThatWasNeverReachedIsNotIdle(t *testing.T) {
	o := newOutage(t)
	o.row(0, 105)
	o.w.until(func() bool { return o.w.rows[0] == 1 })
	o.holds(messages.NoEventTime)
	o.src.says[1] <- saying{state: connectors.Reading} // lagging
	o.holds(messages.NoEventTime)
}

// TestSkewedRowsAreCounted: a row far ahead of its broker time does not drag the
// watermark along, and shows in the metrics.
func TestSkewedRowsAreCounted(t *testing.T) {
	sys := NewSystem(SystemConfig{})
	defer sys.Close()
	const arrival, hour = 1_000_000_000, 3_600_000_000
	src := &stampedSource{sliceSource: &sliceSource{parts: [][][2]int64{{{1, arrival}, {2, arrival + hour}, {3, arrival + 7}}}, batch: 1, bounded: true}, arrival: arrival}
	spec := src.spec()
	spec.Source = src
	spec.Rows = func() (*connectors.Rows, error) {
		return connectors.NewRows(timedSchema, nil, connectors.FailOnError), nil
	}
	g := NewGraph()
	timed := g.Operator("time", 0, func() operator.Operator {
		return eventtime.New(eventtime.Config{Column: 1, MaxFutureSkew: time.Minute})
	}, Forward(g.Source("src", spec)))
	sink := &collectSink{}
	g.Sink("sink", sink.spec(), Forward(timed))
	var last messages.EventTime
	a, err := sys.Start(t.Context(), AttemptConfig{
		Graph: g, Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1,
		OnEpoch: func(r EpochReport) { last = r.MaxEventTime },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if len(sink.rows) != 3 || last != arrival+7 {
		t.Errorf("%d rows and watermark %d, want all 3 and %d", len(sink.rows), last, arrival+7)
	}
	if got := a.Metrics().Nodes[0].Skewed.Load(); got != 1 {
		t.Errorf("%d skewed rows, want 1", got)
	}
}

// stampedSource gives every row the same broker time.
type stampedSource struct {
	*sliceSource
	arrival messages.EventTime
}

func (s *stampedSource) Open(ctx context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	inner, err := s.sliceSource.Open(ctx, r)
	return &stampedReader{inner.(*sliceReader), s.arrival}, err
}

type stampedReader struct {
	*sliceReader
	arrival messages.EventTime
}

func (r *stampedReader) Read(ctx context.Context, dst *connectors.Rows) error {
	r.sliceReader.arrival = r.arrival
	return r.sliceReader.Read(ctx, dst)
}
