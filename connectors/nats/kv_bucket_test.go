package nats

import (
	stdjson "encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestBucketsThatDoNotSuit(t *testing.T) {
	plain := jetstream.StreamConfig{Name: "KV_HOT", Subjects: []string{"$KV.HOT.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew}
	for _, c := range []struct {
		name   string
		change func(s *jetstream.StreamConfig)
		words  []string
		weak   bool // at_least_once takes it
	}{
		{"mirror", func(s *jetstream.StreamConfig) { s.Subjects, s.Mirror = nil, &jetstream.StreamSource{Name: "OTHER"} }, []string{"mirrors OTHER"}, false},
		{"no bucket", func(s *jetstream.StreamConfig) { s.Subjects = []string{"hot.>"} }, []string{"not a plain bucket"}, false},
		{"no acknowledgements", func(s *jetstream.StreamConfig) { s.NoAck = true }, []string{"no_ack"}, false},
		{"a full key refuses", func(s *jetstream.StreamConfig) { s.DiscardNewPerSubject = true }, []string{"--no-discard-per-subject"}, false},
		{"tiny values", func(s *jetstream.StreamConfig) { s.MaxMsgSize = 100 }, []string{"max_value_size", "give it at least"}, false},
		{"oldest keys go", func(s *jetstream.StreamConfig) { s.Discard, s.MaxBytes = jetstream.DiscardOld, 1<<20 }, []string{"discard new"}, true},
		{"asynchronous", func(s *jetstream.StreamConfig) { s.PersistMode = jetstream.AsyncPersistMode }, []string{"persist_mode async"}, false},
		{"values are forgotten", func(s *jetstream.StreamConfig) { s.Retention = jetstream.InterestPolicy }, []string{"retention"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			stream(t, js, jetstream.StreamConfig{Name: "OTHER"})
			cfg := plain
			c.change(&cfg)
			stream(t, js, cfg)
			o := tryKV(t, kvConfig{}, kvOptions(b)...)
			wantFault(t, o.c.Recover(t.Context(), 0, nil), fault.Config, classBucket, append(c.words, "bucket HOT")...)
			if c.weak {
				s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
				if err != nil {
					t.Fatal(err)
				}
				openKVSink(t, s, kvConfig{}).recover(kvConfig{})
			}
		})
	}
}

func TestBucketThatChangesWhileWriting(t *testing.T) {
	setup := func(t *testing.T) (*broker, jetstream.JetStream, *kvOutput) {
		b := newBroker(t)
		js, _ := b.client()
		bucket(t, js, jetstream.KeyValueConfig{})
		o := openKV(t, kvConfig{}, append(kvOptions(b), "create", "true")...)
		o.write(0, set("a", 1))
		o.commit()
		return b, js, o
	}
	failure := func(o *kvOutput) error { // of a row, or of the epoch
		if err := o.try(0, 0, set("b", 1)); err != nil {
			return err
		}
		return o.prepare()
	}
	t.Run("deleted", func(t *testing.T) {
		b, js, o := setup(t)
		if err := js.DeleteKeyValue(t.Context(), "HOT"); err != nil {
			t.Fatal(err)
		}
		wantFault(t, failure(o), fault.Config, classMissing, "nats kv add HOT")
		late := tryKV(t, kvConfig{attempt: 2, epoch: o.epoch, last: o.last}, append(kvOptions(b), "create", "true")...)
		wantFault(t, late.c.Recover(t.Context(), o.epoch, o.last), fault.Config, classMissing, "bucket HOT does not exist")
	})
	t.Run("re-created", func(t *testing.T) {
		b, js, o := setup(t)
		if err := js.DeleteKeyValue(t.Context(), "HOT"); err != nil {
			t.Fatal(err)
		}
		bucket(t, js, jetstream.KeyValueConfig{})
		o.c.current().nc.Close()
		wantFault(t, failure(o), fault.Config, classRecreated, "deleted and re-created")
		late := tryKV(t, kvConfig{attempt: 2, epoch: o.epoch, last: o.last}, kvOptions(b)...)
		wantFault(t, late.c.Recover(t.Context(), o.epoch, o.last), fault.Config, classRecreated, "deleted and re-created")
	})
	t.Run("edited", func(t *testing.T) {
		_, js, o := setup(t)
		s, err := js.Stream(t.Context(), "KV_HOT")
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.Discard, cfg.MaxBytes = jetstream.DiscardOld, 1<<20
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		o.c.current().nc.Close()
		wantFault(t, failure(o), fault.Config, classBucket, "discard old")
	})
	t.Run("another bucket", func(t *testing.T) {
		b, js, o := setup(t)
		bucket(t, js, jetstream.KeyValueConfig{Bucket: "COLD"})
		late := tryKV(t, kvConfig{attempt: 2}, "url", b.url(), "bucket", "COLD", "key", "{k}")
		wantFault(t, late.c.Recover(t.Context(), o.epoch, o.last), fault.Config, classRecreated, "belongs to bucket HOT")
	})
}

// TestFullBucketHoldsBack: values are not lost, and not errors.
func TestFullBucketHoldsBack(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	bucket(t, js, jetstream.KeyValueConfig{MaxBytes: 20_000})
	told := make(chan struct{})
	s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
	if err != nil {
		t.Fatal(err)
	}
	com, err := s.Open(t.Context(), connectors.WriteRequest{
		Query: "q", Sink: "hot", Attempt: 1, Schema: pairs(), Offer: connectors.Offer{Guarantee: connectors.Converges},
		OnRetrying: func(reason string) {
			if strings.Contains(reason, "maximum bytes exceeded") && told != nil {
				close(told)
				told = nil
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &kvOutput{t: t, c: com.(*kvCommitter), builder: messages.NewBuilder(pairs())}
	t.Cleanup(o.close)
	o.recover(kvConfig{})
	wait := told
	want := map[string]int64{}
	for i := range 300 {
		o.write(0, set(fmt.Sprintf("k%d", i), i))
		want[fmt.Sprintf("k%d", i)] = int64(i)
	}
	select {
	case <-wait:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody is told that the bucket is full")
	}
	h, err := js.Stream(t.Context(), "KV_HOT")
	if err != nil {
		t.Fatal(err)
	}
	cfg := h.CachedInfo().Config
	cfg.MaxBytes = -1
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	o.commit()
	kv, err := js.KeyValue(t.Context(), "HOT")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}
}

func TestValueTooLargeForTheBucket(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	bucket(t, js, jetstream.KeyValueConfig{MaxValueSize: 300})
	o := openKV(t, kvConfig{}, kvOptions(b)...)
	_ = o.try(0, 0, set(strings.Repeat("x", 200), 1)) // fails here if the answer is quick
	wantFault(t, o.prepare(), fault.BadRow, "", "for key xxxx", "bucket HOT", "larger than the stream allows")
}

// TestKeysOfOthers: a revision that somebody else has made is no obstacle, nor is
// one that has disappeared.
func TestKeysOfOthers(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	o := openKV(t, kvConfig{}, kvOptions(b)...)
	o.write(0, set("a", 1), set("b", 1))
	o.commit()
	if _, err := kv.Put(t.Context(), "a", []byte(`{"v":-1}`)); err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)); err != nil {
		t.Fatal(err)
	}
	o.write(0, set("a", 2), set("b", 2))
	o.commit()
	if d := cmp.Diff(map[string]int64{"a": 2, "b": 2}, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}
	if n := o.c.surprises.Load(); n != 2 {
		t.Errorf("%d surprises, want 2", n)
	}
}

// openEpochs opens a committer that writes values of committed epochs only.
func openEpochs(t *testing.T, stash *connectortest.Stash, attempt uint64, epoch messages.Epoch, last connectors.Token, kv ...string) (*kvEpochCommitter, *kvOutput) {
	t.Helper()
	s, err := newKVTestSink(t, pairs(), nil, kv...)
	if err != nil {
		t.Fatal(err)
	}
	com, err := s.Open(t.Context(), connectors.WriteRequest{
		Query: "q", Sink: "hot", Incarnation: messages.ID128{Hi: 77}, Attempt: attempt, Schema: pairs(), KeyColumns: []int{0}, Stash: stash,
		Offer: connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := com.(*kvEpochCommitter)
	o := &kvOutput{t: t, c: c.kvCommitter, builder: messages.NewBuilder(pairs()), epoch: epoch}
	t.Cleanup(o.close)
	if err := c.Recover(t.Context(), epoch, last); err != nil {
		t.Fatal(err)
	}
	w, err := c.Writer(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	o.writers = []connectors.Writer{w}
	return c, o
}

// TestBucketPerEpoch: values of committed epochs only, one per key, whatever
// crashes.
func TestBucketPerEpoch(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{History: 20})
	want := func(w map[string]int64) {
		t.Helper()
		if d := cmp.Diff(w, content(t, kv)); d != "" {
			t.Errorf("bucket (-want +got):\n%s", d)
		}
	}
	stash := &connectortest.Stash{}
	record := func(o *kvOutput) { // an epoch up to its commit record
		t.Helper()
		if err := o.prepare(); err != nil {
			t.Fatal(err)
		}
		stash.Commit(o.epoch)
	}
	c, o := openEpochs(t, stash, 1, 0, nil, kvOptions(b)...)
	o.write(0, set("a", 1), set("a", 2), set("b", 1))
	record(o)
	want(map[string]int64{})
	if err := c.Commit(t.Context(), o.epoch, o.last); err != nil {
		t.Fatal(err)
	}
	want(map[string]int64{"a": 2, "b": 1})
	if h, err := kv.History(t.Context(), "a"); err != nil || len(h) != 1 {
		t.Errorf("key a was written %d times in one epoch (%v)", len(h), err)
	}
	o.write(0, set("a", 3), change{"b", 1, messages.Delete}, set("c", 1))
	record(o)
	committed := o.last
	o.write(0, set("a", 4), set("lost", 1)) // of an epoch that does not commit
	old := o
	c, o = openEpochs(t, stash, 2, 2, committed, kvOptions(b)...)
	want(map[string]int64{"a": 3, "c": 1})
	record(o)
	if err := c.Commit(t.Context(), o.epoch, o.last); err != nil {
		t.Fatal(err)
	}
	wantFault(t, old.c.Commit(t.Context(), 3, nil), fault.Config, classFenced, "attempt 2")
	o.write(0, set("a", 5))
	record(o)
	epoch, last := o.epoch, o.last // not written yet
	o.close()
	late := tryKV(t, kvConfig{attempt: 3}, kvOptions(b)...)
	wantFault(t, late.c.Recover(t.Context(), epoch, last), fault.Config, classAhead, "visibility was changed from 'epoch' to 'at_once'")
	want(map[string]int64{"a": 3, "c": 1})
	openEpochs(t, stash, 4, epoch, last, kvOptions(b)...)
	want(map[string]int64{"a": 5, "c": 1})
}

// TestBucketSetBackKeepsItsPlace: a sink that was set back says in its marker from
// which epoch on it writes again, so that the attempt behind it writes nothing older.
func TestBucketSetBackKeepsItsPlace(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	bucket(t, js, jetstream.KeyValueConfig{History: 20})
	stash := &connectortest.Stash{}
	c, o := openEpochs(t, stash, 1, 0, nil, kvOptions(b)...)
	var tokens []connectors.Token
	for i := range 3 {
		o.write(0, set("a", i))
		if err := o.prepare(); err != nil {
			t.Fatal(err)
		}
		stash.Commit(o.epoch)
		if err := c.Commit(t.Context(), o.epoch, o.last); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, o.last)
	}
	o.close()
	s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
	if err != nil {
		t.Fatal(err)
	}
	com, err := s.Open(t.Context(), connectors.WriteRequest{
		Query: "q", Sink: "hot", Incarnation: messages.ID128{Hi: 77}, Attempt: 2, Schema: pairs(), KeyColumns: []int{0}, Stash: stash,
		Offer: connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}, AcceptDuplicates: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := com.Recover(t.Context(), 2, tokens[1]); err != nil {
		t.Fatal(err)
	}
	at := c.marks.markerPlace()
	h, err := js.Stream(t.Context(), at.stream)
	if err != nil {
		t.Fatal(err)
	}
	last, err := h.GetLastMsgForSubject(t.Context(), at.subject)
	if err != nil {
		t.Fatal(err)
	}
	var m marker
	if err := stdjson.Unmarshal(last.Data, &m); err != nil || m.Attempt != 2 || m.Epoch != 2 {
		t.Errorf("the marker is %s, want that of attempt 2 at epoch 2 (%v)", last.Data, err)
	}
	if err := com.Close(); err != nil {
		t.Error(err)
	}
}
