package recovery

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sample is what the child, its directory and the server hold at one moment.
type sample struct {
	at   time.Duration
	rows int64 // put in so far
	held [len(measures)]int64
}

// measure is something that may not grow. What it may: the median of the samples of
// the second half is at most that of the first half times factor, plus room.
type measure struct {
	name   string
	unit   float64 // what a number in the table stands for
	factor float64
	room   int64
}

// measures are those of a sample.
var measures = [...]measure{
	{"goroutines", 1, 1.1, 20},
	{"resident MB", 1e6, 1.15, 32e6},
	{"files", 1, 1.1, 16},
	{"disk MB", 1e6, 1.25, 32e6},
	{"consumers", 1, 1, 0}, // see orphans
}

// orphans is how many consumers killed children have left, with a kill each time that
// every has passed: the server drops them after two minutes.
func orphans(every time.Duration, lanes int) int64 {
	return (int64(2*time.Minute/every) + 1) * int64(lanes) * partitions
}

// TestSoak runs for the time that SOAK says (30m) at SOAK_RATE rows per second
// (20,000), with a kill each minute (SOAK_KILL). All results are held against sums of
// the input. Every ten seconds a sample is taken; in the second half of the run the
// measures are not above those of the first by more than they may.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("SKIPPED: set SOAK=30m")
	}
	length, every := span(t, "SOAK", 0), span(t, "SOAK_KILL", time.Minute)
	step := min(10*time.Second, length/12)
	every = max(min(every, length/4), step)
	r := newRig(t, setup{
		lanes: []lane{soakWindowsLane(), soakTotalsLane(), soakBucketLane()}, rate: number("SOAK_RATE", 20_000), long: true, parallelism: 2,
	})
	var samples []sample
	kills := 0
	begun := time.Now()
	for time.Since(begun) < length {
		addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		r.args = []string{"--http", addr}
		r.start()
		r.running()
		for life := time.Now(); time.Since(life) < every && time.Since(begun) < length; {
			r.pass(step)
			r.alive()
			s := r.sample(addr)
			s.at, s.rows = time.Since(begun), r.feed.sent()
			samples = append(samples, s)
		}
		r.child.kill(t)
		kills++
		for _, l := range r.lanes {
			r.advances(l)
		}
	}
	in := r.feed.halt()
	looped := time.Since(begun)
	r.start()
	r.finish()
	for _, l := range r.lanes {
		if c := r.readCut(l.name); c == nil || int64(c.rows) != in.sum.rows {
			t.Errorf("%s: the last record is %+v, and does not cover %d rows", l.name, c, in.sum.rows)
		}
	}
	t.Logf("%d rows, %.0f per second; %d kills\n%s", in.sum.rows, float64(in.sum.rows)/looped.Seconds(), kills, table(samples))
	for _, text := range grown(samples, orphans(every, len(r.lanes))) {
		t.Error(text)
	}
}

// span reads a duration from the environment.
func span(t *testing.T, name string, def time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%s: want a duration such as 30m (%v)", name, text, err)
	}
	return d
}

// advances checks that the commit record of a lane follows from the one before.
func (r *rig) advances(l lane) {
	r.t.Helper()
	c, bad := r.readCut(l.name), problems{}
	if c == nil {
		r.t.Fatalf("query %s has committed nothing\n%s", l.name, r.child.tail())
	}
	if old := r.cuts[l.name]; old != nil {
		follows(old, c, bad)
		if c.record.Epoch == old.record.Epoch {
			bad.add("stands still", "epoch %d", c.record.Epoch)
		}
	}
	r.cuts[l.name] = c
	if len(bad) > 0 {
		r.t.Fatalf("query %s: %s%s", l.name, bad, r.child.tail())
	}
}

// grown says which measures have grown by more than they may.
func grown(samples []sample, orphans int64) (texts []string) {
	half := len(samples) / 2
	for i, m := range measures {
		if m.name == "consumers" {
			m.room = orphans
		}
		first, second := median(samples[:half], i), median(samples[half:], i)
		if limit := float64(first)*m.factor + float64(m.room); float64(second) > limit {
			texts = append(texts, fmt.Sprintf("%s grow: %.1f in the first half, %.1f in the second; at most %.1f is allowed",
				m.name, float64(first)/m.unit, float64(second)/m.unit, limit/m.unit))
		}
	}
	return texts
}

func median(samples []sample, i int) int64 {
	if len(samples) == 0 {
		return 0
	}
	list := slices.SortedFunc(slices.Values(samples), func(a, b sample) int { return cmp.Compare(a.held[i], b.held[i]) })
	return list[len(list)/2].held[i]
}

// table shows the samples, and the medians of both halves.
func table(samples []sample) string {
	var b strings.Builder
	line := func(name string, rows int64, held func(i int) int64) {
		fmt.Fprintf(&b, "%12s %12d", name, rows)
		for i, m := range measures {
			fmt.Fprintf(&b, " %12.1f", float64(held(i))/m.unit)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%12s %12s", "time", "rows")
	for _, m := range measures {
		fmt.Fprintf(&b, " %12s", m.name)
	}
	b.WriteString("\n")
	for _, s := range samples {
		line(s.at.Round(time.Second).String(), s.rows, func(i int) int64 { return s.held[i] })
	}
	half := len(samples) / 2
	line("first half", 0, func(i int) int64 { return median(samples[:half], i) })
	line("second half", 0, func(i int) int64 { return median(samples[half:], i) })
	return b.String()
}

// TestGrown: what the soak calls growth.
func TestGrown(t *testing.T) {
	flat := make([]sample, 20)
	for i := range flat {
		flat[i].held = [...]int64{100, 200e6, 60, 50e6, 48}
	}
	if texts := grown(flat, 36); len(texts) > 0 {
		t.Errorf("nothing grows, and it says: %q", texts)
	}
	for i, m := range measures {
		if m.name == "consumers" {
			m.room = 36
		}
		more := slices.Clone(flat)
		for j := 10; j < 20; j++ {
			more[j].held[i] = int64(float64(more[j].held[i])*m.factor) + m.room + 1
		}
		if texts := grown(more, 36); len(texts) != 1 || !strings.HasPrefix(texts[0], m.name+" grow") {
			t.Errorf("%s grow, and it says: %q", m.name, texts)
		}
		for j := 10; j < 14; j++ { // a few high samples are no growth
			more[j].held[i], more[j+5].held[i] = flat[0].held[i], flat[0].held[i]
		}
		if texts := grown(more, 36); len(texts) > 0 {
			t.Errorf("two high samples, and it says: %q", texts)
		}
	}
}

// sample looks at a child that runs.
func (r *rig) sample(addr string) sample {
	r.t.Helper()
	var s sample
	eventually(r.t, "a sample", 10*time.Second, func(ctx context.Context) error {
		found, err := scrape(ctx, addr, "go_goroutines", "process_resident_memory_bytes", "process_open_fds")
		if err != nil {
			return err
		}
		info, err := r.js.AccountInfo(ctx)
		if err != nil {
			return err
		}
		s.held = [...]int64{found[0], found[1], found[2], r.diskUse(), int64(info.Consumers)}
		return nil
	})
	return s
}

// scrape reads values from /metrics.
func scrape(ctx context.Context, addr string, names ...string) ([]int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read below
	values, found := make([]int64, len(names)), 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		i := slices.Index(names, name)
		if i < 0 {
			continue
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, err
		}
		values[i] = int64(x)
		found++
	}
	if found < len(names) {
		return nil, fmt.Errorf("%s: /metrics has %d of %v", resp.Status, found, names)
	}
	return values, nil
}

// diskUse is what the directory of the checkpoints takes.
func (r *rig) diskUse() int64 {
	var sum int64
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files come and go
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return sum
}

// soakWindowsLane is that of windows without the list of their rows.
func soakWindowsLane() lane {
	l := windowsLane()
	l.query = strings.Replace(l.query, ", collect_list(id) AS ids", "", 1)
	l.check = func(r *rig, in *input) problems {
		bad := problems{}
		seen := map[pane]bool{}
		for _, data := range r.taps[l.name].read() {
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
			if want := in.sum.panes[g]; w.N != want.N || w.Sum != want.Sum || w.Max != want.Max {
				bad.add("wrong", "%s, want %+v", data, want)
			}
		}
		for g := range in.sum.panes {
			if g.start+windowMicros <= in.combined() && !seen[g] {
				bad.add("missing", "%v", g)
			}
		}
		return bad
	}
	return l
}

// soakTotalsLane is that of running totals, published per epoch.
func soakTotalsLane() lane {
	l := totalsLane()
	l.check = func(r *rig, in *input) problems { return checkTotals(r.taps[l.name].read(), in.sum.totals) }
	return l
}

// soakBucketLane is that of running totals in a bucket.
func soakBucketLane() lane {
	l := bucketLane()
	l.check = func(r *rig, in *input) problems {
		bad := problems{}
		compareTotals(r.bucket(l.bucket, bad), in.sum.totals, bad)
		return bad
	}
	return l
}
