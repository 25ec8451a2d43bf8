package actors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/eventtime"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
)

// gatedOp holds back everything until its gate opens, and counts rows behind the
// watermark.
type gatedOp struct {
	gate       chan struct{}
	wm         messages.EventTime
	rows, late *atomic.Int64
}

func (o *gatedOp) Open(*operator.Task) error   { return nil }
func (o *gatedOp) Close() error                { return nil }
func (o *gatedOp) Start(wm messages.EventTime) { o.wm = wm }

func (o *gatedOp) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	<-o.gate
	for k := range b.Rows() {
		if messages.EventTime(b.Column(1).Int64s()[b.Row(k)]) <= o.wm {
			o.late.Add(1)
		}
	}
	o.rows.Add(int64(b.Rows()))
	return false, nil
}

func (o *gatedOp) Watermark(wm messages.EventTime, _ operator.Output) (bool, error) {
	o.wm = wm
	return false, nil
}

// TestAPartitionHeldUpIsNotIdle: a partition whose rows are not taken is not idle,
// however long that lasts and although its reader has caught up in between. Partition
// 0 is far ahead and falls silent; partition 1 has rows for a consumer that stands
// still.
func TestAPartitionHeldUpIsNotIdle(t *testing.T) {
	const rows = 100
	src := &outageSource{}
	for i := range src.says {
		src.says[i] = make(chan saying)
	}
	var seen, late, sent atomic.Int64
	gate := make(chan struct{})
	g := NewGraph()
	in := g.Source("src", SourceSpec{Source: src, IdleTimeout: time.Minute, Rows: func() (*connectors.Rows, error) {
		return connectors.NewRows(timedSchema, nil, connectors.FailOnError), nil
	}})
	timed := g.Operator("time", 0, func() operator.Operator { return eventtime.New(eventtime.Config{Column: 1}) }, Forward(in))
	gated := g.Operator("gated", 1, func() operator.Operator {
		return &gatedOp{gate: gate, wm: messages.NoEventTime, rows: &seen, late: &late}
	}, Keyed(timed, 0))
	g.Sink("sink", (&collectSink{}).spec(), Forward(gated))
	clock := connectortest.NewClock(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	sys := NewSystem(SystemConfig{Clock: clock})
	defer sys.Close()
	a, err := sys.Start(t.Context(), AttemptConfig{
		Graph: g, Query: "q", Attempt: 1, Store: openStore(t), NextEpoch: 1, EpochInterval: time.Hour, EpochTimeout: 100 * time.Hour, BatchRows: 1, Window: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { a.Stop(); <-a.Done() }()
	src.says[0] <- saying{row: &[2]int64{1, 1_000_000}}
	src.says[0] <- saying{state: connectors.CaughtUp}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for i := range int64(rows) {
			src.says[1] <- saying{row: &[2]int64{1, 10 + i}, state: connectors.CaughtUp}
			sent.Add(1)
		}
		src.says[1] <- saying{state: connectors.CaughtUp}
	}()
	settled := func() { // until no more is read
		for was := int64(-1); was != sent.Load(); <-time.After(5 * time.Millisecond) {
			was = sent.Load()
		}
	}
	settled()
	for range 10 {
		clock.Advance(5 * time.Minute)
		settled()
	}
	if sent.Load() >= rows {
		t.Fatal("nothing is held up")
	}
	close(gate)
	<-fed
	flush(t, a)
	if n := seen.Load(); n != rows+1 {
		t.Errorf("%d rows came, want %d", n, rows+1)
	}
	if n := late.Load(); n != 0 {
		t.Errorf("%d rows were behind the watermark", n)
	}
}
