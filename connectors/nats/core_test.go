package nats

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// say publishes {"n":from} to {"n":to-1} without a stream.
func say(t *testing.T, nc *nats.Conn, subject string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := nc.Publish(subject, fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestASubjectWithoutAStream(t *testing.T) {
	b := newBroker(t)
	_, nc := b.client()
	schema := messages.NewSchema(numbers().Fields[0], messages.Field{Name: "subject", Type: messages.T(messages.String)},
		messages.Field{Name: "part", Type: messages.T(messages.String)})
	in := openInput(t, inputConfig{schema: schema, metadata: map[int]string{1: "subject", 2: "partition"}}, "url", b.url(), "subject", "in.*")
	if got := in.src.Traits(); got != (connectors.Traits{}) {
		t.Errorf("traits %+v, want neither replayable nor with a broker's time", got)
	}
	say(t, nc, "in.a", 0, 5) // nobody listens
	in.until(in.caughtUp)
	msg := nats.NewMsg("in.b")
	msg.Reply, msg.Data = nc.NewInbox(), []byte(`{"n":5}`)
	replies, err := nc.SubscribeSync(msg.Reply)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishMsg(msg); err != nil {
		t.Fatal(err)
	}
	say(t, nc, "in.c", 6, 10)
	in.until(in.count(5))
	if diff := cmp.Diff(sequence(5, 10), in.got); diff != "" {
		t.Error(diff)
	}
	if n, _, err := replies.Pending(); n != 0 || err != nil {
		t.Errorf("%d replies, want none; %v", n, err)
	}
	if got, want := string(in.next), `{"subject":"in.*","count":5}`; got != want {
		t.Errorf("offset %s, want %s", got, want)
	}
	again := openInput(t, inputConfig{from: in.next}, "url", b.url(), "subject", "in.*")
	again.until(again.caughtUp)
	say(t, nc, "in.a", 10, 11)
	again.until(again.count(1))
	if got, want := string(again.next), `{"subject":"in.*","count":6}`; got != want {
		t.Errorf("offset %s, want %s", got, want)
	}
	if again.reader.(*coreReader).origin == in.reader.(*coreReader).origin {
		t.Error("two readers give rows the same identity")
	}
}

// TestDropsAreCounted: a reader that does not keep up loses messages, and says how
// many.
func TestDropsAreCounted(t *testing.T) {
	b := newBroker(t)
	_, nc := b.client()
	var log bytes.Buffer
	in := openInput(t, inputConfig{log: slog.New(slog.NewTextHandler(&log, nil))}, "url", b.url(), "subject", "in.>")
	in.until(in.caughtUp)
	const sent = coreMessages + 5000
	say(t, nc, "in.a", 0, sent)
	say(t, in.reader.(*coreReader).link.nc, "out", 0, 1) // everything before has come in
	lost := 0
	in.until(func() bool { lost += in.rows.Lost; return len(in.got)+lost >= sent })
	if len(in.got)+lost != sent || lost < 5000 {
		t.Errorf("%d rows and %d lost, want %d together", len(in.got), lost, sent)
	}
	if !strings.Contains(log.String(), "messages were dropped") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log %q, want one warning", &log)
	}
}

func TestASubjectSurvivesItsServer(t *testing.T) {
	b := newBroker(t)
	_, nc := b.client()
	in := openInput(t, inputConfig{}, "url", b.url(), "subject", "in.>")
	in.until(in.caughtUp)
	say(t, nc, "in.a", 0, 3)
	in.until(in.count(3))
	b.stop()
	in.until(func() bool { return in.status.State == connectors.Retrying })
	if !strings.Contains(in.status.Reason, "127.0.0.1") {
		t.Errorf("reason %q does not name the server", in.status.Reason)
	}
	b.start()
	in.until(in.caughtUp)
	_, nc = b.client()
	say(t, nc, "in.a", 3, 6)
	in.until(in.count(6))
	if diff := cmp.Diff(sequence(0, 6), in.got); diff != "" {
		t.Error(diff)
	}
}

func TestQueueGroup(t *testing.T) {
	b := newBroker(t)
	_, nc := b.client()
	kv := []string{"url", b.url(), "subject", "in.>", "queue_group", "workers"}
	one, two := openInput(t, inputConfig{}, kv...), openInput(t, inputConfig{}, kv...)
	one.until(one.caughtUp)
	two.until(two.caughtUp)
	say(t, nc, "in.a", 0, 200)
	for _, in := range []*input{one, two} {
		say(t, in.reader.(*coreReader).link.nc, "out", 0, 1)
		in.until(func() bool { return len(in.got) > 0 && in.caughtUp() })
	}
	wantOnce(t, append(one.got, two.got...), 0, 200)
}

func TestCoreOptions(t *testing.T) {
	sequenceColumn := inputConfig{
		schema:   messages.NewSchema(messages.Field{Name: "seq", Type: messages.T(messages.BigInt)}),
		metadata: map[int]string{0: "sequence"}, partition: "in.a",
	}
	for _, c := range []struct {
		name string
		c    inputConfig
		kv   []string
		want string
	}{
		{"nothing to read", inputConfig{}, nil, "name a stream, or a subject"},
		{"a start", inputConfig{}, []string{"subject", "in.a", "start", "latest"}, "start: has no effect"},
		{"a stream to create", inputConfig{}, []string{"subject", "in.a", "create", "true"}, "create: has no effect"},
		{"a group on a stream", inputConfig{}, []string{"stream", "IN", "queue_group", "g"}, "queue_group"},
		{"a group that is no name", inputConfig{}, []string{"subject", "in.a", "queue_group", "g.*"}, "queue_group"},
		{"a sequence", sequenceColumn, []string{"subject", "in.a"}, "column seq"},
		{"an end", inputConfig{bounded: true}, []string{"subject", "in.a"}, "available_now"},
		{"a position in a stream", inputConfig{from: connectors.Offset(`{"stream":"IN","next_seq":7}`)}, []string{"subject", "in.a"}, "start it afresh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := tryInput(t, c.c, c.kv...)
			wantFault(t, err, fault.Config, "", c.want)
		})
	}
}

// TestASilentServerIsNoticed: a subject says nothing about whether it is silent or
// out of reach.
func TestASilentServerIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the server's silence")
	}
	b := newChild(t)
	in := openInput(t, inputConfig{}, "url", b.url(), "subject", "in.>")
	in.until(in.caughtUp)
	b.signal(syscall.SIGSTOP)
	begin := time.Now()
	in.until(func() bool { return in.status.State == connectors.Retrying })
	if d := time.Since(begin); d > 15*time.Second {
		t.Errorf("noticed after %v", d)
	}
	b.signal(syscall.SIGCONT)
	in.until(in.caughtUp)
}

// TestCoreSubscribeOnALostConnection: one that is lost between the greeting and the
// subscription is made again.
func TestCoreSubscribeOnALostConnection(t *testing.T) {
	b := newBroker(t)
	for _, group := range []string{"", "readers"} {
		in := openInput(t, inputConfig{}, "url", b.url(), "subject", "in.a")
		r := in.reader.(*coreReader)
		r.src.queueGroup = group
		l, err := r.src.conn.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.close()
		wantFault(t, r.subscribe(t.Context(), l), fault.Transient, "", "subscribe to in.a")
		in.until(in.caughtUp)
	}
}
