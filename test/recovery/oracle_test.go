package recovery

import (
	"fmt"
	"sort"
)

// row is an input row. Its content is a function of partition, number and event
// time; Micros is the event time.
type row struct {
	Part   int    `json:"part"`
	N      int64  `json:"n"`
	K      string `json:"k"`
	V      int64  `json:"v"`
	Micros int64  `json:"ts"`
}

// windowMicros is the size of the tumbling windows, delayMicros the declared
// delay; every row keeps it within its partition.
const (
	windowMicros = 500_000
	delayMicros  = 300_000
)

// passes is the predicate of the stateless query.
func passes(r row) bool { return r.V%3 != 0 }

// stateless recomputes the stateless query: one line per result row.
func stateless(rows []row) []string {
	var out []string
	for _, r := range rows {
		if passes(r) {
			out = append(out, fmt.Sprintf("%d/%d=%d", r.Part, r.N, r.V*2))
		}
	}
	sort.Strings(out)
	return out
}

// windows recomputes the windowed query for the windows that end at or before
// the watermark.
func windows(rows []row, watermark int64) []string {
	type group struct {
		start int64
		k     string
	}
	type acc struct{ n, sum, max int64 }
	groups := map[group]*acc{}
	for _, r := range rows {
		g := group{r.Micros - r.Micros%windowMicros, r.K}
		a := groups[g]
		if a == nil {
			a = &acc{max: r.V}
			groups[g] = a
		}
		a.n++
		a.sum += r.V
		a.max = max(a.max, r.V)
	}
	var out []string
	for g, a := range groups {
		if g.start+windowMicros <= watermark {
			out = append(out, fmt.Sprintf("%d/%s n=%d sum=%d max=%d", g.start, g.k, a.n, a.sum, a.max))
		}
	}
	sort.Strings(out)
	return out
}

// difference lists what is missing from got and what is too much in it, as
// multisets; both are sorted.
func difference(want, got []string) (missing, extra []string) {
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case j == len(got) || i < len(want) && want[i] < got[j]:
			missing = append(missing, want[i])
			i++
		case i == len(want) || got[j] < want[i]:
			extra = append(extra, got[j])
			j++
		default:
			i++
			j++
		}
	}
	return missing, extra
}

func head(s []string) []string { return s[:min(len(s), 20)] }
