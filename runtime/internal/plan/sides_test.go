package plan

import (
	"strings"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
)

func faultsOf(t *testing.T, cat Catalog, text string, mode Mode) string {
	t.Helper()
	n, errs := FromSelect(parseQuery(t, text), cat, Options{})
	if len(errs) == 0 {
		errs = Check(n, mode)
	}
	return render(text, errs)
}

// TestJoinsByUSINGAreRefusedForWhatTheyAre: USING is an equality of the columns.
func TestJoinsByUSINGAreRefusedForWhatTheyAre(t *testing.T) {
	cat := stateCatalog(t)
	for text, want := range map[string]string{
		"SELECT a FROM s LEFT JOIN s2 USING (a, ts)": "NOT_YET_SUPPORTED: a left outer join of two streams",
		"SELECT a FROM s LEFT JOIN s2 USING (a)":     "without a watermark in the join keys",
		"SELECT a FROM s JOIN s2 USING (nothing)":    "UNRESOLVED_COLUMN",
	} {
		if got := faultsOf(t, cat, text, Append); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestSessionWindowsAreNotYetSupportedAndNothingElse(t *testing.T) {
	got := faultsOf(t, stateCatalog(t), "SELECT session_window.start, session_window.end AS e, count(*) FROM s GROUP BY session_window(ts, '5 minutes')", Append)
	if !strings.Contains(got, ClassNotYet) || strings.Contains(got, "UNRESOLVED") {
		t.Errorf("got %s", got)
	}
}

// TestLateRowsAreDeliveredAsExactlyAsResults is about what is chosen for their sink.
func TestLateRowsAreDeliveredAsExactlyAsResults(t *testing.T) {
	const text = "SELECT a, window, count(*) AS n FROM s GROUP BY a, window(ts, '10 seconds')"
	for _, c := range []struct {
		name                  string
		guarantee, visibility string // of the sink for late rows
		main                  string // guarantee of the query's sink
		want                  connectors.Offer
	}{
		{"exactly once like the results", "", "", "exactly_once", connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}},
		{"at least once like the results", "", "", "at_least_once", connectors.Offer{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce}},
		{"what the sink asks for counts", "at_least_once", "", "exactly_once", connectors.Offer{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce}},
		{"at once is at least once", "", "at_once", "exactly_once", connectors.Offer{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, errs := FromSelect(parseQuery(t, text), stateCatalog(t), Options{})
			if len(errs) > 0 {
				t.Fatal(render(text, errs))
			}
			out, err := Compile(n, CompileConfig{Sink: SinkConfig{Sink: memory.NewSink(), Guarantee: c.main}, Late: &LateOutput{
				Name: "late", Guarantee: c.guarantee, Visibility: c.visibility,
				Open: func(*messages.Schema) (connectors.Sink, error) { return memory.NewSink(), nil },
			}})
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Sides[0].Delivery.Offer; got != c.want {
				t.Errorf("late rows: %v %v, want %v %v", got.Guarantee, got.Visibility, c.want.Guarantee, c.want.Visibility)
			}
		})
	}
}

// TestRecordsOnly: where a checkpoint can be.
func TestRecordsOnly(t *testing.T) {
	cat := stateCatalog(t)
	for _, r := range cat.relations {
		table := r.(*Table)
		table.Handle = memoryTable{memory.NewSource(table.Schema)}
	}
	for text, want := range map[string]bool{
		"SELECT a FROM s WHERE b > 1":                        true,
		"SELECT a FROM s UNION ALL SELECT a FROM s2":         true,
		"SELECT a FROM s LIMIT 3":                            false,
		"SELECT ts, count(*) AS n FROM s GROUP BY ts":        false,
		"SELECT DISTINCT ts FROM s":                          false,
		"SELECT explode(array(a, 1L)) AS x FROM s WHERE a>2": true,
	} {
		n, errs := FromSelect(parseQuery(t, text), cat, Options{})
		if len(errs) > 0 {
			t.Fatal(render(text, errs))
		}
		c, err := Compile(n, CompileConfig{Sink: SinkConfig{Sink: memory.NewSink()}})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := c.RecordsOnly(); got != want {
			t.Errorf("%s: records only %v, want %v", text, got, want)
		}
	}
	n, errs := FromSelect(parseQuery(t, "SELECT a FROM s"), cat, Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, err := Compile(n, CompileConfig{Sink: SinkConfig{Sink: memory.NewSink(), Guarantee: "exactly_once", Visibility: "epoch"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.RecordsOnly() {
		t.Error("rows that wait for their epoch are in the checkpoint")
	}
}
