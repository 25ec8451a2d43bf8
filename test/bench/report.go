package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

func printHeader(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%-40s %9s %9s %9s %9s %9s %10s %12s %6s %7s %9s %7s\n",
		"benchmark (median of the rounds, below it the worst)", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "CPU s", "rows/s", "rows/CPU s", "GC %", "RSS MB", "allocs/row", "epochs")
	return err
}

// printResult prints the summary of a benchmark for people or for programs.
func printResult(w io.Writer, r *result, asJSON bool) error {
	if asJSON {
		text, err := json.Marshal(r)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\n", text)
		}
		return err
	}
	worst := newResult()
	for name, f := range worst.numbers() {
		if v, ok := r.worst[name]; ok {
			*f = v
		}
	}
	worst.Epochs = r.Epochs
	lines := line(r.Name, r)
	if len(r.rounds) > 1 {
		lines += line("", worst)
	}
	if len(r.extra) > 0 {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(r.extra)) {
			parts = append(parts, k+" "+number(r.extra[k]))
		}
		lines += "    " + strings.Join(parts, ", ") + "\n"
	}
	_, err := io.WriteString(w, lines)
	return err
}

func line(name string, r *result) string {
	return fmt.Sprintf("%-40s %9s %9s %9s %9s %9s %10s %12s %6s %7s %9s %7d\n", name, number(r.P50), number(r.P99), number(r.P999), number(r.Max),
		number(r.CPU), number(r.RowsPerSecond), number(r.RowsPerCPU), number(100*r.GCShare), number(r.RSS), number(r.AllocsPerRow), r.Epochs)
}

func number(f figure) string {
	v := float64(f)
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}
