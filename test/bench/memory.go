package main

import (
	"context"
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/meter"
)

// memoryBenchmarks measure what a key of state costs.
func memoryBenchmarks() []benchmark {
	of := func(name, doc string, keys uint64, sql string) benchmark {
		return benchmark{name: "memory/" + name, doc: doc, run: func(ctx context.Context, e *env) (*result, error) { return runMemory(ctx, e, keys, sql) }}
	}
	const integer = "SELECT auction, count(*) AS n FROM bids GROUP BY auction"
	return []benchmark{
		of("count/int-key/1M", "heap bytes per key of a count, 8-byte keys", 1_000_000, integer),
		of("count/int-key/5M", "the same with more keys", 5_000_000, integer),
		of("count/string-key/1M", "heap bytes per key of a count, keys of 4 to 10 bytes", 1_000_000, "SELECT concat('key', auction) AS k, count(*) AS n FROM bids GROUP BY concat('key', auction)"),
		of("window/int-key/1M", "heap bytes per key and window of count, sum and maximum", 1_000_000,
			"SELECT auction, window.start AS start, count(*) AS n, sum(price) AS total, max(price) AS top FROM bids GROUP BY auction, window(ts, '1 day')"),
	}
}

func heap() uint64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// runMemory fills the state with one row per key and looks at the memory after
// the epoch that holds it has committed.
func runMemory(ctx context.Context, e *env, keys uint64, sql string) (_ *result, err error) {
	g := &prefilled{bids: newBids(keys), of: keys, pick: inTurn(keys)}
	ends := load.NewEnds(load.SourceConfig{Fill: g.fill, Prefill: keys}, load.SinkConfig{})
	s, err := runtime.Open(ctx, runtime.Config{
		Dir: filepath.Join(e.dir, "state"), Connectors: append(all.Connectors(), ends.Connector()), Formats: all.Formats(),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	before, err := meter.Read()
	if err != nil {
		return nil, err
	}
	empty := heap()
	rss, _, err := meter.Memory()
	if err != nil {
		return nil, err
	}
	t := trial{columns: bidColumns}
	if err := s.Exec(ctx, t.definitions()+"CREATE QUERY counts WITH (output_mode = 'update') AS INSERT INTO out "+sql); err != nil {
		return nil, err
	}
	q, failed := s.Query("counts"), make(chan error, 1)
	go func() { failed <- s.Wait(ctx) }()
	for {
		if rows := q.StateRows(); len(rows) == 1 && rows[0] == int64(keys) {
			break
		}
		if err := waitUntil(ctx, time.Now().Add(50*time.Millisecond), failed); err != nil {
			return nil, err
		}
	}
	// One more second, so that what the checkpoint needed is garbage.
	if err := waitUntil(ctx, time.Now().Add(time.Second), failed); err != nil {
		return nil, err
	}
	full := heap()
	now, peak, err := meter.Memory()
	if err != nil {
		return nil, err
	}
	after, err := meter.Read()
	if err != nil {
		return nil, err
	}
	if err := e.heapProfile(); err != nil {
		return nil, err
	}
	r := newResult()
	n := float64(keys)
	r.extra["heap_bytes_per_key"] = figure((float64(full) - float64(empty)) / n)
	r.extra["rss_bytes_per_key"] = figure(float64(now-rss) / n)
	r.extra["peak_rss_bytes_per_key"] = figure(float64(peak-rss) / n)
	if p := q.LastProgress(); p != nil && len(p.StateOperators) == 1 {
		r.extra["reported_bytes_per_key"] = figure(float64(p.StateOperators[0].MemoryUsedBytes) / n)
	}
	if err := s.Query("counts").Stop(ctx); err != nil {
		return nil, fmt.Errorf("stop: %w", err)
	}
	return r, r.usage(after.Since(before), keys)
}
