package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// summary is a line of -json: medians, the worst values and the rounds.
type summary struct {
	result
	Worst map[string]figure
}

// printTable prints files written with -json as Markdown, in the order of the
// lines; a later line replaces an earlier one of the same benchmark. The first
// table compares with the goals.
func printTable(w io.Writer, files []string) error {
	var all []*summary
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		in := bufio.NewScanner(f)
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			s, err := parseSummary(in.Bytes())
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if i := slices.IndexFunc(all, func(o *summary) bool { return o.Name == s.Name }); i >= 0 {
				all[i] = s
				continue
			}
			all = append(all, s)
		}
		if err := in.Err(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString(goalTable(all))
	b.WriteByte('\n')
	fmt.Fprintf(&b, "| benchmark | p50 | p99 (worst) | p99.9 (worst) | max (worst) ms | rows/CPU s (worst) | rows/s | GC %% | RSS MB | allocs/row | marker to committed p50 / max ms | more |\n|%s\n", strings.Repeat("---|", 12))
	for _, s := range all {
		pair := func(name string, f figure) string {
			if text := number(f); text == "-" || len(s.Worst) == 0 {
				return text
			}
			return number(f) + " (" + number(s.Worst[name]) + ")"
		}
		committed := "-"
		if v, ok := s.extra["marker_to_committed_p50_ms"]; ok {
			committed = number(v) + " / " + number(s.Worst["marker_to_committed_max_ms"])
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.Name, number(s.P50), pair("p99_ms", s.P99), pair("p999_ms", s.P999),
			pair("max_ms", s.Max), pair("rows_per_cpu_s", s.RowsPerCPU), number(s.RowsPerSecond), number(100*s.GCShare), number(s.RSS), number(s.AllocsPerRow), committed, s.more())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// more lists the figures that only some benchmarks have.
func (s *summary) more() string {
	var parts []string
	for _, k := range []string{
		"first_output_ms", "caught_up_ms", "tail_rows", "first_row_ms", "heap_bytes_per_key", "rss_bytes_per_key", "reported_bytes_per_key", "kb_per_query", "kb_per_actor",
		"cpu_percent_of_a_core", "server_cpu_s", "first_row_after_ms", "writes", "writes_per_s",
	} {
		if v, ok := s.extra[k]; ok {
			parts = append(parts, k+" "+number(v))
		}
	}
	return strings.Join(parts, ", ")
}

func parseSummary(line []byte) (*summary, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, err
	}
	s := &summary{}
	if worst, ok := fields["worst"]; ok {
		if err := json.Unmarshal(worst, &s.Worst); err != nil {
			return nil, err
		}
	}
	delete(fields, "worst")
	delete(fields, "rounds")
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(rest, &s.result)
}
