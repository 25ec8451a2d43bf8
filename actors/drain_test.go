package actors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
)

// TestADrainUnderLoadLosesNothing drains while all queues are full. What the last
// offset covers has reached the sink, once each, and nothing was sent to an actor
// that had stopped.
func TestADrainUnderLoadLosesNothing(t *testing.T) {
	for round := range 20 {
		sys := NewSystem(SystemConfig{})
		var dead atomic.Int64
		sub := sys.as.EventStream.Subscribe(func(e any) {
			d, ok := e.(*actor.DeadLetterEvent)
			if !ok || d.PID == nil {
				return
			}
			if _, ok := d.Message.(*polledMsg); !ok { // what a read gives after the end is read again another time
				dead.Add(1)
			}
		})
		src := &sliceSource{parts: [][][2]int64{numbers(1<<20, 13), numbers(1<<20, 7)}, batch: 7}
		sink := &collectSink{}
		g := NewGraph()
		n := g.Source("src", src.spec())
		g.Sink("out", sink.spec(), Forward(g.Operator("id", 3, func() operator.Operator { return &identity{} }, Keyed(n, 0))))
		store, err := memstore.New(memstore.Options{}).Open()
		if err != nil {
			t.Fatal(err)
		}
		a, err := sys.Start(t.Context(), AttemptConfig{
			Graph: g, Query: "q", Attempt: 1, Store: store, NextEpoch: 1, EpochInterval: time.Millisecond, BatchRows: 7, Window: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + round%4 {
			flush(t, a)
		}
		a.Drain()
		if err := wait(t, a); err != nil {
			t.Fatal(err)
		}
		recs, _, err := store.Committed(t.Context())
		if err != nil || len(recs) == 0 {
			t.Fatalf("no commit record: %v", err)
		}
		rec, err := epochs.DecodeRecord(recs[0].Data)
		if err != nil || !rec.Final {
			t.Fatalf("the last record is not final: %+v (%v)", rec, err)
		}
		read := uint64(0)
		for _, s := range rec.Sources {
			read += s.Rows
		}
		if uint64(len(sink.rows)) != read || uint64(len(sink.ids)) != read {
			t.Errorf("round %d: %d rows with %d identities came out of %d", round, len(sink.rows), len(sink.ids), read)
		}
		sys.as.EventStream.Unsubscribe(sub)
		sys.Close()
		if n := dead.Load(); n != 0 {
			t.Errorf("round %d: %d messages to actors that had stopped", round, n)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
