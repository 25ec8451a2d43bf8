package main

import (
	"context"
	"fmt"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/test/bench/load"
)

// statelessSQL keeps 90 % of the rows and projects five columns of six.
const statelessSQL = "INSERT INTO out SELECT auction, bidder, price * 2 AS price, url, ts FROM bids WHERE price % 10 <> 0"

// updateSQL shows every change of a count at once; due is when the row that
// caused it was.
const updateSQL = `CREATE QUERY counts WITH (output_mode = 'update') AS INSERT INTO out
SELECT auction, window.start AS start, count(*) AS n, max(ts) AS due FROM bids GROUP BY auction, window(ts, '1 second')`

// appendSQL shows the counts of a window when it has closed.
const appendSQL = `CREATE QUERY counts WITH (output_mode = 'append') AS INSERT INTO out
SELECT auction, window.end AS closed, count(*) AS n FROM bids GROUP BY auction, window(ts, '1 second')`

// latencyBenchmarks measure single queries under a paced load.
func latencyBenchmarks() []benchmark {
	var all []benchmark
	for _, rate := range []int64{1_000, 10_000, 100_000, 500_000} {
		all = append(all, benchmark{
			name: "stateless/" + short(rate), rate: rate, doc: "filter and projection, in process, latency from due time to sink",
			run: func(ctx context.Context, e *env) (*result, error) {
				t := bidTrial(newBids(10_000))
				t.script, t.rate, t.sink.Due = statelessSQL, rate, dueOf(4)
				return measure(ctx, e, t)
			},
		})
	}
	for _, keys := range []int64{10_000, 1_000_000} {
		for _, rate := range []int64{1_000, 10_000, 100_000} {
			all = append(all, keyedUpdate(keys, rate), keyedAppend(keys, rate))
		}
	}
	return all
}

func keyedUpdate(keys, rate int64) benchmark {
	return benchmark{
		name: fmt.Sprintf("keyed/update/%s-keys/%s", short(keys), short(rate)), rate: rate,
		doc: "count per key and 1-second window, changes shown at once, latency from the row's due time",
		run: func(ctx context.Context, e *env) (*result, error) {
			t := bidTrial(newBids(uint64(keys)))
			t.script, t.delay, t.rate, t.sink.Due = updateSQL, "1 SECOND", rate, dueOf(3)
			return measure(ctx, e, t)
		},
	}
}

func keyedAppend(keys, rate int64) benchmark {
	return benchmark{
		name: fmt.Sprintf("keyed/append/%s-keys/%s", short(keys), short(rate)), rate: rate,
		doc: "count per key and 1-second window, shown when closed, latency from the ideal closing instant",
		run: func(ctx context.Context, e *env) (*result, error) {
			t := bidTrial(newBids(uint64(keys)))
			t.script, t.delay, t.rate = appendSQL, "0 SECONDS", rate
			// A window closes with the first row whose event time, which is its due
			// time, is at the window's end or later.
			t.sink.Due = func(b *messages.Batch, i int, r *load.Run) int64 {
				return r.Schedule.FirstFrom(b.Column(1).Int64s()[i])
			}
			return measure(ctx, e, t)
		},
	}
}

// short writes 10000 as 10k.
func short(n int64) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1_000 && n%1_000 == 0:
		return fmt.Sprintf("%dk", n/1_000)
	}
	return fmt.Sprint(n)
}

// millis writes an interval as part of a name.
func millis(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}
