package runtime_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// changed runs a first script in a directory of its own, then checks and runs a
// second one there. It returns the rows of both runs and the two verdicts on the
// second script.
func changed(t *testing.T, cfg runtime.Config, first, second string) (rows [][]any, against, run error) {
	t.Helper()
	cfg.Dir = t.TempDir()
	out := memory.NewSink()
	start := func(cfg runtime.Config, script string) error {
		s := open(t, cfg)
		if err := s.RegisterSink("out", out); err != nil {
			t.Fatal(err)
		}
		if script == second {
			against = s.ValidateAgainst(t.Context(), "sql", script)
		}
		exec(t, s, script)
		err := s.Wait(t.Context())
		if cerr := s.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		return err
	}
	if err := start(runtime.Config{Dir: cfg.Dir}, first); err != nil {
		t.Fatal(err)
	}
	run = start(cfg, second)
	return out.Rows(), against, run
}

const copyOf = "CREATE QUERY q WITH (trigger = 'available_now') AS INSERT INTO out SELECT v FROM "

func fileSource(name, dir string) string {
	return "CREATE SOURCE " + name + " (v BIGINT) WITH (connector = 'file', path = '" + dir + "', format = 'json');\n"
}

// TestAnotherSourceIsNotReadFromItsStart changes what a query reads in ways that
// would repeat rows which the first run has read.
func TestAnotherSourceIsNotReadFromItsStart(t *testing.T) {
	in, other := t.TempDir(), t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n")
	write(t, other, "2.json", `{"v":1}`+"\n")
	for name, c := range map[string]struct {
		first, second string
		want          []string
	}{
		"renamed":                {fileSource("o", in) + copyOf + "o", fileSource("oo", in) + copyOf + "oo", []string{"'source:o'", "'source:oo'", "--fresh q", "--allow-dropped-state"}},
		"another directory":      {fileSource("o", in) + copyOf + "o", fileSource("o", other) + copyOf + "o", []string{in, other, "--fresh q", "--allow-dropped-state"}},
		"one of two is replaced": {fileSource("o", in) + fileSource("p", in) + copyOf + "o UNION ALL SELECT v FROM p", fileSource("o", in) + fileSource("x", other) + copyOf + "o UNION ALL SELECT v FROM x", []string{"'source:p'", "'source:x'"}},
		"other partitions": {
			"CREATE SOURCE r WITH (connector = 'rate', rows_per_second = 1); CREATE QUERY q WITH (trigger = 'available_now') AS INSERT INTO out SELECT value AS v FROM r",
			"CREATE SOURCE r WITH (connector = 'rate', rows_per_second = 1, partitions = 2); CREATE QUERY q WITH (trigger = 'available_now') AS INSERT INTO out SELECT value AS v FROM r",
			[]string{"partitions = 1", "--fresh q"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, against, run := changed(t, runtime.Config{}, c.first, c.second)
			for what, err := range map[string]error{"validate": against, "run": run} {
				if !runtime.Incompatible(err) {
					t.Fatalf("%s: got %v, want an error that the checkpoint does not fit", what, err)
				}
				for _, w := range c.want {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%s: %q does not name %q", what, err, w)
					}
				}
			}
			if name != "other partitions" && len(before) == 0 {
				t.Error("the first run gave no rows")
			}
		})
	}
}

func TestAnotherSourceIsReadWhenThatIsAccepted(t *testing.T) {
	in, other := t.TempDir(), t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n")
	write(t, other, "2.json", `{"v":2}`+"\n")
	want := [][]any{{int64(1)}, {int64(2)}}
	for name, second := range map[string]string{"renamed": fileSource("oo", other) + copyOf + "oo", "another directory": fileSource("o", other) + copyOf + "o"} {
		t.Run(name, func(t *testing.T) {
			rows, against, run := changed(t, runtime.Config{AllowDroppedState: true}, fileSource("o", in)+copyOf+"o", second)
			if err := errors.Join(against, run); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, rows); d != "" {
				t.Errorf("rows (-want +got):\n%s", d)
			}
		})
	}
}

func TestASourceMayBeAddedOrLeftOut(t *testing.T) {
	in, other := t.TempDir(), t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n")
	write(t, other, "2.json", `{"v":2}`+"\n")
	one := fileSource("o", in) + copyOf + "o"
	both := fileSource("o", in) + fileSource("p", other) + copyOf + "o UNION ALL SELECT v FROM p"
	for _, scripts := range [][2]string{{one, both}, {both, one}} {
		rows, against, run := changed(t, runtime.Config{}, scripts[0], scripts[1])
		if err := errors.Join(against, run); err != nil {
			t.Fatal(err)
		}
		if len(rows) != 2 {
			t.Errorf("got rows %v, want each once", rows)
		}
	}
}
