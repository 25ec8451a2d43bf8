package actors

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
)

// steadyBytes is what a row of steady counts as.
const steadyBytes = 100

// steady makes 7 rows a millisecond out of a source.
type steady struct{ *sliceSource }

func (p steady) Open(ctx context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	in, err := p.sliceSource.Open(ctx, r)
	return steadyReader{in}, err
}

type steadyReader struct{ connectors.Reader }

func (p steadyReader) Read(ctx context.Context, dst *connectors.Rows) error {
	<-time.After(time.Millisecond) // of the bubble
	before := dst.Payloads
	err := p.Reader.Read(ctx, dst)
	dst.PayloadBytes += (dst.Payloads - before) * steadyBytes
	return err
}

// fullDisk has no space while full.
type fullDisk struct {
	epochs.Segments
	full *atomic.Bool
}

func (f fullDisk) Check(ctx context.Context) error {
	if f.full.Load() {
		return fmt.Errorf("1 MB free, 9 MB needed: %w", epochs.ErrNoSpace)
	}
	return f.Segments.Check(ctx)
}

func TestWithAFullDiskRowsFlowOnOnlySoFar(t *testing.T) {
	const total = 20_000
	for what, c := range map[string]struct {
		limits   Uncommitted
		low, top int64 // rows that may flow
	}{
		"rows": {Uncommitted{Rows: 1000}, 1000, 2000},
		// Of a bound of bytes only its rows count, however large the other bounds are.
		"bytes": {Uncommitted{Bytes: 250_000}, 2500, 3500},
		"time":  {Uncommitted{Time: 500 * time.Millisecond}, 3000, 5000},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				full := &atomic.Bool{}
				full.Store(true)
				store, err := memstore.New(memstore.Options{}).Open()
				if err != nil {
					t.Fatal(err)
				}
				src := &sliceSource{parts: [][][2]int64{numbers(total, 13)}, batch: 7}
				sink := &collectSink{}
				g := NewGraph()
				spec := src.spec()
				spec.Source, spec.IdleTimeout = steady{src}, time.Second
				g.Sink("out", sink.spec(), Forward(g.Source("src", spec)))
				var mu sync.Mutex
				reason := ""
				sys := NewSystem(SystemConfig{})
				a, err := sys.Start(t.Context(), AttemptConfig{
					Graph: g, Query: "q", Attempt: 1, Store: fullDisk{store, full}, NextEpoch: 1, EpochInterval: 10 * time.Millisecond,
					Uncommitted: c.limits,
					OnStatus: func(r StatusReport) {
						mu.Lock()
						defer mu.Unlock()
						if r.Sink == "" && r.Source == "" {
							reason = r.Reason
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				read := a.Metrics().Nodes[0].RowsIn.Load()
				if read < c.low || read > c.top {
					t.Errorf("%d rows were read with a full disk, want %d to %d", read, c.low, c.top)
				}
				mu.Lock()
				if !strings.Contains(reason, "sources are stopped") || !strings.Contains(reason, "9 MB needed") {
					t.Errorf("the status says %q", reason)
				}
				mu.Unlock()
				full.Store(false)
				time.Sleep(20 * time.Second)
				if got := a.Metrics().Nodes[0].RowsIn.Load(); got != total {
					t.Errorf("with space again: %d rows were read, want %d", got, total)
				}
				mu.Lock()
				if reason != "" {
					t.Errorf("with space again the status says %q", reason)
				}
				mu.Unlock()
				a.Drain()
				if err := wait(t, a); err != nil {
					t.Error(err)
				}
				if len(sink.ids) != total {
					t.Errorf("%d rows arrived, want %d", len(sink.ids), total)
				}
				sys.Close()
				time.Sleep(time.Minute) // the actor system's own timers run out
			})
		})
	}
}

// TestTheBoundOfBytesCountsFromTheLastMarker lets an epoch commit, fills the disk,
// frees it for one more epoch and fills it again: each time as many bytes flow as the
// bound says, counted from the marker of the epoch before, and not a row more once
// the sources have stopped.
func TestTheBoundOfBytesCountsFromTheLastMarker(t *testing.T) {
	const (
		total = 100_000
		bound = 300_000
		// slack is what a look every 50 ms lets through, and the reads under way then.
		slack = (50 + 10) * 7 * steadyBytes
	)
	synctest.Test(t, func(t *testing.T) {
		full := &atomic.Bool{}
		store, err := memstore.New(memstore.Options{}).Open()
		if err != nil {
			t.Fatal(err)
		}
		src := &sliceSource{parts: [][][2]int64{numbers(total, 13)}, batch: 7}
		sink := &collectSink{}
		g := NewGraph()
		spec := src.spec()
		spec.Source = steady{src}
		g.Sink("out", sink.spec(), Forward(g.Source("src", spec)))
		var reason atomic.Pointer[string]
		sys := NewSystem(SystemConfig{})
		a, err := sys.Start(t.Context(), AttemptConfig{
			Graph: g, Query: "q", Attempt: 1, Store: fullDisk{store, full}, NextEpoch: 1, EpochInterval: 10 * time.Millisecond,
			Uncommitted: Uncommitted{Bytes: bound},
			OnStatus: func(r StatusReport) {
				if r.Sink == "" && r.Source == "" {
					reason.Store(&r.Reason)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		read := func() int64 { return a.Metrics().Nodes[0].BytesIn.Load() }
		committed := func() int64 {
			recs, _, err := store.Committed(t.Context())
			if err != nil || len(recs) == 0 {
				t.Fatalf("no commit record: %v", err)
			}
			rec, err := epochs.DecodeRecord(recs[0].Data)
			if err != nil {
				t.Fatal(err)
			}
			return int64(rec.Sources[0].Rows) * steadyBytes
		}
		for round := range 3 {
			time.Sleep(1500 * time.Millisecond) // a blocked epoch is tried once a second; then epochs commit
			if behind := read() - committed(); behind > bound/2 {
				t.Errorf("round %d: %d bytes are not committed with space on the disk", round, behind)
			}
			full.Store(true)
			time.Sleep(10 * time.Second)
			stopped, from := read(), committed()
			if n := stopped - from; n < bound || n > bound+slack {
				t.Errorf("round %d: %d bytes flowed with a full disk, want %d to %d", round, n, bound, bound+slack)
			}
			if r := reason.Load(); r == nil || !strings.Contains(*r, "sources are stopped, 0 MB are not committed (max_uncommitted)") {
				t.Errorf("round %d: the status says %v", round, r)
			}
			time.Sleep(time.Minute)
			if n := read() - stopped; n != 0 {
				t.Errorf("round %d: %d bytes were read by a source that is stopped", round, n)
			}
			full.Store(false)
		}
		time.Sleep(20 * time.Second)
		if n := read(); n != total*steadyBytes {
			t.Errorf("with space again: %d bytes were read, want %d", n, total*steadyBytes)
		}
		a.Drain()
		if err := wait(t, a); err != nil {
			t.Error(err)
		}
		if len(sink.ids) != total {
			t.Errorf("%d rows arrived, want %d", len(sink.ids), total)
		}
		sys.Close()
		time.Sleep(time.Minute) // the actor system's own timers run out
	})
}
