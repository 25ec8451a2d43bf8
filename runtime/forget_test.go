package runtime_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/runtime"
)

// checkpointed makes a directory with the checkpoint of a query q over files, and
// returns it with the script, which writes to the sink out.
func checkpointed(t *testing.T) (dir, script string) {
	t.Helper()
	in := t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n")
	dir, script = t.TempDir(), fileSource("o", in)+copyOf+"o;"
	s := open(t, runtime.Config{Dir: dir})
	sink(t, s, "out")
	exec(t, s, script)
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, script
}

func stored(t *testing.T, s *runtime.Session) []string {
	t.Helper()
	names, err := s.Stored()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestForgetFindsAQueryWhoseDirectoryIsGone: its records are in the catalog, and it
// would go on from there.
func TestForgetFindsAQueryWhoseDirectoryIsGone(t *testing.T) {
	dir, script := checkpointed(t)
	if err := os.RemoveAll(filepath.Join(dir, "queries", "q")); err != nil {
		t.Fatal(err)
	}
	s := open(t, runtime.Config{Dir: dir})
	removed, err := s.Forget([]string{"q"}, []string{"q"})
	if err != nil || !slices.Equal(removed, []string{"q"}) {
		t.Errorf("got %v, %v; want q", removed, err)
	}
	sink(t, s, "out")
	exec(t, s, script)
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := s.Query("q").Status().ResumedFrom; e != 0 {
		t.Errorf("q goes on from epoch %d, want a fresh start", e)
	}
}

func TestForgetChecksEverythingBeforeItRemoves(t *testing.T) {
	dir, _ := checkpointed(t)
	for _, c := range []struct {
		cfg   runtime.Config
		names []string
		want  string
	}{
		{runtime.Config{RestoreEpoch: 1}, []string{"q"}, "contradict"},
		{runtime.Config{RestoreEpochs: map[string]uint64{"q": 1}}, []string{"q"}, "contradict"},
		{runtime.Config{}, []string{"q", "qq"}, "did you mean q?"},
	} {
		c.cfg.Dir = dir
		s := open(t, c.cfg)
		removed, err := s.Forget(c.names, []string{"q"})
		if err == nil || !strings.Contains(err.Error(), c.want) || len(removed) > 0 || len(stored(t, s)) != 1 {
			t.Errorf("--fresh %v: got %v, %v, and the checkpoints %v are left; want an error with %q and q", c.names, removed, err, stored(t, s), c.want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, runtime.Config{Dir: dir})
	removed, err := s.Forget([]string{"q", "new"}, []string{"new"}) // q is not in the file any more
	if err != nil || !slices.Equal(removed, []string{"q"}) || len(stored(t, s)) > 0 {
		t.Errorf("got %v, %v, checkpoints %v; want q removed", removed, err, stored(t, s))
	}
}

func TestDropQueryRemovesTheCheckpoint(t *testing.T) {
	for name, c := range map[string]func(script string) string{
		"of a query of the script": func(script string) string { return script + "DROP QUERY q;" },
		"of one that is not in it": func(string) string { return "DROP QUERY q;" },
		"if it exists":             func(script string) string { return script + "DROP QUERY IF EXISTS q; DROP QUERY IF EXISTS never;" },
	} {
		t.Run(name, func(t *testing.T) {
			dir, script := checkpointed(t)
			s := open(t, runtime.Config{Dir: dir})
			sink(t, s, "out")
			exec(t, s, c(script))
			if got := stored(t, s); len(got) > 0 || s.Query("q") != nil {
				t.Errorf("the checkpoints %v are left, query %v", got, s.Query("q"))
			}
		})
	}
}

func TestARunningQueryCanBeDropped(t *testing.T) {
	s := open(t, runtime.Config{})
	source(t, s, "n", "v BIGINT", "")
	sink(t, s, "out")
	exec(t, s, "CREATE QUERY q AS INSERT INTO out SELECT v FROM n")
	exec(t, s, "DROP QUERY q; CREATE QUERY q AS INSERT INTO out SELECT v + 1 AS v FROM n")
	if got := len(s.Queries()); got != 1 {
		t.Errorf("there are %d queries, want the new one", got)
	}
}

func TestACheckpointThatCannotBeOpenedSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	in := t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n")
	script := fileSource("o", in) + "CREATE QUERY q WITH (trigger = 'available_now', output_mode = 'update') AS INSERT INTO out SELECT v, count(*) AS n FROM o GROUP BY v"
	for round := range 2 {
		s := open(t, runtime.Config{Dir: dir})
		sink(t, s, "out")
		exec(t, s, script)
		err := s.Wait(t.Context())
		if cerr := s.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if round == 0 {
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "queries", "q", "state", "db"), "MANIFEST", "something else altogether")
			continue
		}
		look := open(t, runtime.Config{Dir: dir, ReadOnly: true})
		sink(t, look, "out")
		for what, err := range map[string]error{"run": err, "validate": look.ValidateAgainst(t.Context(), "sql", script)} {
			if !runtime.Incompatible(err) || !strings.Contains(err.Error(), "--fresh q") || !strings.Contains(err.Error(), "MANIFEST") {
				t.Errorf("%s: got %v, want damage of the MANIFEST and what to do", what, err)
			}
		}
	}
}

// tree lists the files below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAReadOnlySessionChangesNothing compares a query with its checkpoint in a
// directory that cannot be written to.
func TestAReadOnlySessionChangesNothing(t *testing.T) {
	dir, script := checkpointed(t)
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	s := open(t, runtime.Config{Dir: dir, ReadOnly: true})
	sink(t, s, "out")
	if err := s.ValidateAgainst(t.Context(), "sql", script); err != nil {
		t.Error(err)
	}
	other := strings.Replace(strings.Replace(script, "SOURCE o", "SOURCE oo", 1), "FROM o;", "FROM oo;", 1)
	if err := s.ValidateAgainst(t.Context(), "sql", other); !runtime.Incompatible(err) {
		t.Errorf("another source: got %v, want an error that the checkpoint does not fit", err)
	}
	if err := s.Exec(t.Context(), script); err == nil {
		t.Error("a query started in a session that only reads")
	}
	if after := tree(t, dir); !slices.Equal(before, after) {
		t.Errorf("the directory holds %v, before %v", after, before)
	}
	if _, err := runtime.Open(t.Context(), runtime.Config{Dir: t.TempDir(), ReadOnly: true}); err == nil || !strings.Contains(err.Error(), "holds no checkpoints") {
		t.Errorf("an empty directory: got %v, want an error", err)
	}
}
