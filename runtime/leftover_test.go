package runtime_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// TestKeysThatAreOverLeaveNothing sends 10,000 keys through windows that close, and
// looks for what is left of them in the checkpoint: entries, segments, and disk that
// grows with what has been rather than with what is.
func TestKeysThatAreOverLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, runtime.Config{Dir: dir})
	schema, err := runtime.ParseSchema("k BIGINT, name STRING, ts TIMESTAMP")
	if err != nil {
		t.Fatal(err)
	}
	src := memory.NewSource(schema)
	if err := s.Register("src", src, "ts", "0 seconds"); err != nil {
		t.Fatal(err)
	}
	out := sink(t, s, "out")
	exec(t, s, "CREATE QUERY q WITH (parallelism = 2) AS INSERT INTO out SELECT k, count(*) AS n, max(name) AS m FROM src GROUP BY k, window(ts, '2 minutes')")
	q := s.Query("q")
	const keys, rounds = 1000, 10
	memory := int64(0)
	for r := range int64(rounds) {
		var rows [][]any
		for k := range int64(keys) {
			rows = append(rows, []any{r*keys + k, fmt.Sprintf("a name of some length %d", r*keys+k), at(r * 120)})
		}
		add(t, src, rows...)
		settle(t, q)
		if got := q.StateRows(); len(got) != 1 || got[0] != keys {
			t.Fatalf("after round %d there are %v entries, want %d", r, got, keys)
		}
		switch m := q.LastProgress().StateOperators[0].MemoryUsedBytes; {
		case r < 2:
			memory = max(memory, m)
		case m > 2*memory:
			t.Fatalf("in round %d the state takes %d bytes; at first %d", r, m, memory)
		}
	}
	add(t, src, []any{int64(0), "last", at(rounds * 120)})
	for range 10 { // old epochs go, and what only they needed
		add(t, src, []any{nil, nil, nil})
		settle(t, q)
	}
	if got := q.StateRows(); len(got) != 1 || got[0] > 2 {
		t.Errorf("%v entries are left, want one or two", got)
	}
	if n := len(out.Rows()); n != keys*rounds {
		t.Errorf("%d rows came out, want %d", n, keys*rounds)
	}
	if err := q.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look(t, dir, func(c *runtime.Checkpoints) {
		rep, err := c.Verify(t.Context(), "q")
		if err != nil || len(rep.Problems) > 0 {
			t.Fatalf("report is %+v (%v)", rep, err)
		}
		if per := rep.Bytes / int64(len(rep.Epochs)); per > 32<<10 {
			t.Errorf("an epoch has %d bytes of segments for the one entry that is left", per)
		}
	})
}

// TestQueriesComeAndGo starts, stops and drops queries in one session; each leaves
// neither goroutines nor memory.
func TestQueriesComeAndGo(t *testing.T) {
	s := open(t, runtime.Config{})
	src := source(t, s, "src", "v BIGINT", "")
	add(t, src, []any{int64(1)}, []any{int64(2)})
	round := func() {
		q, err := s.Table("src").GroupBy(runtime.Col("v")).Count().WriteStream(t.Context(), runtime.Write{Name: "q", To: memory.NewSink(), Mode: "update"})
		if err != nil {
			t.Fatal(err)
		}
		settle(t, q)
		if err := q.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Drop("q"); err != nil {
			t.Fatal(err)
		}
	}
	measure := func() (goroutines int, heap uint64) {
		goruntime.GC()
		goruntime.GC() // pools are emptied by the second one
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return goruntime.NumGoroutine(), m.HeapAlloc
	}
	const n = 150
	for range n { // tables of the actor system grow to their size
		round()
	}
	goroutines, heap := measure()
	for range n {
		round()
	}
	g, h := measure()
	if g > goroutines+10 {
		t.Errorf("%d queries have left %d goroutines", n, g-goroutines)
	}
	if h > heap+n*4096 {
		t.Errorf("%d queries have left %d bytes", n, h-heap)
	}
}

// TestNoTimerHoldsUpADrain: with intervals of an hour, what has not been emitted and
// committed yet is when the query is stopped.
func TestNoTimerHoldsUpADrain(t *testing.T) {
	s := open(t, runtime.Config{Dir: t.TempDir(), Defaults: map[string]string{"epoch_interval": "1h", "emit_interval": "1h"}})
	src := source(t, s, "src", "k BIGINT, ts TIMESTAMP", "ts")
	update, complete, window := sink(t, s, "u"), sink(t, s, "c"), sink(t, s, "w")
	exec(t, s, `CREATE QUERY u WITH (output_mode = 'update') AS INSERT INTO u SELECT k, count(*) AS n FROM src GROUP BY k;
CREATE QUERY c WITH (output_mode = 'complete') AS INSERT INTO c SELECT k, count(*) AS n FROM src GROUP BY k;
CREATE QUERY w WITH (emit_interval = '0s') AS INSERT INTO w SELECT window.start AS s, count(*) AS n FROM src GROUP BY window(ts, '1 hour')`)
	add(t, src, []any{int64(7), at(100)}, []any{int64(7), at(200)})
	for _, q := range s.Queries() { // all rows have been read
		for q.Metrics() == nil || q.Metrics().Nodes[0].RowsIn.Load() < 2 {
			goruntime.Gosched()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	same(t, update.Rows(), [][]any{{int64(7), int64(2)}})
	same(t, complete.Rows(), [][]any{{int64(7), int64(2)}})
	same(t, window.Rows(), nil) // no window is closed by a drain
	if n := s.Query("w").LastProgress().NumInputRows; n != 2 {
		t.Errorf("the last checkpoint covers %d rows, want 2", n)
	}
}

// TestAnEpochWithoutChangeIsNotStarted: while its source is silent a query commits
// nothing and writes nothing, however much time passes.
func TestAnEpochWithoutChangeIsNotStarted(t *testing.T) {
	clock := connectortest.NewClock(at(0))
	sys := actors.NewSystem(actors.SystemConfig{Clock: clock})
	defer sys.Close()
	s := open(t, runtime.Config{Dir: t.TempDir(), System: sys, Defaults: map[string]string{"epoch_interval": "1s", "idle_timeout": "1s"}})
	src := source(t, s, "src", "v BIGINT", "")
	out := sink(t, s, "out")
	exec(t, s, "CREATE QUERY q WITH (output_mode = 'update') AS INSERT INTO out SELECT v, count(*) AS n FROM src GROUP BY v")
	q := s.Query("q")
	add(t, src, []any{int64(1)})
	settle(t, q)
	for range 10 { // the source becomes idle, which is a change
		clock.Advance(time.Second)
		settle(t, q)
	}
	before := q.LastProgress().BatchID
	for range 1000 {
		clock.Blocked(1) // the timer of the next epoch
		clock.Advance(time.Second)
	}
	settle(t, q) // an epoch that is asked for comes, or tells that there is nothing
	if after := q.LastProgress().BatchID; after > before+1 {
		t.Errorf("%d epochs without a row", after-before)
	}
	if n := len(out.Log()); n != 1 {
		t.Errorf("the sink got %d rows, want 1", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
