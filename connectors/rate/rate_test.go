package rate_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/rate"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newSource(t testing.TB, clock connectors.Clock, keyValues ...string) connectors.Source {
	t.Helper()
	c := rate.Connector()
	s, err := c.Source(t.Context(), connectors.SourceConfig{
		Options: connectortest.Options(t, c.SourceOptions, keyValues...), Env: connectors.Env{Clock: clock},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, s connectors.Source, q connectors.ReadRequest) *connectortest.Collector {
	t.Helper()
	q.MaxRows = 100
	r, err := connectortest.Open(t.Context(), s, q, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestContract(t *testing.T) {
	// The clock stands still, so a source made anew finds the same rows only if it
	// goes on from an offset; a fresh one has the row due at once.
	clock := connectortest.NewClock(start)
	connectortest.Source(t, connectortest.SourceCase{
		New:  func(t testing.TB) connectors.Source { return newSource(t, clock, "rows_per_second", "10") },
		Want: map[string][][]any{"0": {{start, int64(0)}}},
	})
}

func TestRowsComeWhenTheyAreDue(t *testing.T) {
	clock := connectortest.NewClock(start)
	r := read(t, newSource(t, clock, "rows_per_second", "4", "partitions", "2"), connectors.ReadRequest{Partition: "1"})
	if err := r.Read(t.Context()); err != nil || len(r.Records) != 0 || r.Status.State != connectors.CaughtUp {
		t.Fatalf("at the start: %v, %d rows, status %+v, want no row of partition 1 and caught up", err, len(r.Records), r.Status)
	}
	done := make(chan error)
	go func() { done <- r.Read(t.Context()) }()
	clock.Blocked(1)
	clock.Advance(200 * time.Millisecond)
	select {
	case err := <-done:
		t.Fatalf("the reader returned %v before a row was due", err)
	default:
	}
	clock.Advance(time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := [][]any{{start.Add(250 * time.Millisecond), int64(1)}, {start.Add(750 * time.Millisecond), int64(3)}}
	if diff := cmp.Diff(r.Rows(), want); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
	if got := r.Records[0].Arrival; got != messages.EventTimeOf(start.Add(250*time.Millisecond)) {
		t.Errorf("got arrival %v, want the time at which the row was due", got)
	}
}

func TestAResumedSourceMakesTheSameRows(t *testing.T) {
	clock := connectortest.NewClock(start)
	first := read(t, newSource(t, clock, "rows_per_second", "3", "ramp_up", "2s"), connectors.ReadRequest{Partition: "0"})
	if err := first.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Advance(5 * time.Second)
	if err := first.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	// 3 rows/s after a ramp of 2 s in which 3 rows are due: 3 + 3*3, and row 0.
	if got := len(first.Records); got != 13 {
		t.Errorf("got %d rows after 5 s, want 13", got)
	}
	for i, rec := range first.Records[1:] {
		if rec.Arrival <= first.Records[i].Arrival {
			t.Errorf("row %d is due at %v, not behind %v", i+1, rec.Arrival, first.Records[i].Arrival)
		}
	}
	second := read(t, newSource(t, clock, "rows_per_second", "3", "ramp_up", "2s"), connectors.ReadRequest{Partition: "0", From: first.Offsets[0], Bounded: true})
	if err := second.ReadAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(second.Records, first.Records[1:]); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestOtherPartitionsAreRefused(t *testing.T) {
	clock := connectortest.NewClock(start)
	r := read(t, newSource(t, clock), connectors.ReadRequest{Partition: "0"})
	if err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := newSource(t, clock, "partitions", "2").Open(t.Context(), connectors.ReadRequest{Partition: "0", From: r.Offsets[0]})
	if fault.KindOf(err) != fault.Config || err == nil {
		t.Errorf("got error %v, want a config error", err)
	}
}

func TestSchema(t *testing.T) {
	c := rate.Connector()
	for _, tc := range []struct {
		field messages.Field
		ok    bool
	}{
		{messages.Field{Name: "Value", Type: messages.T(messages.BigInt)}, true},
		{messages.Field{Name: "value", Type: messages.T(messages.String)}, false},
		{messages.Field{Name: "other", Type: messages.T(messages.BigInt)}, false},
	} {
		_, err := c.Source(t.Context(), connectors.SourceConfig{Options: connectortest.Options(t, c.SourceOptions), Schema: messages.NewSchema(tc.field)})
		if (err == nil) != tc.ok {
			t.Errorf("column %s %s: got error %v, want ok = %v", tc.field.Name, tc.field.Type, err, tc.ok)
		}
	}
}

func TestHighRatesNeedNoTimerPerRow(t *testing.T) {
	clock := connectortest.NewClock(start)
	s := newSource(t, clock, "rows_per_second", "1000000")
	r := read(t, s, connectors.ReadRequest{Partition: "0"})
	if err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Millisecond)
	if err := r.ReadUntil(t.Context(), func(r *connectortest.Collector) bool { return len(r.Records) == 1001 }); err != nil {
		t.Fatal(err)
	}
	if got := string(r.Offsets[len(r.Offsets)-1]); got != `{"start":`+strconv.FormatInt(start.UnixMicro(), 10)+`,"partitions":1,"next":1001}` {
		t.Errorf("got offset %s", got)
	}
}
