package nats

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
)

// TestBucketPerEpochDoesNotGoBack: an epoch of appended rows with one key that is
// written, and after a crash before the marker once more, shows its last value only.
func TestBucketPerEpochDoesNotGoBack(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{History: 64})
	stash := &connectortest.Stash{}
	open := func(attempt uint64) *kvEpochCommitter {
		s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
		if err != nil {
			t.Fatal(err)
		}
		com, err := s.Open(t.Context(), connectors.WriteRequest{
			Query: "q", Sink: "hot", Incarnation: messages.ID128{Hi: 77}, Attempt: attempt, Schema: pairs(), Stash: stash,
			Offer: connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
		})
		if err != nil {
			t.Fatal(err)
		}
		return com.(*kvEpochCommitter)
	}
	one := open(1)
	o := &kvOutput{t: t, c: one.kvCommitter, builder: messages.NewBuilder(pairs())}
	t.Cleanup(o.close)
	if err := one.Recover(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		w, err := one.Writer(t.Context(), i, 2)
		if err != nil {
			t.Fatal(err)
		}
		o.writers = append(o.writers, w)
	}
	o.write(0, set("k", 1), set("other", 1), set("k", 2))
	o.write(1, set("k", 3), set("k", 4))
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	stash.Commit(1)
	if err := one.held.epoch(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	flush, err := one.held.out.Cut(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := o.last
	o.close() // before the marker says that the epoch is written
	stash.Crash()
	two := open(2)
	if err := two.Recover(t.Context(), 1, last); err != nil {
		t.Fatal(err)
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	h, err := kv.History(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range h {
		if string(e.Value()) != `{"k":"k","v":4}` {
			t.Errorf("revision %d shows %s, want the last value only", e.Revision(), e.Value())
		}
	}
	if len(h) != 2 || content(t, kv)["other"] != 1 {
		t.Errorf("key k was written %d times, want twice; the bucket has %v", len(h), content(t, kv))
	}
}
