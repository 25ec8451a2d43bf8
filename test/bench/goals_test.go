package main

import (
	"math"
	"strings"
	"testing"
)

func TestGoalsNameBenchmarks(t *testing.T) {
	known := map[string]bool{}
	for _, b := range benchmarks() {
		known[b.name] = true
	}
	for _, g := range goals {
		if !known[g.bench] {
			t.Errorf("%s: there is no benchmark %s", g.what, g.bench)
		}
	}
}

func TestGoalTable(t *testing.T) {
	at := func(name string, p50, p99, p999 float64) *summary {
		s := &summary{result: *newResult()}
		s.Name, s.P50, s.P99, s.P999 = name, figure(p50), figure(p99), figure(p999)
		return s
	}
	for _, c := range []struct {
		s       *summary
		verdict string
	}{
		{at("stateless/10k", 0.1, 1, 5), "met"},
		{at("stateless/10k", 0.1, 1, 5.1), "missed"},
		{at("stateless/10k", 0.11, 1, 5), "missed"},
		{at("stateless/10k", 0.1, 1, math.NaN()), "missed"},
		{at("throughput/stateless/rows", 0, 0, 0), "missed"}, // not measured
	} {
		lines := strings.Split(strings.TrimSpace(goalTable([]*summary{c.s})), "\n")
		if len(lines) != 3 || !strings.HasSuffix(lines[2], "| "+c.verdict+" |") {
			t.Errorf("%s %v %v %v: want %q, got\n%s", c.s.Name, c.s.P50, c.s.P99, c.s.P999, c.verdict, strings.Join(lines, "\n"))
		}
	}
}
