package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/memory"
)

// feed is a table with rows in several partitions.
type feed struct {
	name, columns string
	watermark     string
	parts         [][][]any // unit by unit of one row
}

// randomFeeds are rows with NULLs and repeated keys; times rise within a partition,
// so that none is late, at any interleaving.
func randomFeeds(seed uint64) []feed {
	r := rand.New(rand.NewPCG(seed, 7))
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	maybe := func(v any) any {
		if r.IntN(8) == 0 {
			return nil
		}
		return v
	}
	bids := feed{name: "bids", columns: "k int, v bigint, name string, ts timestamp, tags array<string>", watermark: "ts"}
	for range 3 {
		var rows [][]any
		now := at
		for range 60 {
			now = now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
			tags := []any{"x", "y", "z"}[:r.IntN(4)]
			rows = append(rows, []any{maybe(r.IntN(5)), maybe(r.IntN(100)), maybe(string(rune('a' + r.IntN(3)))), now, maybe(tags)})
		}
		bids.parts = append(bids.parts, append(rows, []any{nil, nil, "end", at.Add(time.Hour), nil}))
	}
	other := feed{name: "other", columns: "id int, amount bigint, at timestamp", watermark: "at"}
	for range 2 {
		var rows [][]any
		now := at
		for range 40 {
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
			rows = append(rows, []any{maybe(r.IntN(5)), maybe(r.IntN(100)), now})
		}
		other.parts = append(other.parts, append(rows, []any{nil, nil, at.Add(time.Hour)}))
	}
	return []feed{bids, other}
}

// tablesOf makes memory sources for the feeds.
func tablesOf(t *testing.T, feeds []feed) (*testCatalog, []*memory.Source) {
	t.Helper()
	cat := &testCatalog{}
	var sources []*memory.Source
	for _, f := range feeds {
		s := schemaOf(t, f.columns)
		src := memory.NewSourceWith(s, memory.SourceOptions{Partitions: len(f.parts)})
		table := &Table{Name: f.name, Schema: s, Streaming: true, Handle: memoryTable{src}}
		if f.watermark != "" {
			table.Watermark = &WatermarkDecl{Column: f.watermark}
		}
		cat.add(f.name, table)
		sources = append(sources, src)
	}
	return cat, sources
}

// run compiles a query, reads the feeds to their end and returns the result.
func run(t *testing.T, feeds []feed, text string, cfg CompileConfig, optimize bool) [][]any {
	t.Helper()
	cat, sources := tablesOf(t, feeds)
	n, errs := FromSelect(parseQuery(t, text), cat, Options{})
	if len(errs) > 0 {
		t.Fatal(render(text, errs))
	}
	if errs := Check(n, cfg.Mode); len(errs) > 0 {
		t.Fatal(render(text, errs))
	}
	opt := normalize(n)
	if optimize {
		opt = Optimize(n, cfg.Expr)
	}
	return runPlan(t, feeds, sources, cfg, func(cfg CompileConfig) (*Compiled, error) { return compile(n, opt, cfg) })
}

// runNode is run for a plan made from the tables' scans.
func runNode(t *testing.T, feeds []feed, cfg CompileConfig, build func([]Node) Node) [][]any {
	t.Helper()
	cat, sources := tablesOf(t, feeds)
	var scans []Node
	for _, f := range feeds {
		scans = append(scans, NewScan(cat.Relation(f.name).(*Table)))
	}
	n := build(scans)
	return runPlan(t, feeds, sources, cfg, func(cfg CompileConfig) (*Compiled, error) { return Compile(n, cfg) })
}

func runPlan(t *testing.T, feeds []feed, sources []*memory.Source, cfg CompileConfig, compile func(CompileConfig) (*Compiled, error)) [][]any {
	t.Helper()
	sink := memory.NewSink()
	cfg.Sink = SinkConfig{Name: "out", Sink: sink}
	c, err := compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for _, table := range c.Sources {
		used[table.Name]++
	}
	rows := uint64(0)
	for i, f := range feeds {
		for p, units := range f.parts {
			for _, u := range units {
				if err := sources[i].AddTo(p, u); err != nil {
					t.Fatal(err)
				}
			}
			rows += uint64(len(units) * used[f.name])
		}
	}
	e := newEngine(t)
	e.start(c)
	e.settle(rows)
	e.stop()
	if cfg.Mode == Update && c.UpdateKey == nil {
		return sink.Log()
	}
	return sink.Rows()
}

func sortedTexts(rows []string) []string {
	slices.Sort(rows)
	return rows
}

// someQueries are queries whose result depends on nothing but the rows.
var someQueries = []struct {
	mode Mode
	text string
}{
	{Append, "SELECT k, v * 2 AS d, name FROM bids WHERE v > 10"},
	{Append, "SELECT d, name FROM (SELECT v + k AS d, name, v FROM bids) x WHERE d > 20 AND name <> 'b'"},
	{Append, "SELECT x.n FROM (SELECT *, name AS n FROM (SELECT * FROM bids) y WHERE v < 50) x WHERE x.n IS NOT NULL AND k = 1"},
	{Append, "SELECT k, tag FROM (SELECT k, v, explode(tags) AS tag FROM bids) x WHERE v > 30 AND tag <> 'y'"},
	{Append, "SELECT k, i, tag FROM bids LATERAL VIEW OUTER posexplode(tags) t AS i, tag WHERE k > 1"},
	{Append, "SELECT w.start AS s, w.end AS e, v FROM (SELECT window(ts, '10 seconds', '4 seconds', '1 second') AS w, v, k FROM bids) x WHERE k = 2"},
	{Append, "SELECT k, v FROM bids UNION ALL SELECT id, amount FROM other UNION ALL SELECT k, v + 1 FROM bids WHERE v > 90"},
	{Append, "SELECT a FROM (SELECT k AS a, v AS b FROM bids UNION ALL SELECT id, amount FROM other) u WHERE b > 70"},
	{Append, "SELECT k, window.start AS s, count(*) AS n, sum(v) AS t FROM bids GROUP BY k, window(ts, '7 seconds')"},
	{Append, "SELECT window.end AS e, k, max(v) - min(v) AS r FROM bids WHERE name <> 'c' GROUP BY window(ts, '12 seconds', '5 seconds'), k HAVING count(*) > 1"},
	{Append, "SELECT aw.start AS s, count(v) AS n FROM (SELECT window(ts, '12 seconds', '5 seconds') AS aw, v FROM bids) x GROUP BY aw"},
	{Append, "SELECT window, max(window.end) AS e, count(*) AS n FROM bids GROUP BY window(ts, '10 seconds')"},
	{Append, "SELECT ts, count(*) AS n FROM bids GROUP BY ts"},
	{Append, "SELECT w, a, count(*) AS n FROM (SELECT window(t, '20 seconds') AS w, a FROM (SELECT k AS a, ts AS t FROM bids UNION ALL SELECT id, at FROM other) u) x GROUP BY w, a"},
	{Update, "SELECT k, count(*) AS n, avg(v) AS a FROM bids GROUP BY k"},
	{Update, "SELECT k % 2 AS odd, name, sum(v) FILTER (WHERE v > 50) AS big, min(name) AS m FROM bids GROUP BY k % 2, name"},
	{Update, "SELECT count(*) AS n, sum(k) AS s FROM bids"},
	{Update, "SELECT a, count(*) AS n FROM (SELECT k AS a FROM bids UNION ALL SELECT id FROM other) u WHERE a > 1 GROUP BY a"},
	{Update, "SELECT window, count(v) AS n FROM bids GROUP BY window(ts, '30 seconds')"},
	{Complete, "SELECT k, count(*) AS n FROM bids WHERE v > 5 GROUP BY k ORDER BY n DESC, k LIMIT 3"},
	{Complete, "SELECT tag, count(*) AS n FROM (SELECT explode(tags) AS tag FROM bids) x GROUP BY tag HAVING tag <> 'z' ORDER BY length(tag), tag DESC"},
	{Complete, "SELECT name, sum(v) AS s FROM bids GROUP BY name"},
	{Append, "SELECT window.start AS s, count(k, v) AS n, count(1) AS m, count_if(v > 50) AS c, bool_or(k > 3) AS b, first(name) IGNORE NULLS IS NULL AS f FROM bids GROUP BY window(ts, '15 seconds')"},
	{Append, "SELECT window.start AS s, a, count(*) AS n FROM (SELECT k AS a, ts AS t FROM bids UNION ALL SELECT id, at FROM other) x GROUP BY window(t, '15 seconds'), a"},
	{Append, "SELECT DISTINCT window(ts, '10 seconds').start AS s, window(ts, '10 seconds') AS w FROM bids"},
	{Update, "SELECT DISTINCT k, name FROM bids"},
	{Append, "SELECT window.*, window_time(window) AS t, count(*) AS n FROM bids GROUP BY window(ts, '10 seconds')"},
	{Append, "SELECT 1 AS one FROM bids WHERE k = 3"},
	{Update, "SELECT window, count(*) AS n FROM (SELECT *, ts - INTERVAL 1 HOUR AS before FROM bids) x GROUP BY window(before, '1 minute')"},
	{Append, "SELECT window_time(window(ts, '10 seconds')) AS t, k FROM bids"},
	{Append, "SELECT window.start AS s, k, count(*) AS parts, sum(c) AS rows FROM (SELECT window AS w5, k, name, count(*) AS c FROM bids GROUP BY window(ts, '5 seconds'), k, name) a GROUP BY window(w5, '20 seconds'), k"},
	{Append, "SELECT w, max(n) AS top FROM (SELECT window(ts, '10 seconds') AS w, k, count(*) AS n FROM bids GROUP BY 1, 2) a GROUP BY w"},
}

// TestOptimizedPlansGiveTheSameRows runs each query as written and optimized, with
// one subtask and with several; all must agree.
func TestOptimizedPlansGiveTheSameRows(t *testing.T) {
	feeds := randomFeeds(3)
	for _, q := range someQueries {
		text := q.text
		t.Run(text, func(t *testing.T) {
			ordered := strings.Contains(text, "ORDER BY")
			result := func(parallelism int, optimize bool) []string {
				rows := texts(run(t, feeds, text, CompileConfig{Mode: q.mode, Parallelism: parallelism}, optimize))
				if !ordered {
					slices.Sort(rows)
				}
				return rows
			}
			want := result(1, false)
			if len(want) == 0 {
				t.Fatal("the query gives no rows, so it shows nothing")
			}
			for _, p := range []int{1, 3} {
				if diff := gocmp.Diff(result(p, true), want); diff != "" {
					t.Errorf("%d subtasks, -optimized +as written:\n%s", p, diff)
				}
			}
		})
	}
}

// TestAWindowedCountAgreesWithGo counts in Go what the query counts.
func TestAWindowedCountAgreesWithGo(t *testing.T) {
	feeds := randomFeeds(11)
	want := map[string]int64{}
	for _, part := range feeds[0].parts {
		for _, row := range part[:len(part)-1] { // the last one closes the windows
			want[fmt.Sprint(row[3].(time.Time).Truncate(10*time.Second), row[0])]++
		}
	}
	const text = "SELECT window.start AS s, k, count(*) AS n FROM bids GROUP BY window(ts, '10 seconds'), k"
	got := map[string]int64{}
	for _, r := range run(t, feeds, text, CompileConfig{Parallelism: 2}, true) {
		got[fmt.Sprint(r[0], r[1])] += r[2].(int64)
	}
	if diff := gocmp.Diff(got, want); diff != "" {
		t.Errorf("-got +want:\n%s", diff)
	}
}

// TestOtherTimesAreNeverLate counts by a time that the watermark does not speak
// about: rows far behind it still count.
func TestOtherTimesAreNeverLate(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	feeds := []feed{{name: "s", columns: "ts timestamp, other timestamp", watermark: "ts", parts: [][][]any{{
		{at.Add(time.Hour), at}, {at.Add(2 * time.Hour), at}, {at.Add(3 * time.Hour), at.Add(time.Second)}, {at.Add(4 * time.Hour), at.Add(time.Minute)},
	}}}}
	got := texts(run(t, feeds, "SELECT window.start AS s, count(*) AS n FROM s GROUP BY window(other, '10 seconds')", CompileConfig{Mode: Update}, true))
	want := texts([][]any{{at, int64(3)}, {at.Add(time.Minute), int64(1)}})
	if diff := gocmp.Diff(sortedTexts(got), sortedTexts(want)); diff != "" {
		t.Errorf("-got +want:\n%s", diff)
	}
}

// TestALimitCountsFinalRows limits what an aggregation gives in append mode.
func TestALimitCountsFinalRows(t *testing.T) {
	feeds := randomFeeds(4)
	const text = "SELECT window.start AS s, k, count(*) AS n FROM bids GROUP BY window(ts, '10 seconds'), k"
	all := texts(run(t, feeds, text, CompileConfig{Parallelism: 2}, true))
	got := texts(run(t, feeds, text+" LIMIT 5", CompileConfig{Parallelism: 2}, true))
	if len(all) <= 5 || len(got) != 5 {
		t.Fatalf("%d rows of %d, want 5", len(got), len(all))
	}
	for _, row := range got {
		if !slices.Contains(all, row) {
			t.Errorf("%s is no row of the result", row)
		}
	}
}

// TestAWatermarkOverAUnion declares the event time of a union: it goes to each side.
func TestAWatermarkOverAUnion(t *testing.T) {
	feeds := randomFeeds(9)
	const text = "SELECT window.start AS s, a, count(*) AS n FROM %s GROUP BY window(t, '15 seconds'), a"
	const union = "SELECT k AS a, ts AS t FROM bids UNION ALL SELECT id, at FROM other"
	want := texts(run(t, feeds, fmt.Sprintf(text, "("+union+") u"), CompileConfig{Parallelism: 2}, true))
	for i := range feeds {
		feeds[i].watermark = ""
	}
	got := texts(run(t, feeds, fmt.Sprintf(text, "("+union+") WATERMARK t DELAY OF INTERVAL 0 SECONDS"), CompileConfig{Parallelism: 2}, true))
	if diff := gocmp.Diff(sortedTexts(got), sortedTexts(want)); diff != "" || len(want) == 0 {
		t.Errorf("-got +want:\n%s", diff)
	}
}
