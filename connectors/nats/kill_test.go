package nats

import (
	"sync"
	"syscall"
	"testing"

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
