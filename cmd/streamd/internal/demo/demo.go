// Package demo is the demonstration that streamd demo runs in one process: an
// embedded NATS server with file storage, a generator that publishes auction
// bids at a steady rate, three queries over them, and subscribers that measure
// how long a result takes from the moment its cause was due.
//
// The generator is open-loop: event i is due at start + i/rate and carries that
// time, whether or not it could be published by then, so that a stall shows up as
// latency instead of being hidden.
package demo

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// StateDir is where checkpoints are in the directory of a demo.
const StateDir = "state"

// Config configures a demo.
type Config struct {
	Dir  string // server and checkpoints live here
	Rate int    // bids per second
	Log  *slog.Logger
}

// Script is what the demo runs; %s is the URL of the server.
const Script = `
CREATE SOURCE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL 1 SECOND
) WITH (connector = 'nats', url = '%[1]s', stream = 'BIDS', subject = 'bids', format = 'json', timestamp_format = 'unix_us', start = 'latest');

CREATE SINK expensive WITH (connector = 'nats', url = '%[1]s', stream = 'EXPENSIVE', subject = 'expensive.{auction}', format = 'json', guarantee = 'exactly_once');
CREATE SINK hot WITH (connector = 'nats', url = '%[1]s', stream = 'HOT', subject = 'hot.{auction}', format = 'json', guarantee = 'exactly_once');

CREATE QUERY expensive_bids AS
INSERT INTO expensive SELECT auction, bidder, price, ts FROM bids WHERE price > 1000000;

CREATE QUERY hot_items AS
INSERT INTO hot
SELECT auction, window.end AS closed, count(*) AS bids, max(price) AS top
FROM bids GROUP BY auction, window(ts, '10 seconds', '2 seconds');

CREATE QUERY top_auctions WITH (output_mode = 'complete', emit_interval = '500ms') AS
INSERT INTO top SELECT auction, count(*) AS bids, max(price) AS top FROM bids GROUP BY auction ORDER BY bids DESC LIMIT 5;
`

// watermarkDelay is the delay declared in Script.
const watermarkDelay = time.Second

// streams of the demo with their subjects. They are trimmed by age; the queries
// are never an hour behind.
var streams = []jetstream.StreamConfig{
	{Name: "BIDS", Subjects: []string{"bids"}},
	{Name: "EXPENSIVE", Subjects: []string{"expensive.>"}},
	{Name: "HOT", Subjects: []string{"hot.>"}},
}

// Demo is a running demo.
type Demo struct {
	cfg     Config
	server  *natsd.Server
	conn    *nats.Conn
	session *runtime.Session
	top     *memory.Sink
	gen     *generator
	watch   []*watcher
	lag     *lag
	started time.Time
	drained time.Duration // how long Drain took
}

// Start starts everything. On an error nothing is left running.
func Start(ctx context.Context, cfg Config) (*Demo, error) {
	d := &Demo{cfg: cfg, started: time.Now(), top: memory.NewSink()}
	if err := d.start(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Demo) start(ctx context.Context) error {
	// The session first: it locks the directory, and two servers must not share one.
	session, err := runtime.Open(ctx, runtime.Config{
		Dir: filepath.Join(d.cfg.Dir, StateDir), Connectors: all.Connectors(), Formats: all.Formats(), Log: d.cfg.Log,
	})
	if err != nil {
		return err
	}
	d.session = session
	url, err := d.startServer()
	if err != nil {
		return err
	}
	if d.conn, err = nats.Connect(url, nats.Name("streamd demo"), nats.MaxReconnects(-1)); err != nil {
		return fmt.Errorf("connect to the embedded server: %w", err)
	}
	js, err := jetstream.New(d.conn)
	if err != nil {
		return err
	}
	before := uint64(0) // bids of earlier runs
	for _, c := range streams {
		c.Storage, c.MaxAge, c.Discard, c.AllowDirect = jetstream.FileStorage, time.Hour, jetstream.DiscardOld, true
		st, err := js.CreateOrUpdateStream(ctx, c)
		if err != nil {
			return fmt.Errorf("create stream %s: %w", c.Name, err)
		}
		if c.Name == "BIDS" {
			before = st.CachedInfo().State.LastSeq
		}
	}
	d.gen = newGenerator(d.conn, "bids", d.cfg.Rate)
	d.lag = &lag{before: before, at: map[string]position{}, published: func() uint64 { return before + uint64(d.gen.sent.Load()) }}
	d.session.AddListener(d.lag)
	for _, w := range []*watcher{newWatcher("expensive_bids", "EXPENSIVE", expensiveDue), newWatcher("hot_items", "HOT", hotDue)} {
		if err := w.start(ctx, js); err != nil {
			return err
		}
		d.watch = append(d.watch, w)
	}
	if err := d.session.RegisterSink("top", d.top); err != nil {
		return err
	}
	if err := d.session.ExecNamed(ctx, "demo.sql", fmt.Sprintf(Script, url)); err != nil {
		return err
	}
	return d.gen.start()
}

func (d *Demo) startServer() (string, error) {
	opts := &natsd.Options{
		ServerName: "streamd-demo", Host: "127.0.0.1", Port: natsd.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: filepath.Join(d.cfg.Dir, "nats"),
	}
	srv, err := natsd.NewServer(opts)
	if err != nil {
		return "", fmt.Errorf("embedded NATS server: %w", err)
	}
	d.server = srv
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		return "", fmt.Errorf("the embedded NATS server did not start within 10 s")
	}
	if !srv.JetStreamEnabled() {
		return "", fmt.Errorf("the embedded NATS server could not start JetStream below %s", opts.StoreDir)
	}
	return srv.ClientURL(), nil
}

// Session returns the session that runs the queries.
func (d *Demo) Session() *runtime.Session { return d.session }

// StopGenerator ends the stream of bids.
func (d *Demo) StopGenerator() {
	if d.gen != nil {
		d.gen.stop()
	}
}

// Drain stops the generator and drains the queries.
func (d *Demo) Drain(ctx context.Context) error {
	d.StopGenerator()
	from := time.Now()
	err := d.session.Stop(ctx)
	d.drained = time.Since(from)
	return err
}

// Close ends everything.
func (d *Demo) Close() {
	d.StopGenerator()
	if d.session != nil {
		if err := d.session.Close(); err != nil {
			d.cfg.Log.Warn("close session", "error", err)
		}
	}
	for _, w := range d.watch {
		w.stop()
	}
	if d.conn != nil {
		d.conn.Close()
	}
	if d.server != nil {
		d.server.Shutdown()
		d.server.WaitForShutdown()
	}
}
