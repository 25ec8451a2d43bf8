package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/meter"
)

// figure is a measured number; NaN, written as null, means not measured.
type figure float64

// MarshalJSON writes at most four significant digits behind the point.
func (f figure) MarshalJSON() ([]byte, error) {
	v := float64(f)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	if a := math.Abs(v); a > 0 && a < 1000 {
		scale := math.Pow(10, 3-math.Floor(math.Log10(a)))
		v = math.Round(v*scale) / scale
	} else {
		v = math.Round(v)
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads null as not measured.
func (f *figure) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = figure(math.NaN())
		return nil
	}
	var v float64
	err := json.Unmarshal(b, &v)
	*f = figure(v)
	return err
}

// result is what one round measured, or the median of several.
type result struct {
	Name  string `json:"name"`
	Rate  int64  `json:"rate"` // offered rows/s, 0: flat out
	Rows  int64  `json:"rows"` // read during the measured time
	P50   figure `json:"p50_ms"`
	P90   figure `json:"p90_ms"`
	P99   figure `json:"p99_ms"`
	P999  figure `json:"p999_ms"`
	P9999 figure `json:"p9999_ms"`
	Max   figure `json:"max_ms"`
	// Samples is how many latencies the percentiles are of.
	Samples         int64  `json:"samples"`
	RowsPerSecond   figure `json:"rows_per_s"`
	RowsPerCPU      figure `json:"rows_per_cpu_s"`
	CPU             figure `json:"cpu_s"`
	GCShare         figure `json:"gc_share"`
	RSS             figure `json:"rss_mb"` // peak
	AllocsPerRow    figure `json:"allocs_per_row"`
	BytesPerRow     figure `json:"alloc_bytes_per_row"`
	Epochs          int64  `json:"epochs"`
	EpochIntervalMs figure `json:"epoch_interval_ms"`
	// MaxPerSecond is the greatest latency of each second.
	MaxPerSecond []figure `json:"max_per_second_ms,omitempty"`

	// extra is what the benchmark adds; it is written beside the other fields.
	extra map[string]figure
	// worst and rounds are set on the summary of several rounds.
	worst  map[string]figure
	rounds []*result
}

func newResult() *result {
	nan := figure(math.NaN())
	return &result{
		P50: nan, P90: nan, P99: nan, P999: nan, P9999: nan, Max: nan, RowsPerSecond: nan, RowsPerCPU: nan, CPU: nan,
		GCShare: nan, RSS: nan, AllocsPerRow: nan, BytesPerRow: nan, EpochIntervalMs: nan, extra: map[string]figure{},
	}
}

// latencies takes over what a recorder has collected.
func (r *result) latencies(rec *load.Recorder) {
	r.Samples = rec.Count()
	if r.Samples == 0 {
		return
	}
	r.P50, r.P90, r.P99 = figure(rec.Millis(50)), figure(rec.Millis(90)), figure(rec.Millis(99))
	r.P999, r.P9999, r.Max = figure(rec.Millis(99.9)), figure(rec.Millis(99.99)), figure(rec.MaxMillis())
	for _, v := range rec.SecondsMillis() {
		r.MaxPerSecond = append(r.MaxPerSecond, figure(v))
	}
}

// usage takes over what this process has used for the given number of rows.
func (r *result) usage(u meter.Usage, rows uint64) error {
	_, peak, err := meter.Memory()
	r.RSS = figure(float64(peak) / (1 << 20))
	r.used(u, rows)
	return err
}

func (r *result) used(u meter.Usage, rows uint64) {
	n := float64(rows)
	r.Rows, r.CPU, r.GCShare = int64(rows), figure(u.CPU.Seconds()), figure(u.GCShare())
	if rows > 0 {
		r.RowsPerSecond, r.RowsPerCPU = figure(n/u.Wall.Seconds()), figure(n/u.CPU.Seconds())
		r.AllocsPerRow, r.BytesPerRow = figure(float64(u.Objects)/n), figure(float64(u.Bytes)/n)
	}
}

// MarshalJSON writes the benchmark's own figures beside the common ones.
func (r *result) MarshalJSON() ([]byte, error) {
	type plain result
	own, err := json.Marshal((*plain)(r))
	if err != nil {
		return nil, err
	}
	buf := bytes.NewBuffer(own[:len(own)-1])
	add := func(key string, v any) error {
		text, err := json.Marshal(v)
		fmt.Fprintf(buf, ",%q:%s", key, text)
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(r.extra)) {
		if err := add(k, r.extra[k]); err != nil {
			return nil, err
		}
	}
	if len(r.rounds) > 0 {
		if err := cmp.Or(add("worst", r.worst), add("rounds", r.rounds)); err != nil {
			return nil, err
		}
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// UnmarshalJSON reads what MarshalJSON wrote for one round.
func (r *result) UnmarshalJSON(b []byte) error {
	type plain result
	*r = *newResult()
	if err := json.Unmarshal(b, (*plain)(r)); err != nil {
		return err
	}
	all, known := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	own, err := json.Marshal((*plain)(r))
	if err := cmp.Or(err, json.Unmarshal(b, &all), json.Unmarshal(own, &known)); err != nil {
		return err
	}
	for k, text := range all {
		if _, ok := known[k]; ok {
			continue
		}
		var f figure
		if err := json.Unmarshal(text, &f); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		r.extra[k] = f
	}
	return nil
}

// numbers lists the figures of which medians are taken, by their JSON names.
func (r *result) numbers() map[string]*figure {
	m := map[string]*figure{
		"p50_ms": &r.P50, "p90_ms": &r.P90, "p99_ms": &r.P99, "p999_ms": &r.P999, "p9999_ms": &r.P9999, "max_ms": &r.Max,
		"rows_per_s": &r.RowsPerSecond, "rows_per_cpu_s": &r.RowsPerCPU, "cpu_s": &r.CPU, "gc_share": &r.GCShare,
		"rss_mb": &r.RSS, "allocs_per_row": &r.AllocsPerRow, "alloc_bytes_per_row": &r.BytesPerRow, "epoch_interval_ms": &r.EpochIntervalMs,
	}
	return m
}

// more reports whether a greater value of the figure is a better one.
func more(name string) bool { return name == "rows_per_s" || name == "rows_per_cpu_s" }

// summarize returns the median of every figure, with the rounds and the worst
// value of each beside it.
func summarize(rounds []*result) *result {
	s := newResult()
	first := rounds[0]
	s.Name, s.Rate, s.rounds, s.worst = first.Name, first.Rate, rounds, map[string]figure{}
	s.Rows = median(rounds, func(r *result) int64 { return r.Rows })
	s.Samples = median(rounds, func(r *result) int64 { return r.Samples })
	s.Epochs = median(rounds, func(r *result) int64 { return r.Epochs })
	values := map[string][]figure{}
	for _, r := range rounds {
		for name, f := range r.numbers() {
			values[name] = append(values[name], *f)
		}
		for name, f := range r.extra {
			values[name] = append(values[name], f)
		}
	}
	own := s.numbers()
	for name, all := range values {
		all = slices.DeleteFunc(all, func(f figure) bool { return math.IsNaN(float64(f)) })
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		mid := all[len(all)/2]
		if len(all)%2 == 0 {
			mid = (all[len(all)/2-1] + mid) / 2
		}
		if f, ok := own[name]; ok {
			*f = mid
		} else {
			s.extra[name] = mid
		}
		s.worst[name] = all[len(all)-1]
		if more(name) {
			s.worst[name] = all[0]
		}
	}
	return s
}

func median(rounds []*result, of func(*result) int64) int64 {
	all := make([]int64, len(rounds))
	for i, r := range rounds {
		all[i] = of(r)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return all[len(all)/2]
}
