package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages/fault"
)

// effect is what a fault does.
type effect uint8

const (
	fails effect = iota
	panics
	dies
	hangs
	slows
	jumps
	drains
	stops
	stalls
	fills
)

func (e effect) String() string {
	return [...]string{"error", "panic", "crash", "hang", "slow", "clock jump", "drain", "stop", "stall", "full disk"}[e]
}

// plannedFault strikes some steps after the one before it: at once, or the
// next time a point is passed.
type plannedFault struct {
	after  int
	effect effect
	point  string
	skip   int
	kind   fault.Kind
}

// points are the boundaries of the engine: each call of a connector, a store or
// an operator passes one before it takes effect, and many pass one behind it.
var points = []string{
	"src/partitions", "src/open", "src/read", "src/ack",
	"sink/open", "sink/recover", "sink/recover/done", "sink/writer", "sink/write", "sink/write/done", "sink/cut",
	"sink/flush", "sink/flush/done", "sink/prepare", "sink/prepare/done", "sink/commit", "sink/commit/done",
	"sink/publish", "sink/publish/done", "op/open", "op/process",
	"store/open", "store/committed", "store/rewind", "store/check", "store/put", "store/put/sync", "store/put/done",
	"store/commit", "store/commit/sync", "store/commit/done", "store/load", "store/drop",
}

// starting are the points passed when an attempt starts.
var starting = []string{"src/partitions", "src/open", "sink/open", "sink/recover", "sink/recover/done", "sink/writer", "op/open", "store/open", "store/committed", "store/rewind", "store/load"}

// outside are the points passed by whoever starts attempts; a panic there is not
// the engine's.
var outside = []string{"store/open", "store/committed", "store/rewind"}

// late are the points at which a call that hangs keeps an epoch unconfirmed while
// the next one becomes durable.
var late = []string{"sink/commit", "sink/publish", "sink/publish/done", "sink/commit/done"}

// strikes tells whether a fault can strike at a point.
func strikes(e effect, point string) bool {
	if slices.Contains(outside, point) {
		return e != panics && e != hangs
	}
	return e != hangs || point != "op/process" // an operator that hangs is not to be cured within the process
}

// matrix lists each pair of a fault and a boundary as coverage counts it.
func matrix() (all []string) {
	for _, p := range points {
		for e := fails; e <= jumps; e++ {
			if strikes(e, p) {
				all = append(all, e.String()+" at "+p)
			}
		}
	}
	return append(all, "duplicate at src/read", "duplicate at src/ack", "duplicate at sink/commit", "reorder at edges", "reorder at sink/write")
}

// table shows how often each fault struck at each of the given points.
func table(covered map[string]int, points []string, strikes func(effect, string) bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s", "")
	for e := fails; e <= jumps; e++ {
		fmt.Fprintf(&b, "%12s", e)
	}
	for _, p := range points {
		fmt.Fprintf(&b, "\n%-26s", p)
		for e := fails; e <= jumps; e++ {
			if strikes(e, p) {
				fmt.Fprintf(&b, "%12d", covered[e.String()+" at "+p])
			} else {
				fmt.Fprintf(&b, "%12s", "-")
			}
		}
	}
	return b.String()
}

func (r *run) planFault() plannedFault {
	f := plannedFault{after: r.rng.IntN(350), kind: []fault.Kind{fault.Restart, fault.Transient, fault.Internal, fault.Config}[r.rng.IntN(4)]}
	if r.rng.IntN(4) == 0 {
		f.after = r.rng.IntN(60) // often within the recovery from the one before
	}
	switch n := r.rng.IntN(20); {
	case n < 3:
		f.effect = dies
	case n == 3:
		f.effect = drains
	case n < 6:
		f.effect = []effect{stops, jumps, stalls, stalls, fills}[r.rng.IntN(5)]
	default:
		f.effect = []effect{dies, dies, dies, fails, fails, fails, panics, panics, hangs, hangs, slows, jumps}[r.rng.IntN(12)]
		for f.point == "" || !strikes(f.effect, f.point) {
			f.point = points[r.rng.IntN(len(points))]
			if f.effect == hangs && r.rng.IntN(3) == 0 {
				f.point = late[r.rng.IntN(len(late))]
			}
			if r.mayRewind() && f.after > 100 && r.rng.IntN(12) == 0 {
				f.point = "store/rewind"
			}
		}
		f.skip = min(r.rng.IntN(4), r.rng.IntN(4))
		if f.point == "sink/publish" {
			f.skip = r.rng.IntN(20) // in the middle of an epoch
		}
	}
	return f
}

// strike lets the next fault happen when its time has come.
func (r *run) strike() {
	r.since++
	if r.armed != nil || len(r.faults) == 0 || r.since < r.faults[0].after || r.crashed {
		if r.armed != nil && r.since > 400 {
			r.armed = nil // its point is not passed in this plan
		}
		return
	}
	f := r.faults[0]
	r.faults = r.faults[1:]
	r.since, r.settle = 0, 0
	if f.point != "" {
		r.armed = &f
		if (slices.Contains(starting, f.point) || f.point == "inject/rec/sink" || f.point == "inject/rec/restore") && r.att != nil && r.rng.IntN(4) > 0 {
			r.crashed = true // so that there is a start
		}
		return
	}
	r.count(f.effect.String())
	r.log("%v fault: %v", r.w.now, f.effect)
	switch f.effect {
	case dies:
		r.crashed = true
	case jumps:
		r.jump()
	case stalls:
		r.delayed = true
		r.stall()
	case fills:
		r.delayed = true
		r.full = r.w.now + some(r.rng, 3*time.Second)
	case drains, stops:
		if r.att == nil || r.stopped {
			return
		}
		r.stopped = true
		if f.effect == drains {
			r.att.Drain()
		} else {
			r.fired++
			r.att.Stop()
		}
	default: // strikes at a point
	}
}

// checkReaction verifies that whoever restarts the query can tell from the kind of
// the error whether that helps. The store's errors and those of acknowledgements
// are of the kind Restart, whatever they were.
func (r *run) checkReaction(err error) {
	text := err.Error()
	i := strings.Index(text, "injected at ")
	if i < 0 || r.fired != 1 || strings.Contains(text, "cancelled") || strings.Contains(text, "store/load") {
		return // what a load returns, operators and sinks judge differently
	}
	want := r.kind
	if p := strings.TrimPrefix(text[i+len("injected at "):], "inject/"); strings.HasPrefix(p, "store/") || strings.HasPrefix(p, "src/ack") {
		want = fault.Restart
	}
	if got := fault.KindOf(err); got != want {
		r.fail("the attempt ended with an error of kind %v, the fault was %v: %v", got, want, err)
	}
	if fault.Reaction(want) == fault.Fail {
		r.count("failed for good")
	}
}

// jump lets the wall clock jump by hours, in either direction.
func (r *run) jump() {
	r.w.skew = time.Duration(r.rng.Int64N(int64(4*time.Hour))) - 2*time.Hour
}

// stall holds up a worker for longer than it takes a partition to be idle. A
// reader is spared: its partition would be idle and rows on time be late.
func (r *run) stall() {
	var able []*worker
	for _, k := range r.w.work {
		if !k.gone && !k.inside && !strings.HasPrefix(k.name, "read of ") {
			able = append(able, k)
		}
	}
	if r.rng.IntN(2) == 0 { // an outside system that does not answer
		until := r.w.now + time.Duration(r.rng.Int64N(int64(3*idleAfter)))
		for _, k := range able {
			if strings.HasPrefix(k.name, "writer of ") {
				k.until = until
			}
		}
		return
	}
	if len(able) > 0 {
		able[r.rng.IntN(len(able))].until = r.w.now + time.Duration(r.rng.Int64N(int64(3*idleAfter)))
	}
}

var errCrashed = errors.New("injected: the process is dead")

// point is passed by the models at each call and once more when the call has
// had its effect. It returns the error to return there.
func (r *run) point(name string) error {
	if r.crashed {
		return errCrashed
	}
	f := r.armed
	if f == nil || f.point != name {
		return nil
	}
	if f.skip > 0 {
		f.skip--
		return nil
	}
	r.armed, r.since = nil, 0
	defer func() { r.settle = 0 }() // also if it takes long
	r.count(f.effect.String() + " at " + name)
	r.log("%v fault: %v at %s", r.w.now, f.effect, name)
	switch f.effect {
	case panics:
		r.fired++
		panic("injected panic at " + name)
	case dies:
		r.fired++
		r.crashed = true
		return errCrashed
	case hangs:
		return r.hang(f)
	case slows:
		return r.linger(name)
	case jumps:
		r.jump()
		return nil
	default:
		r.fired++
		r.kind = f.kind
		return fault.New(f.kind, "injected at %s", name)
	}
}

// linger lets a call take a while.
func (r *run) linger(name string) error {
	if !r.w.wait(r.w.now+some(r.rng, 30*time.Millisecond), nil, takesStore(name)) {
		return errCrashed
	}
	return nil
}

// hang lets a call take very long. Most calls notice that their attempt is
// cancelled and return; a deaf one, in an attempt that is being stopped, never.
// While a reader hangs its partition may become idle; so it hangs for less than
// that where that would make rows late.
func (r *run) hang(f *plannedFault) error {
	k := r.w.busy
	if k == nil {
		return nil
	}
	r.delayed = true
	store := takesStore(f.point)
	if r.rng.IntN(6) == 0 && r.att != nil && r.deaf == "" {
		r.deaf, r.stopped = k.name, true
		r.log("%v ... for ever: %s", r.w.now, k.name)
		r.att.Stop()
		r.w.wait(never, nil, store)
		return errCrashed
	}
	most := 5 * time.Second
	if r.ambush = slices.Contains(late, f.point) && r.rng.IntN(4) > 0; r.ambush {
		most = time.Second
	}
	if strings.HasSuffix(f.point, "src/read") && r.idle > 0 {
		most = idleAfter / 8
	}
	until := r.w.now + some(r.rng, most)
	if !r.w.wait(until, func() bool { return k.final != nil }, store) {
		return errCrashed
	}
	if k.final != nil {
		r.fired++
		return fault.New(f.kind, "injected at %s: the call has been cancelled", f.point)
	}
	return nil
}

// afterRecord springs the ambush: the process dies behind the commit record of an
// epoch, while the sinks have not confirmed the one before.
func (r *run) afterRecord() {
	if r.armed != nil && r.armed.point == "inject/rec/stash" {
		r.crashed = true // what is held must be loaded
		return
	}
	if !r.ambush {
		return
	}
	r.ambush = false
	r.armed, r.since = nil, 0
	r.count("two epochs unconfirmed")
	r.faults = append([]plannedFault{{effect: dies, after: r.rng.IntN(20)}}, r.faults...)
}

// takesStore tells whether a point is passed while nobody else can call the store.
func takesStore(point string) bool { return strings.HasPrefix(point, "store/") }
