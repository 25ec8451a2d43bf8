package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime"
)

// lifeStep carries out a step about the life of the query; done is false if it is
// about something else.
func (r *run) lifeStep(ctx context.Context, s step) (done bool, err error) {
	switch {
	case s.has("expect_query"):
		return true, r.stepQuery(s)
	case s.has("await_termination_ms"):
		return true, r.stepAwait(ctx, s)
	case s.has("expect_ids"):
		return true, r.stepIDs(ctx, s)
	case s.has("start_second_on_same_checkpoint"):
		return true, r.stepSecond(ctx, s)
	}
	return false, nil
}

// stepQuery compares whether the query runs and why it failed.
func (r *run) stepQuery(s step) error {
	var want struct {
		Active    bool    `json:"active"`
		Exception *string `json:"exception"`
	}
	if err := json.Unmarshal(s["expect_query"], &want); err != nil {
		return fmt.Errorf("runner: expect_query: %w", err)
	}
	over := []string{"stopped", "ended", "failed"}
	active := !slices.Contains(over, r.query.Status().State)
	if active != want.Active {
		return fmt.Errorf("the query is active: %v, want %v (%+v)", active, want.Active, r.query.Status())
	}
	err := r.query.Err()
	switch {
	case want.Exception == nil && err != nil && r.failure == nil:
		return fmt.Errorf("the query failed: %w", err)
	case want.Exception != nil && err == nil:
		return fmt.Errorf("the query has no error, want class %s", *want.Exception)
	case want.Exception != nil && !ofClass(runtime.Class(err), *want.Exception):
		return fmt.Errorf("the query's error is %w, want class %s", err, *want.Exception)
	}
	return nil
}

// awaitNothing is how long the runner waits for a query that is not to end.
const awaitNothing = 20 * time.Millisecond

// stepAwait waits for the end of the query. It is to end (true), to run on
// (false), or to have failed ("exception").
func (r *run) stepAwait(ctx context.Context, s step) error {
	wait := awaitNothing
	if string(s["expect"]) != "false" {
		wait = caseTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := r.query.Wait(ctx)
	var got string
	switch {
	case err == nil:
		got = "true"
	case errors.Is(err, context.DeadlineExceeded):
		got = "false"
	default:
		got = `"exception"`
	}
	if got != string(s["expect"]) {
		return fmt.Errorf("await termination: got %s (%w), want %s", got, err, s["expect"])
	}
	return nil
}

// stepIDs compares the ids of the query with those of another one, or with those
// it had before a restart.
func (r *run) stepIDs(ctx context.Context, s step) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	before, now := r.ids, [2]string{r.query.ID(), r.query.RunID()}
	r.ids = now
	if now[0] == "" || now[1] == "" {
		return fmt.Errorf("ids: got %q, want two that are not empty", now)
	}
	if strings.HasPrefix(s.text("expect_ids"), "same id, new run id") {
		if now[0] != before[0] || now[1] == before[1] {
			return fmt.Errorf("ids: got %q after %q, want the same id and a new run id", now, before)
		}
		return nil
	}
	other, err := r.session.SQL(r.c.SQL).WriteStream(ctx, runtime.Write{Name: "another", To: memory.NewSink(), Mode: r.c.OutputMode})
	if err != nil {
		return &engineError{err}
	}
	if err := errors.Join(other.ProcessAllAvailable(ctx), other.Stop(ctx)); err != nil {
		return &engineError{err}
	}
	if now[0] == other.ID() || now[1] == other.RunID() {
		return fmt.Errorf("ids: both queries have %q", now)
	}
	return nil
}

// stepSecond starts the query a second time while it runs.
func (r *run) stepSecond(ctx context.Context, s step) error {
	err := r.start(ctx)
	ee, ok := errors.AsType[*engineError](err)
	if !ok {
		return fmt.Errorf("second start: got %w, want %s", err, s.text("expect_error"))
	}
	if class := runtime.Class(ee.err); !ofClass(class, s.text("expect_error")) {
		return fmt.Errorf("second start: error class %q (%w), want %s", class, ee.err, s.text("expect_error"))
	}
	return nil
}

// failing is a memory source that fails once, when it reads a certain value.
type failing struct {
	*memory.Source
	name   string
	column int
	value  int32
	failed atomic.Bool
}

// newFailing makes the source of an option inject_failure.
func newFailing(c *conformanceCase, sources map[string]*memory.Source) (*failing, error) {
	o, _ := c.Options["inject_failure"].(map[string]any)
	var column string
	var value int32
	when, _ := o["when"].(string)
	if _, err := fmt.Sscanf(when, "%s = %d", &column, &value); err != nil {
		return nil, fmt.Errorf("runner: option inject_failure %v is not supported: %w", o, err)
	}
	if o["times"] != 1.0 || o["where"] != "before aggregation" {
		return nil, fmt.Errorf("runner: option inject_failure %v is not supported", o)
	}
	for name, src := range sources {
		if i := src.Schema().Index(column); i >= 0 {
			return &failing{Source: src, name: name, column: i, value: value}, nil
		}
	}
	return nil, fmt.Errorf("runner: option inject_failure: there is no column %s", column)
}

// source is the source of a table.
func (r *run) source(name string) connectors.Source {
	if r.failing != nil && r.failing.name == name {
		return r.failing
	}
	return r.sources[name]
}

// Open implements connectors.Source.
func (f *failing) Open(ctx context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	r, err := f.Source.Open(ctx, q)
	return &failingReader{Reader: r, f: f}, err
}

type failingReader struct {
	connectors.Reader
	f *failing
}

// Read implements connectors.Reader.
func (r *failingReader) Read(ctx context.Context, dst *connectors.Rows) error {
	if err := r.Reader.Read(ctx, dst); err != nil || dst.Len() == 0 {
		return err
	}
	if !slices.Contains(dst.Builder().Column(r.f.column).Int32s(), r.f.value) || r.f.failed.Swap(true) {
		return nil
	}
	return fault.New(fault.Restart, "failure injected at value %d", r.f.value)
}
