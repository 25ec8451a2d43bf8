package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages/fault"
)

func stateCatalog(t *testing.T) *testCatalog {
	t.Helper()
	cat := &testCatalog{}
	for _, name := range []string{"s", "s2"} {
		cat.add(name, &Table{
			Name: name, Schema: schemaOf(t, "a bigint, b int, c bigint, name string, ts timestamp"), Streaming: true,
			Watermark: &WatermarkDecl{Column: "ts", Delay: 1e9},
		})
	}
	return cat
}

func compileText(t *testing.T, cat Catalog, text string, mode Mode) *Compiled {
	t.Helper()
	n, errs := FromSelect(parseQuery(t, text), cat, Options{})
	if len(errs) > 0 {
		t.Fatal(render(text, errs))
	}
	c, err := Compile(n, CompileConfig{Mode: mode, Parallelism: 2})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestUIDsIgnoreWhatIsStateless(t *testing.T) {
	cat := stateCatalog(t)
	base := compileText(t, cat, "SELECT a, count(*) AS n FROM s GROUP BY a", Update)
	for _, text := range []string{
		"SELECT count(*) AS other, a + 1 AS x FROM s GROUP BY a",
		"SELECT a, count(*) AS n FROM s WHERE b > 3 GROUP BY a",
		"SELECT a, count(*) AS n FROM s WHERE b > 3 AND name LIKE 'x%' GROUP BY a HAVING count(*) > 1",
		"SELECT x, n FROM (SELECT a AS x, count(*) AS n FROM (SELECT a, b FROM s) y GROUP BY a) z WHERE n > 1",
		"SELECT a, count(*) AS n FROM (SELECT a FROM s UNION ALL SELECT a FROM s2) u GROUP BY a",
	} {
		now := compileText(t, cat, text, Update)
		if !slices.Equal(now.Plan.Operators, base.Plan.Operators) {
			t.Errorf("%s: state %v, want %v", text, now.Plan.Operators, base.Plan.Operators)
		}
		if err := CheckState("q", base.Plan, now.Plan, false); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestUIDsOfSeveralStatefulOperators(t *testing.T) {
	cat := stateCatalog(t)
	uids := func(text string, mode Mode) (out []string) {
		for _, o := range compileText(t, cat, text, mode).Plan.Operators {
			out = append(out, o.UID)
		}
		slices.Sort(out)
		return out
	}
	got := uids("SELECT a, count(*) FROM (SELECT a FROM s LIMIT 5) GROUP BY a", Complete)
	if want := []string{"aggregate", "aggregate/limit"}; !slices.Equal(got, want) {
		t.Errorf("limit below an aggregation: %v, want %v", got, want)
	}
	got = uids("SELECT ts, count(*) FROM s GROUP BY ts LIMIT 7", Append)
	if want := []string{"limit", "limit/aggregate"}; !slices.Equal(got, want) {
		t.Errorf("limit above an aggregation: %v, want %v", got, want)
	}
	got = uids("SELECT window, sum(c) FROM (SELECT window AS w, count(*) AS c FROM s GROUP BY window(ts, '1 second')) x GROUP BY window(w, '2 seconds')", Append)
	if want := []string{"aggregate", "aggregate/aggregate"}; !slices.Equal(got, want) {
		t.Errorf("an aggregation above another one: %v, want %v", got, want)
	}
	got = uids("SELECT a, count(*) FROM s GROUP BY a UNION ALL SELECT a, 1L FROM s UNION ALL SELECT b, sum(a) FROM s2 GROUP BY b", Update)
	if want := []string{"aggregate", "aggregate#2"}; !slices.Equal(got, want) {
		t.Errorf("two aggregations side by side: %v, want %v", got, want)
	}
}

// TestCheckState is the table of changes that a restart allows.
func TestCheckState(t *testing.T) {
	cat := stateCatalog(t)
	const old = "SELECT a, window, count(*) AS n FROM s GROUP BY a, window(ts, '10 seconds')"
	for _, c := range []struct {
		name, text string
		mode       Mode
		class      string
	}{
		{"a filter is added", "SELECT a, window, count(*) AS n FROM s WHERE b > 1 GROUP BY a, window(ts, '10 seconds')", Append, ""},
		{"the result has another form", "SELECT window.end AS e, count(*) + 1 AS n FROM s GROUP BY a, window(ts, '10 seconds')", Append, ""},
		{"the window is of another size", "SELECT a, count(*) FROM s GROUP BY a, window(ts, '20 seconds')", Append, ClassStateValues},
		{"a key is added", "SELECT a, count(*) FROM s GROUP BY a, b, window(ts, '10 seconds')", Append, ClassStateSchema},
		{"a key is of another type", "SELECT name, count(*) FROM s GROUP BY name, window(ts, '10 seconds')", Append, ClassStateSchema},
		{"a key is another column of the same type", "SELECT c, count(*) FROM s GROUP BY c, window(ts, '10 seconds')", Append, ClassStateSchema},
		{"a key is another expression of the same type", "SELECT a + 1, count(*) FROM s GROUP BY a + 1, window(ts, '10 seconds')", Append, ClassStateSchema},
		{"a column is renamed", "SELECT a AS x, window.start AS y, count(*) AS z FROM s GROUP BY a, window(ts, '10 seconds')", Append, ""},
		{"a column is renamed in a subquery", "SELECT k, count(*) AS n FROM (SELECT A AS k, ts AS at FROM s WHERE b > 2) x GROUP BY k, window(at, '10 seconds')", Append, ""},
		{"an aggregate is added", "SELECT a, count(*), max(b) FROM s GROUP BY a, window(ts, '10 seconds')", Append, ClassStateValues},
		{"an aggregate is another one", "SELECT a, max(b) FROM s GROUP BY a, window(ts, '10 seconds')", Append, ClassStateValues},
		{"the aggregation is gone", "SELECT a FROM s", Append, ClassState},
		{"a limit stands in its place", "SELECT a FROM s LIMIT 3", Append, ClassState},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, now := compileText(t, cat, old, Append).Plan, compileText(t, cat, c.text, c.mode).Plan
			err := CheckState("q", before, now, false)
			if c.class == "" {
				if err != nil {
					t.Errorf("got %v, want that it is allowed", err)
				}
				return
			}
			var se *StateError
			if !errors.As(err, &se) || se.Class != c.class || se.Operator != "aggregate" {
				t.Fatalf("got %v, want %s about aggregate", err, c.class)
			}
			if fault.KindOf(err) != fault.Config {
				t.Errorf("kind %v, want Config: restarting does not help", fault.KindOf(err))
			}
			if !strings.Contains(err.Error(), before.Operators[0].Schema) || (c.class == ClassStateSchema || c.class == ClassStateValues) && !strings.Contains(err.Error(), now.Operators[0].Schema) {
				t.Errorf("%v does not show both schemas", err)
			}
			if c.class != ClassState && !strings.Contains(err.Error(), "--fresh q") {
				t.Errorf("%v does not say how to start anew", err)
			}
			if c.class == ClassState && CheckState("q", before, now, true) != nil {
				t.Errorf("dropped state is refused although it is allowed")
			}
			if (c.class == ClassStateSchema || c.class == ClassStateValues) && CheckState("q", before, now, true) == nil {
				t.Errorf("changed state is accepted")
			}
		})
	}
	t.Run("operators that are new start empty", func(t *testing.T) {
		if err := CheckState("q", compileText(t, cat, "SELECT a FROM s", Append).Plan, compileText(t, cat, old, Append).Plan, false); err != nil {
			t.Error(err)
		}
	})
	t.Run("another key hash is refused", func(t *testing.T) {
		p := compileText(t, cat, old, Append).Plan
		q := p
		q.HashVersion++
		if CheckState("q", p, q, false) == nil {
			t.Error("keys would be looked for in other groups")
		}
	})
	t.Run("every fault is named", func(t *testing.T) {
		p := epochs.Plan{Operators: []epochs.OperatorState{{UID: "aggregate", Kind: "aggregate"}, {UID: "limit", Kind: "limit"}}}
		err := CheckState("q", p, epochs.Plan{}, false)
		if err == nil || strings.Count(err.Error(), ClassState) != 2 {
			t.Errorf("got %v, want two faults", err)
		}
	})
}
