package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/channels"
	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/meter"
)

// pacingBenchmarks are the paced load without an engine: the least that waking up
// for every row costs on a machine, and how late the load itself is.
func pacingBenchmarks() []benchmark {
	var all []benchmark
	for _, rate := range []int64{1_000, 10_000, 100_000} {
		all = append(all, benchmark{
			name: "pacing/" + short(rate), rate: rate, run: runGenerator(rate),
			doc: "the paced load read by a loop, without an engine: what is below the figures of stateless/" + short(rate),
		})
	}
	return append(all, benchmark{
		name: "pacing/jetstream/10k", rate: 10_000, run: withoutEngine,
		doc: "the paced load published to a stream and read back, without an engine: what is below the figures of jetstream/at-once/1s-epochs/10k",
	})
}

// throughputBenchmarks take rows as fast as they go.
func throughputBenchmarks() []benchmark {
	return []benchmark{
		flat("throughput/generator", "the generator of the in-process load alone, which is part of the figures below", runGenerator(0)),
		flat("throughput/stateless/rows", "filter and projection over rows made in process", flatBids(statelessSQL, "", 10_000)),
		flat("throughput/keyed/update/10k-keys/rows", "windowed count, changes at once", flatBids(updateSQL, "1 SECOND", 10_000)),
		flat("throughput/keyed/update/1M-keys/rows", "windowed count, changes at once", flatBids(updateSQL, "1 SECOND", 1_000_000)),
		flat("throughput/keyed/append/10k-keys/rows", "windowed count, shown when closed", flatBids(appendSQL, "1 SECOND", 10_000)),
		flat("throughput/keyed/append/1M-keys/rows", "windowed count, shown when closed", flatBids(appendSQL, "1 SECOND", 1_000_000)),
		flat("throughput/stateless/json-in", "JSON bytes decoded, filtered and projected", flatJSON(false)),
		flat("throughput/stateless/json-in-out", "JSON bytes decoded, filtered, projected and encoded as JSON", flatJSON(true)),
	}
}

func flat(name, doc string, run func(context.Context, *env) (*result, error)) benchmark {
	return benchmark{name: name, doc: doc, run: run}
}

func flatBids(script, delay string, keys uint64) func(context.Context, *env) (*result, error) {
	return func(ctx context.Context, e *env) (*result, error) {
		t := bidTrial(newBids(keys))
		t.script, t.delay = script, delay
		return measure(ctx, e, t)
	}
}

// flatJSON feeds bytes; with encode, the sink makes bytes of the rows too.
func flatJSON(encode bool) func(context.Context, *env) (*result, error) {
	return func(ctx context.Context, e *env) (*result, error) {
		t := bidTrial(nil)
		t.source.Fill, t.source.Payload = nil, newBids(10_000).json
		t.script, t.encode = statelessSQL, encode
		return measure(ctx, e, t)
	}
}

// runGenerator reads the load without a query. Paced, its latency is how late
// the load itself is on this machine.
func runGenerator(rate int64) func(context.Context, *env) (*result, error) {
	return func(ctx context.Context, e *env) (*result, error) {
		schema, err := runtime.ParseSchema(bidColumns)
		if err != nil {
			return nil, err
		}
		t, plan := bidTrial(newBids(10_000)), runOf(e, rate)
		t.source.Schema, t.source.Gate = schema, load.NewGate()
		t.source.Gate.Begin(plan)
		r, err := load.NewSource(t.source).Open(ctx, connectors.ReadRequest{MaxRows: 1024})
		if err != nil {
			return nil, err
		}
		rows, rec := connectors.NewRows(schema, nil, connectors.FailOnError), load.NewRecorder(plan.From)
		res, err := measureLoop(e, func() (uint64, error) {
			rows.Reset()
			err := r.Read(ctx, rows)
			b := rows.Finish()
			if b == nil { // the reader reports that it waits at the gate
				return 0, err
			}
			defer b.Release()
			if rate > 0 {
				now := time.Now().UnixMicro()
				for _, due := range b.Column(5).Int64s() {
					rec.Record(due, now)
				}
			}
			return uint64(b.Rows()), ignoreEOF(err)
		})
		if err != nil {
			return nil, err
		}
		res.latencies(rec)
		return res, r.Close()
	}
}

// ignoreEOF drops the end of the load, which measureLoop does not care about.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// measureLoop calls step, which processes some rows, over and over.
func measureLoop(e *env, step func() (rows uint64, err error)) (*result, error) {
	until := func(end time.Time) (rows uint64, err error) {
		for time.Now().Before(end) {
			n, err := step()
			if err != nil {
				return 0, err
			}
			rows += n
		}
		return rows, nil
	}
	if _, err := until(time.Now().Add(e.warmup)); err != nil {
		return nil, err
	}
	before, err := meter.Read()
	if err != nil {
		return nil, err
	}
	rows, err := until(before.At.Add(e.duration))
	if err != nil {
		return nil, err
	}
	after, err := meter.Read()
	if err != nil {
		return nil, err
	}
	r := newResult()
	return r, r.usage(after.Since(before), rows)
}

// channelBenchmarks are the same queries as plain Go: a lower bound.
func channelBenchmarks() []benchmark {
	return []benchmark{
		flat("throughput/channels/stateless/rows", "filter and projection with goroutines and channels only, no engine", runChannels(channels.Stateless)),
		flat("throughput/channels/keyed/update/10k-keys/rows", "windowed count with goroutines and channels only, no engine", runChannels(channels.Keyed)),
	}
}

func runChannels(start func(channels.Config) *channels.Pipeline) func(context.Context, *env) (*result, error) {
	return func(ctx context.Context, e *env) (*result, error) {
		p := start(channels.Config{Fill: newBids(10_000).row, Schedule: runOf(e, 0).Schedule})
		defer p.Stop()
		return measureFor(ctx, e, p.Made)
	}
}

// measureFor meters something that runs by itself; made counts its rows.
func measureFor(ctx context.Context, e *env, made func() uint64) (*result, error) {
	ended := make(chan error, 1)
	if err := waitUntil(ctx, time.Now().Add(e.warmup), ended); err != nil {
		return nil, err
	}
	before, err := meter.Read()
	if err != nil {
		return nil, err
	}
	rows := made()
	if err := waitUntil(ctx, before.At.Add(e.duration), ended); err != nil {
		return nil, err
	}
	after, err := meter.Read()
	if err != nil {
		return nil, err
	}
	r := newResult()
	return r, r.usage(after.Since(before), made()-rows)
}
