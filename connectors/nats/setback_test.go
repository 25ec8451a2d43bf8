package nats

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// TestSinkIsSetBack: a sink that has published newer epochs goes on from an older
// one if the user accepts duplicates, and only then; an attempt behind it finds
// nothing unusual.
func TestSinkIsSetBack(t *testing.T) {
	for _, offer := range []connectors.Offer{perEpoch, transactional} {
		t.Run(offer.Guarantee.String(), func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			// With the duplicate window of two minutes that streams have by default.
			stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>", transactionSubjects + ">"}, AllowAtomicPublish: true})
			o := openOutput(t, outputConfig{attempt: 1, offer: offer}, outOptions(b)...)
			o.write(0, 0, 10)
			o.commit()
			old := o.last
			for i := 1; i < 4; i++ {
				o.write(0, i*10, i*10+10)
				o.commit()
			}
			o.close()

			c := outputConfig{attempt: 2, offer: offer, epoch: 1, last: old}
			unasked := tryOutput(t, c, outOptions(b)...)
			wantFault(t, unasked.com.Recover(t.Context(), 1, old), fault.Config, classAhead, "epoch 4", "rows of 3 epochs", "--accept-duplicates")
			unasked.close()

			var log bytes.Buffer
			c.attempt, c.accept, c.log = 3, true, slog.New(slog.NewTextHandler(&log, nil))
			o = openOutput(t, c, outOptions(b)...)
			if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "epoch=1 published=4 epochs_repeated=3") {
				t.Errorf("the log says: %s", text)
			}
			if m := o.marker(); m.Epoch != 1 || m.Publishing != 0 {
				t.Errorf("the marker is at epoch %d, publishing %d", m.Epoch, m.Publishing)
			}
			// Epoch 2 once more, with other rows under the numbers of the first one.
			o.write(0, 15, 30)
			o.commit()
			want := append(sequence(0, 40), sequence(15, 30)...)
			if diff := cmp.Diff(want, stored(t, js, "OUT")); diff != "" {
				t.Error(diff)
			}
			o.write(0, 30, 45)
			o.record()
			c.accept = false
			c.attempt = 4
			o = o.next(c, outOptions(b)...) // publishes it
			o.write(0, 45, 50)
			o.commit()
			want = append(want, sequence(30, 50)...)
			if diff := cmp.Diff(want, stored(t, js, "OUT")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSinkIsSetBackInsideAnEpoch: the attempt that published has ended in the
// middle of an epoch.
func TestSinkIsSetBackInsideAnEpoch(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, MaxMsgs: 15, Discard: jetstream.DiscardNew})
	o := openOutput(t, outputConfig{attempt: 1, offer: perEpoch}, outOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	old := o.last
	o.write(0, 10, 20)
	o.record()
	o.interrupted(t, 15)
	o.close()
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = -1
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	// The directory is a copy from before epoch 2.
	o = openOutput(t, outputConfig{attempt: 2, offer: perEpoch, epoch: 1, last: old, accept: true}, outOptions(b)...)
	o.write(0, 10, 30)
	o.commit()
	if diff := cmp.Diff(append(sequence(0, 15), sequence(10, 30)...), stored(t, js, "OUT")); diff != "" {
		t.Error(diff)
	}
	if m := o.marker(); fmt.Sprint(m.Epoch) != "2" {
		t.Errorf("the marker is at epoch %d", m.Epoch)
	}
}

// TestBucketIsSetBack: the same for values that are written per epoch.
func TestBucketIsSetBack(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{History: 20})
	stash := &connectortest.Stash{}
	c, o := openEpochs(t, stash, 1, 0, nil, kvOptions(b)...)
	var old connectors.Token
	for i := range 3 {
		o.write(0, set("a", i))
		if err := o.prepare(); err != nil {
			t.Fatal(err)
		}
		stash.Commit(o.epoch)
		if err := c.Commit(t.Context(), o.epoch, o.last); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			old = o.last
		}
	}
	o.close()
	s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
	if err != nil {
		t.Fatal(err)
	}
	copied := &connectortest.Stash{}
	open := func(attempt uint64, accept bool) *kvEpochCommitter {
		com, err := s.Open(t.Context(), connectors.WriteRequest{
			Query: "q", Sink: "hot", Incarnation: messages.ID128{Hi: 77}, Attempt: attempt, Schema: pairs(), KeyColumns: []int{0}, Stash: copied,
			Offer: perEpoch, AcceptDuplicates: accept,
		})
		if err != nil {
			t.Fatal(err)
		}
		return com.(*kvEpochCommitter)
	}
	c = open(2, false)
	wantFault(t, c.Recover(t.Context(), 1, old), fault.Config, classAhead, "--accept-duplicates")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c = open(3, true)
	o = &kvOutput{t: t, c: c.kvCommitter, builder: messages.NewBuilder(pairs()), epoch: 1}
	t.Cleanup(o.close)
	if err := c.Recover(t.Context(), 1, old); err != nil {
		t.Fatal(err)
	}
	w, err := c.Writer(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	o.writers = []connectors.Writer{w}
	o.write(0, set("a", 1))
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	copied.Commit(o.epoch)
	if err := c.Commit(t.Context(), o.epoch, o.last); err != nil {
		t.Fatal(err)
	}
	o.close()
	_, _ = openEpochs(t, copied, 4, o.epoch, o.last, kvOptions(b)...)
	if d := cmp.Diff(map[string]int64{"a": 1}, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}
}
