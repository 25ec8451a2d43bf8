package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/test/bench/load"
)

// upsertSQL keeps the newest count of each auction in a key-value bucket.
const upsertSQL = bidStreamSQL + `
CREATE SINK out WITH (connector = 'nats', url = '%[1]s', bucket = 'COUNTS', key = '{auction}', format = 'json', visibility = '%[2]s');
CREATE QUERY counts WITH (output_mode = 'update') AS INSERT INTO out SELECT auction, count(*) AS n FROM bids GROUP BY auction;
`

// upsertBenchmarks drain a full stream into a bucket.
func upsertBenchmarks() []benchmark {
	of := func(name, visibility, doc string) benchmark {
		return benchmark{name: "throughput/jetstream/kv/" + name, doc: doc, run: func(ctx context.Context, e *env) (*result, error) {
			return runUpserts(ctx, e, visibility)
		}}
	}
	return []benchmark{
		of("converges", "at_once", "counts per key of a full stream into a key-value bucket, 10,000 keys, changes at once"),
		of("per-epoch", "epoch", "the same, each epoch's last value per key, exactly once"),
	}
}

// upserted follows the values in a bucket. The sum of the counts says how many
// events they are of.
type upserted struct {
	visible
	counts map[string]int64
	sum    int64
}

func (u *upserted) take(m jetstream.Msg) {
	now := time.Now()
	if u.rows == 0 {
		u.first = now
	}
	n, err := trailingInt(m.Data())
	before, key := u.counts[m.Subject()], m.Subject()
	if err == nil && n < before {
		err = fmt.Errorf("%s went from %d back to %d", key, before, n)
	}
	if err != nil && u.err == nil {
		u.err = err
	}
	u.rows++
	u.last = now
	u.counts[key] = n
	before, u.sum = u.sum, u.sum+n-before
	if before < int64(u.want) && u.sum >= int64(u.want) {
		close(u.done)
	}
}

func runUpserts(ctx context.Context, e *env, visibility string) (*result, error) {
	st := &stage{}
	defer st.close()
	if err := st.open(ctx, e); err != nil {
		return nil, err
	}
	if _, err := st.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "COUNTS", Storage: jetstream.FileStorage}); err != nil {
		return nil, err
	}
	n := uint64(40_000 * e.duration.Seconds())
	if err := (jetStream{}).fill(ctx, st, n); err != nil {
		return nil, err
	}
	u := &upserted{visible: visible{rec: load.NewRecorder(1 << 62), want: n, done: make(chan struct{})}, counts: map[string]int64{}}
	if err := st.watch(ctx, "KV_COUNTS", &u.visible, u.take); err != nil {
		return nil, err
	}
	cfg := engineConfig{
		Dir: filepath.Join(e.dir, "state"), Script: fmt.Sprintf(upsertSQL, st.conn.ConnectedUrl(), visibility),
		Epoch: time.Second, Profile: e.profile, Name: e.bench.name + "/engine",
	}
	started := time.Now()
	r, err := st.drain(ctx, n, cfg)
	if err != nil {
		return nil, err
	}
	took := u.last.Sub(started) // the first value of an epoch is visible late
	r.RowsPerSecond = figure(float64(n) / took.Seconds())
	r.extra["writes"] = figure(u.rows)
	r.extra["writes_per_s"] = figure(float64(u.rows) / took.Seconds())
	return r, nil
}
