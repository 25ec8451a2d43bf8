package nats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// TestBucketConflictBesideARefusal: while the keeper is busy, one key turns out to
// have another revision and another one is refused. Both are written in the end.
func TestBucketConflictBesideARefusal(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	for _, key := range []string{"first", "known"} {
		if _, err := kv.Put(t.Context(), key, []byte(`{"v":-1}`)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := js.Stream(t.Context(), "KV_HOT")
	if err != nil {
		t.Fatal(err)
	}
	limit := func(bytes int64) {
		t.Helper()
		cfg := h.CachedInfo().Config
		cfg.MaxBytes = bytes
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	o := openKV(t, kvConfig{}, kvOptions(b)...)
	limit(int64(h.CachedInfo().State.Bytes)) // it is full
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
			if time.Now().After(end) {
				t.Errorf("it takes too long until %s", what)
				return
			}
		}
	}
	c := o.c
	l := c.current()
	l.mu.Lock() // keeps the keeper in its next question to the server
	o.write(0, set("first", 1))
	until("the first conflict is being looked into", func() bool {
		c.table.mu.Lock()
		defer c.table.mu.Unlock()
		e := c.table.keys[c.sink.prefix+"first"]
		return e.state == kvConflict && len(c.table.conflicts) == 0
	})
	o.write(0, set("known", 1), set("new", 2))
	until("there are a conflict and a refusal", func() bool {
		c.table.mu.Lock()
		defer c.table.mu.Unlock()
		return len(c.table.conflicts) == 1 && c.refusal.Load() != nil
	})
	limit(-1)
	l.mu.Unlock()
	o.commit()
	if d := cmp.Diff(map[string]int64{"first": 1, "known": 1, "new": 2}, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}
}

// TestBucketWithoutItsMarkers: the stream of markers is deleted while the query runs.
// Nobody makes it again, so that the commit must not be tried for ever, but for as
// long as a server may need that has just come back.
func TestBucketWithoutItsMarkers(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	bucket(t, js, jetstream.KeyValueConfig{})
	o := openKV(t, kvConfig{}, kvOptions(b)...)
	o.write(0, set("a", 1))
	o.commit()
	if err := js.DeleteStream(t.Context(), markerStream); err != nil {
		t.Fatal(err)
	}
	o.write(0, set("a", 2))
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	err := o.c.Commit(t.Context(), o.epoch, o.last)
	if fault.KindOf(err) != fault.Transient {
		t.Errorf("one look: %v", err)
	}
	for fault.KindOf(err) == fault.Transient {
		err = o.c.Commit(t.Context(), o.epoch, o.last)
	}
	wantFault(t, err, fault.Config, classFenced, "somebody who has deleted the marker")
	wantFault(t, o.try(0, 0, set("a", 3)), fault.Config, classFenced)
}
