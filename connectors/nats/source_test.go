package nats

import (
	"context"
	"errors"
	"fmt"
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

func TestSourceReadsAndResumes(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 5000)
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	in.until(func() bool { return len(in.got) >= 5000 && in.caughtUp() })
	if diff := cmp.Diff(sequence(0, 5000), in.got); diff != "" {
		t.Fatal(diff)
	}
	publish(t, js, "in.a", 5000, 5010)
	in.until(in.count(5010))
	again := openInput(t, inputConfig{from: in.next}, "url", b.url(), "stream", "IN")
	publish(t, js, "in.b", 5010, 5020)
	again.until(again.count(10))
	if diff := cmp.Diff(sequence(5010, 5020), again.got); diff != "" {
		t.Fatal(diff)
	}
}

// TestServerRestartsUnderLoad: nothing is lost or read twice.
func TestServerRestartsUnderLoad(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	in := openInput(t, inputConfig{maxRows: 100}, "url", b.url(), "stream", "IN")
	next := 0
	for range 5 {
		publish(t, js, "in.a", next, next+2000)
		next += 2000
		in.until(in.count(next - 1500)) // in the middle
		b.stop()
		in.until(func() bool { return in.status.State == connectors.Retrying })
		b.start()
		js, _ = b.client() // publish has no patience with lost connections
	}
	publish(t, js, "in.a", next, next+100)
	in.until(in.count(next + 100))
	if diff := cmp.Diff(sequence(0, next+100), in.got); diff != "" {
		t.Error(diff)
	}
}

func TestServerIsDownAtTheStart(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 10)
	b.stop()
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	in.until(func() bool { return in.status.State == connectors.Retrying })
	if !strings.Contains(in.status.Reason, "127.0.0.1") {
		t.Errorf("reason %q does not name the server", in.status.Reason)
	}
	if in.status.Lag != -1 {
		t.Errorf("lag = %d, want -1 for unknown", in.status.Lag)
	}
	b.start()
	in.until(in.caughtUp)
	if diff := cmp.Diff(sequence(0, 10), in.got); diff != "" {
		t.Error(diff)
	}
}

func TestReaderGetsOverLostConsumers(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	for i := range 3 {
		publish(t, js, "in.a", 10*i, 10*i+10)
		in.until(in.count(10*i + 10))
		for name := range s.ConsumerNames(t.Context()).Name() {
			if err := s.DeleteConsumer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(t, js, "in.a", 30, 40)
	in.until(in.count(40))
	if diff := cmp.Diff(sequence(0, 40), in.got); diff != "" {
		t.Error(diff)
	}
}

// TestNoRoomForAConsumer: the stream has as many consumers as it may have. That
// passes when one of them leaves, as those of a killed process do.
func TestNoRoomForAConsumer(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	st := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, MaxConsumers: 1})
	publish(t, js, "in.a", 0, 10)
	if _, err := st.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other"}); err != nil {
		t.Fatal(err)
	}
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	in.until(func() bool { return in.status.State == connectors.Retrying })
	if reason := in.status.Reason; !strings.Contains(reason, "maximum consumers limit reached") {
		t.Errorf("the reason is %q", reason)
	}
	if err := st.DeleteConsumer(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	in.until(in.count(10))
}

func TestStart(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 10)
	m, err := s.GetMsg(t.Context(), 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		start string
		want  []int64
	}{
		{"earliest", sequence(0, 10)},
		{"latest", nil},
		{"seq:1", sequence(0, 10)},
		{"seq:8", sequence(7, 10)},
		{"seq:11", nil},
		{"time:" + m.Time.Format(time.RFC3339Nano), sequence(5, 10)},
		{"time:2200-01-01T00:00:00Z", nil},
	} {
		t.Run(tt.start, func(t *testing.T) {
			in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "start", tt.start)
			in.until(in.caughtUp)
			if diff := cmp.Diff(tt.want, in.got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a sequence beyond the end is an error", func(t *testing.T) {
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "start", "seq:12")
		wantFault(t, in.fails(), fault.Config, classBeyondEnd, "12")
	})
	t.Run("a sequence that was removed is loss", func(t *testing.T) {
		if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(4)); err != nil {
			t.Fatal(err)
		}
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "start", "seq:2")
		wantFault(t, in.fails(), fault.Config, classDataLoss, "2 to 3")
	})
}

func TestPartitions(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{
		Name: "IN", Subjects: []string{"raw.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "raw.*", Destination: "in.{{partition(4,1)}}.{{wildcard(1)}}"},
	})
	for i := range 100 {
		publish(t, js, fmt.Sprintf("raw.key%d", i%10), i, i+1)
	}
	kv := []string{"url", b.url(), "stream", "IN", "subject", "in.{partition}.>", "partitions", "4"}
	in, err := tryInput(t, inputConfig{}, kv...)
	if err != nil {
		t.Fatal(err)
	}
	names, err := in.src.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in.close()
	if diff := cmp.Diff([]string{"in.0.>", "in.1.>", "in.2.>", "in.3.>"}, names); diff != "" {
		t.Fatal(diff)
	}
	var all []int64
	origins := map[messages.ID128]bool{}
	for _, p := range names {
		in := openInput(t, inputConfig{partition: p}, kv...)
		in.until(in.caughtUp)
		all = append(all, in.got...)
		origins[in.reader.(*reader).origin] = true
	}
	wantOnce(t, all, 0, 100)
	if len(origins) != 4 {
		t.Errorf("%d different origins, want 4", len(origins))
	}
}

func TestMetadata(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	msg := nats.NewMsg("in.x")
	msg.Data = []byte(`[{"n":1},{"n":2}]`)
	msg.Header = nats.Header{"B": {"2", "3"}, "A": {"1"}}
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "in.y", 3, 4)
	var columns []messages.Field
	metadata := map[int]string{}
	columns = append(columns, messages.Field{Name: "n", Type: messages.T(messages.BigInt)})
	for i, m := range metadataColumns() {
		columns = append(columns, messages.Field{Name: m.Name, Type: m.Type})
		metadata[i+1] = m.Name
	}
	in := openInput(t, inputConfig{schema: messages.NewSchema(columns...), metadata: metadata}, "url", b.url(), "stream", "IN", "subject", "in.*")
	var got [][]any
	for !in.caughtUp() {
		in.rows.Reset()
		if err := in.reader.Read(t.Context(), in.rows); err != nil {
			t.Fatal(err)
		}
		in.status = in.rows.Status
		if batch := in.rows.Finish(); batch != nil {
			for i := range batch.Rows() {
				got = append(got, rowOf(batch, i))
			}
			if a := batch.Lineage().A; a[0] == 1 && batch.Lineage().Base != in.reader.(*reader).origin {
				t.Error("lineage does not start from the origin")
			}
		}
	}
	at := func(seq uint64) time.Time {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		return m.Time.Truncate(time.Microsecond).UTC()
	}
	headers := map[any]any{"A": "1", "B": "2,3"}
	want := [][]any{
		{int64(1), "in.x", "IN", int64(1), at(1), headers, "in.*"},
		{int64(2), "in.x", "IN", int64(1), at(1), headers, "in.*"},
		{int64(3), "in.y", "IN", int64(2), at(2), nil, "in.*"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadRecords(t *testing.T) {
	b := newBroker(t)
	b.stop()
	b.opts.MaxPayload = 20 << 20
	b.start()
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 1)
	big := []byte(`{"n":1,"x":"` + strings.Repeat("x", 10<<20) + `"}`)
	for _, data := range [][]byte{[]byte("no json"), big} {
		if _, err := js.Publish(t.Context(), "in.a", data); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, js, "in.a", 2, 3)
	kv := []string{"url", b.url(), "stream", "IN"}
	t.Run("fail names the record", func(t *testing.T) {
		in := openInput(t, inputConfig{}, kv...)
		wantFault(t, in.fails(), fault.BadRow, "", "stream IN sequence 2", "no json")
		in = openInput(t, inputConfig{}, append(kv, "start", "seq:3")...)
		wantFault(t, in.fails(), fault.BadRow, "", "stream IN sequence 3", "max_record_size (1048576)", "10485")
	})
	t.Run("drop counts it", func(t *testing.T) {
		in := openInput(t, inputConfig{policy: connectors.DropOnError}, kv...)
		bad := 0
		in.until(func() bool { bad += len(in.rows.Bad); return in.caughtUp() })
		if diff := cmp.Diff([]int64{0, 2}, in.got); diff != "" || bad != 2 {
			t.Errorf("%d bad records, want 2; rows: %s", bad, diff)
		}
	})
	t.Run("dead_letter keeps the payload", func(t *testing.T) {
		in := openInput(t, inputConfig{policy: connectors.DeadLetter}, kv...)
		var bad []string
		in.until(func() bool {
			for _, r := range in.rows.Bad {
				bad = append(bad, r.Origin+": "+string(r.Payload[:7]))
			}
			return in.caughtUp()
		})
		want := []string{"stream IN sequence 2 subject in.a: no json", `stream IN sequence 3 subject in.a: {"n":1,`}
		if diff := cmp.Diff(want, bad); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("null makes a row", func(t *testing.T) {
		in := openInput(t, inputConfig{policy: connectors.NullOnError}, kv...)
		in.until(in.caughtUp)
		if diff := cmp.Diff([]int64{0, 2}, in.got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a larger limit reads it", func(t *testing.T) {
		in := openInput(t, inputConfig{policy: connectors.DropOnError}, append(kv, "max_record_size", "16MiB")...)
		in.until(in.caughtUp)
		if diff := cmp.Diff([]int64{0, 1, 2}, in.got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStreamIsMissing(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "filters", "in.a, in.b")
	wantFault(t, in.fails(), fault.Config, classMissing, "nats stream add IN --subjects 'in.a,in.b' --storage file --retention limits", "create = true")
	in = openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "subject", "in.{partition}.>", "partitions", "2", "create", "true")
	in.until(in.caughtUp)
	s, err := js.Stream(t.Context(), "IN")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	if diff := cmp.Diff([]string{"in.*.>"}, cfg.Subjects); diff != "" || cfg.Storage != jetstream.FileStorage || cfg.Retention != jetstream.LimitsPolicy {
		t.Errorf("created as %+v", cfg)
	}
}

func TestOffsetOfAnotherFilter(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	_, next := readPart(t, b, js, jetstream.StreamConfig{})
	_, err := tryInput(t, inputConfig{from: next}, "url", b.url(), "stream", "IN", "subject", "in.a")
	wantFault(t, err, fault.Config, "", `filter ""`, `filter "in.a"`)
}

func TestBlockedReadEndsWithItsContext(t *testing.T) {
	b := newBroker(t)
	b.stop() // connecting blocks too
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	in.until(func() bool { return in.status.State == connectors.Retrying })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = in.read(ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read = %v, want deadline exceeded", err)
	}
}
