package nats

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// queue is a stream that forgets, and how to read it.
type queue struct {
	t  *testing.T
	b  *broker
	js jetstream.JetStream
	s  jetstream.Stream
	kv []string
}

// forgetful runs a test for workqueue and for interest retention.
func forgetful(t *testing.T, f func(t *testing.T, q *queue)) {
	for _, p := range []jetstream.RetentionPolicy{jetstream.WorkQueuePolicy, jetstream.InterestPolicy} {
		t.Run(strings.ToLower(p.String()), func(t *testing.T) { f(t, newQueue(t, jetstream.StreamConfig{Retention: p})) })
	}
}

func newQueue(t *testing.T, cfg jetstream.StreamConfig, kv ...string) *queue {
	b := newBroker(t)
	js, _ := b.client()
	cfg.Name, cfg.Subjects = "IN", []string{"in.>"}
	q := &queue{t: t, b: b, js: js, s: stream(t, js, cfg), kv: append([]string{"url", b.url(), "stream", "IN"}, kv...)}
	if cfg.Retention == jetstream.InterestPolicy { // else what is published before the first start is gone
		in := q.open(inputConfig{})
		in.until(in.caughtUp)
		in.close()
	}
	return q
}

func (q *queue) open(c inputConfig) *input {
	q.t.Helper()
	c.query = "orders"
	return openInput(q.t, c, q.kv...)
}

// left is how many messages the stream holds.
func (q *queue) left() int {
	q.t.Helper()
	info, err := q.s.Info(q.t.Context())
	if err != nil {
		q.t.Fatal(err)
	}
	return int(info.State.Msgs)
}

// consumers lists the consumers of the stream.
func (q *queue) consumers() []*jetstream.ConsumerInfo {
	q.t.Helper()
	var all []*jetstream.ConsumerInfo
	l := q.s.ListConsumers(q.t.Context())
	for i := range l.Info() {
		all = append(all, i)
	}
	if err := l.Err(); err != nil {
		q.t.Fatal(err)
	}
	return all
}

func (in *input) commit(next connectors.Offset) {
	in.t.Helper()
	if err := in.reader.Committed(in.t.Context(), next); err != nil {
		in.t.Fatal(err)
	}
}

func (in *input) offset() connectors.Offset { return slices.Clone(in.next) }

func TestMessagesAreAcknowledgedWhenTheirEpochIsDurable(t *testing.T) {
	forgetful(t, func(t *testing.T, q *queue) {
		in := q.open(inputConfig{maxRows: 10})
		publish(t, q.js, "in.a", 0, 100)
		in.until(in.count(40))
		first := in.offset()
		in.until(in.count(100))
		if got := q.left(); got != 100 {
			t.Fatalf("%d messages left before a commit, want 100", got)
		}
		in.commit(first)
		if got, want := q.left(), 100-before(t, first); got != want {
			t.Errorf("%d messages left after the first commit, want %d", got, want)
		}
		in.commit(in.next)
		if got := q.left(); got != 0 {
			t.Errorf("%d messages left after the last commit, want 0", got)
		}
		if c := q.consumers(); len(c) != 1 || c[0].NumAckPending != 0 || c[0].Config.AckWait != 30*time.Second || c[0].Config.MaxDeliver != -1 {
			t.Errorf("consumers %+v, want one without unacknowledged messages", c)
		}
	})
}

// before is how many of the messages before an offset the test has published.
func before(t *testing.T, o connectors.Offset) int {
	t.Helper()
	p, err := parsePosition(o)
	if err != nil {
		t.Fatal(err)
	}
	return int(p.NextSeq) - 1
}

// TestACrashLosesAndRepeatsNothing: what is behind the checkpoint comes again, in
// order and before anything newer; what is before it does not, whether or not it
// was acknowledged.
func TestACrashLosesAndRepeatsNothing(t *testing.T) {
	forgetful(t, func(t *testing.T, q *queue) {
		in := q.open(inputConfig{maxRows: 10})
		publish(t, q.js, "in.a", 0, 100)
		in.until(in.count(30))
		acked := in.offset()
		in.until(in.count(60))
		checkpoint, rows := in.offset(), len(in.got)
		in.until(in.count(100))
		in.commit(acked) // the acknowledgement of checkpoint itself was not sent
		in.close()
		publish(t, q.js, "in.a", 100, 120)
		for range 3 {
			again := q.open(inputConfig{from: checkpoint})
			again.until(again.caughtUp)
			if diff := cmp.Diff(sequence(rows, 120), again.got); diff != "" {
				t.Fatal(diff)
			}
			again.close()
		}
		last := q.open(inputConfig{from: checkpoint})
		last.until(last.caughtUp)
		last.commit(last.next)
		if got := q.left(); got != 0 {
			t.Errorf("%d messages left, want 0", got)
		}
		if c := q.consumers(); len(c) != 1 || c[0].NumAckPending != 0 {
			t.Errorf("consumers %+v, want one without unacknowledged messages", c)
		}
	})
}

func TestAQueueSurvivesServerRestarts(t *testing.T) {
	forgetful(t, func(t *testing.T, q *queue) {
		in := q.open(inputConfig{maxRows: 50})
		next := 0
		for range 3 {
			publish(t, q.js, "in.a", next, next+1000)
			next += 1000
			in.until(in.count(next - 700))
			in.commit(in.next)
			in.until(in.count(next - 300)) // some are taken and not committed
			q.b.stop()
			in.commit(in.next) // finds nobody
			in.until(func() bool { return in.status.State == connectors.Retrying })
			q.b.start()
			q.js, _ = q.b.client()
		}
		in.until(in.count(next))
		in.until(in.caughtUp)
		if diff := cmp.Diff(sequence(0, next), in.got); diff != "" {
			t.Error(diff)
		}
		in.commit(in.next)
		var err error
		if q.s, err = q.js.Stream(t.Context(), "IN"); err != nil {
			t.Fatal(err)
		}
		if got := q.left(); got != 0 {
			t.Errorf("%d messages left, want 0", got)
		}
	})
}

// TestRedeliveriesAreDropped: the server delivers again what was not
// acknowledged for too long, here because somebody asked it to.
func TestRedeliveriesAreDropped(t *testing.T) {
	forgetful(t, func(t *testing.T, q *queue) {
		in := q.open(inputConfig{maxRows: 10})
		publish(t, q.js, "in.a", 0, 20)
		in.until(in.count(20))
		list := slices.Clone(in.reader.(*reader).receipts.list)
		_, nc := q.b.client()
		for _, r := range list {
			if err := nc.Publish(r.reply, []byte("-NAK")); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		publish(t, q.js, "in.a", 20, 25)
		in.until(in.count(25))
		in.until(in.caughtUp)
		if diff := cmp.Diff(sequence(0, 25), in.got); diff != "" {
			t.Error(diff)
		}
		in.commit(in.next)
		if got := q.left(); got != 0 {
			t.Errorf("%d messages left, want 0", got)
		}
	})
}

// TestALostAcknowledgementIsMadeUpFor: a message before the checkpoint that comes
// again within the attempt is acknowledged at once.
func TestALostAcknowledgementIsMadeUpFor(t *testing.T) {
	forgetful(t, func(t *testing.T, q *queue) {
		in := q.open(inputConfig{})
		publish(t, q.js, "in.a", 0, 10)
		in.until(in.count(10))
		a := &in.reader.(*reader).receipts
		list := slices.Clone(a.list)
		a.list = a.list[:0] // lost
		in.commit(in.next)
		if got := q.left(); got != 10 {
			t.Fatalf("%d messages left, want all", got)
		}
		for _, r := range list {
			if err := a.link.nc.Publish(r.reply, []byte("-NAK")); err != nil {
				t.Fatal(err)
			}
		}
		for n := 10; ; n++ { // until the server has delivered again
			publish(t, q.js, "in.a", n, n+1)
			in.until(in.count(n + 1))
			in.commit(in.next)
			if q.left() == 0 {
				break
			}
			if n == 1000 {
				t.Fatalf("%d messages left, want 0", q.left())
			}
		}
	})
}

func TestSlowEpochsKeepTheirMessages(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	in := q.open(inputConfig{})
	publish(t, q.js, "in.a", 0, 10)
	in.until(in.count(10))
	_, nc := q.b.client()
	sub, err := nc.SubscribeSync("$JS.ACK.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	a := &in.reader.(*reader).receipts
	for _, d := range []time.Duration{9 * time.Second, 11 * time.Second} { // since they were delivered
		if err := a.keepAlive(a.told.Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.link.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		m, err := sub.NextMsg(5 * time.Second)
		if err != nil || string(m.Data) != "+WPI" {
			t.Fatalf("sign of life %d: %v, %v", i, m, err)
		}
	}
	if n, _, err := sub.Pending(); n != 0 || err != nil {
		t.Errorf("%d more signs of life, want one for each message; %v", n, err)
	}
}

func TestUnacknowledgedMessagesAreBounded(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, "max_ack_pending", "100")
	in := q.open(inputConfig{maxRows: 50})
	publish(t, q.js, "in.a", 0, 300)
	for n := range 3 {
		in.until(in.count(100 * (n + 1)))
		if len(in.got) != 100*(n+1) {
			t.Fatalf("%d messages read in epoch %d, want 100 more", len(in.got), n)
		}
		if n < 2 && in.caughtUp() {
			t.Error("caught up while messages wait")
		}
		in.commit(in.next)
	}
	if diff := cmp.Diff(sequence(0, 300), in.got); diff != "" {
		t.Error(diff)
	}
}

// TestAnOlderEpochOfAQueue: its messages are gone.
func TestAnOlderEpochOfAQueue(t *testing.T) {
	for _, subject := range []string{"", "in.a"} {
		t.Run("subject "+subject, func(t *testing.T) {
			forgetful(t, func(t *testing.T, q *queue) {
				if subject != "" {
					q = newQueue(t, q.s.CachedInfo().Config, "subject", subject)
					publish(t, q.js, "in.b", 0, 1) // with a workqueue the stream's front stays where it is
				}
				in := q.open(inputConfig{maxRows: 10})
				publish(t, q.js, "in.a", 0, 50)
				in.until(in.count(20))
				old := in.offset()
				in.until(in.count(50))
				in.commit(old)
				newest := in.offset()
				in.commit(newest)
				in.close()
				publish(t, q.js, "in.a", 50, 60)

				older := q.open(inputConfig{from: old})
				wantFault(t, older.fails(), fault.Config, classAcknowledged, "acknowledged by a later epoch", "restore the newest epoch", "on_data_loss = 'warn'")
				older.close()

				var lines bytes.Buffer
				log := slog.New(slog.NewTextHandler(&lines, nil))
				q.kv = append(q.kv, "on_data_loss", "warn")
				warned := q.open(inputConfig{from: old, log: log})
				warned.until(warned.caughtUp)
				if diff := cmp.Diff(sequence(50, 60), warned.got); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(lines.String(), "acknowledged by a later epoch") {
					t.Errorf("no warning: %s", &lines)
				}
				warned.close()

				q.kv = q.kv[:len(q.kv)-2]
				good := q.open(inputConfig{from: newest})
				good.until(good.caughtUp)
				if diff := cmp.Diff(sequence(50, 60), good.got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestInterestNeedsItsConsumer(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.InterestPolicy})
	other, err := q.s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	in := q.open(inputConfig{})
	publish(t, q.js, "in.a", 0, 10)
	in.until(in.count(10))
	in.commit(in.next)
	next := in.offset()
	in.close()
	for _, c := range q.consumers() {
		if c.Name != "other" {
			if err := q.s.DeleteConsumer(t.Context(), c.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	again := q.open(inputConfig{from: next}) // nothing was published meanwhile
	again.until(again.caughtUp)
	again.close()
	for _, c := range q.consumers() {
		if c.Name != "other" {
			if err := q.s.DeleteConsumer(t.Context(), c.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(t, q.js, "in.a", 10, 20)
	batch, err := other.Fetch(15) // acknowledged by everybody who is left
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bad := q.open(inputConfig{from: next})
	wantFault(t, bad.fails(), fault.Config, classConsumerGone, "messages 11 to 20", "consumer_ttl")
	bad.close()
	q.kv = append(q.kv, "on_data_loss", "warn")
	warned := q.open(inputConfig{from: next})
	warned.until(warned.caughtUp)
	if diff := cmp.Diff(sequence(15, 20), warned.got); diff != "" {
		t.Error(diff)
	}
}

func TestAWorkQueueHasOneReader(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	in := q.open(inputConfig{run: 1})
	in.until(in.caughtUp)
	for q.consumers()[0].NumWaiting == 0 { // what it has asked for has not come yet
	}
	t.Run("another query", func(t *testing.T) {
		other := openInput(t, inputConfig{query: "another"}, q.kv...)
		wantFault(t, other.fails(), fault.Config, classOverlap, "stream IN", "nats consumer rm")
	})
	t.Run("another query with a filter", func(t *testing.T) {
		other := openInput(t, inputConfig{query: "another"}, append(q.kv, "subject", "in.a")...)
		wantFault(t, other.fails(), fault.Config, classOverlap, "stream IN")
	})
	t.Run("a query of the same name elsewhere waits", func(t *testing.T) {
		other := q.open(inputConfig{run: 2})
		other.until(func() bool { return other.status.State == connectors.Retrying })
		if !strings.Contains(other.status.Reason, "in use by another query of the same name") {
			t.Errorf("reason %q", other.status.Reason)
		}
		in.close()
		other.until(other.caughtUp)
	})
	t.Run("a start within it", func(t *testing.T) {
		other := openInput(t, inputConfig{query: "another"}, append(q.kv, "start", "latest")...)
		wantFault(t, other.fails(), fault.Config, classRetention, "start", "workqueue")
	})
}

func TestPartitionsOfAWorkQueue(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, "filters", "in.a,in.b.*,in.c")
	for i, s := range []string{"in.a", "in.b.x", "in.c"} {
		publish(t, q.js, s, 10*i, 10*i+10)
	}
	var names []string
	var all []int64
	for _, p := range []string{"in.a", "in.b.*", "in.c"} {
		in := q.open(inputConfig{partition: p})
		in.until(in.count(10))
		all = append(all, in.got...)
		if p == "in.b.*" {
			continue // is not committed
		}
		in.commit(in.next)
	}
	wantOnce(t, all, 0, 30)
	if got := q.left(); got != 10 {
		t.Errorf("%d messages left, want those of one partition", got)
	}
	for _, c := range q.consumers() {
		names = append(names, c.Name)
		if !strings.HasPrefix(c.Name, "streamd-orders-") {
			t.Errorf("consumer %s does not name the query", c.Name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 3 {
		t.Errorf("consumers %v, want one for each partition", names)
	}
}

// TestConsumersDoNotPileUp: however often a query starts.
func TestConsumersDoNotPileUp(t *testing.T) {
	forgetful(t, func(t *testing.T, q *queue) {
		var next connectors.Offset
		for i := range 6 {
			publish(t, q.js, "in.a", i, i+1)
			in := q.open(inputConfig{from: next, bounded: true})
			if err := in.fails(); err.Error() != "EOF" {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sequence(i, i+1), in.got); diff != "" {
				t.Fatal(diff)
			}
			next = in.offset()
			in.commit(next)
			in.close()
			if c := q.consumers(); len(c) != 1 || c[0].NumAckPending != 0 || q.left() != 0 {
				t.Fatalf("run %d: %d consumers, %d messages left", i, len(c), q.left())
			}
		}
	})
}

func TestAQueueThatWasReCreated(t *testing.T) {
	forgetful(t, func(t *testing.T, q *queue) {
		q.kv = append(q.kv, "on_data_loss", "warn")
		in := q.open(inputConfig{})
		publish(t, q.js, "in.a", 0, 50)
		in.until(in.count(50))
		old := in.offset()
		cfg := q.s.CachedInfo().Config
		if err := q.js.DeleteStream(t.Context(), "IN"); err != nil {
			t.Fatal(err)
		}
		q.s = stream(t, q.js, cfg)
		if cfg.Retention == jetstream.InterestPolicy {
			in.until(func() bool { return in.status.State == connectors.Retrying })
			in.until(in.caughtUp)
		}
		publish(t, q.js, "in.a", 100, 110)
		in.until(in.count(60))
		in.commit(old) // of the stream before
		if got := q.left(); got != 10 {
			t.Errorf("%d messages left after a commit that does not concern them, want 10", got)
		}
		in.commit(in.next)
		if got := q.left(); got != 0 {
			t.Errorf("%d messages left, want 0", got)
		}
	})
}

func TestConsumerTTL(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	in := q.open(inputConfig{})
	in.until(in.caughtUp)
	if c := q.consumers(); len(c) != 1 || c[0].Config.InactiveThreshold != 168*time.Hour {
		t.Errorf("consumers %+v, want one that goes after a week", c)
	}
	_, err := tryInput(t, inputConfig{}, append(q.kv, "consumer_ttl", "10m")...)
	wantFault(t, err, fault.Config, "", "consumer_ttl", "hour")
}

// TestAConsumerUnderBackPressureIsInUse: its query asks for nothing and gives signs
// of life instead, until it is closed.
func TestAConsumerUnderBackPressureIsInUse(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	publish(t, q.js, "in.a", 0, 2000)
	_, nc := q.b.client()
	signs, err := nc.SubscribeSync("$JS.ACK.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	one := q.open(inputConfig{run: 1, maxRows: 10})
	one.until(one.count(10))
	for c := q.consumers(); c[0].NumWaiting > 0; c = q.consumers() { // the server sends what was asked for
	}
	two := q.open(inputConfig{run: 2, maxRows: 10})
	two.until(func() bool { return two.status.State == connectors.Retrying })
	if !strings.Contains(two.status.Reason, "in use by another query of the same name") || !strings.Contains(two.status.Reason, "30s at most") {
		t.Errorf("reason %q", two.status.Reason)
	}
	before := *q.consumers()[0].Delivered.Last
	a := &one.reader.(*reader).receipts
	a.mu.Lock()
	a.told = a.told.Add(-a.cfg.AckWait / 3)
	a.mu.Unlock()
	for range one.got { // nobody reads
		if m, err := signs.NextMsg(10 * time.Second); err != nil || string(m.Data) != "+WPI" {
			t.Fatal(m, err)
		}
	}
	if after := *q.consumers()[0].Delivered.Last; !after.After(before) {
		t.Errorf("the last delivery was at %v before the signs of life and at %v behind them", before, after)
	}
	one.close()
	two.until(two.count(10))
	if diff := cmp.Diff(sequence(0, 10), two.got[:10]); diff != "" {
		t.Error(diff)
	}
}

// TestAConsumerThatWasMadeLate: by a request of our own that was given up.
func TestAConsumerThatWasMadeLate(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	publish(t, q.js, "in.a", 0, 10)
	in := q.open(inputConfig{maxRows: 5})
	in.until(in.count(5))
	in.commit(in.next) // so that the consumer would be made otherwise now
	r := in.reader.(*reader)
	info, err := r.link.info(t.Context(), &r.src.stream)
	if err != nil {
		t.Fatal(err)
	}
	made := r.feed
	none := holders{} // were looked up before it was made
	wantFault(t, r.openDurable(t.Context(), info, &none), fault.Transient, "", "consumer already exists", "stream IN")
	r.feed = made
}
