package recovery

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFrozenEngine freezes the child, lets a second one go on from a copy of its
// directory, as another machine would, and wakes the first one up: it finds out
// at its next commit and ends. Rows that it sends until then may be in an output
// twice (docs/guarantees.md), but none that is wrong, and none in the output of an
// exclusive sink.
func TestFrozenEngine(t *testing.T) {
	alone := exclusiveLane()
	r := newRig(t, setup{lanes: append(allLanes(), alone)})
	eventually(t, "a subject for fences", 10*time.Second, func(ctx context.Context) error {
		s, err := r.js.Stream(ctx, r.taps[alone.name].stream)
		if err != nil {
			return err
		}
		c := s.CachedInfo().Config
		c.Subjects = append(c.Subjects, "streamd.fences.>")
		_, err = r.js.UpdateStream(ctx, c)
		return err
	})
	r.start()
	r.commits(2, 1)
	zombie := r.child
	zombie.freeze(t)

	// On the same directory a second process is refused, frozen or not.
	second := r.startIn(r.dir, r.url)
	if !second.ended(30*time.Second) || second.err == nil || !strings.Contains(second.out.String(), "is used by process") {
		t.Fatalf("a second process on the directory of a frozen one: %v\n%s", second.err, second.tail())
	}

	copied := filepath.Join(t.TempDir(), "copy")
	if text, err := exec.Command("cp", "-r", "--sparse=always", r.dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v\n%s", err, text)
	}
	r.dir = copied
	r.start()
	r.commits(1, 2)
	zombie.thaw(t)
	if !zombie.ended(30 * time.Second) {
		t.Fatalf("the frozen engine goes on beside its successor\n%s", zombie.out.String())
	}
	if text := zombie.out.String(); zombie.err == nil || !strings.Contains(text, "was fenced") {
		t.Fatalf("the frozen engine ended without saying that it was fenced: %v\n%s", zombie.err, text)
	}
	r.exposed = true
	t.Logf("%d rows; rows that were in the hands of the frozen engine and are there twice: %v", r.finish(), r.twice)
	if n := r.twice[alone.name]; n > 0 {
		t.Errorf("%d rows are in the output of the exclusive sink twice", n)
	}
}

// TestFrozenServer freezes the server for shorter and longer than the engine's
// patience, with the child alive and with the child killed meanwhile.
func TestFrozenServer(t *testing.T) {
	long(t)
	r := newRig(t, setup{})
	r.start()
	r.running()
	for _, d := range []time.Duration{300 * time.Millisecond, 2 * time.Second, 7 * time.Second} {
		r.pass(r.upTo(200 * time.Millisecond))
		r.srv.proc.freeze(t)
		r.pass(d)
		r.srv.proc.thaw(t)
		r.pass(300 * time.Millisecond)
		r.alive()

		r.srv.proc.freeze(t)
		r.pass(100 * time.Millisecond)
		r.child.kill(t)
		r.start() // it waits
		r.pass(d / 4)
		r.srv.proc.thaw(t)
		r.running()
	}
	r.finish()
}

// TestServerRestarts kills the server again and again under a child that lives,
// for moments and for longer.
func TestServerRestarts(t *testing.T) {
	long(t)
	r := newRig(t, setup{})
	r.start()
	r.running()
	for i := range 6 {
		r.pass(r.upTo(500 * time.Millisecond))
		r.srv.proc.kill(t)
		if i%3 == 2 {
			r.pass(3 * time.Second)
		}
		r.srv.start()
	}
	r.alive()
	r.finish()
}
