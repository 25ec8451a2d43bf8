package sim

import (
	"math/rand/v2"
	"sort"
	"time"
)

// start is the wall clock at the beginning of every world.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// policy is how the scheduler picks the next step of the actors.
type policy uint8

const (
	uniform policy = iota
	mostlyOldest
	mostlyNewest
	workersFirst
	workersLast
	policies
)

// world is everything that happens between two crashes of nothing but the
// process: time, messages under way, tasks of workers. All its code runs on one
// goroutine.
type world struct {
	rng    *rand.Rand
	policy policy
	now    time.Duration
	skew   time.Duration // of the wall clock
	deaf   time.Duration // how long writers do nothing at first
	jitter int           // one in so many looks at the clock takes a while
	slow   int           // percent of tasks that take a while
	steps  []func()
	work   []*worker
	able   []*worker // scratch of step
	busy   *worker   // the one whose task runs, nil: an actor or the outside world
	fibers []*fiber  // that nobody uses
	locked *worker   // waits inside the store, which serves one call at a time
	timers []*timer  // ordered by time
	serial uint64
	// reordered is how many messages were delivered before older ones.
	reordered int
	hash      uint64
	count     int
	ready     map[string]func() bool // by name of worker: whether its task would not block
	events    []time.Duration        // times at which something outside happens, ordered
}

func newWorld(rng *rand.Rand) *world {
	return &world{
		rng: rng, policy: policy(rng.IntN(int(policies))), slow: []int{0, 0, 5, 20}[rng.IntN(4)], jitter: []int{0, 1, 2, 16}[rng.IntN(4)],
		ready: map[string]func() bool{}, hash: 14695981039346656037,
	}
}

// note makes v part of the trace.
func (w *world) note(v uint64) { w.hash = (w.hash ^ v) * 1099511628211 }

// crash forgets what lives in the process. Calls that hang are ended first; the
// models let them have no effect.
func (w *world) crash() {
	for _, k := range w.work {
		k.end()
	}
	w.steps, w.work, w.timers, w.locked = nil, nil, nil, nil
	clear(w.ready)
}

type timer struct {
	at      time.Duration
	serial  uint64
	f       func()
	stopped bool
}

// Now, Mono and AfterFunc make a world a clock (connectors.Clock).
func (w *world) Now() time.Time { return start.Add(w.now + w.skew) }

func (w *world) Mono() time.Duration {
	if w.jitter > 0 && w.rng.IntN(w.jitter) == 0 {
		w.now += time.Duration(w.rng.IntN(150)) * time.Microsecond
	}
	return w.now
}

func (w *world) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	w.serial++
	t := &timer{at: w.now + d, serial: w.serial, f: f}
	i := sort.Search(len(w.timers), func(i int) bool { return w.timers[i].at > t.at })
	w.timers = append(w.timers, nil)
	copy(w.timers[i+1:], w.timers[i:])
	w.timers[i] = t
	return func() bool {
		was := !t.stopped
		t.stopped = true
		return was
	}
}

// step does one step and reports whether there was anything left to do.
func (w *world) step() bool {
	w.count++
	w.fireTimers()
	able := w.able[:0]
	live := w.work[:0]
	for _, k := range w.work {
		if k.gone && !k.inside {
			continue
		}
		live = append(live, k)
		if k.runnable() {
			able = append(able, k)
		}
	}
	w.work, w.able = live, able
	n := len(w.steps) + len(able)
	switch {
	case n == 0:
		return w.advance(never)
	case w.rng.IntN(200) == 0:
		w.advance(w.now + 20*time.Millisecond) // what is under way takes a while
		return true
	}
	if i := w.pick(len(w.steps), len(able)); i < len(w.steps) {
		if i > 0 {
			w.reordered++
		}
		w.note(uint64(i)<<16 | uint64(n))
		f := w.steps[i]
		w.steps = append(w.steps[:i], w.steps[i+1:]...)
		f()
	} else {
		w.note(uint64(i)<<16 | uint64(n) | 1<<40)
		able[i-len(w.steps)].step()
	}
	return true
}

// pick chooses among n steps of actors, oldest first, and m workers.
func (w *world) pick(n, m int) int {
	biased := w.rng.IntN(4) > 0
	switch {
	case biased && w.policy == mostlyOldest && n > 0:
		return w.rng.IntN(min(n, 2))
	case biased && w.policy == mostlyNewest && n > 0:
		return n - 1 - w.rng.IntN(min(n, 2))
	case biased && w.policy == workersFirst && m > 0:
		return n + w.rng.IntN(m)
	case biased && w.policy == workersLast && n > 0:
		return w.rng.IntN(n)
	}
	return w.rng.IntN(n + m)
}

// fireTimers turns the timers that are due into steps.
func (w *world) fireTimers() {
	for len(w.timers) > 0 && w.timers[0].at <= w.now {
		t := w.timers[0]
		w.timers = w.timers[1:]
		if t.stopped {
			continue
		}
		w.steps = append(w.steps, func() {
			if !t.stopped {
				t.stopped = true
				t.f()
			}
		})
	}
	for len(w.events) > 0 && w.events[0] <= w.now {
		w.events = w.events[1:]
	}
}

const never = time.Duration(1<<63 - 1)

// advance moves time to the next moment at which something happens by itself, if
// that is not after limit.
func (w *world) advance(limit time.Duration) bool {
	next := time.Duration(-1)
	want := func(t time.Duration) {
		if t > w.now && (next < 0 || t < next) {
			next = t
		}
	}
	for _, t := range w.timers {
		if !t.stopped {
			want(t.at)
			break
		}
	}
	for _, k := range w.work {
		want(k.until)
	}
	if len(w.events) > 0 {
		want(w.events[0])
	}
	if next < 0 || next > limit {
		return false
	}
	w.now = next
	w.note(uint64(next) | 1<<62)
	return true
}
