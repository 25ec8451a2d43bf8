package runtime_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/runtime"
)

// TestAnyNameIsAName gives queries names that mean something to a file system, to
// SQL or to a URL. Each has a checkpoint of its own inside the directory, and only
// that is removed with it.
func TestAnyNameIsAName(t *testing.T) {
	names := []string{
		"0000002", "1e5", "a.b", ".", "..", "../x", "/etc", "a/b", "a\\b", "%2e%2e", ".new-x", ".dropped-x", "a'b", "a`b", "a b", "a\nb", "a\x00b",
		"LOCK", "CATALOG", "été", "e\u0301te\u0301", "日本語", strings.Repeat("x", 246), strings.Repeat("語", 27),
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	for round := range 2 {
		s := open(t, runtime.Config{Dir: dir})
		src := source(t, s, "src", "v BIGINT", "")
		sink(t, s, "out")
		for i, name := range names {
			add(t, src, []any{int64(1)}) // before: in round 1 the query's offset is behind it
			df, mode := s.Table("src"), "append"
			if i%6 == 0 { // with state
				df, mode = df.GroupBy(runtime.Col("v")).Count(), "update"
			}
			q, err := df.WriteStream(t.Context(), runtime.Write{Name: name, Sink: "out", Mode: mode})
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			if err := q.ProcessAllAvailable(t.Context()); err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			if err := q.Stop(t.Context()); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			if got := q.Status().ResumedFrom; (got > 0) != (round > 0) {
				t.Errorf("%q: round %d goes on from epoch %d", name, round, got)
			}
		}
		stored, err := s.Stored()
		slices.Sort(stored)
		want := slices.Clone(names)
		slices.Sort(want)
		if err != nil || !slices.Equal(stored, want) {
			t.Errorf("stored are %q (%v), want %q", stored, err, want)
		}
		if round == 1 {
			for i, name := range names {
				if err := s.Drop(name); err != nil {
					t.Errorf("%q: %v", name, err)
				}
				if stored, err := s.Stored(); err != nil || len(stored) != len(names)-i-1 {
					t.Errorf("without %q, %d are stored (%v), want %d", name, len(stored), err, len(names)-i-1)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the directory there is %v (%v)", entries, err)
	}
}

// TestNamesThatCannotBe: what no file, record or metric can hold is refused when the
// query is made, not when it has begun.
func TestNamesThatCannotBe(t *testing.T) {
	s := open(t, runtime.Config{Dir: t.TempDir()})
	source(t, s, "src", "v BIGINT", "")
	sink(t, s, "out")
	for name, want := range map[string]string{
		"a\xffb":                 "must be UTF-8",
		strings.Repeat("x", 247): "247 bytes, at most 246",
		strings.Repeat("語", 28):  "252 bytes, at most 246",
	} {
		if _, err := s.Table("src").WriteStream(t.Context(), runtime.Write{Name: name, Sink: "out"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %q", name, err, want)
		}
		err := s.Validate(t.Context(), "sql", "CREATE QUERY `"+name+"` AS INSERT INTO out SELECT v FROM src")
		if err == nil {
			t.Errorf("%.20q passes the check of a script", name)
		}
		if len(s.Queries()) > 0 {
			t.Fatalf("%.20q was started", name)
		}
	}
}
