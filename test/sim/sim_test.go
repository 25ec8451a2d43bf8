package sim

import (
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness runs seeds one after the other on one actor system.
type harness struct {
	w    *world
	sys  *actors.System
	runs int
}

// Worlds come and go; the actor system sees the present one.
func (h *harness) Now() time.Time      { return h.w.Now() }
func (h *harness) Mono() time.Duration { return h.w.Mono() }

func (h *harness) AfterFunc(d time.Duration, f func()) func() bool { return h.w.AfterFunc(d, f) }

func (h *harness) Worker(name string, failed func(error)) actors.Worker {
	return h.w.Worker(name, failed)
}

var (
	_ connectors.Clock = &harness{}
	_ actors.Executor  = &harness{}
)

// system returns an actor system, a new one from time to time: crashed attempts
// leave their actors behind.
func (h *harness) system() *actors.System {
	if h.runs++; h.sys == nil || h.runs%50 == 0 {
		h.shut()
		h.sys = actors.NewSystem(actors.SystemConfig{Clock: h, Executor: h, Schedule: func(f func()) { h.w.steps = append(h.w.steps, f) }})
	}
	return h.sys
}

func (h *harness) shut() {
	if h.sys != nil {
		h.sys.Close()
	}
}

func (h *harness) close() {
	h.shut()
	if h.w != nil {
		for _, f := range h.w.fibers {
			f.stop()
		}
		h.w.fibers = nil
	}
}

// outcome is what a run leaves.
type outcome struct {
	line    string
	failure string
	hash    uint64
	steps   int
	covered map[string]int
}

func (h *harness) run(seed uint64, log func(string, ...any)) (out outcome) {
	r := newRun(seed, h.system(), &h.w)
	if log != nil {
		r.log = log
	}
	func() {
		defer func() {
			if v := recover(); v != nil {
				r.fail("panic: %v\n%s", v, debug.Stack())
			}
		}()
		r.simulate()
	}()
	return outcome{r.String(), r.failure, r.w.hash, r.w.count, r.covered}
}

func seeds(t *testing.T) int {
	if s := os.Getenv("SIM_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("SIM_SEEDS=%q: %v", s, err)
		}
		return n
	}
	if testing.Short() || fault.Injecting {
		return 200
	}
	return 20_000
}

// old returns the seeds that have failed once.
func old(t *testing.T) []uint64 {
	text, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(strings.Fields(line)[0], "seed="), 10, 64)
		if err != nil {
			t.Fatalf("seeds.txt: %q: %v", line, err)
		}
		all = append(all, n)
	}
	return all
}

func TestSeeds(t *testing.T) {
	if s := os.Getenv("SIM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		h := &harness{}
		defer h.close()
		out := h.run(seed, t.Logf)
		t.Logf("%s hash=%x", out.line, out.hash)
		if out.failure != "" {
			t.Fatal(out.failure)
		}
		return
	}
	first := old(t)
	from := uint64(0) // SIM_FIRST lets several machines share the work
	if s := os.Getenv("SIM_FIRST"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SIM_FIRST=%q: %v", s, err)
		}
		from = n
	}
	total := len(first) + seeds(t)
	most := int64(5) // failures to show
	if os.Getenv("SIM_FAILURES") == "1" {
		most = 1
	}
	next, failed := atomic.Int64{}, atomic.Int64{}
	steps := atomic.Int64{}
	covered := map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	began := time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a world is small and short-lived
	for range goruntime.GOMAXPROCS(0) {
		group.Go(func() {
			h := &harness{}
			defer h.close()
			for {
				i := int(next.Add(1)) - 1
				if i >= total || failed.Load() >= most {
					return
				}
				seed := from + uint64(i-len(first))
				if i < len(first) {
					seed = first[i]
				}
				out := h.run(seed, nil)
				steps.Add(int64(out.steps))
				if out.failure == "" && i%100 == 0 {
					if again := h.run(seed, nil); again.hash != out.hash {
						out.failure = fmt.Sprintf("not deterministic: hash %x and %x", out.hash, again.hash)
					}
				}
				mu.Lock()
				for k, n := range out.covered {
					covered[k] += n
				}
				if out.failure != "" {
					failed.Add(1)
					t.Errorf("%s\n\t%s", out.line, out.failure)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	d := time.Since(began)
	n := min(next.Load(), int64(total))
	t.Logf("%d seeds and %d of them again, %d steps each, in %v: %.0f a second", n, n/100, steps.Load()/max(1, n), d.Round(time.Millisecond), float64(n)/d.Seconds())
	report(t, covered, total)
}

// TestSourcesHeldUpBecomeIdle has sinks that take nothing for longer than the
// idle timeout, while a source is left with its last rows: when they are through,
// it must be found idle all the same.
func TestSourcesHeldUpBecomeIdle(t *testing.T) {
	h := &harness{}
	defer h.close()
	for seed := range uint64(300) {
		r := newRun(seed, h.system(), &h.w)
		r.plan = &plans[seed%2]
		r.idle, r.bounded, r.batch, r.faults = idleAfter, false, 1, nil
		r.rewinds = false
		r.w.deaf, r.w.slow = 3*idleAfter, 0
		p := r.parts[0]
		p.rows, p.arrive, p.flaky = nil, nil, false
		p.generate(10+int(seed/2)%30, r.delay, 10*time.Millisecond)
		r.parts, r.sources = r.parts[:1], r.sources[:1]
		r.sources[0].parts = r.parts
		r.kinds, r.sinks = nil, nil
		r.sinks = append(r.sinks, r.newSink(0))
		r.w.events = append(r.w.events[:0], p.arrive...)
		r.simulate()
		if r.failure != "" {
			t.Fatalf("%s\n\t%s", r, r.failure)
		}
	}
}

// TestTimersFireWhileOthersRestore has crashes and slow restores under a query
// that coalesces its output: the timers of operators that are ready early fire
// before the attempt runs.
func TestTimersFireWhileOthersRestore(t *testing.T) {
	h := &harness{}
	defer h.close()
	changing := slices.IndexFunc(plans, func(p plan) bool { return p.grouped == changes })
	for seed := range uint64(300) {
		r := newRun(seed, h.system(), &h.w)
		if r.plan.sources != 1 {
			continue
		}
		r.plan = &plans[changing]
		r.bounded, r.emit, r.w.slow = false, time.Millisecond, 40
		r.rewinds = false
		r.kinds, r.sinks = nil, nil
		r.sinks = append(r.sinks, r.newSink(0))
		for _, p := range r.parts {
			p.flaky = false
		}
		r.faults = nil
		for range 6 {
			r.faults = append(r.faults, plannedFault{effect: dies, after: 50 + r.rng.IntN(300)})
		}
		r.simulate()
		if r.failure != "" {
			t.Fatalf("%s\n\t%s", r, r.failure)
		}
	}
}

// TestStateChangesWhileItIsSaved has snapshots that are encoded in many slices,
// of many keys that go on changing, and crashes behind them.
func TestStateChangesWhileItIsSaved(t *testing.T) {
	h := &harness{}
	defer h.close()
	for seed := range uint64(150) {
		r := newRun(seed, h.system(), &h.w)
		if r.plan.grouped == stateless {
			continue
		}
		r.w.jitter, r.keys, r.interval = 1, 40, 2*time.Millisecond
		r.batch, r.w.slow = 8, 0
		r.size, r.slide = 3000, 3000
		r.w.events = nil
		for _, p := range r.parts {
			p.rows, p.arrive = nil, nil
			p.generate(400, r.delay, 3*time.Millisecond)
			r.w.events = append(r.w.events, p.arrive...)
		}
		slices.Sort(r.w.events)
		r.faults = nil
		for range 4 {
			r.faults = append(r.faults, plannedFault{effect: dies, after: 200 + r.rng.IntN(600)})
		}
		r.simulate()
		if r.failure != "" {
			t.Fatalf("%s\n\t%s", r, r.failure)
		}
	}
}

// report lists what happened and fails if some fault never struck.
func report(t *testing.T, covered map[string]int, total int) {
	t.Logf("how often each fault struck at each boundary:\n%s", table(covered, points, strikes))
	var lines []string
	for k, n := range covered {
		if _, point, _ := strings.Cut(k, " at "); !slices.Contains(points, point) || strings.HasPrefix(k, "duplicate") || strings.HasPrefix(k, "reorder") {
			lines = append(lines, fmt.Sprintf("%8d %s", n, k))
		}
	}
	sort.Strings(lines)
	t.Logf("what else happened:\n%s", strings.Join(lines, "\n"))
	if total < 10_000 || t.Failed() {
		return
	}
	for _, k := range append(matrix(), sometimes...) {
		if covered[k] == 0 {
			t.Errorf("it never happened: %s", k)
		}
	}
}

// sometimes lists what must happen in some of the seeds besides the faults of the
// matrix.
var sometimes = []string{
	"rows adopted", "zombie rows rejected", "sink commit redone", "drained", "epoch on request", "partition appears", "settled",
	"crash", "drain", "stop", "clock jump", "stall", "full disk", "blocked: no space", "goes on: there is space again",
	"gave up on a call", "epoch timed out", "rewind", "table shown", "row replaced",
	"two epochs unconfirmed", "failed for good", "epoch wanted by a sink", "file renamed", "epoch asked for by a sink", "write waited for a confirmation", "row of an epoch published before", "epoch published before",
	"rows of the checkpoint published after a restart",
}
