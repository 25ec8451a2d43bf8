package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/runtime"
)

// Summary is what streamd demo --json prints. RowsIn are the bids published, and
// RowsUnread those of them, and of earlier runs, that a query has not read.
type Summary struct {
	RowsIn      int64              `json:"rows_in"`
	RowsUnread  map[string]int64   `json:"rows_unread"`
	RowsOut     int64              `json:"rows_out"`
	Epochs      uint64             `json:"epochs"`
	LatencyMs   map[string]Latency `json:"latency_ms"`
	ResumedFrom uint64             `json:"resumed_from_epoch"`
	Seconds     float64            `json:"seconds"`       // with the drain
	Drain       float64            `json:"drain_seconds"` // how long it took
	RatePerS    int                `json:"rate"`
	FirstResult *float64           `json:"first_result_ms"` // nil: there was none
	unread      int64              // most of RowsUnread
	behind      bool               // it has grown, by more than a second's worth
}

// Summarize reports what happened since the start.
func (d *Demo) Summarize() Summary {
	s := Summary{
		LatencyMs: map[string]Latency{}, Seconds: time.Since(d.started).Seconds(), Drain: d.drained.Seconds(), RatePerS: d.cfg.Rate,
		RowsIn: d.gen.sent.Load(), RowsUnread: d.Unread(),
	}
	s.unread, _ = d.slowest()
	s.behind = d.behind(s.unread)
	for _, w := range d.watch {
		rows, l := w.all()
		s.RowsOut += rows
		s.LatencyMs[w.query] = l
	}
	for _, q := range d.session.Queries() {
		if p := q.LastProgress(); p != nil {
			from := q.Status().ResumedFrom
			s.Epochs += p.BatchID - from
			s.ResumedFrom = max(s.ResumedFrom, from)
		}
	}
	s.FirstResult = d.watch[0].firstAfter(d.started)
	return s
}

// Text is the summary in a few lines; planned is how long the demo was to last,
// 0: until it was stopped.
func (s *Summary) Text(planned time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d bids published, %d results out; the same command goes on from these epochs\n", s.RowsIn, s.RowsOut)
	switch {
	case s.behind:
		fmt.Fprintf(&b, "%d bids have not been read yet: this machine does not keep up with --rate %d; they are read at the next start\n", s.unread, s.RatePerS)
	case s.unread > 0:
		fmt.Fprintf(&b, "%d bids have not been read yet; they are read at the next start\n", s.unread)
	}
	if planned > 0 && s.Drain >= 1 {
		fmt.Fprintf(&b, "draining took %.1f s beyond --duration %s\n", s.Drain, planned)
	}
	return b.String()
}

// Resumed lists the queries that went on from a checkpoint, with the epoch.
func (d *Demo) Resumed() string {
	var parts []string
	for _, q := range d.session.Queries() {
		if e := q.Status().ResumedFrom; e > 0 {
			parts = append(parts, fmt.Sprintf("%s from epoch %d", q.Name(), e))
		}
	}
	return strings.Join(parts, ", ")
}

// View is one picture of the running demo.
type View struct {
	d       *Demo
	last    time.Time
	in      int64
	out     map[string]int64
	started time.Time
}

// NewView returns a view; the first picture covers the time from now on.
func (d *Demo) NewView() *View {
	return &View{d: d, last: time.Now(), out: map[string]int64{}, started: d.started}
}

// row is a line of the table; it fits into a terminal of 80 columns.
const row = "%-14s %7s %7s %7s  %-10s %6s %5s %6s %8s\n"

// Frame draws the picture over the time since the previous one.
func (v *View) Frame() string {
	now := time.Now()
	secs := now.Sub(v.last).Seconds()
	v.last = now
	var b strings.Builder
	sent := v.d.gen.sent.Load()
	fmt.Fprintf(&b, "streamd demo   up %s   bids published %s/s   (%s since this start)\n",
		now.Sub(v.started).Truncate(time.Second), count(int64(float64(sent-v.in)/secs)), count(sent))
	v.in = sent
	switch n, ok := v.d.slowest(); {
	case !ok:
		b.WriteString("not read yet: -\n\n")
	case v.d.behind(n):
		fmt.Fprintf(&b, "not read yet: %s; this machine does not keep up, lower --rate\n\n", count(n))
	default:
		fmt.Fprintf(&b, "not read yet: %s\n\n", count(n))
	}
	fmt.Fprintf(&b, row, "query", "out/s", "p50 ms", "p99 ms", "watermark", "epoch", "age", "took", "bytes")
	for _, q := range v.d.session.Queries() {
		v.query(&b, q, secs, now)
	}
	b.WriteString("\nhottest auctions       bids    top price   (since the first start)\n")
	rows := v.d.top.Rows()
	for _, r := range rows {
		price, _ := r[2].(int64) // NULL cannot be: every bid has a price
		bids, _ := r[1].(int64)
		fmt.Fprintf(&b, "  auction %-8v %10s %12s\n", r[0], count(bids), count(price))
	}
	for i := len(rows); i < 5; i++ {
		b.WriteString("  -\n")
	}
	return b.String()
}

func (v *View) query(b *strings.Builder, q *runtime.Query, secs float64, now time.Time) {
	rate, p50, p99 := "-", "-", "-"
	for _, w := range v.d.watch {
		if w.query != q.Name() {
			continue
		}
		rows, l := w.lately()
		rate = count(int64(float64(rows-v.out[w.query]) / secs))
		v.out[w.query] = rows
		p50, p99 = ms(l.P50), ms(l.P99)
	}
	wm, epoch, age, took, bytes := "-", "-", "-", "-", "-"
	if at, ok := q.Watermark(); ok {
		wm = at.Format("15:04:05.0")
	}
	if p := q.LastProgress(); p != nil {
		epoch = fmt.Sprint(p.BatchID)
		took = strconv.FormatFloat(float64(p.Checkpoint.DurationUs)/1000, 'f', 0, 64) + "ms"
		bytes = size(p.Checkpoint.Bytes)
		if t, err := time.Parse(time.RFC3339, p.Timestamp); err == nil {
			age = fmt.Sprintf("%.1fs", now.Sub(t).Seconds())
		}
	}
	fmt.Fprintf(b, row, q.Name(), rate, p50, p99, wm, epoch, age, took, bytes)
	if st := q.Status(); st.State != "running" {
		fmt.Fprintf(b, "  %s: %s\n", st.State, st.Message)
	}
}

// Line is one line for logs and pipes over the time since the previous one.
func (v *View) Line() string {
	now := time.Now()
	secs := now.Sub(v.last).Seconds()
	v.last = now
	sent := v.d.gen.sent.Load()
	parts := []string{fmt.Sprintf("t=%s in=%d/s", now.Sub(v.started).Truncate(time.Second), int64(float64(sent-v.in)/secs))}
	v.in = sent
	if n, ok := v.d.slowest(); ok {
		parts[0] += fmt.Sprintf(" unread=%d", n)
	} else {
		parts[0] += " unread=-"
	}
	for _, w := range v.d.watch {
		rows, l := w.lately()
		quantiles := " p50=- p99=-" // nothing came
		if l.Max != nil {
			quantiles = " p50=" + ms(l.P50) + "ms p99=" + ms(l.P99) + "ms"
		}
		parts = append(parts, fmt.Sprintf("%s: out=%d/s%s", w.query, int64(float64(rows-v.out[w.query])/secs), quantiles))
		v.out[w.query] = rows
	}
	for _, q := range v.d.session.Queries() {
		if p := q.LastProgress(); p != nil {
			parts = append(parts, fmt.Sprintf("%s: epoch=%d", q.Name(), p.BatchID))
		}
		if st := q.Status(); st.State != "running" {
			parts = append(parts, fmt.Sprintf("%s: %s: %s", q.Name(), st.State, st.Message))
		}
	}
	return strings.Join(parts, "  ")
}

// count writes a number with thin groups of three digits.
func count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
