package nats

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// TestAtLeastOncePublishesWhatIsLeft: rows of a committed epoch that were not
// published by the sink that held them are published by one with another guarantee.
func TestAtLeastOncePublishesWhatIsLeft(t *testing.T) {
	for _, offer := range []connectors.Offer{perEpoch, transactional} {
		t.Run(offer.Guarantee.String(), func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			atomicStream(t, js, "OUT", "out.>")
			o := openOutput(t, outputConfig{offer: offer}, outOptions(b)...)
			o.write(0, 0, 10)
			o.commit()
			loose := outputConfig{attempt: 2, atLeastOnce: true}
			p := o.next(loose, outOptions(b)...)
			wantOnce(t, stored(t, js, "OUT"), 0, 10) // the marker says that they are there
			p.close()
			o = o.next(outputConfig{attempt: 3, offer: offer}, outOptions(b)...)
			o.write(0, 10, 20)
			o.record() // the process dies behind the commit record
			loose.attempt = 4
			o = o.next(loose, outOptions(b)...)
			wantOnce(t, stored(t, js, "OUT"), 0, 20)
			o.write(0, 20, 30)
			o.commit()
			wantOnce(t, stored(t, js, "OUT"), 0, 30)
			wantFault(t, o.com.Recover(t.Context(), o.epoch, o.last), fault.Internal, "", "called again")
		})
	}
	t.Run("a token of something else", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		outStream(t, js)
		o := tryOutput(t, outputConfig{atLeastOnce: true}, outOptions(b)...)
		wantFault(t, o.com.Recover(t.Context(), 1, connectors.Token(`[7]`)), fault.Config, "", "was not made by a nats sink", "stop it in good order")
	})
}

// TestOnceWithAtLeastOnceGetsOverATrimmedStream: the way out that the error names.
func TestOnceWithAtLeastOnceGetsOverATrimmedStream(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := outStream(t, js)
	o := openOutput(t, outputConfig{offer: perEpoch}, outOptions(b)...)
	o.write(0, 0, 10)
	o.record()
	if err := o.com.(*epochCommitter).begin(t.Context(), o.epoch); err != nil { // and dies
		t.Fatal(err)
	}
	publish(t, js, "out.foreign", 1000, 1005)
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.close()
	late := tryOutput(t, outputConfig{attempt: 2, offer: perEpoch, stash: o.stash}, outOptions(b)...)
	wantFault(t, late.com.Recover(t.Context(), o.epoch, o.last), fault.Config, classTrimmed, "running once with guarantee = 'at_least_once'")
	o = o.next(outputConfig{attempt: 3, atLeastOnce: true}, outOptions(b)...)
	o.write(0, 10, 20)
	o.commit()
	o = o.next(outputConfig{attempt: 4, offer: perEpoch}, outOptions(b)...)
	o.write(0, 20, 30)
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 30)
}

// TestAtLeastOnceWritesWhatIsLeftForABucket: a complete table that was held, too,
// and its keys go with the next one that does not have them.
func TestAtLeastOnceWritesWhatIsLeftForABucket(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	want := func(w map[string]int64) {
		t.Helper()
		if d := cmp.Diff(w, content(t, kv)); d != "" {
			t.Errorf("bucket (-want +got):\n%s", d)
		}
	}
	stash := &connectortest.Stash{}
	_, o := openEpochs(t, stash, 1, 0, nil, kvOptions(b)...)
	o.table(set("a", 1), set("b", 2))
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	stash.Commit(o.epoch)
	o.close()
	stash.Crash()
	s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
	if err != nil {
		t.Fatal(err)
	}
	com, err := s.Open(t.Context(), connectors.WriteRequest{
		Query: "q", Sink: "hot", Incarnation: messages.ID128{Hi: 77}, Attempt: 2, Schema: pairs(), Stash: stash, KeyColumns: []int{0},
	})
	if err != nil {
		t.Fatal(err)
	}
	loose := &kvOutput{t: t, c: com.(*kvCommitter), builder: messages.NewBuilder(pairs()), epoch: o.epoch}
	t.Cleanup(loose.close)
	loose.recover(kvConfig{epoch: o.epoch, last: o.last})
	want(map[string]int64{"a": 1, "b": 2})
	loose.table(set("a", 3))
	loose.commit()
	want(map[string]int64{"a": 3})
}
