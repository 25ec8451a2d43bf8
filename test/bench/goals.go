package main

import (
	"fmt"
	"math"
	"strings"
)

// goal is a budget of the design: what one benchmark should reach on two cores.
type goal struct {
	what, bench string
	limits      []limit
}

// limit is one figure of a goal.
type limit struct {
	figure string // name in the output of -json
	bound  float64
	least  bool // bound is the least, not the most
}

func p50(ms float64) limit                { return limit{figure: "p50_ms", bound: ms} }
func p99(ms float64) limit                { return limit{figure: "p99_ms", bound: ms} }
func p999(ms float64) limit               { return limit{figure: "p999_ms", bound: ms} }
func perCPU(rows float64) limit           { return limit{figure: "rows_per_cpu_s", bound: rows, least: true} }
func most(figure string, v float64) limit { return limit{figure: figure, bound: v} }
func event(query string) string           { return "nexmark/" + query + "/rows/in-order" }
func limits(all ...limit) []limit         { return all }

// met reports whether v, NaN if it was not measured, keeps to the limit.
func (l limit) met(v float64) bool {
	if l.least {
		return v >= l.bound
	}
	return v <= l.bound
}

func (l limit) name() string {
	name := strings.NewReplacer("_ms", " ms", "p999", "p99.9", "rows_per_cpu_s", "rows/CPU s", "_", " ").Replace(l.figure)
	if before, found := strings.CutSuffix(name, " ms"); found && strings.HasPrefix(name, "p") {
		return before
	}
	return name
}

// goals are the budgets that a benchmark of this suite measures.
var goals = []goal{
	{"stateless chain in process, 10,000 rows/s", "stateless/10k", limits(p50(0.1), p99(1), p999(5))},
	{"the same at 100,000 rows/s", "stateless/100k", limits(p99(2))},
	{"the same at 500,000 rows/s", "stateless/500k", limits(p99(10))},
	{"keyed windowed count, update mode, 10,000 rows/s", "keyed/update/10k-keys/10k", limits(p99(2))},
	{"the same at 100,000 rows/s", "keyed/update/10k-keys/100k", limits(p99(5))},
	{"JetStream to JetStream, at once, 10,000 rows/s", "jetstream/at-once/1s-epochs/10k", limits(p50(0.5), p99(3))},
	{"the same per epoch, epochs of 100 ms", "jetstream/per-epoch/100ms-epochs/10k", limits(p99(150))},
	{"the same per epoch, epochs of 10 ms", "jetstream/per-epoch/10ms-epochs/10k", limits(p99(40))},
	{"filter and projection", "throughput/stateless/rows", limits(perCPU(2e6))},
	{"keyed count", "throughput/keyed/update/10k-keys/rows", limits(perCPU(1e6))},
	{"JSON in and out", "throughput/stateless/json-in-out", limits(perCPU(400e3))},
	{"Nexmark q0", event("q0"), limits(perCPU(1e6))},
	{"Nexmark q1", event("q1"), limits(perCPU(1e6))},
	{"Nexmark q2", event("q2"), limits(perCPU(1e6))},
	{"Nexmark q5", event("q5"), limits(perCPU(400e3))},
	{"100,000 rows/s, 1 M keys, a tenth of them changed per epoch", "epochs/1M-keys/uniform/1s-epochs/100k", limits(p99(2), p999(10))},
	{"recovery of 1 M keys after kill -9", "recovery/1M-keys", limits(most("first_output_ms", 1000))},
	{"streamd with one query: first row, then idle", "daemon/one-query", limits(most("first_row_ms", 300), most("rss_mb", 50))},
	{"100 queries with 1,000 text keys each, memory together", "queries/100/keyed", limits(most("rss_mb", 150))},
	{"10,000 idle actors", "idle/10k-actors", limits(most("cpu_percent_of_a_core", 1))},
}

// goalTable compares results with the goals, as Markdown. A goal is met if the
// median of every figure is.
func goalTable(all []*summary) string {
	var b strings.Builder
	b.WriteString("| what | goal | measured (median of the rounds) | |\n|---|---|---|---|\n")
	for _, g := range goals {
		for _, s := range all {
			if s.Name != g.bench {
				continue
			}
			var want, got []string
			verdict := "met"
			for _, l := range g.limits {
				v := s.figure(l.figure)
				want, got = append(want, l.name()+" "+number(figure(l.bound))), append(got, l.name()+" "+number(v))
				if !l.met(float64(v)) {
					verdict = "missed"
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.what, strings.Join(want, ", "), strings.Join(got, ", "), verdict)
		}
	}
	return b.String()
}

// figure returns a figure by its name in the output of -json.
func (s *summary) figure(name string) figure {
	switch name {
	case "p50_ms":
		return s.P50
	case "p99_ms":
		return s.P99
	case "p999_ms":
		return s.P999
	case "rows_per_cpu_s":
		return s.RowsPerCPU
	case "rss_mb":
		return s.RSS
	}
	if v, ok := s.extra[name]; ok {
		return v
	}
	return figure(math.NaN())
}
