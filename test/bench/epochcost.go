package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/test/bench/load"
)

// totalsSQL counts per key without end: state that only grows. due is when the
// row was due that caused the change.
const totalsSQL = `CREATE QUERY counts WITH (output_mode = 'update') AS INSERT INTO out
SELECT auction, count(*) AS n, max(ts) AS due FROM bids GROUP BY auction`

// never is an epoch interval that no benchmark reaches.
const never = time.Hour

// prefilled is a load that first makes a row for each of so many keys.
type prefilled struct {
	*bids
	of   uint64
	pick func(i uint64) uint64 // the key of event i behind them
}

func (g *prefilled) fill(b *messages.Builder, i uint64, due int64) {
	key := i
	if i >= g.of {
		key = g.pick(i - g.of)
	}
	b.Column(0).AppendInt64(int64(key))
	b.Column(1).AppendInt64(int64(i))
	b.Column(2).AppendInt64(1)
	b.Column(3).AppendString(g.channels[i&3])
	b.Column(4).AppendString(g.urls[i&3])
	b.Column(5).AppendInt64(due)
}

// uniform picks any key.
func uniform(keys uint64) func(uint64) uint64 {
	return func(i uint64) uint64 { return load.Hash(i) % keys }
}

// inTurn picks one key after the other.
func inTurn(keys uint64) func(uint64) uint64 { return func(i uint64) uint64 { return i % keys } }

// zipf picks low keys much more often: key k with a probability that falls with
// k to the power 1.1. The keys are scattered over the key groups by their hash.
func zipf(keys uint64) func(uint64) uint64 {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, keys-1)
	table := make([]uint32, 1<<20)
	for i := range table {
		table[i] = uint32(z.Uint64())
	}
	return func(i uint64) uint64 { return uint64(table[load.Hash(i)>>44]) }
}

// epochCost is what checkpoints of a large state do to latency and throughput.
type epochCost struct {
	keys  uint64
	rate  int64
	epoch time.Duration
	pick  func(keys uint64) func(uint64) uint64
}

func (c epochCost) run(ctx context.Context, e *env) (*result, error) {
	g := &prefilled{bids: newBids(c.keys), of: c.keys, pick: c.pick(c.keys)}
	t := trial{columns: bidColumns, source: load.SourceConfig{Fill: g.fill, Prefill: c.keys}, script: totalsSQL, epoch: c.epoch, rate: c.rate}
	t.sink.Due = dueOf(2)
	return measure(ctx, e, t)
}

// epochBenchmarks measure with 1 M keys of state.
func epochBenchmarks() []benchmark {
	const keys = 1_000_000
	paced := func(name, doc string, c epochCost) benchmark {
		return benchmark{name: "epochs/1M-keys/" + name, doc: doc, rate: c.rate, run: c.run}
	}
	return []benchmark{
		paced("uniform/1s-epochs/100k", "about 10 % of 1 M keys change in each epoch", epochCost{keys, 100_000, time.Second, uniform}),
		paced("uniform/100ms-epochs/100k", "about 1 % of 1 M keys change in each epoch", epochCost{keys, 100_000, 100 * time.Millisecond, uniform}),
		paced("uniform/no-epochs/100k", "the same load without epochs", epochCost{keys, 100_000, never, uniform}),
		paced("zipf/1s-epochs/100k", "keys by Zipf's law, exponent 1.1", epochCost{keys, 100_000, time.Second, zipf}),
		paced("all-dirty/4s-epochs/250k", "every one of 1 M keys changes in each epoch", epochCost{keys, 250_000, 4 * time.Second, inTurn}),
		paced("all-dirty/no-epochs/250k", "the same load without epochs", epochCost{keys, 250_000, never, inTurn}),
		paced("uniform/1s-epochs/flat-out", "throughput with epochs", epochCost{keys, 0, time.Second, uniform}),
		paced("uniform/no-epochs/flat-out", "throughput without epochs", epochCost{keys, 0, never, uniform}),
	}
}

// committedBenchmarks measure until the epoch that holds a row is durable and
// its rows may be shown.
func committedBenchmarks() []benchmark {
	var all []benchmark
	for _, epoch := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		all = append(all, benchmark{
			name: "committed/stateless/" + millis(epoch) + "-epochs/10k", rate: 10_000,
			doc: "filter and projection, latency until the row's epoch has committed",
			run: func(ctx context.Context, e *env) (*result, error) {
				t := bidTrial(newBids(10_000))
				t.script, t.rate, t.sink.Due, t.perEpoch, t.epoch = statelessSQL, 10_000, dueOf(4), true, epoch
				return measure(ctx, e, t)
			},
		})
	}
	return all
}
