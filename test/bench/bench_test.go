package main

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fields is the contract of -json.
var fields = []string{
	"name", "rate", "rows", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "rows_per_s", "rows_per_cpu_s", "cpu_s", "rss_mb",
	"allocs_per_row", "epochs", "epoch_interval_ms",
}

func TestResultsAreOneObjectPerLine(t *testing.T) {
	r := newResult()
	r.Name, r.Rows, r.P99, r.extra["bytes_per_key"] = "x/y", 10, 1.23456, 64
	own, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back := newResult()
	if err := json.Unmarshal(own, back); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printResult(&out, summarize([]*result{back, back}), true); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("got %d lines, want 1", n)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if _, ok := got[f]; !ok {
			t.Errorf("%s is missing", f)
		}
	}
	if got["p99_ms"] != 1.235 || got["bytes_per_key"] != 64.0 || got["p50_ms"] != nil {
		t.Errorf("got %s", out.Bytes())
	}
}

func TestSummaryHasMedianAndWorst(t *testing.T) {
	var rounds []*result
	for _, v := range []figure{3, 1, 2} {
		r := newResult()
		r.P99, r.RowsPerCPU, r.extra["x"] = v, 10*v, 100*v
		rounds = append(rounds, r)
	}
	s := summarize(rounds)
	got := []figure{s.P99, s.worst["p99_ms"], s.RowsPerCPU, s.worst["rows_per_cpu_s"], s.extra["x"], s.worst["x"]}
	if d := cmp.Diff([]figure{2, 3, 20, 10, 200, 300}, got); d != "" {
		t.Errorf("median and worst (-want +got):\n%s", d)
	}
	if !math.IsNaN(float64(s.P50)) {
		t.Errorf("got %v for a figure that no round has", s.P50)
	}
}

func TestNamesAreUniqueAndRegular(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range benchmarks() {
		if seen[b.name] || !regexp.MustCompile(`^[a-zA-Z0-9/.-]+$`).MatchString(b.name) || b.doc == "" || b.run == nil {
			t.Errorf("benchmark %q: its name is used twice or hard to type, or it has no description", b.name)
		}
		seen[b.name] = true
	}
}
