package nats

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// threeReplicas starts a cluster and makes a stream with three replicas.
func threeReplicas(t *testing.T, cfg jetstream.StreamConfig) (*broker, jetstream.JetStream) {
	t.Helper()
	b := &broker{t: t}
	if _, err := fmt.Sscanf(strings.TrimPrefix(cluster(t), "nats://127.0.0.1:"), "%d", &b.opts.Port); err != nil {
		t.Fatal(err)
	}
	js, _ := b.client()
	cfg.Replicas = 3
	for limit := time.Now().Add(30 * time.Second); ; {
		_, err := js.CreateStream(t.Context(), cfg)
		if err == nil {
			return b, js
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
}

// TestNothingIsMissedOnAReplicaThatLags: a message is acknowledged when most
// replicas have it, and a consumer may be on the one that does not have it yet. In
// a healthy cluster that is so for up to one in ten.
func TestNothingIsMissedOnAReplicaThatLags(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	b, js := threeReplicas(t, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, Duplicates: noWindow})
	t.Run("scan", func(t *testing.T) {
		l, err := tryOutput(t, outputConfig{}, outOptions(b)...).c.sink.conn.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		for i := range 300 {
			m := nats.NewMsg("out.x")
			m.Header.Set(headerID, idOf(int64(i)))
			m.Header.Set(headerSink, "tag")
			a, err := js.PublishMsg(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			end, err := l.scan(t.Context(), scanConfig{stream: "OUT", from: a.Sequence, tag: "tag"}, func(messages.ID128, uint64) { found++ })
			if err != nil {
				t.Fatal(err)
			}
			if found != 1 || end != a.Sequence {
				t.Fatalf("scan %d has found %d rows up to %d, want the one at %d", i, found, end, a.Sequence)
			}
		}
	})
	t.Run("bounded read", func(t *testing.T) {
		for i := range 60 {
			a, err := js.Publish(t.Context(), "out.n", fmt.Appendf(nil, `{"n":%d}`, i))
			if err != nil {
				t.Fatal(err)
			}
			in := openInput(t, inputConfig{bounded: true}, "url", b.url(), "stream", "OUT", "start", fmt.Sprintf("seq:%d", a.Sequence))
			if err := in.fails(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			in.close()
			if diff := cmp.Diff([]int64{int64(i)}, in.got); diff != "" {
				t.Fatalf("read %d: %s", i, diff)
			}
		}
	})
	t.Run("bounded read from a time on", func(t *testing.T) {
		for i := range 60 {
			start := time.Now().UTC().Format(time.RFC3339Nano)
			if _, err := js.Publish(t.Context(), "out.t", fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
				t.Fatal(err)
			}
			in := openInput(t, inputConfig{bounded: true}, "url", b.url(), "stream", "OUT", "subject", "out.t", "start", "time:"+start)
			if err := in.fails(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			in.close()
			if diff := cmp.Diff([]int64{int64(i)}, in.got); diff != "" {
				t.Fatalf("read %d: %s", i, diff)
			}
		}
	})
}

// TestAConsumerThatKnowsNothing: the consumer says that nothing follows, since its
// replica has not heard of what the leader holds.
func TestAConsumerThatKnowsNothing(t *testing.T) {
	for _, p := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
		t.Run(strings.ToLower(p.String()), func(t *testing.T) {
			q := newQueue(t, jetstream.StreamConfig{Retention: p}, "subject", "in.a")
			publish(t, q.js, "in.a", 0, 3)
			in := q.open(inputConfig{})
			r := in.reader.(*reader)
			if err := r.attach(t.Context()); err != nil {
				t.Fatal(err)
			}
			var late []*nats.Msg
			for range 3 {
				late = append(late, <-r.feed.ch)
			}
			r.feed.pending, r.replicated, r.settled = 0, true, false
			for range lagTicks {
				r.ask = true
				if err := r.settle(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if s := r.now(); r.pos.NextSeq != 0 || s.State != connectors.Reading || s.Lag < 1 {
				t.Errorf("position %d, status %+v with nothing read", r.pos.NextSeq, s)
			}
			r.ask = true
			wantFault(t, r.settle(t.Context()), fault.Transient, "", "stream IN", "message 1", "stream report")
			for _, m := range late {
				r.feed.ch <- m
			}
			publish(t, q.js, "in.other", 0, 1)
			in.until(in.count(3))
			in.until(in.caughtUp)
			if diff := cmp.Diff(sequence(0, 3), in.got); diff != "" || r.pos.NextSeq != 4 {
				t.Errorf("position %d, want 4; %s", r.pos.NextSeq, diff)
			}
		})
	}
}

// TestAnEmptyPartitionStartsBehindTheEnd: once the leader has confirmed it.
func TestAnEmptyPartitionStartsBehindTheEnd(t *testing.T) {
	for _, several := range []bool{false, true} {
		b := newBroker(t)
		js, _ := b.client()
		stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
		publish(t, js, "in.other", 0, 10)
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "subject", "in.a")
		r := in.reader.(*reader)
		if err := r.attach(t.Context()); err != nil {
			t.Fatal(err)
		}
		if several {
			r.replicated, r.settled, r.pos.NextSeq = true, false, 0
		}
		in.until(in.caughtUp)
		if r.pos.NextSeq != 11 {
			t.Errorf("several replicas %v: position %d, want 11", several, r.pos.NextSeq)
		}
	}
}

// TestAReplicaThatFallsBehindLater is noticed by an idle reader.
func TestAReplicaThatFallsBehindLater(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	in.until(in.caughtUp)
	r := in.reader.(*reader)
	publish(t, js, "in.a", 0, 1)
	late := <-r.feed.ch
	r.replicated = true
	if err := r.advance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.now(); s.State != connectors.Reading {
		t.Errorf("status %+v while a message is missing", s)
	}
	r.feed.ch <- late
	in.until(in.count(1))
	in.until(in.caughtUp)
}
