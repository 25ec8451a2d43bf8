package socket

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a TCP server for one client at a time.
type server struct {
	t testing.TB
	l net.Listener
}

func newServer(t testing.TB) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // closed by some tests
	return &server{t, l}
}

func (s *server) accept() net.Conn {
	s.t.Helper()
	c, err := s.l.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() }) // closed by some tests
	return c
}

func (s *server) send(c net.Conn, text string) {
	s.t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) config(clock connectors.Clock, keyValues ...string) connectors.SourceConfig {
	host, port, err := net.SplitHostPort(s.l.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	return connectors.SourceConfig{
		Options: connectortest.Options(s.t, Connector().SourceOptions, append([]string{"host", host, "port", port}, keyValues...)...),
		Env:     connectors.Env{Clock: clock},
	}
}

func (s *server) open(c connectors.SourceConfig, d format.Decoder, policy connectors.OnError) *connectortest.Collector {
	s.t.Helper()
	src, err := Connector().Source(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := connectortest.Open(s.t.Context(), src, connectors.ReadRequest{Partition: s.l.Addr().String(), MaxRows: 100}, d, policy)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return r
}

func until(t *testing.T, r *connectortest.Collector, done func(*connectortest.Collector) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.ReadUntil(ctx, done); err != nil {
		t.Fatalf("after %d rows, status %+v: %v", len(r.Records), r.Status, err)
	}
}

func rows(n int) func(*connectortest.Collector) bool {
	return func(r *connectortest.Collector) bool { return len(r.Records) >= n }
}

func state(s connectors.State) func(*connectortest.Collector) bool {
	return func(r *connectortest.Collector) bool { return r.Status.State == s }
}

func TestLinesBecomeRowsAndTheConnectionComesBack(t *testing.T) {
	s := newServer(t)
	clock := connectortest.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	r := s.open(s.config(clock), nil, 0)
	c := s.accept()
	until(t, r, state(connectors.CaughtUp))
	s.send(c, "one\r\ntwo\n\nhalf")
	until(t, r, rows(3))
	s.send(c, " a line\nlast")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, r, state(connectors.Retrying))
	if !strings.Contains(r.Status.Reason, "closed the connection; connecting again in 100ms") {
		t.Errorf("got reason %q", r.Status.Reason)
	}
	clock.Blocked(1)
	clock.Advance(100 * time.Millisecond)
	s.send(s.accept(), "again\n")
	until(t, r, rows(6))
	if diff := cmp.Diff(r.Rows(), [][]any{{"one"}, {"two"}, {""}, {"half a line"}, {"last"}, {"again"}}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
	if got := r.Records[0].Arrival; got != messages.EventTimeOf(clock.Now().Add(-100*time.Millisecond)) {
		t.Errorf("got arrival %v, want the time of the read", got)
	}
	if got := string(r.Offsets[len(r.Offsets)-1]); got != `{"line":6}` {
		t.Errorf("got offset %s", got)
	}
}

func TestPausesGrowWhileTheServerIsAway(t *testing.T) {
	s := newServer(t)
	clock := connectortest.NewClock(time.Now())
	cfg := s.config(clock)
	if err := s.l.Close(); err != nil {
		t.Fatal(err)
	}
	r := s.open(cfg, nil, 0)
	for _, pause := range []string{"100ms", "200ms", "400ms", "800ms", "1.6s", "3.2s", "6.4s", "10s", "10s"} {
		until(t, r, func(r *connectortest.Collector) bool {
			return strings.HasSuffix(r.Status.Reason, "connecting again in "+pause)
		})
		d, err := time.ParseDuration(pause)
		if err != nil {
			t.Fatal(err)
		}
		clock.Blocked(1)
		clock.Advance(d)
		r.Status = connectors.Status{}
	}
}

func TestBlockedReadAndCloseReturn(t *testing.T) {
	s := newServer(t)
	r := s.open(s.config(connectortest.SystemClock{}), nil, 0)
	s.accept()
	until(t, r, state(connectors.CaughtUp))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Read(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want context.Canceled", err)
	}
}

func TestBadLines(t *testing.T) {
	send := "good\n\xff\n" + strings.Repeat("x", 100_000) + "\nlast\n"
	t.Run("dropped", func(t *testing.T) {
		s := newServer(t)
		r := s.open(s.config(connectortest.SystemClock{}, "max_record_size", "1000"), nil, connectors.DeadLetter)
		s.send(s.accept(), send)
		until(t, r, rows(2))
		if diff := cmp.Diff(r.Rows(), [][]any{{"good"}, {"last"}}); diff != "" {
			t.Errorf("got (-) differs from want (+):\n%s", diff)
		}
		if len(r.Bad) != 2 || string(r.Bad[0].Payload) != "\xff" || !strings.Contains(r.Bad[1].Cause.Error(), "longer than max_record_size (1000 bytes)") {
			t.Errorf("got bad records %+v, want the invalid and the long line", r.Bad)
		}
	})
	t.Run("failing", func(t *testing.T) {
		s := newServer(t)
		r := s.open(s.config(connectortest.SystemClock{}), nil, connectors.FailOnError)
		s.send(s.accept(), send)
		err := r.ReadUntil(t.Context(), rows(5))
		if fault.KindOf(err) != fault.BadRow || err == nil || !strings.Contains(err.Error(), "line 1: bad record \"\\xff\"") {
			t.Errorf("got error %v, want a bad row error that names the line", err)
		}
	})
}

func TestFormats(t *testing.T) {
	s := newServer(t)
	schema := messages.NewSchema(messages.Field{Name: "n", Type: messages.T(messages.BigInt)})
	c := s.config(connectortest.SystemClock{})
	c.Schema = schema
	if _, err := Connector().Source(t.Context(), c); fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "add format") {
		t.Errorf("without a format: got error %v, want a config error", err)
	}
	d, err := json.Format().Decoder(format.Config{Schema: schema, Options: connectortest.Options(t, json.Format().Options)})
	if err != nil {
		t.Fatal(err)
	}
	c.Decoder = func() (format.Decoder, error) { return d, nil }
	r := s.open(c, d, 0)
	s.send(s.accept(), "{\"n\":1}\n\n{\"n\":2}\n")
	until(t, r, rows(2))
	if diff := cmp.Diff(r.Rows(), [][]any{{int64(1)}, {int64(2)}}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestASocketHasNoEnd(t *testing.T) {
	s := newServer(t)
	src, err := Connector().Source(t.Context(), s.config(connectortest.SystemClock{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Open(t.Context(), connectors.ReadRequest{Bounded: true}); fault.KindOf(err) != fault.Config || err == nil {
		t.Errorf("got error %v, want a config error", err)
	}
	if tr := src.Traits(); tr.Replayable || tr.BrokerTime {
		t.Errorf("got traits %+v, want neither replayable nor with broker time", tr)
	}
}
