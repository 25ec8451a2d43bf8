package runtime_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// stamped are rows (id, k, ts) of which some are far behind, and what a batch makes
// of them: the late ones, and how many of each key fall into each window of 10 s.
type stamped struct {
	rows   [][]any
	late   map[int64]bool
	counts map[string]int64
}

var epochStart = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

const (
	windowSize = 10 * time.Second
	delay      = 10 * time.Second
)

func countKey(k int64, start time.Time) string {
	return fmt.Sprint(k, " ", start.UTC().Format(time.TimeOnly))
}

// newStamped makes n rows of one partition, each a unit of its own: a row is late if
// its window had ended when the watermark was the highest time before it, less the
// delay.
func newStamped(seed uint64, n int) *stamped {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &stamped{late: map[int64]bool{}, counts: map[string]int64{}}
	now, highest := epochStart, time.Time{}
	for id := range int64(n) {
		now = now.Add(time.Duration(r.IntN(900)) * time.Millisecond)
		at := now.Add(-time.Duration(r.IntN(40_000)) * time.Millisecond)
		k := r.Int64N(5)
		s.rows = append(s.rows, []any{id, k, at})
		start := at.Truncate(windowSize)
		if !highest.IsZero() && !start.Add(windowSize).After(highest.Add(-delay)) {
			s.late[id] = true
		} else {
			s.counts[countKey(k, start)]++
		}
		if at.After(highest) {
			highest = at
		}
	}
	return s
}

// session registers the source and the two sinks.
func (s *stamped) session(t *testing.T, dir string, src *memory.Source, out, late *memory.Sink) *runtime.Session {
	t.Helper()
	x := open(t, runtime.Config{Dir: dir})
	for _, err := range []error{x.Register("src", src, "ts", "10 seconds"), x.RegisterSink("out", out), x.RegisterSink("late", late)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func (s *stamped) source(t *testing.T) *memory.Source {
	t.Helper()
	schema, err := runtime.ParseSchema("id BIGINT, k BIGINT, ts TIMESTAMP")
	if err != nil {
		t.Fatal(err)
	}
	return memory.NewSource(schema)
}

// check compares results and late rows with the batch.
func (s *stamped) check(t *testing.T, out, late *memory.Sink) {
	t.Helper()
	counts, total := map[string]int64{}, int64(0)
	for _, r := range out.Rows() {
		key := countKey(r[0].(int64), r[1].(time.Time))
		if counts[key] != 0 {
			t.Errorf("window %s came twice", key)
		}
		counts[key] = r[2].(int64)
		total += r[2].(int64)
	}
	if !mapsEqual(counts, s.counts) {
		t.Errorf("windows %v, want %v", counts, s.counts)
	}
	seen := map[int64]bool{}
	for _, r := range late.Rows() {
		id := r[0].(int64)
		if seen[id] || !s.late[id] {
			t.Errorf("row %d is late: twice %v, by the batch %v", id, seen[id], s.late[id])
		}
		seen[id] = true
		want := s.rows[id]
		if r[1] != want[1] || !r[2].(time.Time).Equal(want[2].(time.Time)) {
			t.Errorf("late row %v, it was %v", r, want)
		}
		wm := r[4].(time.Time)
		if r[3] != "aggregate" || wm.Before(want[2].(time.Time).Truncate(windowSize).Add(windowSize)) {
			t.Errorf("late row %v: operator %v, watermark %v", want, r[3], wm)
		}
	}
	if len(seen) != len(s.late) {
		t.Errorf("%d rows are late, want %d", len(seen), len(s.late))
	}
	if total+int64(len(late.Rows())) != int64(len(s.rows)) {
		t.Errorf("%d rows in windows and %d late ones of %d", total, len(late.Rows()), len(s.rows))
	}
}

func mapsEqual(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func runToEnd(t *testing.T, s *runtime.Session, script, query string) {
	t.Helper()
	exec(t, s, script)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Query(query).Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

const countLate = `CREATE QUERY q WITH (trigger = 'available_now', flush_at_end = %q, late_output = 'late', parallelism = '%d', epoch_interval = '10ms') AS
INSERT INTO out SELECT k, window.start AS s, count(*) AS n FROM src GROUP BY k, window(ts, '10 seconds')`

func TestEmittedAndLateRowsAreTheInput(t *testing.T) {
	for _, parallelism := range []int{1, 3} {
		t.Run(fmt.Sprint("parallelism ", parallelism), func(t *testing.T) {
			s := newStamped(uint64(parallelism), 3000)
			if len(s.late) < 100 {
				t.Fatal("too few late rows to prove anything")
			}
			src, out, late := s.source(t), memory.NewSink(), memory.NewSink()
			for _, r := range s.rows {
				add(t, src, r)
			}
			runToEnd(t, s.session(t, "", src, out, late), fmt.Sprintf(countLate, "true", parallelism), "q")
			s.check(t, out, late)
		})
	}
}

// TestLateRowsAcrossRuns stops and goes on from the checkpoint on the way.
func TestLateRowsAcrossRuns(t *testing.T) {
	s := newStamped(7, 2000)
	src, out, late := s.source(t), memory.NewSink(), memory.NewSink()
	dir := t.TempDir()
	for i, r := range s.rows {
		add(t, src, r)
		if i%700 == 600 || i == len(s.rows)-1 {
			x := s.session(t, dir, src, out, late)
			runToEnd(t, x, fmt.Sprintf(countLate, fmt.Sprint(i == len(s.rows)-1), 2), "q")
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.check(t, out, late)
}

// TestRowsOfFlushedWindowsAreLate: flush_at_end moves the watermark to the end of
// the last window it has closed, and no further.
func TestRowsOfFlushedWindowsAreLate(t *testing.T) {
	for _, parallelism := range []int{1, 3} {
		t.Run(fmt.Sprint("parallelism ", parallelism), func(t *testing.T) { testFlushed(t, parallelism) })
	}
}

func testFlushed(t *testing.T, parallelism int) {
	s := &stamped{}
	src, out, late := s.source(t), memory.NewSink(), memory.NewSink()
	dir := t.TempDir()
	at := func(sec int) time.Time { return epochStart.Add(time.Duration(sec) * time.Second) }
	runs := []struct {
		rows     [][]any
		out, ids []int64 // counts of the windows that come, ids of late rows
	}{
		{rows: [][]any{{int64(0), int64(1), at(1)}, {int64(1), int64(1), at(12)}}, out: []int64{1, 1}},
		{rows: [][]any{{int64(2), int64(1), at(5)}, {int64(3), int64(1), at(19)}, {int64(4), int64(1), at(20)}}, out: []int64{1}, ids: []int64{2, 3}},
		{rows: nil},
	}
	for i, r := range runs {
		add(t, src, r.rows...)
		before, lateBefore := len(out.Rows()), len(late.Rows())
		x := s.session(t, dir, src, out, late)
		runToEnd(t, x, fmt.Sprintf(countLate, "true", parallelism), "q")
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		var counts, ids []int64
		for _, row := range out.Rows()[before:] {
			counts = append(counts, row[2].(int64))
		}
		for _, row := range late.Rows()[lateBefore:] {
			ids = append(ids, row[0].(int64))
		}
		if !slices.Equal(counts, r.out) || !slices.Equal(ids, r.ids) {
			t.Errorf("run %d: windows of %v rows and late rows %v, want %v and %v", i, counts, ids, r.out, r.ids)
		}
	}
}

// TestAFlushGoesThroughStatefulOperatorsInTurn: windows of windows, with several
// subtasks that end one after the other.
func TestAFlushGoesThroughStatefulOperatorsInTurn(t *testing.T) {
	for seed := range uint64(5) {
		s := newStamped(seed, 600)
		src, out, late := s.source(t), memory.NewSink(), memory.NewSink()
		for _, r := range s.rows {
			add(t, src, r)
		}
		x := s.session(t, "", src, out, late)
		runToEnd(t, x, `CREATE QUERY q WITH (trigger = 'available_now', flush_at_end = 'true', late_output = 'late', parallelism = '4') AS
			INSERT INTO out SELECT window.start AS s, sum(n) AS n FROM (SELECT k, window AS w, count(*) AS n FROM src GROUP BY k, window(ts, '10 seconds')) x
			GROUP BY window(w, '1 minute')`, "q")
		total := int64(len(late.Rows()))
		for _, r := range out.Rows() {
			total += r[1].(int64)
		}
		if total != int64(len(s.rows)) {
			t.Errorf("seed %d: %d rows in windows of windows or late, of %d", seed, total, len(s.rows))
		}
	}
}

func TestUpdateModeHasLateRowsToo(t *testing.T) {
	s := newStamped(11, 1000)
	src, out, late := s.source(t), memory.NewSink(), memory.NewSink()
	for _, r := range s.rows {
		add(t, src, r)
	}
	runToEnd(t, s.session(t, "", src, out, late), `CREATE QUERY q WITH (trigger = 'available_now', output_mode = 'update', late_output = 'late') AS
		INSERT INTO out SELECT k, window.start AS s, count(*) AS n FROM src GROUP BY k, window(ts, '10 seconds')`, "q")
	if len(late.Rows()) != len(s.late) {
		t.Errorf("%d rows are late, want %d", len(late.Rows()), len(s.late))
	}
}

func TestOptionsThatHaveNoEffectAreRefused(t *testing.T) {
	for _, c := range []struct{ options, query, want string }{
		{"flush_at_end = 'true'", "SELECT k FROM src", "flush_at_end needs trigger = 'available_now'"},
		{"late_output = 'late'", "SELECT k FROM src", "no operator that drops late rows"},
		{"late_output = 'late', output_mode = 'complete'", "SELECT k, count(*) AS n FROM src GROUP BY k", "no operator that drops late rows"},
		{"late_output = 'nowhere'", "SELECT k, window.start AS s, count(*) AS n FROM src GROUP BY k, window(ts, '1 second')", "late_output: there is no sink nowhere"},
		{"late_output = 'out'", "SELECT k, window.start AS s, count(*) AS n FROM src GROUP BY k, window(ts, '1 second')", "need a sink of their own"},
		{
			"late_output = 'late'", "SELECT k, window.start AS s, count(*) AS n FROM src GROUP BY k, window(ts, '1 second') UNION ALL " +
				"SELECT k, window.start AS s, count(*) AS n FROM (SELECT k, ts FROM src) x GROUP BY k, window(ts, '1 second')", "drop rows with different columns",
		},
	} {
		s := &stamped{}
		x := s.session(t, "", s.source(t), memory.NewSink(), memory.NewSink())
		err := x.Validate(t.Context(), "sql", "CREATE QUERY q WITH ("+c.options+") AS INSERT INTO out "+c.query)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.options, err, c.want)
		}
	}
	s := &stamped{}
	x := s.session(t, "", s.source(t), memory.NewSink(), memory.NewSink())
	if err := x.Validate(t.Context(), "sql", "SET late_output = 'late'; INSERT INTO out SELECT k FROM src"); err != nil {
		t.Errorf("late_output for all queries: %v", err)
	}
}

func TestExplainShowsEverySink(t *testing.T) {
	x := open(t, runtime.Config{})
	text, err := x.ExplainScript(t.Context(), "sql", `
		CREATE SINK dead WITH (connector = 'console');
		CREATE SINK behind WITH (connector = 'console');
		CREATE SOURCE src (k BIGINT, note STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'nats', url = 'nats://127.0.0.1:4222', stream = 'S', subject = 's', format = 'json', on_error = 'dead_letter', dead_letter = 'dead');
		CREATE QUERY q WITH (late_output = 'behind') AS SELECT k, window.start AS s, count(*) AS n FROM src GROUP BY k, window(ts, '1 second')`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Sink behind for late rows of aggregate\n  at_least_once, at_once: ", "k bigint, note string, ts timestamp, late_operator string, late_watermark timestamp",
		"Sink dead for bad records of src\n  at_least_once, at_once\n", "late:behind: late rows", "dead_letter:src: bad records",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("EXPLAIN does not show %q:\n%s", want, text)
		}
	}
}

func TestBareSelectsOfSeveralScriptsHaveDifferentNames(t *testing.T) {
	s := open(t, runtime.Config{Stdout: io.Discard})
	source(t, s, "src", "v BIGINT", "")
	exec(t, s, "SELECT v FROM src; SELECT v + 1 AS v FROM src")
	exec(t, s, "SELECT v + 2 AS v FROM src")
	for _, name := range []string{"select_1", "select_2", "select_3"} {
		if s.Query(name) == nil {
			t.Errorf("there is no %s", name)
		}
	}
}
