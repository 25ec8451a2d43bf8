package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/meter"
)

// shapeBenchmarks are loads of unusual shape: skew, stalls, many queries, many
// idle actors.
func shapeBenchmarks() []benchmark {
	all := []benchmark{
		{name: "skew/hot-key-50pct/100k", rate: 100_000, doc: "windowed count, half of the rows have the same key", run: runHotKey},
		{name: "skew/stalled-sink/10k", rate: 10_000, doc: "the sink blocks 100 ms every 5 s; memory must not grow and epochs must go on", run: runStalled},
		{name: "idle/10k-actors", doc: "10,000 subtasks that have nothing to do, CPU time of the measured seconds", run: runIdle},
	}
	for _, q := range []struct {
		queries int
		rate    int64
	}{{1, 1_000}, {10, 1_000}, {100, 1_000}, {1_000, 100}} {
		all = append(all, benchmark{
			name: fmt.Sprintf("queries/%s/%s", short(int64(q.queries)), short(q.rate)), rate: q.rate,
			doc: "so many queries, each of which filters the same source",
			run: crowd{q.queries, q.rate, true, func(i int) string {
				return fmt.Sprintf("CREATE QUERY q%d AS INSERT INTO out SELECT auction, price, ts FROM bids WHERE price %% 10 = %d;\n", i, i%10)
			}}.run,
		})
	}
	return append(all, benchmark{
		name: "queries/100/keyed", rate: 1_000, doc: "100 queries over the same source, each with a count for 1,000 text keys",
		run: crowd{100, 1_000, false, func(i int) string {
			return fmt.Sprintf("CREATE QUERY q%d WITH (output_mode = 'update') AS INSERT INTO out\n"+
				"SELECT concat('key', auction %% 1000) AS k, count(*) AS n FROM bids GROUP BY concat('key', auction %% 1000);\n", i)
		}}.run,
	})
}

func runHotKey(ctx context.Context, e *env) (*result, error) {
	g := newBids(10_000)
	g.hot = 512
	t := bidTrial(g)
	t.script, t.delay, t.rate, t.sink.Due = updateSQL, "1 SECOND", 100_000, dueOf(3)
	return measure(ctx, e, t)
}

func runStalled(ctx context.Context, e *env) (*result, error) {
	t := bidTrial(newBids(10_000))
	t.script, t.rate, t.sink.Due = statelessSQL, 10_000, dueOf(4)
	t.sink.StallEvery, t.sink.StallFor = 5*time.Second, 100*time.Millisecond
	return measure(ctx, e, t)
}

// crowd are many queries over one source.
type crowd struct {
	queries int
	rate    int64
	timed   bool // the third column is when the row was due
	sql     func(i int) string
}

func (c crowd) run(ctx context.Context, e *env) (*result, error) {
	t := bidTrial(newBids(10_000))
	var script strings.Builder
	for i := range c.queries {
		script.WriteString(c.sql(i))
	}
	t.script, t.rate, t.sink.Due = script.String(), c.rate, nil
	if c.timed { // a histogram for each writer, which counts as memory
		t.sink.Due = dueOf(2)
	}
	before, _, err := meter.Memory()
	if err != nil {
		return nil, err
	}
	r, err := measure(ctx, e, t)
	if err != nil {
		return nil, err
	}
	_, peak, err := meter.Memory()
	if err != nil {
		return nil, err
	}
	r.extra["kb_per_query"] = figure(float64(peak-before) / 1024 / float64(c.queries))
	return r, nil
}

// silent is a source with many partitions in which nothing happens.
type silent struct {
	schema     *messages.Schema
	partitions int
}

func (s *silent) Schema() *messages.Schema { return s.schema }

func (s *silent) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true}
}

func (s *silent) Partitions(context.Context) ([]string, error) {
	names := make([]string, s.partitions)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names, nil
}

func (s *silent) Open(context.Context, connectors.ReadRequest) (connectors.Reader, error) {
	return &silentReader{}, nil
}

type silentReader struct{ told bool }

func (r *silentReader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.Status = connectors.Status{State: connectors.CaughtUp}
	if !r.told {
		r.told = true
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *silentReader) Committed(context.Context, connectors.Offset) error { return nil }

func (r *silentReader) Close() error { return nil }

// runIdle starts graphs with 10,000 subtasks together and measures what they use
// while nothing comes.
func runIdle(ctx context.Context, e *env) (_ *result, err error) {
	const graphs, partitions = 10, 1_000
	schema, err := runtime.ParseSchema(bidColumns)
	if err != nil {
		return nil, err
	}
	s, err := runtime.Open(ctx, runtime.Config{Dir: e.dir + "/state"})
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	empty, _, err := meter.Memory()
	if err != nil {
		return nil, err
	}
	for i := range graphs {
		g := actors.NewGraph()
		src := g.Source("bids", actors.SourceSpec{
			Source: &silent{schema, partitions}, IdleTimeout: -1,
			Rows: func() (*connectors.Rows, error) { return connectors.NewRows(schema, nil, connectors.FailOnError), nil },
		})
		g.Sink("out", actors.SinkSpec{Sink: load.NewSink(load.SinkConfig{}), Schema: schema}, actors.Forward(src))
		if _, err := s.Run(ctx, fmt.Sprintf("idle%d", i), g); err != nil {
			return nil, err
		}
	}
	ended := make(chan error, 1)
	if err := waitUntil(ctx, time.Now().Add(e.warmup+5*time.Second), ended); err != nil {
		return nil, err
	}
	before, err := meter.Read()
	if err != nil {
		return nil, err
	}
	if err := waitUntil(ctx, before.At.Add(e.duration), ended); err != nil {
		return nil, err
	}
	after, err := meter.Read()
	if err != nil {
		return nil, err
	}
	now, _, err := meter.Memory()
	if err != nil {
		return nil, err
	}
	for _, q := range s.Queries() {
		if st := q.Status(); st.State != "running" {
			return nil, fmt.Errorf("query %s is %s: %s", q.Name(), st.State, st.Message)
		}
	}
	r := newResult()
	u := after.Since(before)
	r.extra["cpu_percent_of_a_core"] = figure(100 * u.CPU.Seconds() / u.Wall.Seconds())
	r.extra["kb_per_actor"] = figure(float64(now-empty) / 1024 / (graphs * partitions))
	return r, r.usage(u, 0)
}
