package plan

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine runs compiled plans one after the other on one store.
type engine struct {
	t       *testing.T
	sys     *actors.System
	store   epochs.Segments
	attempt *actors.Attempt
	number  uint64

	mu  sync.Mutex
	rec *epochs.Record
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	store, err := memstore.New(memstore.Options{}).Open()
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, sys: actors.NewSystem(actors.SystemConfig{}), store: store}
	t.Cleanup(func() {
		e.stop()
		e.sys.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// start runs a plan from the newest commit record.
func (e *engine) start(c *Compiled) {
	e.t.Helper()
	records, highest, err := e.store.Committed(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	cfg := actors.AttemptConfig{
		Graph: c.Graph, Query: "q", Store: e.store, NextEpoch: highest + 1, Plan: c.Plan, Incarnation: messages.ID128{Hi: 1, Lo: 2},
		EpochInterval: time.Hour, OnEpoch: func(r actors.EpochReport) { e.record(r.Record) },
	}
	if len(records) > 0 {
		if cfg.From, err = epochs.DecodeRecord(records[0].Data); err != nil {
			e.t.Fatal(err)
		}
		if err := CheckState("q", cfg.From.Plan, c.Plan, false); err != nil {
			e.t.Fatal(err)
		}
		e.record(cfg.From)
	}
	e.number++
	cfg.Attempt = e.number
	if e.attempt, err = e.sys.Start(e.t.Context(), cfg); err != nil {
		e.t.Fatal(err)
	}
}

func (e *engine) record(r *epochs.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rec = r
}

func (e *engine) last() *epochs.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rec == nil {
		return &epochs.Record{}
	}
	return e.rec
}

// settle returns when an epoch has committed that holds the given number of rows.
func (e *engine) settle(rows uint64) {
	e.t.Helper()
	for {
		done := make(chan error, 1)
		e.attempt.RequestEpoch(func(err error) { done <- err })
		select {
		case err := <-done:
			if err != nil {
				e.t.Fatalf("epoch: %v (%v)", err, e.attempt.Err())
			}
		case <-e.attempt.Done():
			e.t.Fatalf("the attempt ended: %v", e.attempt.Err())
		}
		read := uint64(0)
		for _, s := range e.last().Sources {
			read += s.Rows
		}
		if read >= rows {
			return
		}
	}
}

func (e *engine) stop() {
	if e.attempt == nil {
		return
	}
	e.attempt.Stop()
	if err := e.attempt.Err(); err != nil && !errors.Is(err, actors.ErrStopped) {
		e.t.Errorf("stop: %v", err)
	}
	e.attempt = nil
}

// counters gives a number per aggregation and limit, from source to sink: what is
// further from the sink has the longer uid.
func (e *engine) counters(f func(*epochs.Counters) int64) []int64 {
	rec := e.last()
	ops := slices.Clone(rec.Plan.Operators)
	slices.SortFunc(ops, func(a, b epochs.OperatorState) int { return cmp.Compare(len(b.UID), len(a.UID)) })
	var out []int64
	for _, o := range ops {
		for i := range rec.Counters {
			if rec.Counters[i].Operator == o.UID {
				out = append(out, f(&rec.Counters[i]))
			}
		}
	}
	return out
}

func (e *engine) stateRows() []int64 {
	return e.counters(func(c *epochs.Counters) int64 { return c.StateRows })
}

func (e *engine) late() []int64 {
	return e.counters(func(c *epochs.Counters) int64 { return int64(c.Late) })
}

// watermark is the minimum over all source partitions, NoEventTime if one has none.
func (e *engine) watermark() messages.EventTime {
	wm := messages.MaxEventTime
	for _, s := range e.last().Sources {
		wm = min(wm, s.Watermark)
	}
	return wm
}
