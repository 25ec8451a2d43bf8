package plan

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestUIDsDependOnTheQueryAlone compiles each query again and again, among others
// and in any order: what its state and its offsets are called never changes.
func TestUIDsDependOnTheQueryAlone(t *testing.T) {
	queries := []struct {
		mode Mode
		text string
	}{
		{Update, "SELECT a, count(*) AS n FROM s GROUP BY a"},
		{Complete, "SELECT a, count(*) AS n FROM (SELECT a FROM s LIMIT 5) x GROUP BY a ORDER BY n LIMIT 2"},
		{Append, "SELECT ts, count(*) AS n FROM s GROUP BY ts LIMIT 7"},
		{Append, "SELECT window, sum(c) AS t FROM (SELECT window AS w, count(*) AS c FROM s GROUP BY window(ts, '1 second')) x GROUP BY window(w, '2 seconds')"},
		{Update, "SELECT a, count(*) AS n FROM s GROUP BY a UNION ALL SELECT a, 1L FROM s UNION ALL SELECT b, sum(a) FROM s2 GROUP BY b"},
		{Append, "SELECT a FROM s UNION ALL SELECT a FROM s2"},
	}
	describe := func(i int, cat Catalog) []any {
		c := compileText(t, cat, queries[i].text, queries[i].mode)
		return []any{c.Plan, c.SinkNode, slices.Sorted(maps.Keys(c.Sources))}
	}
	want := map[int][]any{}
	for i := range queries {
		want[i] = describe(i, stateCatalog(t))
	}
	r := rand.New(rand.NewPCG(1, 9))
	shared := stateCatalog(t)
	for range 200 {
		i := r.IntN(len(queries))
		if d := gocmp.Diff(want[i], describe(i, shared)); d != "" {
			t.Fatalf("%s: -first +now\n%s", queries[i].text, d)
		}
	}
}
