package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// conformanceCase is a case of testdata/conformance: input, query and what comes out,
// taken from the tests of another engine.
type conformanceCase struct {
	ID      string
	Schemas map[string][][2]string
	Static  map[string]struct {
		Schema [][2]string
		Rows   [][]any
	}
	SQL       string
	Plan      []json.RawMessage
	Watermark []struct{ Table, Column, Delay string }
	Mode      string `json:"output_mode"`
	Options   map[string]any
	Sink      map[string]any
	Result    [][2]string
	UpdateKey []int `json:"update_key"`
	Ordered   bool
	Steps     []conformanceStep
	Verdict   string
	Error     string   `json:"expect_error"`
	About     []string `json:"error_about"`
}

type conformanceStep struct {
	Add         map[string][][]any
	Expect      *[][]any
	Kind        string
	ExpectCount *int   `json:"expect_count"`
	StateRows   any    `json:"expect_state_rows"`
	Late        any    `json:"expect_late_dropped"`
	Watermark   string `json:"expect_watermark"`
	Restart     bool
	Clock       string `json:"advance_clock"`
}

func loadCases(t *testing.T, names ...string) []conformanceCase {
	t.Helper()
	var all []conformanceCase
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", "conformance", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var cases []conformanceCase
		if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		all = append(all, cases...)
	}
	return all
}

func caseSchema(t *testing.T, cols [][2]string) *messages.Schema {
	t.Helper()
	var parts []string
	for _, c := range cols {
		parts = append(parts, sql.FormatName(c[0])+" "+c[1])
	}
	return schemaOf(t, strings.Join(parts, ", "))
}

// memoryTable is a table over a memory source.
type memoryTable struct{ src *memory.Source }

func (m memoryTable) Source() connectors.Source { return m.src }

func (m memoryTable) Rows([]bool) func() (*connectors.Rows, error) {
	return func() (*connectors.Rows, error) {
		return connectors.NewRows(m.src.Schema(), nil, connectors.FailOnError), nil
	}
}

// catalog declares the tables of a case.
func (c *conformanceCase) catalog(t *testing.T) (*testCatalog, map[string]*memory.Source, *sql.Error) {
	t.Helper()
	cat := &testCatalog{}
	sources := map[string]*memory.Source{}
	for name, cols := range c.Schemas {
		s := caseSchema(t, cols)
		sources[name] = memory.NewSource(s)
		cat.add(name, &Table{Name: name, Schema: s, Streaming: true, Handle: memoryTable{sources[name]}})
	}
	for name, st := range c.Static {
		cat.add(name, &Table{Name: name, Schema: caseSchema(t, st.Schema)})
	}
	for _, w := range c.Watermark {
		table, ok := cat.Relation(w.Table).(*Table)
		if !ok {
			t.Fatalf("%s: watermark on unknown table %s", c.ID, w.Table)
		}
		d, err := ParseDelay(w.Delay)
		if err != nil {
			return nil, nil, err
		}
		if table.Watermark != nil {
			_, errs := NewWatermark(NewScan(table), w.Column, d)
			if len(errs) > 0 {
				return nil, nil, errs[0]
			}
			t.Fatalf("%s: a second watermark was accepted", c.ID)
		}
		table.Watermark = &WatermarkDecl{Column: w.Column, Delay: d}
	}
	return cat, sources, nil
}

// plan analyses and checks the query of a case.
func (c *conformanceCase) plan(t *testing.T, cat *testCatalog) (Node, Mode, []*sql.Error) {
	t.Helper()
	mode := Batch
	if c.Mode != "batch" {
		var err *sql.Error
		if mode, err = ParseMode(c.Mode); err != nil {
			return nil, mode, []*sql.Error{err}
		}
	}
	n, errs := FromSelect(parseQuery(t, c.SQL), cat, Options{})
	if len(errs) > 0 {
		return nil, mode, errs
	}
	return n, mode, Check(n, mode)
}

// unfit are cases that need what this package does not decide or the engine does
// not have yet.
var unfit = map[string]string{
	"agg-015": "needs a clock that the test moves",
	"agg-016": "needs a clock that the test moves",
	"wm-014":  "watermark policy max",
	"wm-016":  "watermark policy max",
	"wm-017":  "watermark policy is an option of the query",
	"wm-018":  "watermark policy is an option of the query",
}

func TestConformance(t *testing.T) {
	for _, c := range loadCases(t, "window", "agg", "limit", "watermark", "multi") {
		t.Run(c.ID, func(t *testing.T) {
			if reason := unfit[c.ID]; reason != "" {
				t.Skip(reason)
			}
			if c.SQL == "" {
				t.Skip("operators of the data frame API that do not exist yet")
			}
			cat, sources, err := c.catalog(t)
			if err != nil {
				c.wantError(t, []*sql.Error{err})
				return
			}
			n, mode, errs := c.plan(t, cat)
			if i := slices.IndexFunc(errs, func(e *sql.Error) bool { return e.Class == ClassNotYet }); i >= 0 && c.Error == "" {
				t.Skip(errs[i].Msg)
			}
			if c.Error != "" || len(errs) > 0 {
				c.wantError(t, errs)
				return
			}
			run := &caseRun{t: t, c: &c, node: n, mode: mode, sources: sources, sink: memory.NewSink(), parallelism: 1}
			if p, ok := c.Options["parallelism_before_restart"].(float64); ok {
				run.parallelism = int(p)
			}
			run.steps()
		})
	}
}

func (c *conformanceCase) wantError(t *testing.T, errs []*sql.Error) {
	t.Helper()
	if c.Error == "" {
		t.Fatalf("got faults for a query that must run:\n%s", render(c.SQL, errs))
	}
	for _, e := range errs {
		if !strings.HasPrefix(e.Class, c.Error) {
			continue
		}
		text := strings.ToLower(e.Error())
		if !slices.ContainsFunc(c.About, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) }) {
			return
		}
	}
	t.Errorf("got %v, want %s about %q", errs, c.Error, c.About)
}

// caseRun runs the steps of a case.
type caseRun struct {
	t           *testing.T
	c           *conformanceCase
	node        Node
	mode        Mode
	sources     map[string]*memory.Source
	sink        *memory.Sink
	parallelism int
	engine      *engine
	seen        int // rows of the sink's log at the last expectation
	rows        uint64
	late        []int64 // at the last expectation
}

func (r *caseRun) compile() *Compiled {
	r.t.Helper()
	none := time.Duration(-1)
	c, err := Compile(r.node, CompileConfig{
		Mode: r.mode, Sink: SinkConfig{Name: "out", Sink: r.sink}, Parallelism: r.parallelism, IdleTimeout: none,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *caseRun) steps() {
	r.t.Helper()
	r.engine = newEngine(r.t)
	r.engine.start(r.compile())
	for i, s := range r.c.Steps {
		switch {
		case s.Add != nil:
			for table, rows := range s.Add {
				for _, row := range rows {
					for i := range row {
						row[i] = wholeNumbers(row[i])
					}
				}
				if err := r.sources[table].Add(rows...); err != nil {
					r.t.Fatal(err)
				}
				r.rows += uint64(len(rows))
			}
			r.engine.settle(r.rows)
		case s.Restart:
			if p, ok := r.c.Options["parallelism_after_restart"].(float64); ok {
				r.parallelism = int(p)
			}
			r.engine.stop()
			r.engine.start(r.compile())
		default:
			r.check(i, s)
		}
	}
	r.engine.stop()
}

func (r *caseRun) check(i int, s conformanceStep) {
	r.t.Helper()
	switch {
	case s.Expect != nil:
		got, want := r.got(s.Kind), r.want(*s.Expect)
		if !r.c.Ordered {
			slices.Sort(got)
			slices.Sort(want)
		}
		if diff := gocmp.Diff(got, want); diff != "" {
			r.t.Errorf("step %d, -got +want:\n%s", i, diff)
		}
	case s.ExpectCount != nil:
		if got := len(r.sink.Rows()); got != *s.ExpectCount {
			r.t.Errorf("step %d: %d rows, want %d", i, got, *s.ExpectCount)
		}
	case s.StateRows != nil:
		if got, want := r.engine.stateRows(), counts64(s.StateRows); !slices.Equal(got, want) {
			r.t.Errorf("step %d: %d state rows, want %d", i, got, want)
		}
	case s.Late != nil:
		got := r.engine.late()
		now := slices.Clone(got)
		for k := range r.late {
			now[k] -= r.late[k]
		}
		if _, list := s.Late.([]any); !list { // the cases with one number count from the start
			now = got
		}
		if want := counts64(s.Late); !slices.Equal(now, want) {
			r.t.Errorf("step %d: %d late rows, want %d", i, now, want)
		}
		r.late = got
	case s.Watermark != "":
		want, err := time.Parse(time.RFC3339Nano, s.Watermark)
		if err != nil {
			r.t.Fatal(err)
		}
		got := max(r.engine.watermark(), 0) // the cases start at the epoch, we at none
		if got != messages.EventTimeOf(want) {
			r.t.Errorf("step %d: watermark %v, want %v", i, got.Time(), want)
		}
	default:
		r.t.Fatalf("step %d is not understood: %+v", i, s)
	}
}

// got returns the sink's rows as text. In update mode it is the last row per key.
func (r *caseRun) got(kind string) []string {
	rows := r.sink.Rows()
	if kind == "new" {
		log := r.sink.Log()
		rows = log[r.seen:]
	}
	r.seen = len(r.sink.Log())
	if r.c.UpdateKey == nil {
		return texts(rows)
	}
	last := map[string][]any{}
	for _, row := range rows {
		var key []any
		for _, k := range r.c.UpdateKey {
			key = append(key, row[k])
		}
		last[fmt.Sprint(key)] = row
	}
	var out [][]any
	for _, row := range last {
		out = append(out, row)
	}
	return texts(out)
}

// want brings expected rows to the types of the result.
func (r *caseRun) want(rows [][]any) []string {
	r.t.Helper()
	b := messages.NewBuilder(caseSchema(r.t, r.c.Result))
	var out [][]any
	for _, row := range rows {
		for i, v := range row {
			if err := format.AppendValue(b.Column(i), wholeNumbers(v)); err != nil {
				r.t.Fatal(err)
			}
		}
		b.EndRow()
		b.EndUnit(0, 0)
	}
	if batch := b.Finish(); batch != nil {
		for i := range batch.Len() {
			out = append(out, format.RowAt(batch, i))
		}
		batch.Release()
	}
	return texts(out)
}

// counts64 reads a count, or one per operator from source to sink.
func counts64(v any) []int64 {
	if f, ok := v.(float64); ok {
		return []int64{int64(f)}
	}
	var out []int64
	for _, x := range v.([]any) {
		out = append(out, int64(x.(float64)))
	}
	return out
}

// wholeNumbers turns the numbers of JSON into integers where they are.
func wholeNumbers(v any) any {
	switch x := v.(type) {
	case float64:
		if x == math.Trunc(x) {
			return int64(x)
		}
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = wholeNumbers(x[i])
		}
		return out
	}
	return v
}

func texts(rows [][]any) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, fmt.Sprint(r))
	}
	return out
}

// TestVerdicts holds Check to the refusals of another engine. A plan it accepts may
// be refused here only as not supported yet.
func TestVerdicts(t *testing.T) {
	counts := map[string]int{} // said with -v
	for _, c := range loadCases(t, "unsupported") {
		t.Run(c.ID, func(t *testing.T) {
			switch {
			case c.SQL == "":
				t.Skip("operators of the data frame API that do not exist yet")
			case c.Sink != nil:
				t.Skip("about a sink")
			case !strings.HasPrefix(c.SQL, "SELECT"):
				t.Skip("not a query")
			}
			cat, _, err := c.catalog(t)
			if err != nil {
				t.Fatal(err)
			}
			_, _, errs := c.plan(t, cat)
			later := slices.IndexFunc(errs, func(e *sql.Error) bool { return e.Class == ClassNotYet }) >= 0
			switch {
			case c.Verdict == "ok" && later:
				counts["not yet"]++
			case c.Verdict == "ok" && len(errs) > 0:
				t.Errorf("got\n%swant no faults", render(c.SQL, errs))
			case c.Verdict == "ok":
				counts["ok"]++
			default:
				c.wantError(t, errs)
				counts["refused"]++
			}
		})
	}
	t.Logf("%v", counts)
}
