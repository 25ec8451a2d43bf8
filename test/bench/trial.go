package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/meter"
)

// trial is a query over a load in this process.
type trial struct {
	// source is the load behind the table, bids if not named, with these columns.
	table   string
	columns string
	source  load.SourceConfig
	// delay is that of the watermark on column time, ts if not named; "" means no
	// watermark. timestamps is the format of instants in JSON, unix_us if not named.
	delay, time, timestamps string
	// script holds the queries; each inserts into the sink out.
	script string
	// encode makes the sink encode its rows as JSON.
	encode bool
	sink   load.SinkConfig
	// rate is how many rows are due per second; 0: flat out.
	rate int64
	// perEpoch makes the sink show rows when their epoch has committed.
	perEpoch bool
	epoch    time.Duration
}

// startDelay is how long before event 0 the gate is opened.
const startDelay = 20 * time.Millisecond

// eventRate is how many rows fall into a second of event time when rows come
// flat out.
const eventRate = 100_000

// flatBase is the event time of event 0 then, in microseconds since the Unix
// epoch.
const flatBase = 1_767_225_600_000_000

// runOf plans the load of a round from now on.
func runOf(e *env, rate int64) load.Run {
	if rate == 0 {
		return load.Run{FlatOut: true, Schedule: load.Schedule{Start: flatBase, Rate: eventRate}}
	}
	s := load.StartingIn(startDelay, rate)
	from := s.Start + e.warmup.Microseconds()
	return load.Run{Schedule: s, From: from, Until: from + e.duration.Microseconds()}
}

// watch collects what is reported about epochs.
type watch struct {
	mu     sync.Mutex
	gate   time.Time // when the gate was opened
	from   time.Time
	until  time.Time
	epochs []*runtime.Progress
}

func (w *watch) OnStarted(*runtime.Query) {}

func (w *watch) OnProgress(_ *runtime.Query, p *runtime.Progress) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.from.IsZero() && now.After(w.from) && (w.until.IsZero() || now.Before(w.until)) {
		w.epochs = append(w.epochs, p)
	}
}

func (w *watch) OnTerminated(*runtime.Query, error) {}

func (w *watch) opened() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = time.Now()
}

func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from = time.Now()
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Now()
}

// report adds what epochs cost: from marker to durable commit record.
func (w *watch) report(r *result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Epochs = int64(len(w.epochs))
	if len(w.epochs) == 0 {
		return
	}
	var took []float64
	var bytes int64
	for _, p := range w.epochs {
		took = append(took, float64(p.Checkpoint.DurationUs)/1000)
		bytes += p.Checkpoint.Bytes
	}
	slices.Sort(took)
	r.extra["marker_to_committed_p50_ms"] = figure(took[len(took)/2])
	r.extra["marker_to_committed_p99_ms"] = figure(took[len(took)*99/100])
	r.extra["marker_to_committed_max_ms"] = figure(took[len(took)-1])
	r.extra["checkpoint_kb_per_epoch"] = figure(float64(bytes) / float64(len(w.epochs)) / 1024)
}

// definitions are the statements that define the table and the sink out.
func (t *trial) definitions() string {
	watermark, format, encode := "", "", ""
	if t.delay != "" {
		column := cmp.Or(t.time, "ts")
		watermark = fmt.Sprintf(", WATERMARK FOR %[1]s AS %[1]s - INTERVAL %[2]s", column, t.delay)
	}
	if t.source.Payload != nil {
		format = ", format = 'json', timestamp_format = '" + cmp.Or(t.timestamps, "unix_us") + "'"
	}
	if t.encode {
		encode = ", format = 'json'"
	}
	if t.perEpoch {
		encode += ", guarantee = 'exactly_once', visibility = 'epoch'"
	}
	return fmt.Sprintf("CREATE SOURCE %s (%s%s) WITH (connector = 'load'%s);\nCREATE SINK out WITH (connector = 'load'%s);\n",
		cmp.Or(t.table, "bids"), t.columns, watermark, format, encode)
}

// measure runs a trial.
func measure(ctx context.Context, e *env, t trial) (_ *result, err error) {
	if t.epoch == 0 {
		t.epoch = time.Second
	}
	ends, w := load.NewEnds(t.source, t.sink), &watch{}
	s, err := runtime.Open(ctx, runtime.Config{
		Dir: filepath.Join(e.dir, "state"), Connectors: append(all.Connectors(), ends.Connector()), Formats: all.Formats(),
		Defaults: map[string]string{"epoch_interval": t.epoch.String()},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	s.AddListener(w)
	began := time.Now()
	if err := s.Exec(ctx, t.definitions()+t.script); err != nil {
		return nil, err
	}
	r, err := meterRun(ctx, e, t.rate, running{s, ends, w})
	if err != nil {
		return nil, err
	}
	rec, err := ends.Result()
	if err != nil {
		return nil, err
	}
	r.latencies(rec)
	r.extra["start_ms"] = figure(w.gate.Sub(began).Seconds() * 1000)
	r.EpochIntervalMs = figure(t.epoch.Seconds() * 1000)
	if t.sink.Due != nil && t.rate != 0 && r.Samples == 0 {
		return nil, fmt.Errorf("no result arrived (%d rows in, %d out)", ends.Made(), ends.Rows())
	}
	return r, nil
}

// running is what a trial has started.
type running struct {
	session *runtime.Session
	ends    *load.Ends
	watch   *watch
}

// meterRun opens the gate when every query waits there, meters the measured
// time and waits for the end.
func meterRun(ctx context.Context, e *env, rate int64, run running) (*result, error) {
	failed := make(chan error, 1)
	go func() { failed <- run.session.Wait(ctx) }()
	if err := run.ends.Gate.Await(ctx, len(run.session.Queries()), failed); err != nil {
		return nil, err
	}
	run.watch.opened()
	plan := runOf(e, rate)
	run.ends.Gate.Begin(plan)
	begin := time.Now().Add(startDelay + e.warmup)
	if err := waitUntil(ctx, begin, failed); err != nil {
		return nil, err
	}
	run.watch.begin()
	before, err := meter.Read()
	if err != nil {
		return nil, err
	}
	made := run.ends.Made()
	if err := waitUntil(ctx, begin.Add(e.duration), failed); err != nil {
		return nil, err
	}
	after, err := meter.Read()
	if err != nil {
		return nil, err
	}
	if err := e.heapProfile(); err != nil {
		return nil, err
	}
	run.watch.end()
	rows := run.ends.Made() - made
	if plan.FlatOut {
		run.ends.Stop()
	}
	if err := <-failed; err != nil { // the rest is processed
		return nil, err
	}
	r := newResult()
	run.watch.report(r)
	return r, r.usage(after.Since(before), rows)
}

// waitUntil waits for an instant. It fails early when the queries end with an
// error; when they have ended well, it goes on waiting.
func waitUntil(ctx context.Context, at time.Time, ended chan error) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	case err := <-ended:
		if err != nil {
			return err
		}
		ended <- nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// bidTrial returns a trial over the table bids.
func bidTrial(g *bids) trial {
	return trial{columns: bidColumns, source: load.SourceConfig{Fill: g.fill}}
}
