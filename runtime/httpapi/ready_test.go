package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/runtime/httpapi"
)

// awaySink is a sink that cannot be reached until back is closed; reached is closed
// when it is being waited for.
type awaySink struct {
	*memory.Sink
	reached, back chan struct{}
}

func (s *awaySink) Open(ctx context.Context, r connectors.WriteRequest) (connectors.Committer, error) {
	c, err := s.Sink.Open(ctx, r)
	return &awayCommitter{c, s, r.OnRetrying}, err
}

type awayCommitter struct {
	connectors.Committer
	s     *awaySink
	waits func(string)
}

func (c *awayCommitter) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
	c.waits("connection refused")
	close(c.s.reached)
	select {
	case <-c.s.back:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.waits("")
	return c.Committer.Recover(ctx, e, last)
}

// TestOneSinkThatIsAway: a query with several sinks of which one cannot be reached is
// not ready, and says which one it waits for; the process is healthy all the same.
func TestOneSinkThatIsAway(t *testing.T) {
	s, err := runtime.Open(t.Context(), runtime.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	schema, err := runtime.ParseSchema("ts TIMESTAMP")
	if err != nil {
		t.Fatal(err)
	}
	away := &awaySink{memory.NewSink(), make(chan struct{}), make(chan struct{})}
	for _, err := range []error{
		s.Register("src", memory.NewSource(schema), "ts", "0 seconds"), s.RegisterSink("out", memory.NewSink()), s.RegisterSink("behind", away),
		s.Exec(t.Context(), "CREATE QUERY q WITH (late_output = 'behind') AS INSERT INTO out SELECT window.start AS s, count(*) AS n FROM src GROUP BY window(ts, '1 second')"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h := httpapi.Handler(s)
	<-away.reached
	code, body := get(t, h, "localhost", "/readyz")
	for code == http.StatusServiceUnavailable && !strings.Contains(body, "refused") { // the report is on its way
		code, body = get(t, h, "localhost", "/readyz")
	}
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "behind") || !strings.Contains(body, "retrying: ") {
		t.Errorf("GET /readyz: %d, want 503 that names the sink:\n%s", code, body)
	}
	_, body = get(t, h, "localhost", "/metrics")
	for _, want := range []string{`streamd_query_state{query="q",state="retrying"} 1`, `streamd_query_state{query="q",state="running"} 0`} {
		if !strings.Contains(body, want) {
			t.Errorf("GET /metrics: no %s in:\n%s", want, body)
		}
	}
	if code, body := get(t, h, "localhost", "/healthz"); code != http.StatusOK {
		t.Errorf("GET /healthz: %d\n%s", code, body)
	}
	close(away.back)
	if err := s.Query("q").ProcessAllAvailable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, h, "localhost", "/readyz"); code != http.StatusOK {
		t.Errorf("GET /readyz when the sink is back: %d\n%s", code, body)
	}
}
