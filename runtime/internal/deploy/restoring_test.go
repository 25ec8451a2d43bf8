package deploy

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/epochs"
)

func TestAFullDiskAtTheStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A throttle of protoactor-go may have begun with the last message.
		t.Cleanup(func() { time.Sleep(time.Second) })
		w := newWorld(t, 0, nil)
		var mu sync.Mutex
		var said []string
		full := 25 // more often than a query may be restarted
		cfg := w.config()
		open := cfg.OpenStore
		cfg.OpenStore = func(ctx context.Context) (epochs.Segments, error) {
			mu.Lock()
			defer mu.Unlock()
			if full--; full >= 0 {
				return nil, fmt.Errorf("3 MB free, 64 MB needed: %w", epochs.ErrNoSpace)
			}
			return open(ctx)
		}
		cfg.Attempt.OnStatus = func(r actors.StatusReport) {
			mu.Lock()
			defer mu.Unlock()
			if r.Sink == "" && r.Source == "" {
				said = append(said, r.Reason)
			}
		}
		r := New(t.Context(), cfg)
		r.Start()
		w.add(t, 1)
		time.Sleep(5 * time.Second) // of the bubble
		if r.State() != Starting || r.Restarts() != 0 {
			t.Errorf("with a full disk: state %s after %d restarts", r.State(), r.Restarts())
		}
		epoch(t, r)
		mu.Lock()
		if len(said) < 2 || !strings.Contains(said[0], "64 MB needed") || said[len(said)-1] != "" {
			t.Errorf("it said %q", said)
		}
		full = 1 << 30
		mu.Unlock()
		r.Stop()
		over(t, r)
		r = New(t.Context(), cfg)
		r.Start()
		time.Sleep(3 * time.Second)
		r.Drain()
		over(t, r)
		if r.State() != Stopped {
			t.Errorf("drained while it waits: state %s with %v", r.State(), r.Err())
		}
	})
}

func TestALongRestoreSaysHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A throttle of protoactor-go may have begun with the last message.
		t.Cleanup(func() { time.Sleep(time.Second) })
		w := newWorld(t, 0, nil)
		r := w.start(t, 0)
		w.add(t, 1)
		epoch(t, r)
		r.Stop()
		over(t, r)
		var log bytes.Buffer
		w.log = &log
		cfg := w.config()
		slow := make(chan struct{})
		w.fail.opening = slow
		r = New(t.Context(), cfg)
		r.Start()
		time.Sleep(12 * time.Second)
		if got := r.Restoring(); !strings.Contains(got, "restoring epoch ") {
			t.Errorf("while it restores: %q", got)
		}
		close(slow)
		epoch(t, r)
		if got := r.Restoring(); got != "" {
			t.Errorf("when it runs: %q", got)
		}
		r.Stop()
		over(t, r)
		if n := strings.Count(log.String(), "restoring the checkpoint"); n != 2 {
			t.Errorf("%d lines in 12 s, want 2:\n%s", n, log.String())
		}
	})
}
