package nats

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
)

// flushed runs a flush and calls more until it has ended.
func flushed(t *testing.T, f connectors.Flush, more func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := f(t.Context())
		done <- err
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.After(3 * stuckAfter)
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		case <-tick.C:
			more()
		case <-late:
			t.Fatal("nobody notices that an answer was lost")
		}
	}
}

// TestALostAnswerAmongOthers: when the leader of a stream changes, the answers to
// some rows are lost, and those to later ones come over the same connection.
func TestALostAnswerAmongOthers(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{subtasks: 2}, outOptions(b)...)
	n := 0
	write := func(subtask int) {
		o.write(subtask, n, n+1)
		n++
	}
	write(0)
	o.commit()
	o.c.mu.Lock()
	l := o.c.link
	o.c.mu.Unlock()
	inbox := l.inbox
	l.inbox = "lost."
	write(0)
	write(1)
	l.inbox = inbox
	o.epoch++
	o.com.Begin(o.epoch)
	fs := o.cut(o.epoch)
	flushed(t, fs[0], func() { write(0) })
	flushed(t, fs[1], func() { write(0) })
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, n)
}

// TestALostAnswerOfABucket: the same for values.
func TestALostAnswerOfABucket(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	o := openKV(t, kvConfig{}, kvOptions(b)...)
	o.write(0, set("a", 1))
	o.commit()
	o.c.table.mu.Lock()
	inbox := o.c.table.out.inbox
	o.c.table.out.inbox = "lost."
	o.c.table.mu.Unlock()
	o.write(0, set("a", 2))
	o.c.table.mu.Lock()
	o.c.table.out.inbox = inbox
	o.c.table.mu.Unlock()
	f, err := o.writers[0].Cut(1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	flushed(t, f, func() { n++; o.write(0, set("b", n)) })
	o.commit()
	if got := content(t, kv); got["a"] != 2 || got["b"] != int64(n) {
		t.Errorf("bucket %v, want a = 2 and b = %d", got, n)
	}
}
