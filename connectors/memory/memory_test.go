package memory_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var schema = messages.NewSchema(
	messages.Field{Name: "n", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "at", Type: messages.T(messages.Timestamp)},
	messages.Field{Name: "tags", Type: messages.ArrayType(messages.T(messages.String))},
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSourceKeepsTheContract(t *testing.T) {
	s := memory.NewSourceWith(schema, memory.SourceOptions{Partitions: 3, Now: func() time.Time { return noon }})
	must(t, s.Add([]any{1, noon, []string{"a", "b"}}, []any{int8(2), "2026-05-01T12:00:00Z", nil}))
	must(t, s.Add())
	must(t, s.Add([]any{uint16(3), nil, []any{nil}}))
	must(t, s.AddTo(1, []any{nil, nil, nil}))
	connectortest.Source(t, connectortest.SourceCase{
		New: func(testing.TB) connectors.Source { return s },
		Want: map[string][][]any{
			"0": {{int64(1), noon, []any{"a", "b"}}, {int64(2), noon, nil}, {int64(3), nil, []any{nil}}},
			"1": {{nil, nil, nil}},
			"2": {},
		},
	})
}

func TestSourceRefusesRowsThatDoNotFit(t *testing.T) {
	s := memory.NewSource(schema)
	for _, rows := range [][][]any{
		{{1, noon, nil}, {1, noon}}, {{"1", nil, nil}}, {{1, "yesterday", nil}}, {{1, nil, []any{"a", 1}}}, {{uint64(1 << 63), nil, nil}},
	} {
		if err := s.Add(rows...); fault.KindOf(err) != fault.Config || err == nil {
			t.Errorf("Add(%v): got error %v, want a config error", rows, err)
		}
	}
	s.End()
	if err := s.Add([]any{1, nil, nil}); err == nil {
		t.Error("Add after End was accepted")
	}
	r, err := connectortest.Open(t.Context(), s, connectors.ReadRequest{Partition: "0", MaxRows: 10}, nil, 0)
	must(t, err)
	must(t, r.ReadAll(t.Context()))
	if got := len(r.Records); got != 0 {
		t.Errorf("got %d rows, want none: what was refused must leave no trace", got)
	}
}

func TestSourceWakesABlockedReader(t *testing.T) {
	s := memory.NewSource(schema)
	r, err := connectortest.Open(t.Context(), s, connectors.ReadRequest{Partition: "0", MaxRows: 10}, nil, 0)
	must(t, err)
	must(t, r.Read(t.Context())) // reports that it has caught up
	done := make(chan error)
	go func() { done <- r.ReadAll(t.Context()) }()
	must(t, s.Add([]any{1, nil, nil}))
	must(t, s.Add([]any{2, nil, nil}))
	s.End()
	must(t, <-done)
	if diff := cmp.Diff(r.Rows(), [][]any{{int64(1), nil, nil}, {int64(2), nil, nil}}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestSourceDropsCommittedRows(t *testing.T) {
	s := memory.NewSourceWith(schema, memory.SourceOptions{DropCommitted: true})
	for n := range 4 {
		must(t, s.Add([]any{n, nil, nil}))
	}
	r, err := connectortest.Open(t.Context(), s, connectors.ReadRequest{Partition: "0", MaxRows: 1}, nil, 0)
	must(t, err)
	must(t, r.Read(t.Context()))
	must(t, r.Read(t.Context()))
	must(t, r.Reader().Committed(t.Context(), r.Offsets[1]))
	if _, err := connectortest.Open(t.Context(), s, connectors.ReadRequest{Partition: "0", From: r.Offsets[0]}, nil, 0); fault.KindOf(err) != fault.Config || err == nil {
		t.Errorf("opening at a dropped row: got error %v, want a config error", err)
	}
	again, err := connectortest.Open(t.Context(), s, connectors.ReadRequest{Partition: "0", From: r.Offsets[1], MaxRows: 9, Bounded: true}, nil, 0)
	must(t, err)
	must(t, again.ReadAll(t.Context()))
	if diff := cmp.Diff(again.Rows(), [][]any{{int64(2), nil, nil}, {int64(3), nil, nil}}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestSinkKeepsTheContract(t *testing.T) {
	for _, offer := range memory.NewSink().Traits().Guarantees {
		if offer.Guarantee == connectors.Converges {
			continue // needs keys; see below
		}
		t.Run(offer.Guarantee.String()+" "+offer.Visibility.String(), func(t *testing.T) {
			var s *memory.Sink
			connectortest.Sink(t, connectortest.SinkCase{
				New: func(testing.TB) connectors.Sink {
					if s == nil {
						s = memory.NewSink()
					}
					return s
				},
				Visible: func(testing.TB) [][]any { return s.Rows() },
				Reset:   func(testing.TB) { s = memory.NewSink() },
				Offer:   offer,
			})
		})
	}
}

func batch(t *testing.T, kinds []messages.RowKind, frame messages.Frame, rows ...[]any) *messages.Batch {
	t.Helper()
	s := messages.NewSchema(messages.Field{Name: "k", Type: messages.T(messages.String)}, messages.Field{Name: "n", Type: messages.T(messages.Int)})
	b := messages.NewPool(s).Get()
	for _, r := range rows {
		for c, v := range r {
			must(t, format.AppendValue(b.Own(c), v))
		}
	}
	b.SetLen(len(rows))
	b.SetKinds(kinds)
	b.SetFrame(frame)
	return b.Publish()
}

func open(t *testing.T, s *memory.Sink, q connectors.WriteRequest) (connectors.Committer, connectors.Writer) {
	t.Helper()
	com, err := s.Open(t.Context(), q)
	must(t, err)
	must(t, com.Recover(t.Context(), 0, nil))
	w, err := com.Writer(t.Context(), 0, 1)
	must(t, err)
	return com, w
}

func TestSinkInUpdateModeKeepsTheLastRowPerKey(t *testing.T) {
	s := memory.NewSink()
	_, w := open(t, s, connectors.WriteRequest{KeyColumns: []int{0}})
	must(t, w.Write(t.Context(), batch(t, nil, 0, []any{"a", 1}, []any{"b", 1}, []any{"a", 2}, []any{nil, 7}), nil))
	must(t, w.Write(t.Context(), batch(t, []messages.RowKind{messages.UpdateBefore, messages.UpdateAfter, messages.Delete}, 0,
		[]any{"a", 2}, []any{"a", 3}, []any{"b", 1}), nil))
	if diff := cmp.Diff(s.Rows(), [][]any{{"a", int32(3)}, {nil, int32(7)}}); diff != "" {
		t.Errorf("rows: got (-) differs from want (+):\n%s", diff)
	}
	if diff := cmp.Diff(s.Log(), [][]any{{"a", int32(1)}, {"b", int32(1)}, {"a", int32(2)}, {nil, int32(7)}, {"a", int32(3)}}); diff != "" {
		t.Errorf("log: got (-) differs from want (+):\n%s", diff)
	}
}

func TestSinkInCompleteModeReplacesTheTableWhenItIsWhole(t *testing.T) {
	s := memory.NewSink()
	_, w := open(t, s, connectors.WriteRequest{})
	must(t, w.Write(t.Context(), batch(t, nil, messages.FrameStart|messages.FrameEnd, []any{"a", 1}), nil))
	must(t, w.Write(t.Context(), batch(t, nil, messages.FrameStart, []any{"a", 2}), nil))
	if diff := cmp.Diff(s.Rows(), [][]any{{"a", int32(1)}}); diff != "" {
		t.Errorf("before the end of the table: got (-) differs from want (+):\n%s", diff)
	}
	must(t, w.Write(t.Context(), batch(t, nil, messages.FrameEnd, []any{"b", 1}), nil))
	if diff := cmp.Diff(s.Rows(), [][]any{{"a", int32(2)}, {"b", int32(1)}}); diff != "" {
		t.Errorf("after the end of the table: got (-) differs from want (+):\n%s", diff)
	}
	must(t, w.Write(t.Context(), batch(t, nil, messages.FrameStart|messages.FrameEnd), nil))
	if got := s.Rows(); len(got) != 0 {
		t.Errorf("an empty table left %v", got)
	}
	if got := s.Frames(); got != 3 {
		t.Errorf("got %d frames, want 3", got)
	}
}

func TestSinkFencesOlderAttempts(t *testing.T) {
	s := memory.NewSink()
	com, w := open(t, s, connectors.WriteRequest{Attempt: 1})
	open(t, s, connectors.WriteRequest{Attempt: 2})
	if err := w.Write(t.Context(), batch(t, nil, 0, []any{"a", 1}), nil); fault.KindOf(err) != fault.Restart || err == nil {
		t.Errorf("Write: got error %v, want a restart error", err)
	}
	if err := com.Commit(t.Context(), 1, nil); err == nil {
		t.Error("an older attempt could commit")
	}
	if _, err := s.Open(t.Context(), connectors.WriteRequest{Attempt: 1}); err == nil {
		t.Error("an older attempt could open the sink")
	}
}

func TestSinkWait(t *testing.T) {
	s := memory.NewSink()
	_, w := open(t, s, connectors.WriteRequest{})
	done := make(chan error)
	go func() { done <- s.Wait(t.Context(), func(s *memory.Sink) bool { return len(s.Rows()) == 2 }) }()
	must(t, w.Write(t.Context(), batch(t, nil, 0, []any{"a", 1}), nil))
	must(t, w.Write(t.Context(), batch(t, nil, 0, []any{"b", 1}), nil))
	must(t, <-done)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, func(*memory.Sink) bool { return false }); err == nil {
		t.Error("Wait ignored the end of its context")
	}
}

func TestHub(t *testing.T) {
	h := memory.NewHub()
	c := h.Connector()
	opts := connectortest.Options(t, c.SourceOptions, "name", "in")
	if _, err := c.Source(t.Context(), connectors.SourceConfig{Options: opts}); err == nil || !strings.Contains(err.Error(), `no memory source "in"`) {
		t.Errorf("got error %v, want one that names the source", err)
	}
	src := memory.NewSource(schema)
	h.SetSource("in", src)
	got, err := c.Source(t.Context(), connectors.SourceConfig{Options: opts, Schema: schema})
	if err != nil || got != src {
		t.Errorf("got %v, %v, want the source that was set", got, err)
	}
	if _, err := c.Source(t.Context(), connectors.SourceConfig{Options: opts, Schema: messages.NewSchema()}); err == nil {
		t.Error("another schema was accepted")
	}
	made, err := c.Sink(t.Context(), connectors.SinkConfig{Options: connectortest.Options(t, c.SinkOptions, "name", "out", "max_rows", "2")})
	must(t, err)
	found, ok := h.Sink("out")
	if !ok || found != made {
		t.Fatalf("got %v, %v, want the sink that was made", found, ok)
	}
	_, w := open(t, found, connectors.WriteRequest{})
	must(t, w.Write(t.Context(), batch(t, nil, 0, []any{"a", 1}, []any{"a", 2}, []any{"a", 3}), nil))
	if diff := cmp.Diff(found.Rows(), [][]any{{"a", int32(2)}, {"a", int32(3)}}); diff != "" {
		t.Errorf("max_rows: got (-) differs from want (+):\n%s", diff)
	}
}
