package plan

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// FuzzPlan plans whatever parses: no query makes the planner panic, faults lie inside
// of the text, and optimizing keeps the columns.
func FuzzPlan(f *testing.F) {
	for _, folder := range []string{"plan", "explain"} {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
		if err != nil {
			f.Fatal(err)
		}
		query := regexp.MustCompile(`(?m)^(?:plan|explain).*\n((?:.+\n)+?)----`)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			for _, m := range query.FindAllStringSubmatch(string(data), -1) {
				f.Add(m[1])
			}
		}
	}
	cat := &testCatalog{}
	for _, name := range []string{"s", "bids", "input"} {
		cat.add(name, &Table{
			Name: name, Streaming: true, Watermark: &WatermarkDecl{Column: "ts", Delay: 1e9},
			Schema: schemaOf(f, "a int, b int, price bigint, channel string, name string, ts timestamp, time timestamp, value int, id string, tags array<string>, attrs map<string,int>, w struct<start:timestamp,end:timestamp>"),
		})
	}
	cat.add("names", &Table{Name: "names", Schema: schemaOf(f, "id bigint, name string")})
	f.Fuzz(func(t *testing.T, text string) {
		st, err := sql.ParseStatement(text)
		sel, ok := st.(*sql.SelectStatement)
		if err != nil || !ok {
			t.Skip("not a query")
		}
		n, errs := FromSelect(sel.Query, cat, Options{})
		if (n == nil) != (len(errs) > 0) {
			t.Fatalf("%q: node %v and faults %v", text, n, errs)
		}
		for _, e := range errs {
			if e.Class == "" || e.Msg == "" || e.Span.Start < 0 || e.Span.End > len(text) || e.Span.Start > e.Span.End {
				t.Errorf("%q: fault %+v", text, e)
			}
			_ = sql.Render("", text, e)
		}
		if n == nil {
			return
		}
		for mode := Append; mode <= Complete; mode++ {
			if len(Check(n, mode)) > 0 {
				continue
			}
			want := Schema(n)
			opt := Optimize(n, expr.Options{})
			if got := Schema(opt); !got.Equal(want) {
				t.Fatalf("%q: optimized columns %s, want %s", text, got, want)
			}
			if _, err := Compile(n, CompileConfig{Mode: mode, Parallelism: 2}); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

func TestExpansionIsBounded(t *testing.T) {
	cat := &testCatalog{}
	cat.add("s", &Table{Name: "s", Schema: schemaOf(t, "a int"), Streaming: true})
	tooLarge := func(text string) {
		t.Helper()
		_, errs := FromSelect(parseQuery(t, text), cat, Options{})
		if len(errs) == 0 || errs[0].Class != ClassAnalysis {
			t.Errorf("got %v, want a refusal", errs)
		}
	}
	var with, items []string
	with = append(with, "t0 AS (SELECT a FROM s)")
	items = append(items, "a + a AS x0")
	for i := range 40 {
		prev, next := "t"+itoa(i), "t"+itoa(i+1)
		with = append(with, next+" AS (SELECT * FROM "+prev+" UNION ALL SELECT * FROM "+prev+")")
		items = append(items, "x"+itoa(i)+" + x"+itoa(i)+" AS x"+itoa(i+1))
	}
	tooLarge("WITH " + strings.Join(with, ", ") + " SELECT * FROM t40")
	tooLarge("SELECT " + strings.Join(items, ", ") + " FROM s")
	cat.add("v0", &View{Name: "v0", Query: parseQuery(t, "SELECT a FROM s")})
	for i := range 40 {
		prev, next := "v"+itoa(i), "v"+itoa(i+1)
		cat.add(next, &View{Name: next, Query: parseQuery(t, "SELECT * FROM "+prev+" UNION ALL SELECT * FROM "+prev)})
	}
	tooLarge("SELECT * FROM v40")
}
