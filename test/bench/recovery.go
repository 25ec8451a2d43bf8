package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/load"
)

// recoveryBenchmarks kill a process with a large state and measure how long it
// takes until a new one gives the first right result.
func recoveryBenchmarks() []benchmark {
	var all []benchmark
	for _, keys := range []int64{0, 100_000, 1_000_000, 5_000_000} {
		all = append(all, benchmark{
			name: "recovery/" + short(keys) + "-keys", rate: recoveryRate,
			doc: "kill -9 under load, a new process, until the first result, which must be right",
			run: func(ctx context.Context, e *env) (*result, error) { return runRecovery(ctx, e, uint64(max(keys, 1))) },
		})
	}
	return all
}

// recoveryRate is the load under which the process is killed.
const recoveryRate = 20_000

// victimConfig is what the role victim runs.
type victimConfig struct {
	Dir   string
	Keys  uint64
	Start int64 // of the schedule; it goes on while no process runs
}

// What a victim says.
const (
	sayOpen      = "open"      // the session has been opened
	sayCommitted = "committed" // an epoch with all keys is durable
	sayFirst     = "first"     // the first result has come, and is right
	sayCaughtUp  = "caught up" // results are less than 10 ms late
	sayWrong     = "wrong"     // followed by what is wrong
)

func runRecovery(ctx context.Context, e *env, keys uint64) (*result, error) {
	cfg := victimConfig{Dir: filepath.Join(e.dir, "state"), Keys: keys, Start: time.Now().UnixMicro()}
	v, err := startVictim(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { v.kill() }()
	// Two epochs behind the one that holds all keys, so that the kill finds deltas.
	for range 3 {
		if err := v.until(sayCommitted); err != nil {
			return nil, err
		}
	}
	v.kill()
	killed := time.Now()
	if v, err = startVictim(ctx, cfg); err != nil {
		return nil, err
	}
	r := newResult()
	for _, step := range []struct{ said, figure string }{{sayOpen, "session_open_ms"}, {sayFirst, "first_output_ms"}, {sayCaughtUp, "caught_up_ms"}} {
		if err := v.until(step.said); err != nil {
			return nil, err
		}
		r.extra[step.figure] = figure(time.Since(killed).Seconds() * 1000)
	}
	r.EpochIntervalMs = 1000
	return r, v.until(sayCommitted) // and nothing wrong until the next epoch
}

func startVictim(ctx context.Context, cfg victimConfig) (*child, error) {
	c, err := startChild(ctx, roleVictim, cfg.Dir)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	return c, c.say(string(text))
}

// until reads lines up to the given one.
func (c *child) until(want string) error {
	for {
		got, err := c.line()
		switch {
		case err != nil:
			return fmt.Errorf("waiting for %q: %w", want, err)
		case got == want:
			return nil
		case strings.HasPrefix(got, sayWrong):
			return fmt.Errorf("after the recovery: %s", got)
		}
	}
}

// victim is the role of the process that is killed.
type victim struct {
	cfg   victimConfig
	mu    sync.Mutex // of standard output
	first atomic.Bool
	near  atomic.Bool
}

func (v *victim) say(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Println(line)
}

func (v *victim) OnStarted(*runtime.Query) {}

// OnProgress says when an epoch with the whole state has committed.
func (v *victim) OnProgress(_ *runtime.Query, p *runtime.Progress) {
	if len(p.StateOperators) == 1 && p.StateOperators[0].NumRowsTotal == int64(v.cfg.Keys) {
		v.say(sayCommitted)
	}
}

func (v *victim) OnTerminated(_ *runtime.Query, err error) {
	if err != nil {
		v.say(sayWrong + ": " + err.Error())
	}
}

// check compares a result with arithmetic: keys come in turn, so event i is the
// (i/keys+1)-th of its key.
func (v *victim) check(b *messages.Batch) error {
	counts, events, due := b.Column(1).Int64s(), b.Column(2).Int64s(), b.Column(3).Int64s()
	now, latest := time.Now().UnixMicro(), int64(0)
	for i := range b.Rows() {
		r := b.Row(i)
		if want := events[r]/int64(v.cfg.Keys) + 1; counts[r] != want {
			v.say(fmt.Sprintf("%s: event %d of key %d has count %d, want %d", sayWrong, events[r], b.Column(0).Int64s()[r], counts[r], want))
		}
		latest = max(latest, due[r])
	}
	if !v.first.Swap(true) {
		v.say(sayFirst)
	}
	if now-latest < 10_000 && !v.near.Swap(true) {
		v.say(sayCaughtUp)
	}
	return nil
}

func playVictim(ctx context.Context, stdin io.Reader) error {
	in := bufio.NewScanner(stdin)
	if !in.Scan() {
		return in.Err()
	}
	v := &victim{}
	if err := json.Unmarshal(in.Bytes(), &v.cfg); err != nil {
		return err
	}
	g := &prefilled{bids: newBids(v.cfg.Keys), of: v.cfg.Keys, pick: inTurn(v.cfg.Keys)}
	ends := load.NewEnds(load.SourceConfig{Fill: g.fill, Prefill: v.cfg.Keys}, load.SinkConfig{Observe: v.check})
	ends.Gate.Begin(load.Run{Schedule: load.Schedule{Start: v.cfg.Start, Rate: recoveryRate}, Until: 1 << 60})
	s, err := runtime.Open(ctx, runtime.Config{
		Dir: v.cfg.Dir, Connectors: append(all.Connectors(), ends.Connector()), Formats: all.Formats(),
	})
	if err != nil {
		return err
	}
	v.say(sayOpen)
	s.AddListener(v)
	t := trial{columns: bidColumns}
	if err := s.Exec(ctx, t.definitions()+`CREATE QUERY counts WITH (output_mode = 'update') AS INSERT INTO out
SELECT auction, count(*) AS n, max(bidder) AS event, max(ts) AS due FROM bids GROUP BY auction`); err != nil {
		return err
	}
	return s.Wait(ctx)
}
