package recovery

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// round is how many kills one checkpoint directory and one server go through
// before everything is held against the input and the next ones begin.
const round = 50

// TestKillLoop kills the child, and now and then the server, at random.
func TestKillLoop(t *testing.T) {
	cycles := number("RECOVERY_CYCLES", 100)
	if testing.Short() {
		cycles = 3
	}
	for done := 0; done < cycles; done += round {
		n := min(round, cycles-done)
		ok := t.Run(fmt.Sprintf("%d", done), func(t *testing.T) {
			r := newRig(t, setup{})
			begun := time.Now()
			for range n {
				r.cycle()
			}
			looped := time.Since(begun)
			rows := r.finish()
			t.Logf("%d cycles of %v, %d of them killed before all queries ran; checked in %v; %d rows",
				n, looped/time.Duration(n), r.early, time.Since(begun)-looped, rows)
		})
		if !ok {
			t.FailNow() // the seed of this round is what matters
		}
	}
}

// cycle starts the child under load and ends it: mostly by a kill at any
// moment from its first one on, sometimes by a drain.
func (r *rig) cycle() {
	r.start()
	switch n := r.rng.IntN(20); {
	case n == 0:
		r.running()
		r.child.terminate(r.t)
	case n == 2: // while it drains
		r.running()
		r.child.signal(r.t, syscall.SIGTERM)
		if !r.child.ended(r.upTo(60 * time.Millisecond)) {
			r.child.end(r.t)
		}
	case n == 1: // the server goes away under load
		r.running()
		r.pass(r.upTo(100 * time.Millisecond))
		r.srv.restart()
		r.pass(r.upTo(400 * time.Millisecond))
		r.child.kill(r.t)
	case n < 9: // whatever it is at
		r.pass(r.upTo(400 * time.Millisecond))
		r.child.kill(r.t)
	default: // while rows flow, however slow the machine is
		r.running()
		r.pass(r.upTo(250 * time.Millisecond))
		r.child.kill(r.t)
	}
	if r.child.said("query started", len(r.lanes)) != nil {
		r.early++
	}
	if r.rng.IntN(10) == 0 {
		l := r.lanes[r.rng.IntN(len(r.lanes))]
		r.inspect(l, r.feed.settled(), false)
	}
}
