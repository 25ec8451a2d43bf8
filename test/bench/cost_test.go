package main

import (
	"context"
	"testing"
	"time"

	"github.com/streamd-io/streamd/test/bench/channels"
	"github.com/streamd-io/streamd/test/bench/nexmark"
)

// The tests below assert what does not depend on the speed of the machine:
// allocations per row, and CPU time relative to a pipeline of plain channels in
// the same process. Times are never asserted.

// costOf runs a benchmark's round for a second in this process.
func costOf(t *testing.T, run func(context.Context, *env) (*result, error)) *result {
	t.Helper()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	r, err := run(t.Context(), &env{warmup: 500 * time.Millisecond, duration: time.Second, dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRowsAreNotAllocated: batches hold up to 1,024 rows, so anything that
// allocates per row shows as at least one allocation per row. What is allowed is
// about thirty per batch, and what the epochs of a second need.
func TestRowsAreNotAllocated(t *testing.T) {
	const perRow = 0.1
	for name, run := range map[string]func(context.Context, *env) (*result, error){
		"filter and projection of rows":           flatBids(statelessSQL, "", 10_000),
		"windowed count, shown at once":           flatBids(updateSQL, "1 SECOND", 10_000),
		"windowed count, shown when closed":       flatBids(appendSQL, "1 SECOND", 10_000),
		"decoding JSON":                           flatJSON(false),
		"decoding and encoding JSON":              flatJSON(true),
		"Nexmark query 0 over nested rows":        runNexmark(nexmarkQuery("q0"), 1, false),
		"Nexmark query 1, decimal arithmetic":     runNexmark(nexmarkQuery("q1"), 1, false),
		"Nexmark query 2, selection, from JSON":   runNexmark(nexmarkQuery("q2"), 1, true),
		"Nexmark query 17, ten aggregates by day": runNexmark(nexmarkQuery("q17"), 1, false),
	} {
		t.Run(name, func(t *testing.T) {
			r := costOf(t, run)
			t.Logf("%.4f allocations and %.1f bytes per row over %d rows", r.AllocsPerRow, r.BytesPerRow, r.Rows)
			if r.AllocsPerRow > perRow {
				t.Errorf("got %.3f allocations per row, want at most %v", r.AllocsPerRow, perRow)
			}
		})
	}
}

// TestBatchesOfOneRowAllocateLittle: when every row travels alone, what a batch
// allocates shows per row.
func TestBatchesOfOneRowAllocateLittle(t *testing.T) {
	tr := bidTrial(newBids(10_000))
	tr.script, tr.rate = statelessSQL, 5_000
	r := costOf(t, func(ctx context.Context, e *env) (*result, error) { return measure(ctx, e, tr) })
	t.Logf("%.2f allocations per row", r.AllocsPerRow)
	if r.AllocsPerRow > 12 {
		t.Errorf("got %.2f allocations per batch of one row, want at most 12", r.AllocsPerRow)
	}
}

// TestCostAgainstChannels compares CPU time per row. The limits leave a factor
// of about three to what was measured, see docs/performance.md.
func TestCostAgainstChannels(t *testing.T) {
	for _, c := range []struct {
		name   string
		plain  func(channels.Config) *channels.Pipeline
		engine func(context.Context, *env) (*result, error)
		limit  float64
	}{
		{"filter and projection", channels.Stateless, flatBids(statelessSQL, "", 10_000), 10},
		{"windowed count", channels.Keyed, flatBids(updateSQL, "1 SECOND", 10_000), 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine, plain := costOf(t, c.engine), costOf(t, runChannels(c.plain))
			ratio := float64(plain.RowsPerCPU / engine.RowsPerCPU)
			t.Logf("the engine takes %.1f times the CPU time of plain channels (%.2f M rows per CPU second, %.2f M)", ratio, engine.RowsPerCPU/1e6, plain.RowsPerCPU/1e6)
			if ratio > c.limit {
				t.Errorf("the engine takes %.1f times the CPU time of plain channels, want at most %v", ratio, c.limit)
			}
		})
	}
}

// nexmarkQuery finds a query by name; an unknown name gives none.
func nexmarkQuery(name string) nexmark.Query {
	for _, q := range nexmark.Queries() {
		if q.Name == name {
			return q
		}
	}
	return nexmark.Query{}
}
