package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/runtime/httpapi"
)

var sample = regexp.MustCompile(`(?m)^(streamd_\w+)\{(.*)\} \S+$`)

// counting starts queries of the given names that count the rows of a source with
// many partitions, and returns the session with one epoch of each.
func counting(t *testing.T, parallelism string, names ...string) *runtime.Session {
	t.Helper()
	s, err := runtime.Open(t.Context(), runtime.Config{Defaults: map[string]string{"parallelism": parallelism, "output_mode": "update"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	schema, err := runtime.ParseSchema("v BIGINT")
	if err != nil {
		t.Fatal(err)
	}
	src := memory.NewSourceWith(schema, memory.SourceOptions{Partitions: 16})
	for p := range 16 {
		if err := src.AddTo(p, []any{int64(p)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Register("n", src, "", ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		q, err := s.Table("n").GroupBy(runtime.Col("v")).Count().WriteStream(t.Context(), runtime.Write{Name: name, To: memory.NewSink()})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.ProcessAllAvailable(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func samples(t *testing.T, s *runtime.Session) [][]string {
	t.Helper()
	code, body := get(t, httpapi.Handler(s), "localhost", "/metrics")
	if code != http.StatusOK {
		t.Fatalf("GET /metrics: %d\n%s", code, body)
	}
	return sample.FindAllStringSubmatch(body, -1)
}

// TestSeriesAreBounded: a query has a fixed number of series per operator, whatever
// its partitions, subtasks and epochs, and none once it is gone.
func TestSeriesAreBounded(t *testing.T) {
	one := len(samples(t, counting(t, "1", "q")))
	if one == 0 || one > 70 {
		t.Fatalf("one query has %d series", one)
	}
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("q", i))
	}
	s := counting(t, "4", names...)
	if got := len(samples(t, s)); got != len(names)*one {
		t.Errorf("%d queries have %d series, want %d each", len(names), got, one)
	}
	for _, name := range names[1:] {
		if err := s.Query(name).Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Drop(name); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(samples(t, s)); got != one {
		t.Errorf("one query that is left has %d series, want %d", got, one)
	}
}

// TestNamesInMetrics: a query may be called anything that is text, and what is
// scraped can be read.
func TestNamesInMetrics(t *testing.T) {
	names := []string{"0000002", `a"b`, `a\b`, "a\nb", "a{b=c}", "a/b", "a%2fb", "..b", "日本語", "é", "query", strings.Repeat("x", 200), " "}
	s := counting(t, "1", names...)
	unescape := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
	var got []string
	for _, m := range samples(t, s) {
		if m[1] == "streamd_query_running" {
			got = append(got, unescape.Replace(strings.TrimSuffix(strings.TrimPrefix(m[2], `query="`), `"`)))
		}
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("queries in the metrics are %q, want %q", got, names)
	}
	paths := []string{"/readyz", "/api/v1/queries"}
	for _, name := range names {
		paths = append(paths, "/api/v1/queries/"+url.PathEscape(name))
	}
	for _, path := range paths {
		if code, body := get(t, httpapi.Handler(s), "localhost", path); code != http.StatusOK {
			t.Errorf("GET %s: %d\n%s", path, code, body)
		}
	}
}
