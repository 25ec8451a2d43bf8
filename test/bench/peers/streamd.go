package main

import (
	"context"
	"os"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/load"
)

// The definitions and the two queries. Checkpoints are on disk, every second.
const (
	definitions = `CREATE SOURCE bids (auction BIGINT, bidder BIGINT, price BIGINT, url STRING, extra STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS)
WITH (connector = 'load', format = 'json', timestamp_format = 'unix_us');
CREATE SINK out WITH (connector = 'load', format = 'json');
`
	filterSQL = "INSERT INTO out SELECT auction, bidder, price * 2 AS price, url, ts FROM bids WHERE price % 10 <> 0"
	countSQL  = "INSERT INTO out SELECT auction, window.start AS start, count(*) AS n FROM bids GROUP BY auction, window(ts, '1 second')"
)

func runStreamd(ctx context.Context, o options, j job) (_ *result, err error) {
	dir, err := os.MkdirTemp("", "streamd-peers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for temporary files
	script, sink := definitions+filterSQL, load.SinkConfig{}
	if j.Keyed {
		script = definitions + countSQL
	} else if j.Rate > 0 {
		sink.Due = func(b *messages.Batch, i int, _ *load.Run) int64 { return b.Column(4).Int64s()[i] }
	}
	ends := load.NewEnds(load.SourceConfig{Payload: payload}, sink)
	s, err := runtime.Open(ctx, runtime.Config{Dir: dir, Connectors: append(all.Connectors(), ends.Connector()), Formats: all.Formats()})
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	if err := s.Exec(ctx, script); err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Wait(ctx) }()
	if err := ends.Gate.Await(ctx, 1, failed); err != nil {
		return nil, err
	}
	p := plan(o, j)
	ends.Gate.Begin(p)
	r, err := metered(ctx, o, ends.Made, failed)
	if err != nil {
		return nil, err
	}
	if p.FlatOut {
		ends.Stop()
	}
	if err := <-failed; err != nil {
		return nil, err
	}
	rec, err := ends.Result()
	if err != nil {
		return nil, err
	}
	r.latencies(rec)
	return r, nil
}
