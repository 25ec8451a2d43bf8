package plan

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// itemsOf parses select items.
func itemsOf(t *testing.T, texts ...string) []sql.SelectItem {
	t.Helper()
	var out []sql.SelectItem
	for _, text := range texts {
		it, err := sql.ParseSelectItem(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, it)
	}
	return out
}

func exprOf(t *testing.T, text string) sql.Expr {
	t.Helper()
	e, err := sql.ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestDataFramesGiveThePlansOfSQL builds plans both ways.
func TestDataFramesGiveThePlansOfSQL(t *testing.T) {
	cat := &testCatalog{}
	plain := &Table{Name: "s", Schema: schemaOf(t, "a int, b int, name string, ts timestamp"), Streaming: true}
	marked := *plain
	marked.Name, marked.Watermark = "w", &WatermarkDecl{Column: "ts", Delay: 5 * time.Second}
	cat.add("s", plain)
	cat.add("w", &marked)
	ok := func(n Node, errs []*sql.Error) Node {
		t.Helper()
		if len(errs) > 0 {
			t.Fatal(errs[0])
		}
		return n
	}
	s, w := NewScan(plain), NewScan(&marked)
	for _, c := range []struct {
		sql string
		df  Node
	}{
		{
			"SELECT a, b + 1 AS c FROM s WHERE name = 'x'",
			ok(NewSelect(ok(NewFilter(s, exprOf(t, "name = 'x'"), Options{})), itemsOf(t, "a", "b + 1 AS c"), Options{})),
		},
		{
			"SELECT a, count(*) AS n FROM s GROUP BY a",
			ok(NewAggregate(s, []sql.Expr{exprOf(t, "a")}, itemsOf(t, "a", "count(*) AS n"), Options{})),
		},
		{
			"SELECT window, a, max(b) FROM w GROUP BY window(ts, '10 seconds'), a",
			ok(NewAggregate(w, []sql.Expr{exprOf(t, "window(ts, '10 seconds')"), exprOf(t, "a")}, itemsOf(t, "window", "a", "max(b)"), Options{})),
		},
		{
			"SELECT a FROM s UNION ALL SELECT b FROM w",
			ok(NewUnion(ok(NewSelect(s, itemsOf(t, "a"), Options{})), ok(NewSelect(w, itemsOf(t, "b"), Options{})))),
		},
		{"SELECT *, a * 2 AS d FROM s", ok(NewWithColumn(s, "d", exprOf(t, "a * 2"), Options{}))},
		{"SELECT a, b, upper(name) AS name, ts FROM s", ok(NewWithColumn(s, "name", exprOf(t, "upper(name)"), Options{}))},
		{"SELECT a, ts FROM s", NewDrop(s, "name", "b", "nosuch")},
		{"SELECT a AS x, b AS y, name AS z, ts AS t FROM s", ok(NewRename(s, []string{"x", "y", "z", "t"}))},
		{"SELECT a, explode(split(name, ' ')) AS word FROM s", ok(NewSelect(s, itemsOf(t, "a", "explode(split(name, ' ')) AS word"), Options{}))},
		{"SELECT * FROM s WATERMARK ts DELAY OF INTERVAL 5 SECONDS", ok(NewSelect(ok(NewWatermark(s, "ts", 5*time.Second)), itemsOf(t, "*"), Options{}))},
		{"SELECT a FROM s LIMIT 3", ok(NewLimit(ok(NewSelect(s, itemsOf(t, "a"), Options{})), 3))},
		{"SELECT count(*) FROM s", ok(NewSelect(s, itemsOf(t, "count(*)"), Options{}))},
		{"SELECT DISTINCT a FROM s", NewDistinct(ok(NewSelect(s, itemsOf(t, "a"), Options{})))},
	} {
		n := ok(FromSelect(parseQuery(t, c.sql), cat, Options{}))
		if diff := gocmp.Diff(Format(c.df), Format(n)); diff != "" {
			t.Errorf("%s: -data frame +SQL:\n%s", c.sql, diff)
		}
		if got, want := Schema(c.df).String(), Schema(n).String(); got != want {
			t.Errorf("%s: columns %s, want %s", c.sql, got, want)
		}
	}
}

func TestDataFramesReportFaults(t *testing.T) {
	s := NewScan(&Table{Name: "s", Schema: schemaOf(t, "a int, ts timestamp"), Streaming: true})
	bad := func(class string) func(Node, []*sql.Error) {
		return func(_ Node, errs []*sql.Error) {
			t.Helper()
			if len(errs) == 0 || errs[0].Class != class {
				t.Errorf("got %v, want %s", errs, class)
			}
		}
	}
	bad("UNRESOLVED_COLUMN.WITH_SUGGESTION")(NewFilter(s, exprOf(t, "b > 1"), Options{}))
	bad(ClassNotBoolean)(NewFilter(s, exprOf(t, "a + 1"), Options{}))
	bad(ClassIllegalArgument)(NewWatermark(s, "ts", -1))
	bad(ClassEventTimeType)(NewWatermark(s, "a", 1))
	bad(ClassNumColumns)(NewRename(s, []string{"x"}))
	bad(ClassNumColumns)(NewUnion(s, NewDrop(s, "a")))
	bad(ClassColumnTypes)(NewUnion(NewDrop(s, "a"), NewDrop(s, "ts")))
	bad(ClassIllegalArgument)(NewLimit(s, -1))
	_, errs := NewSelect(s, itemsOf(t, "x", "y", "a"), Options{})
	if len(errs) != 2 {
		t.Errorf("got %v, want both faults", errs)
	}
	marked, _ := NewWatermark(s, "ts", time.Second)
	bad(ClassWatermarkTwice)(NewWatermark(marked, "ts", time.Second))
	if n, errs := NewWatermark(NewScan(&Table{Name: "t", Schema: schemaOf(t, "ts timestamp")}), "ts", 1); len(errs) > 0 || strings.Contains(Format(n), "Watermark") {
		t.Errorf("a watermark on a static table has an effect: %v %v", n, errs)
	}
}

// TestWatermarksAboveStatelessSteps runs frames whose watermark is not declared by
// the table.
func TestWatermarksAboveStatelessSteps(t *testing.T) {
	feeds := randomFeeds(5)[:1]
	feeds[0].watermark = ""
	want := texts(runNode(t, feeds, CompileConfig{Parallelism: 2}, func(s []Node) Node {
		n, errs := NewWatermark(s[0], "ts", time.Second)
		if len(errs) > 0 {
			t.Fatal(errs[0])
		}
		return aggregateByWindow(t, n, "ts")
	}))
	got := texts(runNode(t, feeds, CompileConfig{Parallelism: 2}, func(s []Node) Node {
		n, errs := NewFilter(s[0], exprOf(t, "ts IS NOT NULL"), Options{})
		if len(errs) == 0 {
			n, errs = NewWithColumn(n, "at", exprOf(t, "ts + INTERVAL 0 SECONDS"), Options{})
		}
		if len(errs) == 0 {
			n, errs = NewWatermark(n, "at", time.Second)
		}
		if len(errs) > 0 {
			t.Fatal(errs[0])
		}
		return aggregateByWindow(t, n, "at")
	}))
	if len(want) == 0 {
		t.Fatal("no rows")
	}
	if diff := gocmp.Diff(sortedTexts(got), sortedTexts(want)); diff != "" {
		t.Errorf("-got +want:\n%s", diff)
	}
}

func aggregateByWindow(t *testing.T, n Node, column string) Node {
	t.Helper()
	out, errs := NewAggregate(n, []sql.Expr{exprOf(t, "window("+column+", '10 seconds')")}, itemsOf(t, "window.start", "count(*)"), Options{})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return out
}
