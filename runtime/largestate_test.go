package runtime_test

import (
	"strings"
	"testing"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// TestLargeValuesInState keeps values of some megabytes, far more than a page of the
// state's memory holds, replaces them epoch after epoch, and goes on from them.
func TestLargeValuesInState(t *testing.T) {
	dir := t.TempDir()
	schema, err := runtime.ParseSchema("k BIGINT, name STRING")
	if err != nil {
		t.Fatal(err)
	}
	src, out := memory.NewSource(schema), memory.NewSink()
	start := func() *runtime.Session {
		s := open(t, runtime.Config{Dir: dir})
		for _, err := range []error{s.Register("src", src, "", ""), s.RegisterSink("out", out)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		exec(t, s, "CREATE QUERY q WITH (output_mode = 'update', parallelism = 2) AS INSERT INTO out SELECT k, max(name) AS m, min(name) AS l, count(*) AS n FROM src GROUP BY k")
		return s
	}
	text := func(letter string) string { return strings.Repeat(letter, 4<<20) }
	s := start()
	for _, letter := range []string{"m", "n", "l", "o"} {
		add(t, src, []any{int64(1), text(letter)}, []any{int64(2), letter}, []any{int64(3), text(letter)})
		settle(t, s.Query("q"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start()
	add(t, src, []any{int64(1), "a"}, []any{int64(2), text("z")}, []any{int64(3), "z"})
	settle(t, s.Query("q"))
	got := map[int64][]any{}
	for _, r := range out.Rows() {
		got[r[0].(int64)] = r[1:]
	}
	for k, want := range map[int64][]any{1: {text("o"), "a", int64(5)}, 2: {text("z"), "l", int64(5)}, 3: {"z", text("l"), int64(5)}} {
		for i := range want {
			if len(got[k]) != 3 || got[k][i] != want[i] {
				t.Errorf("column %d of key %d is not what it should be", i+1, k)
			}
		}
	}
	if m := s.Query("q").LastProgress().StateOperators[0].MemoryUsedBytes; m > 64<<20 {
		t.Errorf("the state takes %d bytes for 16 MB of values", m)
	}
}
