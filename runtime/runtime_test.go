package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, cfg runtime.Config) *runtime.Session {
	t.Helper()
	cfg.Connectors, cfg.Formats = all.Connectors(), all.Formats()
	s, err := runtime.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// source registers a memory source of the given columns.
func source(t *testing.T, s *runtime.Session, name, ddl, watermark string) *memory.Source {
	t.Helper()
	schema, err := runtime.ParseSchema(ddl)
	if err != nil {
		t.Fatal(err)
	}
	src := memory.NewSource(schema)
	delay := ""
	if watermark != "" {
		delay = "10 seconds"
	}
	if err := s.Register(name, src, watermark, delay); err != nil {
		t.Fatal(err)
	}
	return src
}

func sink(t *testing.T, s *runtime.Session, name string) *memory.Sink {
	t.Helper()
	k := memory.NewSink()
	if err := s.RegisterSink(name, k); err != nil {
		t.Fatal(err)
	}
	return k
}

func add(t *testing.T, src *memory.Source, rows ...[]any) {
	t.Helper()
	if err := src.Add(rows...); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, q *runtime.Query) {
	t.Helper()
	if err := q.ProcessAllAvailable(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, s *runtime.Session, script string) {
	t.Helper()
	if err := s.Exec(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, want [][]any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

func TestSQLFiltersAndProjects(t *testing.T) {
	s := open(t, runtime.Config{})
	src, out := source(t, s, "n", "v BIGINT", ""), sink(t, s, "out")
	exec(t, s, "INSERT INTO out SELECT v * 10 AS x FROM n WHERE v % 2 = 1")
	q := s.Query("out")
	add(t, src, []any{int64(1)}, []any{int64(2)}, []any{int64(3)})
	settle(t, q)
	same(t, out.Rows(), [][]any{{int64(10)}, {int64(30)}})
	p := q.LastProgress()
	if p == nil || p.NumInputRows != 3 || p.Name != "out" || p.ID == "" || p.RunID == "" {
		t.Errorf("last progress is %+v", p)
	}
}

func TestDataFrameCountsWords(t *testing.T) {
	s := open(t, runtime.Config{})
	src := source(t, s, "lines", "value STRING", "")
	out := memory.NewSink()
	words := s.Table("lines").Select(runtime.Explode(runtime.Call("split", runtime.Col("value"), " ")).As("word"))
	q, err := words.GroupBy(runtime.Col("word")).Count().WriteStream(t.Context(), runtime.Write{Name: "words", To: out, Mode: "update"})
	if err != nil {
		t.Fatal(err)
	}
	add(t, src, []any{"a b a"}, []any{"b c"})
	settle(t, q)
	got := map[string]int64{}
	for _, r := range out.Rows() {
		got[r[0].(string)] = r[1].(int64)
	}
	if d := cmp.Diff(map[string]int64{"a": 2, "b": 2, "c": 1}, got); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}

func at(sec int64) time.Time { return time.Unix(sec, 0).UTC() }

func TestWindowsCloseOnceAndLateRowsAreCounted(t *testing.T) {
	s := open(t, runtime.Config{})
	src, out := source(t, s, "e", "ts TIMESTAMP", "ts"), sink(t, s, "out")
	exec(t, s, "INSERT INTO out SELECT window.start AS start, count(*) AS n FROM e GROUP BY window(ts, '5 seconds')")
	q := s.Query("out")
	add(t, src, []any{at(10)}, []any{at(11)}, []any{at(14)})
	add(t, src, []any{at(25)})
	settle(t, q)
	same(t, out.Rows(), [][]any{{at(10), int64(3)}})
	add(t, src, []any{at(12)}) // its window has closed
	settle(t, q)
	same(t, out.Rows(), [][]any{{at(10), int64(3)}})
	if n := q.LateRows(); n != 1 {
		t.Errorf("got %d late rows, want 1", n)
	}
	if wm, ok := q.Watermark(); !ok || !wm.Equal(at(15)) {
		t.Errorf("got watermark %v, want %v", wm, at(15))
	}
}

// TestARestartedSessionGoesOn runs a query over files in two sessions with one
// directory: the second reads only what is new.
func TestARestartedSessionGoesOn(t *testing.T) {
	dir, in := t.TempDir(), t.TempDir()
	script := `CREATE SOURCE f (v BIGINT) WITH (connector = 'file', path = '` + in + `', format = 'json');
CREATE QUERY sums WITH (output_mode = 'update', trigger = 'available_now') AS INSERT INTO out SELECT v % 2 AS k, sum(v) AS s FROM f GROUP BY v % 2;`
	run := func(want [][]any) {
		t.Helper()
		s := open(t, runtime.Config{Dir: dir})
		out := sink(t, s, "out")
		exec(t, s, script)
		if err := s.Query("sums").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := s.Query("sums").Status().State; st != "ended" {
			t.Errorf("got state %s, want ended", st)
		}
		same(t, out.Rows(), want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, in, "1.json", `{"v":1}`+"\n"+`{"v":3}`+"\n")
	run([][]any{{int64(1), int64(4)}})
	write(t, in, "2.json", `{"v":5}`+"\n")
	run([][]any{{int64(1), int64(9)}})
	run(nil)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBadRecordsFollowThePolicy(t *testing.T) {
	for policy, c := range map[string]struct {
		options string
		want    [][]any
		fails   bool
		letters int
	}{
		"fail":        {options: "on_error = 'fail'", fails: true},
		"null":        {options: "on_error = 'null'", want: [][]any{{int64(1)}, {nil}, {int64(2)}}},
		"drop":        {options: "on_error = 'drop'", want: [][]any{{int64(1)}, {int64(2)}}},
		"dead_letter": {options: "on_error = 'dead_letter', dead_letter = 'dead'", want: [][]any{{int64(1)}, {int64(2)}}, letters: 1},
	} {
		t.Run(policy, func(t *testing.T) {
			in := t.TempDir()
			write(t, in, "1.json", `{"v":1}`+"\n"+`{"v":"one and a half"}`+"\n"+`{"v":2}`+"\n")
			s := open(t, runtime.Config{})
			out, dead := sink(t, s, "out"), sink(t, s, "dead")
			exec(t, s, `CREATE SOURCE f (v BIGINT) WITH (connector = 'file', path = '`+in+`', format = 'json', `+c.options+`);
CREATE QUERY q WITH (trigger = 'available_now') AS INSERT INTO out SELECT v FROM f;`)
			err := s.Query("q").Wait(t.Context())
			if (err != nil) != c.fails {
				t.Fatalf("got error %v", err)
			}
			if c.fails {
				if !strings.Contains(err.Error(), "one and a half") || s.Query("q").Status().State != "failed" {
					t.Errorf("state %s, error %v", s.Query("q").Status().State, err)
				}
				return
			}
			same(t, out.Rows(), c.want)
			if len(dead.Rows()) != c.letters {
				t.Fatalf("got %d dead letters, want %d", len(dead.Rows()), c.letters)
			}
			if c.letters > 0 {
				r := dead.Rows()[0]
				if r[5] != `{"v":"one and a half"}` || !strings.Contains(r[3].(string), "1.json") || r[4] == "" {
					t.Errorf("dead letter is %q", r)
				}
			}
		})
	}
}

func TestRowErrorsFollowThePolicy(t *testing.T) {
	in := t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n"+`{"v":0}`+"\n"+`{"v":4}`+"\n")
	s := open(t, runtime.Config{})
	out, dead := sink(t, s, "out"), sink(t, s, "dead")
	exec(t, s, `CREATE SOURCE f (v BIGINT) WITH (connector = 'file', path = '`+in+`', format = 'json', on_error = 'dead_letter', dead_letter = 'dead');
CREATE SOURCE strict (v BIGINT) WITH (connector = 'file', path = '`+in+`', format = 'json');
CREATE QUERY q WITH (trigger = 'available_now') AS INSERT INTO out SELECT 8 DIV v AS r FROM f;
CREATE QUERY r WITH (trigger = 'available_now') AS SELECT 8 DIV v AS r FROM strict;`)
	if err := s.Query("q").Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, out.Rows(), [][]any{{int64(8)}, {int64(2)}})
	if len(dead.Rows()) != 1 || dead.Rows()[0][6] != "row" {
		t.Errorf("dead letters are %q", dead.Rows())
	}
	err := s.Query("r").Wait(t.Context())
	if runtime.Class(err) != "DIVIDE_BY_ZERO" {
		t.Errorf("got %v, want DIVIDE_BY_ZERO", err)
	}
}

func TestAChangedQueryDoesNotFitItsCheckpoint(t *testing.T) {
	dir, in := t.TempDir(), t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n")
	define := `CREATE SOURCE f (v BIGINT) WITH (connector = 'file', path = '` + in + `', format = 'json');`
	run := func(query string) error {
		s := open(t, runtime.Config{Dir: dir})
		sink(t, s, "out")
		exec(t, s, define+"CREATE QUERY q WITH (output_mode = 'update', trigger = 'available_now') AS INSERT INTO out "+query)
		err := s.Query("q").Wait(t.Context())
		if cerr := s.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		return err
	}
	if err := run("SELECT v, count(*) AS n FROM f GROUP BY v"); err != nil {
		t.Fatal(err)
	}
	if err := run("SELECT v, count(*) + 1 AS n FROM f WHERE v > 0 GROUP BY v"); err != nil {
		t.Errorf("stateless changes must be allowed: %v", err)
	}
	err := run("SELECT v % 2 AS k, sum(v) AS n FROM f GROUP BY v % 2")
	if !runtime.Incompatible(err) {
		t.Errorf("got %v, want an incompatible checkpoint", err)
	}
	t.Log(err)
}

func TestOneDirectoryHasOneSession(t *testing.T) {
	dir := t.TempDir()
	open(t, runtime.Config{Dir: dir})
	_, err := runtime.Open(t.Context(), runtime.Config{Dir: dir})
	if !errors.Is(err, epochs.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	if !strings.Contains(err.Error(), "process") {
		t.Errorf("the error does not name the process: %v", err)
	}
}

func TestScriptsReportAllFaultsAndDoNothing(t *testing.T) {
	s := open(t, runtime.Config{})
	source(t, s, "n", "v BIGINT", "")
	sink(t, s, "out")
	err := s.Exec(t.Context(), "INSERT INTO out SELECT w FROM n;\nINSERT INTO uot SELECT v FROM n;\nSELEC 1;")
	var se *runtime.ScriptError
	if !errors.As(err, &se) {
		t.Fatalf("got %v, want a ScriptError", err)
	}
	var got []string
	for _, d := range se.Diagnostics {
		got = append(got, d.Class)
	}
	if d := cmp.Diff([]string{"UNRESOLVED_COLUMN.WITH_SUGGESTION", "TABLE_OR_VIEW_NOT_FOUND", "PARSE_SYNTAX_ERROR"}, got); d != "" {
		t.Errorf("classes (-want +got):\n%s", d)
	}
	if len(s.Queries()) != 0 {
		t.Error("a query was started")
	}
}

func TestStopDrainsAndStartsAgain(t *testing.T) {
	s := open(t, runtime.Config{})
	src, out := source(t, s, "n", "v BIGINT", ""), sink(t, s, "out")
	script := "CREATE QUERY q WITH (output_mode = 'complete') AS INSERT INTO out SELECT sum(v) AS s FROM n"
	exec(t, s, script)
	add(t, src, []any{int64(1)}, []any{int64(2)})
	settle(t, s.Query("q"))
	id := s.Query("q").ID()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Query("q").Stop(ctx); err != nil {
		t.Fatal(err)
	}
	exec(t, s, script)
	q := s.Query("q")
	add(t, src, []any{int64(3)})
	settle(t, q)
	same(t, out.Rows(), [][]any{{int64(6)}})
	if q.ID() != id {
		t.Errorf("the id changed from %s to %s", id, q.ID())
	}
}
