package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/test/bench/load"
)

// adoptionBenchmarks kill an engine that has published many rows since its last
// epoch. The next one has to find all of them in the output stream before it may
// publish a row.
func adoptionBenchmarks() []benchmark {
	var all []benchmark
	for _, rows := range []int64{0, 100_000, 1_000_000} {
		all = append(all, benchmark{
			name: "recovery/jetstream/" + short(rows) + "-row-tail", rate: adoptionRate,
			doc: "kill -9 of an engine, its rows visible at once and so many of them not in an epoch, until the first new row",
			run: func(ctx context.Context, e *env) (*result, error) { return runAdoption(ctx, e, uint64(rows)) },
		})
	}
	return all
}

// adoptionRate is the load that goes on while no engine runs.
const adoptionRate = 10_000

// rejoin follows an output stream across the death of an engine.
type rejoin struct {
	mu      sync.Mutex
	want    uint64        // rows at which reached is closed
	reached chan struct{} // made by expect
	rows    uint64
	armed   bool // an engine has been started again
	first   time.Time
	near    time.Time // the first row that is less than 10 ms late
	err     error
}

func (r *rejoin) take(m jetstream.Msg) {
	now := time.Now()
	due, err := trailingInt(m.Data())
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.err == nil {
		r.err = err
	}
	if r.rows++; r.rows == r.want {
		close(r.reached)
	}
	if !r.armed {
		return
	}
	if r.first.IsZero() {
		r.first = now
	}
	if r.near.IsZero() && now.UnixMicro()-due < 10_000 {
		r.near = now
	}
}

// expect waits until there are so many rows in all.
func (r *rejoin) expect(ctx context.Context, rows uint64) error {
	r.mu.Lock()
	r.want, r.reached = rows, make(chan struct{})
	if r.rows >= rows {
		close(r.reached)
	}
	reached := r.reached
	r.mu.Unlock()
	select {
	case <-reached:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func runAdoption(ctx context.Context, e *env, tail uint64) (*result, error) {
	st, j := &stage{}, jetStream{}
	defer st.close()
	if err := st.open(ctx, e); err != nil {
		return nil, err
	}
	if err := j.fill(ctx, st, tail); err != nil {
		return nil, err
	}
	seen := &rejoin{}
	if err := st.watch(ctx, "OUT", &visible{}, seen.take); err != nil {
		return nil, err
	}
	cfg := engineConfig{
		Dir: filepath.Join(e.dir, "state"), Epoch: time.Hour, Profile: e.profile, Name: e.bench.name + "/engine",
		Script: fmt.Sprintf(jetStreamSQL, st.conn.ConnectedUrl(), "exactly_once", "at_once"),
	}
	var err error
	if st.engine, err = startEngine(ctx, cfg); err != nil {
		return nil, err
	}
	if err := seen.expect(ctx, countKept(span{0, tail})); err != nil {
		return nil, err
	}
	st.engine.kill()
	killed := time.Now()
	events := span{tail, tail + uint64(adoptionRate*(e.warmup+e.duration).Seconds())}
	published := make(chan error, 1)
	go func() {
		start := killed.UnixMicro() - int64(tail)*1_000_000/adoptionRate // event tail is due now
		published <- j.publish(ctx, st, load.Schedule{Start: start, Rate: adoptionRate}, events)
	}()
	seen.mu.Lock()
	seen.armed = true
	seen.mu.Unlock()
	cfg.Epoch = time.Second
	if st.engine, err = startEngine(ctx, cfg); err != nil {
		return nil, err
	}
	if err := errors.Join(<-published, seen.expect(ctx, countKept(span{0, events.to}))); err != nil {
		return nil, err
	}
	ended, err := st.engine.reply("read")
	if err != nil {
		return nil, err
	}
	r, err := engineResult(ended, 0)
	if err != nil {
		return nil, err
	}
	r.EpochIntervalMs = figure(cfg.Epoch.Seconds() * 1000)
	r.extra["first_output_ms"] = figure(seen.first.Sub(killed).Seconds() * 1000)
	if !seen.near.IsZero() { // else the load ended before
		r.extra["caught_up_ms"] = figure(seen.near.Sub(killed).Seconds() * 1000)
	}
	r.extra["tail_rows"] = figure(countKept(span{0, tail}))
	return r, st.holds(ctx, "OUT", countKept(span{0, events.to}))
}

// holds checks how many messages a stream has.
func (st *stage) holds(ctx context.Context, stream string, want uint64) error {
	s, err := st.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	if got := s.CachedInfo().State.Msgs; got != want {
		return fmt.Errorf("stream %s holds %d messages, want %d", stream, got, want)
	}
	return nil
}
