package recovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// row is an input row. Micros is the event time.
type row struct {
	Part   int    `json:"part"`
	ID     int64  `json:"id"` // unique over all partitions
	K      string `json:"k"`
	V      int64  `json:"v"`
	Micros int64  `json:"ts"`

	Seq  uint64 `json:"-"` // in the input stream
	late bool   // its window had ended by its own partition's watermark
}

// windowMicros is the size of the tumbling windows, delayMicros the declared
// delay, skewMicros the largest step into the future that moves a watermark.
const (
	windowMicros = 500_000
	delayMicros  = 300_000
)

var skewMicros = (5 * time.Minute).Microseconds()

// input is the content of the input stream in the order of its sequences.
type input struct {
	rows      []row
	late      int               // rows that were behind their own partition's watermark
	watermark [partitions]int64 // of each partition, behind the last row
	sum       *summary          // instead of rows, unless nil
}

// summary is what an input comes to that is too long to be kept. None of its rows is
// late.
type summary struct {
	rows   int64
	totals map[string]total
	panes  map[pane]result
}

func newSummary() *summary { return &summary{totals: map[string]total{}, panes: map[pane]result{}} }

func (s *summary) add(x *row) {
	s.rows++
	t := s.totals[x.K]
	s.totals[x.K] = total{x.K, t.N + 1, t.Sum + x.V}
	g := pane{x.start(), x.K}
	w := s.panes[g]
	s.panes[g] = result{Start: g.start, K: x.K, N: w.N + 1, Sum: w.Sum + x.V, Max: max(w.Max, x.V)}
}

const noTime = -1 << 62

func (in *input) init() {
	for p := range in.watermark {
		in.watermark[p] = noTime
	}
}

func (in *input) add(x row) {
	wm := &in.watermark[x.Part]
	x.late = x.end() <= *wm
	if x.late {
		in.late++
	}
	if x.Micros < time.Now().UnixMicro()+skewMicros {
		*wm = max(*wm, x.Micros-delayMicros)
	}
	if in.sum != nil {
		in.sum.add(&x)
		return
	}
	in.rows = append(in.rows, x)
}

// before is the input up to a cut.
func (in *input) before(c *cut) *input {
	out := &input{}
	out.init()
	for i := range in.rows {
		if x := &in.rows[i]; c.covers(x) {
			out.add(*x)
		}
	}
	return out
}

// combined is the watermark of all partitions.
func (in *input) combined() int64 { return slices.Min(in.watermark[:]) }

func (x *row) start() int64 { return x.Micros - x.Micros%windowMicros }
func (x *row) end() int64   { return x.start() + windowMicros }

// passes is the predicate of the stateless queries.
func (x *row) passes() bool { return x.V%3 != 0 }

// problems collects what is wrong with a result; it keeps the first few of each
// sort and counts the others.
type problems map[string][]string

func (p problems) add(sort, format string, args ...any) {
	p[sort] = append(p[sort], fmt.Sprintf(format, args...))
}

func (p problems) String() string {
	text := ""
	for _, sort := range slices.Sorted(maps.Keys(p)) {
		text += fmt.Sprintf("%d %s: %q\n", len(p[sort]), sort, p[sort][:min(len(p[sort]), 12)])
	}
	return text
}

// checkStateless holds result rows of the stateless query against the input
// rows for which need returns true: those must be there; the others may be. No
// row may be there twice.
func checkStateless(in *input, out [][]byte, need func(*row) bool) problems {
	bad := problems{}
	want := make(map[int64]*row, len(in.rows))
	for i := range in.rows {
		if x := &in.rows[i]; x.passes() {
			want[x.ID] = x
		}
	}
	seen := make(map[int64]bool, len(out))
	for _, data := range out {
		var x row
		if err := json.Unmarshal(data, &x); err != nil {
			bad.add("unreadable", "%s", data)
			continue
		}
		w := want[x.ID]
		switch {
		case seen[x.ID]:
			bad.add("duplicates", "%d", x.ID)
		case w == nil:
			bad.add("never put in", "%d", x.ID)
		case x.V != w.V*2 || x.Part != w.Part:
			bad.add("wrong", "%s for %+v", data, *w)
		}
		seen[x.ID] = true
	}
	for id, x := range want {
		if !seen[id] && need(x) {
			bad.add("missing", "partition %d row %d sequence %d", x.Part, id, x.Seq)
		}
	}
	return bad
}

// pane is a group of the windowed query.
type pane struct {
	start int64
	k     string
}

// result is an output row of the windowed query.
type result struct {
	Start       int64
	K           string
	N, Sum, Max int64
	IDs         []int64
}

// checkWindows holds results of the windowed query against the input: each
// window that had ended by watermark is there once with all rows that kept the
// delay in their own partition, and any of those that did not.
func checkWindows(in *input, out [][]byte, watermark int64) (bad problems, counted int) {
	bad = problems{}
	groups := map[pane]map[int64]*row{}
	for i := range in.rows {
		x := &in.rows[i]
		g := pane{x.start(), x.K}
		if groups[g] == nil {
			groups[g] = map[int64]*row{}
		}
		groups[g][x.ID] = x
	}
	seen := map[pane]bool{}
	for _, data := range out {
		var w result
		if err := json.Unmarshal(data, &w); err != nil {
			bad.add("unreadable", "%s", data)
			continue
		}
		g := pane{w.Start, w.K}
		if seen[g] {
			bad.add("duplicates", "%v", g)
		}
		seen[g] = true
		counted += len(w.IDs)
		checkWindow(&w, groups[g], bad)
		if w.Start+windowMicros > in.combined() {
			bad.add("not closed yet", "%v", g)
		}
	}
	for g, rows := range groups {
		if g.start+windowMicros <= watermark && !seen[g] && punctual(rows) > 0 {
			bad.add("missing", "%v", g)
		}
	}
	return bad, counted
}

func checkWindow(w *result, rows map[int64]*row, bad problems) {
	var sum, top int64
	had := map[int64]bool{}
	on := 0
	for _, id := range w.IDs {
		x := rows[id]
		if x == nil || had[id] {
			bad.add("wrong rows", "window %d/%s counts row %d", w.Start, w.K, id)
			continue
		}
		had[id] = true
		sum, top = sum+x.V, max(top, x.V)
		if !x.late {
			on++
		}
	}
	if on != punctual(rows) {
		bad.add("incomplete", "window %d/%s has %d of %d rows", w.Start, w.K, on, punctual(rows))
	}
	if w.N != int64(len(w.IDs)) || w.Sum != sum || w.Max != top {
		bad.add("wrong aggregates", "%+v, want n=%d sum=%d max=%d", *w, len(w.IDs), sum, top)
	}
}

// punctual counts the rows that kept the delay.
func punctual(rows map[int64]*row) int {
	n := 0
	for _, x := range rows {
		if !x.late {
			n++
		}
	}
	return n
}

// total is an output row of the running totals.
type total struct {
	K      string
	N, Sum int64
}

// totals recomputes the running totals over the rows that count.
func totals(in *input, count func(*row) bool) map[string]total {
	out := map[string]total{}
	for i := range in.rows {
		if x := &in.rows[i]; count(x) {
			t := out[x.K]
			out[x.K] = total{x.K, t.N + 1, t.Sum + x.V}
		}
	}
	return out
}

// checkTotals holds the last published version of each key against want.
func checkTotals(out [][]byte, want map[string]total) problems {
	last, bad := versions(out)
	compareTotals(last, want, bad)
	return bad
}

// versions returns the last published version of each key. In the order of
// publication a key's count only grows: a version is there once.
func versions(out [][]byte) (map[string]total, problems) {
	bad := problems{}
	last := map[string]total{}
	for _, data := range out {
		var x total
		if err := json.Unmarshal(data, &x); err != nil {
			bad.add("unreadable", "%s", data)
			continue
		}
		if x.N <= last[x.K].N {
			bad.add("duplicates", "%+v behind %+v", x, last[x.K])
		}
		last[x.K] = x
	}
	return last, bad
}

func compareTotals(got, want map[string]total, bad problems) {
	for k, w := range want {
		switch g := got[k]; {
		case g.N < w.N:
			bad.add("missing", "%+v, want %+v", g, w)
		case g != w:
			bad.add("wrong", "%+v, want %+v", g, w)
		}
	}
	for k, g := range got {
		if _, ok := want[k]; !ok {
			bad.add("never put in", "%+v", g)
		}
	}
}
