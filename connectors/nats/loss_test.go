package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// wantFault checks kind and class of an error and words of its text.
func wantFault(t testing.TB, err error, kind fault.Kind, class string, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", class)
	}
	if got := fault.KindOf(err); got != kind {
		t.Errorf("kind = %v, want %v: %v", got, kind, err)
	}
	if got := fault.ClassOf(err); got != class {
		t.Errorf("class = %q, want %q: %v", got, class, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error does not hold %q: %v", w, err)
		}
	}
}

// readPart makes stream IN with ten messages and returns the offset behind the
// first four.
func readPart(t *testing.T, b *broker, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, connectors.Offset) {
	t.Helper()
	cfg.Name, cfg.Subjects = "IN", []string{"in.>"}
	s := stream(t, js, cfg)
	publish(t, js, "in.a", 0, 10)
	in := openInput(t, inputConfig{maxRows: 1}, "url", b.url(), "stream", "IN")
	in.until(in.count(4))
	if len(in.got) != 4 {
		t.Fatalf("%d rows read, want 4", len(in.got))
	}
	next := append(connectors.Offset(nil), in.next...)
	in.close()
	return s, next
}

func TestWhileStopped(t *testing.T) {
	recreate := func(t *testing.T, js jetstream.JetStream) {
		if err := js.DeleteStream(t.Context(), "IN"); err != nil {
			t.Fatal(err)
		}
		stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	}
	tests := []struct {
		name   string
		change func(t *testing.T, js jetstream.JetStream, s jetstream.Stream)
		class  string // of the error with on_data_loss = fail, "" means none
		words  []string
		rows   []int64 // with on_data_loss = warn
	}{
		{"a purged stream has lost data", func(t *testing.T, js jetstream.JetStream, s jetstream.Stream) {
			if err := s.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			publish(t, js, "in.a", 10, 12)
		}, classDataLoss, []string{"messages 5 to 10", "on_data_loss = 'warn'"}, []int64{10, 11}},
		{"a stream that was trimmed behind the position has lost nothing", func(t *testing.T, _ jetstream.JetStream, s jetstream.Stream) {
			if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(5)); err != nil {
				t.Fatal(err)
			}
		}, "", nil, sequence(4, 10)},
		{"a stream that was trimmed beyond the position has lost data", func(t *testing.T, _ jetstream.JetStream, s jetstream.Stream) {
			if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(8)); err != nil {
				t.Fatal(err)
			}
		}, classDataLoss, []string{"messages 5 to 7"}, []int64{7, 8, 9}},
		{"a stream that limits have trimmed has lost data", func(t *testing.T, js jetstream.JetStream, s jetstream.Stream) {
			cfg := s.CachedInfo().Config
			cfg.MaxMsgs = 3
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}, classDataLoss, []string{"messages 5 to 7"}, []int64{7, 8, 9}},
		{"deleted messages are holes, not loss", func(t *testing.T, _ jetstream.JetStream, s jetstream.Stream) {
			for _, seq := range []uint64{5, 6, 9} {
				if err := s.DeleteMsg(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
		}, "", nil, []int64{6, 7, 9}},
		{"a re-created stream that is shorter", func(t *testing.T, js jetstream.JetStream, _ jetstream.Stream) {
			recreate(t, js)
			publish(t, js, "in.a", 100, 102)
		}, classRecreated, []string{"re-created"}, []int64{100, 101}},
		{"a re-created stream that is longer", func(t *testing.T, js jetstream.JetStream, _ jetstream.Stream) {
			recreate(t, js)
			publish(t, js, "in.a", 100, 120)
		}, classRecreated, []string{"re-created"}, sequence(100, 120)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			s, next := readPart(t, b, js, jetstream.StreamConfig{})
			tt.change(t, js, s)
			in := openInput(t, inputConfig{from: next}, "url", b.url(), "stream", "IN")
			if tt.class != "" {
				wantFault(t, in.fails(), fault.Config, tt.class, tt.words...)
			} else {
				in.until(in.caughtUp)
				if diff := cmp.Diff(tt.rows, in.got); diff != "" {
					t.Error(diff)
				}
			}
			var log bytes.Buffer
			in = openInput(t, inputConfig{from: next, log: slog.New(slog.NewTextHandler(&log, nil))}, "url", b.url(), "stream", "IN", "on_data_loss", "warn")
			in.until(in.caughtUp)
			if diff := cmp.Diff(tt.rows, in.got); diff != "" {
				t.Errorf("with warn: %s", diff)
			}
			if got := log.Len() > 0; got != (tt.class != "") {
				t.Errorf("logged = %v: %s", got, log.String())
			}
		})
	}
}

func TestOffsetBeyondTheEnd(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	_, next := readPart(t, b, js, jetstream.StreamConfig{})
	beyond := bytes.Replace(next, []byte(`"next_seq":5`), []byte(`"next_seq":500`), 1)
	in := openInput(t, inputConfig{from: beyond}, "url", b.url(), "stream", "IN")
	wantFault(t, in.fails(), fault.Config, classBeyondEnd, "ends at sequence 10", "500")
}

// TestWhileRunning changes the stream under an open reader, before it has read
// everything and after.
func TestWhileRunning(t *testing.T) {
	recreate := func(t *testing.T, js jetstream.JetStream) {
		if err := js.DeleteStream(t.Context(), "IN"); err != nil {
			t.Fatal(err)
		}
		stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	}
	t.Run("a re-created stream is noticed by an idle reader", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		publish(t, js, "in.a", 0, 10)
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
		in.until(in.caughtUp)
		recreate(t, js)
		publish(t, js, "in.a", 0, 25)
		wantFault(t, in.fails(), fault.Config, classRecreated)
	})
	t.Run("a stream that is gone is a named error", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
		in.until(in.caughtUp)
		if err := js.DeleteStream(t.Context(), "IN"); err != nil {
			t.Fatal(err)
		}
		wantFault(t, in.fails(), fault.Config, classMissing, "nats stream add IN")
	})
	t.Run("purging what was read is no loss", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		publish(t, js, "in.a", 0, 10)
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
		in.until(in.caughtUp)
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		publish(t, js, "in.a", 10, 20)
		in.until(in.count(20))
		if diff := cmp.Diff(sequence(0, 20), in.got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("trimming beyond a slow reader is loss", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		publish(t, js, "in.a", 0, 1000)
		in := openInput(t, inputConfig{maxRows: 8}, "url", b.url(), "stream", "IN")
		in.until(in.count(8))
		if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(901)); err != nil {
			t.Fatal(err)
		}
		err := in.fails()
		wantFault(t, err, fault.Config, classDataLoss, "to 900")
		if n := int64(len(in.got)); n == 0 || in.got[n-1] != n-1 || n > 200 {
			t.Errorf("rows behind the loss were handed out: %d rows", n)
		}
	})
	t.Run("purging what was announced is loss", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		publish(t, js, "in.a", 0, 1000)
		in := openInput(t, inputConfig{maxRows: 8}, "url", b.url(), "stream", "IN")
		in.until(in.count(8))
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantFault(t, in.fails(), fault.Config, classDataLoss, "to 1000")
	})
	t.Run("holes and foreign subjects are no loss", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		publish(t, js, "in.other", 0, 100)
		publish(t, js, "in.a", 0, 100)
		for seq := uint64(110); seq < 150; seq++ {
			if err := s.DeleteMsg(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
		}
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "subject", "in.a")
		in.until(in.caughtUp)
		publish(t, js, "in.other", 0, 100)
		publish(t, js, "in.a", 100, 110)
		in.until(in.count(70))
		want := append(sequence(0, 9), sequence(49, 110)...)
		if diff := cmp.Diff(want, in.got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFilteredPositionAdvances: a stream trimmed by the traffic of others must
// not look like loss to a partition that had nothing to read.
func TestFilteredPositionAdvances(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 1)
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "subject", "in.a")
	in.until(in.caughtUp)
	publish(t, js, "in.other", 0, 100)
	r := in.reader.(*reader)
	for range 2 { // it goes to where the stream ended the time before
		if err := r.advance(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if r.pos.NextSeq != 102 {
		t.Errorf("position = %d, want 102", r.pos.NextSeq)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "in.a", 1, 2)
	in.until(in.count(2))
}

func TestBoundedRead(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	readAll := func(from connectors.Offset, kv ...string) *input {
		in := openInput(t, inputConfig{from: from, bounded: true, maxRows: 7}, append([]string{"url", b.url(), "stream", "IN"}, kv...)...)
		if err := in.fails(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return in
	}
	if in := readAll(nil); len(in.got) != 0 {
		t.Errorf("an empty stream gave %d rows", len(in.got))
	}
	publish(t, js, "in.a", 0, 100)
	in := readAll(nil)
	if diff := cmp.Diff(sequence(0, 100), in.got); diff != "" {
		t.Error(diff)
	}
	publish(t, js, "in.b", 100, 150)
	publish(t, js, "in.a", 150, 160)
	if in = readAll(in.next); len(in.got) != 60 {
		t.Errorf("the next run gave %d rows, want 60", len(in.got))
	}
	if in = readAll(nil, "subject", "in.b"); len(in.got) != 50 {
		t.Errorf("a filtered run gave %d rows, want 50", len(in.got))
	}
	if in = readAll(in.next, "subject", "in.b"); len(in.got) != 0 {
		t.Errorf("its next run gave %d rows, want 0", len(in.got))
	}
	if in = readAll(nil, "start", "latest"); len(in.got) != 0 {
		t.Errorf("start = latest gave %d rows, want 0", len(in.got))
	}
	if in = readAll(nil, "subject", "in.nothing"); len(in.got) != 0 {
		t.Errorf("a filter without messages gave %d rows, want 0", len(in.got))
	}
}

func TestCloseAfterBlockedRead(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	for range 20 {
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
		in.until(in.caughtUp)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Millisecond, cancel)
		if err := in.read(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("read = %v, want canceled", err)
		}
		in.close()
	}
	s, err := js.Stream(t.Context(), "IN")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers are left on the server", n)
	}
}

// TestAMessageOnItsWayIsNotPassed: the server counts it as delivered.
func TestAMessageOnItsWayIsNotPassed(t *testing.T) {
	for _, several := range []bool{false, true} {
		for _, p := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
			t.Run(fmt.Sprintf("%s, several replicas %v", strings.ToLower(p.String()), several), func(t *testing.T) {
				q := newQueue(t, jetstream.StreamConfig{Retention: p}, "subject", "in.a")
				in := q.open(inputConfig{})
				publish(t, q.js, "in.a", 0, 1)
				in.until(in.count(1))
				in.until(in.caughtUp)
				r := in.reader.(*reader)
				r.replicated = several
				publish(t, q.js, "in.a", 1, 2)
				late := <-r.feed.ch
				for range 3 {
					if err := r.advance(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if r.pos.NextSeq != 2 {
					t.Errorf("position %d behind a message that was not read, want 2", r.pos.NextSeq)
				}
				r.feed.ch <- late
				publish(t, q.js, "in.a", 2, 3)
				in.until(func() bool { return len(in.got) > 0 && in.got[len(in.got)-1] == 2 })
				if diff := cmp.Diff(sequence(0, 3), in.got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestAPartitionThatKeepsUpHasLostNothing, however soon the stream forgets what was
// between two of its messages.
func TestAPartitionThatKeepsUpHasLostNothing(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, MaxMsgs: 20})
	in := openInput(t, inputConfig{partition: "in.a"}, "url", b.url(), "stream", "IN", "filters", "in.a,in.b")
	publish(t, js, "in.a", 0, 1)
	in.until(in.count(1)) // with the first one the stream is looked at, at once
	r := in.reader.(*reader)
	r.look = time.Now().Add(time.Hour) // the next jump is looked into by tick
	for n := 1; n < 50; n++ {
		publish(t, js, "in.b", 0, 1)
		publish(t, js, "in.a", n, n+1)
		in.until(in.count(n + 1))
	}
	if err := r.tick(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAPartitionThatIsSlowHasLostMessages: they were announced, and removed.
func TestAPartitionThatIsSlowHasLostMessages(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 1000)
	in := openInput(t, inputConfig{partition: "in.a", maxRows: 8}, "url", b.url(), "stream", "IN", "filters", "in.a,in.b")
	in.until(in.count(8))
	if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(1000)); err != nil {
		t.Fatal(err)
	}
	wantFault(t, in.fails(), fault.Config, classDataLoss, "to 999")
}

// TestPrompt: which messages show that their reader keeps up.
func TestPrompt(t *testing.T) {
	f := &feed{ch: make(chan *nats.Msg, 8), window: 0, outstanding: 100}
	var d delivery
	accept := func(consumer, pending int, want bool, why string) {
		t.Helper()
		m := &nats.Msg{Reply: fmt.Sprintf("$JS.ACK.IN.c.1.%d.%d.1.%d", 10*consumer, consumer, pending)}
		if ok, err := f.accept(m, &d); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if f.prompt != want {
			t.Errorf("message %d: prompt = %v, want %v: %s", consumer, f.prompt, want, why)
		}
	}
	accept(1, 0, false, "the first one says nothing about what was before")
	accept(2, 0, true, "")
	accept(3, 2, false, "others wait behind it")
	accept(4, 0, false, "it has waited")
	accept(5, 0, true, "")
	f.ranDry()
	accept(6, 0, false, "no request may have waited for it")
	f.outstanding = 2
	f.ch <- nil
	accept(7, 0, true, "")
	f.outstanding = 100
	accept(8, 0, false, "it has waited for the reader")
	accept(9, 0, false, "all that was asked for had been sent before")
	accept(10, 0, true, "")
}
