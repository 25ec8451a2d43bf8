package main

import (
	"context"
	"fmt"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/nexmark"
)

// nexmarkBenchmarks run the queries of the Nexmark benchmark flat out. Rows are
// events of all kinds, of which 92 % are bids.
func nexmarkBenchmarks() []benchmark {
	var all []benchmark
	for _, format := range []string{"rows", "json"} {
		asJSON := format == "json"
		all = append(all, flat("nexmark/nothing/"+format+"/in-order", "events of another kind only: generator and source, which are part of the figures below",
			runNexmark(nexmark.Query{Mode: "append", SQL: "SELECT event_type, dateTime FROM events WHERE event_type > 2"}, 1, asJSON)))
		for _, q := range nexmark.Queries() {
			all = append(all,
				flat(fmt.Sprintf("nexmark/%s/%s/in-order", q.Name, format), q.Doc, runNexmark(q, 1, asJSON)),
				flat(fmt.Sprintf("nexmark/%s/%s/disorder-1000", q.Name, format), q.Doc+", events out of order within 1000", runNexmark(q, 1000, asJSON)))
		}
	}
	return all
}

func runNexmark(q nexmark.Query, group uint64, asJSON bool) func(context.Context, *env) (*result, error) {
	return func(ctx context.Context, e *env) (*result, error) {
		g := nexmark.New(nexmark.Config{Base: flatBase, Rate: eventRate, Group: group})
		t := trial{
			table: "events", timestamps: "unix_ms", columns: nexmark.Columns, time: "dateTime", delay: "4 SECONDS",
			script: nexmark.Views + fmt.Sprintf("CREATE QUERY q WITH (output_mode = '%s') AS INSERT INTO out %s", q.Mode, q.SQL),
		}
		if asJSON {
			t.source.Payload = func(dst []byte, i uint64, _ int64) []byte { return g.Event(i).AppendJSON(dst) }
		} else {
			t.source.Fill = func(b *messages.Builder, i uint64, _ int64) { g.Event(i).Append(b) }
		}
		t.sink = load.SinkConfig{}
		return measure(ctx, e, t)
	}
}
