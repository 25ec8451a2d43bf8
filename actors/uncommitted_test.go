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

// steady makes 7 rows a millisecond out of a source.
type steady struct{ *sliceSource }

func (p steady) Open(ctx context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	in, err := p.sliceSource.Open(ctx, r)
	return steadyReader{in}, err
}

type steadyReader struct{ connectors.Reader }

func (p steadyReader) Read(ctx context.Context, dst *connectors.Rows) error {
	<-time.After(time.Millisecond) // of the bubble
	return p.Reader.Read(ctx, dst)
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
		"time": {Uncommitted{Time: 500 * time.Millisecond}, 3000, 5000},
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
