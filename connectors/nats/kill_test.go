package nats

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
)

// TestKilledServer writes exactly once through kills of the server and reads
// what was written at the same time, with a reader that sees the kills too.
func TestKilledServer(t *testing.T) {
	c := newChild(t)
	js, _ := c.client()
	outStream(t, js)
	kv := []string{"url", c.url(), "stream", "OUT"}
	o := openOutput(t, outputConfig{}, append(kv, "subject", "out.{n}")...)
	in := openInput(t, inputConfig{maxRows: 100}, kv...)
	rounds, step := 6, 1500
	if testing.Short() {
		rounds = 2
	}
	var wg sync.WaitGroup
	wg.Go(func() { in.until(in.count(rounds * step)) })
	for i := range rounds {
		o.write(0, i*step, i*step+step)
		c.kill() // rows are in flight
		c.start()
	}
	o.last = o.prepare()
	wg.Wait()
	js, _ = c.client()
	wantOnce(t, stored(t, js, "OUT"), 0, rounds*step)
	wantOnce(t, in.got, 0, rounds*step)
}

// TestFrozenServer: neither side waits for ever, and both go on afterwards.
func TestFrozenServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some heartbeats")
	}
	c := newChild(t)
	js, _ := c.client()
	outStream(t, js)
	kv := []string{"url", c.url(), "stream", "OUT"}
	o := openOutput(t, outputConfig{}, append(kv, "subject", "out.{n}")...)
	in := openInput(t, inputConfig{}, kv...)
	o.write(0, 0, 100)
	in.until(in.count(100))
	c.signal(syscall.SIGSTOP)
	o.write(0, 100, 200)
	in.until(func() bool { return in.status.State == connectors.Retrying })
	c.signal(syscall.SIGCONT)
	o.commit()
	in.until(in.count(200))
	if diff := cmp.Diff(sequence(0, 200), in.got); diff != "" {
		t.Error(diff)
	}
}

// TestGreetingThatDoesNotCome: connecting ends with the context, although the
// connection stands.
func TestGreetingThatDoesNotCome(t *testing.T) {
	c := newChild(t)
	c.signal(syscall.SIGSTOP)
	in := openInput(t, inputConfig{}, "url", c.url(), "stream", "IN")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := in.read(ctx)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > dialTimeout/2 {
		t.Errorf("read = %v after %v, want deadline exceeded at once", err, took)
	}
}

func TestCloseWithAFrozenServer(t *testing.T) {
	c := newChild(t)
	js, _ := c.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{subtasks: 3}, "url", c.url(), "stream", "OUT", "subject", "out.{n}")
	o.write(0, 0, 10)
	o.commit()
	c.signal(syscall.SIGSTOP)
	for i := range 3 {
		o.write(i, 10*i+10, 10*i+20)
	}
	start := time.Now()
	o.close()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}
