package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/messages/fault"
)

// worker is an actors.Worker whose tasks are steps. They run in a coroutine, so
// that a call of a task can take its time, or hang, while the world goes on.
type worker struct {
	w      *world
	name   string
	failed func(error)
	tasks  []func()
	final  func()
	gone   bool
	until  time.Duration
	rested bool // the task in front has been slow already

	task   func() // to be run, or running
	inside bool   // the task waits inside a call
	wake   func() bool
	fiber  *fiber // in which the task runs, nil: there is none
}

// fiber is a coroutine that runs tasks, one each time it is resumed, of one worker
// after another.
type fiber struct {
	k      *worker
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

// Worker makes a world an executor (actors.Executor).
func (w *world) Worker(name string, failed func(error)) actors.Worker {
	k := &worker{w: w, name: name, failed: failed}
	if w.deaf > 0 && strings.HasPrefix(name, "writer of ") {
		k.until = w.now + w.deaf
	}
	w.work = append(w.work, k)
	return k
}

func (k *worker) Submit(task func()) {
	if k.final != nil || k.gone {
		panic(fmt.Sprintf("task for the stopped worker %q", k.name))
	}
	k.tasks = append(k.tasks, task)
	if len(k.tasks) > actors.MaxTasks {
		panic(fmt.Sprintf("worker %q has %d tasks", k.name, len(k.tasks)))
	}
}

func (k *worker) Stop(final func()) { k.final, k.tasks = final, nil }

// stores tells whether the worker's tasks may call the store.
func (k *worker) stores() bool {
	return k.name == "coordinator" || strings.HasPrefix(k.name, "state of ") || strings.HasPrefix(k.name, "flush of ")
}

func (k *worker) runnable() bool {
	if k.inside {
		return k.until <= k.w.now || k.wake != nil && k.wake()
	}
	if k.until > k.w.now || k.w.locked != nil && k.stores() {
		return false
	}
	if k.final != nil {
		return true
	}
	if len(k.tasks) == 0 {
		return false
	}
	ready := k.w.ready[k.name]
	return ready == nil || ready()
}

func (k *worker) step() {
	switch {
	case k.inside:
		k.inside, k.wake, k.until = false, nil, 0
		if k.w.locked == k {
			k.w.locked = nil
		}
	case !k.rested && k.w.rng.IntN(100) < k.w.slow:
		k.rested = true
		k.until = k.w.now + time.Duration(k.w.rng.IntN(20_000))*time.Microsecond
		return
	case k.final != nil:
		k.rested = false
		k.task, k.final, k.gone = k.final, nil, true
	default:
		k.rested = false
		k.task, k.tasks = k.tasks[0], k.tasks[1:]
	}
	w := k.w
	if k.fiber == nil {
		k.fiber = w.takeFiber()
		k.fiber.k = k
	}
	w.busy = k
	k.fiber.resume()
	w.busy = nil
	if !k.inside {
		k.fiber.k = nil // or worlds that are over would be kept
		w.fibers = append(w.fibers, k.fiber)
		k.fiber = nil
	}
}

func (w *world) takeFiber() *fiber {
	if n := len(w.fibers); n > 0 {
		f := w.fibers[n-1]
		w.fibers = w.fibers[:n-1]
		return f
	}
	f := &fiber{}
	f.resume, f.stop = iter.Pull(f.run)
	return f
}

func (f *fiber) run(yield func(struct{}) bool) {
	f.yield = yield
	for {
		f.k.guarded()
		if !yield(struct{}{}) {
			return
		}
	}
}

func (k *worker) guarded() {
	defer func() {
		if v := recover(); v != nil {
			k.failed(fault.Recovered(v, debug.Stack()))
		}
	}()
	k.task()
}

// end ends the task if it waits inside a call, which returns false from wait.
func (k *worker) end() {
	if k.inside {
		k.w.busy = k
		k.fiber.stop()
		k.fiber.k = nil
		k.w.busy, k.inside, k.fiber = nil, false, nil
	}
}

// wait lets the call that is being made take until a time, or until wake (which
// may be nil) reports true. It reports false if the process has died meanwhile.
// store tells that nobody else can call the store meanwhile. Calls made by actors
// themselves cannot wait: all of the world waits for them.
func (w *world) wait(until time.Duration, wake func() bool, store bool) bool {
	k := w.busy
	if k == nil {
		w.now = max(w.now, until)
		return true
	}
	k.until, k.wake, k.inside = until, wake, true
	if store && k.stores() {
		w.locked = k
	}
	return k.fiber.yield(struct{}{})
}

// some is a random duration up to most, at least a microsecond.
func some(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(1+rng.Int64N(most.Microseconds())) * time.Microsecond
}
