package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/internal/pacer"
	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/meter"
)

// jetStream is a query from one stream to another. Server, engine and load are
// three processes; the figures of CPU, memory and allocations are the engine's.
type jetStream struct {
	epoch      time.Duration
	guarantee  string
	visibility string
	rate       int64 // 0: flat out over a stream that is full at the start
}

// bidStreamSQL is the source of all queries over the input stream.
const bidStreamSQL = `
CREATE SOURCE bids (auction BIGINT, bidder BIGINT, price BIGINT, url STRING, due BIGINT)
WITH (connector = 'nats', url = '%[1]s', stream = 'IN', subject = 'bids', format = 'json');
`

// jetStreamSQL keeps nine rows of ten.
const jetStreamSQL = bidStreamSQL + `
CREATE SINK out WITH (connector = 'nats', url = '%[1]s', stream = 'OUT', subject = 'out', format = 'json', guarantee = '%[2]s', visibility = '%[3]s');
INSERT INTO out SELECT auction, bidder, price * 2 AS price, url, due FROM bids WHERE price %% 10 <> 0;
`

// jetStreamBenchmarks go from stream to stream.
func jetStreamBenchmarks() []benchmark {
	var all []benchmark
	add := func(name, doc string, j jetStream) {
		all = append(all, benchmark{name: name, doc: doc, rate: j.rate, run: j.run})
	}
	atOnce := func(epoch time.Duration, rate int64) jetStream {
		return jetStream{epoch, "exactly_once", "at_once", rate}
	}
	perEpoch := func(epoch time.Duration, rate int64) jetStream {
		return jetStream{epoch, "exactly_once", "epoch", rate}
	}
	const ms, tenK = time.Millisecond, 10_000
	for _, rate := range []int64{1_000, tenK, 50_000} {
		add("jetstream/at-once/1s-epochs/"+short(rate), "JetStream to JetStream, exactly once, rows visible at once", atOnce(time.Second, rate))
	}
	for _, epoch := range []time.Duration{10 * ms, 100 * ms} {
		add("jetstream/at-once/"+millis(epoch)+"-epochs/10k", "the same with shorter epochs", atOnce(epoch, tenK))
	}
	for _, epoch := range []time.Duration{10 * ms, 100 * ms, time.Second} {
		add("jetstream/per-epoch/"+millis(epoch)+"-epochs/10k", "JetStream to JetStream, exactly once, rows visible after their epoch", perEpoch(epoch, tenK))
	}
	add("throughput/jetstream/at-once", "JetStream to JetStream, exactly once, over a full stream", atOnce(time.Second, 0))
	add("throughput/jetstream/per-epoch", "the same, rows visible after their epoch", perEpoch(time.Second, 0))
	add("throughput/jetstream/at-least-once", "the same without identities", jetStream{time.Second, "at_least_once", "at_once", 0})
	return append(all, upsertBenchmarks()...)
}

// stage is what one round of a JetStream benchmark runs with.
type stage struct {
	server, engine *child
	conn           *nats.Conn
	js             jetstream.JetStream
	out            *visible
}

func (j jetStream) run(ctx context.Context, e *env) (_ *result, err error) {
	st := &stage{}
	defer func() { st.close() }()
	if err := st.open(ctx, e); err != nil {
		return nil, err
	}
	sql := fmt.Sprintf(jetStreamSQL, st.conn.ConnectedUrl(), j.guarantee, j.visibility)
	cfg := engineConfig{Dir: e.dir + "/state", Script: sql, Epoch: j.epoch, Profile: e.profile, Name: e.bench.name + "/engine"}
	var r *result
	if j.rate == 0 {
		r, err = j.drainFull(ctx, e, st, cfg)
	} else {
		r, err = j.paced(ctx, e, st, cfg)
	}
	if err != nil {
		return nil, err
	}
	r.EpochIntervalMs = figure(j.epoch.Seconds() * 1000)
	return r, nil
}

// open starts the server and makes the streams.
func (st *stage) open(ctx context.Context, e *env) error {
	var err error
	if st.server, err = startChild(ctx, roleServer, e.dir+"/nats"); err != nil {
		return err
	}
	url, err := st.server.line()
	if err != nil {
		return err
	}
	if st.conn, err = nats.Connect(url); err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	if st.js, err = jetstream.New(st.conn); err != nil {
		return err
	}
	for name, subject := range map[string]string{"IN": "bids", "OUT": "out"} {
		if _, err := st.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage, AllowDirect: true,
		}); err != nil {
			return fmt.Errorf("create stream %s: %w", name, err)
		}
	}
	return nil
}

func (st *stage) close() {
	if st.out != nil {
		st.out.consume.Stop()
	}
	if st.conn != nil {
		st.conn.Close()
	}
	for _, c := range []*child{st.engine, st.server} {
		if c != nil {
			c.kill()
		}
	}
}

// visible notes when rows can be read from the output stream. Its fields belong
// to the consumer's goroutine until done is closed.
type visible struct {
	consume jetstream.ConsumeContext
	rec     *load.Recorder
	want    uint64 // rows after which done is closed
	rows    uint64
	done    chan struct{}
	err     error
	first   time.Time
	last    time.Time
}

// watchOutput starts to read the output stream.
func (st *stage) watchOutput(ctx context.Context, from int64, want uint64) error {
	v := &visible{rec: load.NewRecorder(from), want: want, done: make(chan struct{})}
	return st.watch(ctx, "OUT", v, func(m jetstream.Msg) { v.take(m.Data()) })
}

// watch calls take for every message of a stream.
func (st *stage) watch(ctx context.Context, stream string, v *visible, take func(jetstream.Msg)) error {
	c, err := st.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	v.consume, err = c.Consume(take, jetstream.PullMaxMessages(5_000))
	st.out = v
	return err
}

func (v *visible) take(row []byte) {
	now := time.Now()
	if v.rows == 0 {
		v.first = now
	}
	due, err := trailingInt(row)
	if err != nil && v.err == nil {
		v.err = err
	}
	v.rec.Record(due, now.UnixMicro())
	v.last = now
	if v.rows++; v.rows == v.want {
		close(v.done)
	}
}

// trailingInt reads the last member of a JSON object, which is an integer.
func trailingInt(row []byte) (int64, error) {
	i := bytes.LastIndexByte(row, ':')
	if i < 0 || len(row) == 0 {
		return 0, fmt.Errorf("output row %q has no members", row)
	}
	return strconv.ParseInt(string(row[i+1:len(row)-1]), 10, 64)
}

// kept reports whether the query keeps event i.
func kept(i uint64) bool { return (load.Hash(i)>>20&0xfffff)%10 != 0 }

// countKept counts the events that the query keeps.
func countKept(events span) (n uint64) {
	for i := events.from; i < events.to; i++ {
		if kept(i) {
			n++
		}
	}
	return n
}

// payload appends event i.
func (j jetStream) payload(dst []byte, i uint64, due int64) []byte {
	h := load.Hash(i)
	dst = strconv.AppendUint(append(dst, `{"auction":`...), h%10_000, 10)
	dst = strconv.AppendUint(append(dst, `,"bidder":`...), h>>40, 10)
	dst = strconv.AppendUint(append(dst, `,"price":`...), h>>20&0xfffff, 10)
	dst = append(dst, `,"url":"https://www.nexmark.com/googoo/item.htm?query=1"`...)
	dst = strconv.AppendInt(append(dst, `,"due":`...), due, 10)
	return append(dst, '}')
}

// paced publishes events when they are due.
func (j jetStream) paced(ctx context.Context, e *env, st *stage, cfg engineConfig) (*result, error) {
	var err error
	if st.engine, err = startEngine(ctx, cfg); err != nil {
		return nil, err
	}
	s := load.StartingIn(startDelay, j.rate)
	n := uint64(float64(j.rate) * (e.warmup + e.duration).Seconds())
	if err := st.watchOutput(ctx, s.Start+e.warmup.Microseconds(), countKept(span{0, n})); err != nil {
		return nil, err
	}
	warm := uint64(float64(j.rate) * e.warmup.Seconds())
	if err := j.publish(ctx, st, s, span{0, warm}); err != nil {
		return nil, err
	}
	if err := st.engine.say("mark"); err != nil {
		return nil, err
	}
	before, err := meter.CPUOf(st.server.pid())
	if err != nil {
		return nil, err
	}
	if err := j.publish(ctx, st, s, span{warm, n}); err != nil {
		return nil, err
	}
	return st.finish(ctx, n-warm, before)
}

// span is a range of events.
type span struct{ from, to uint64 }

// publish publishes the events of a span, each when it is due or as soon as it
// can afterwards.
func (j jetStream) publish(ctx context.Context, st *stage, s load.Schedule, events span) error {
	p, err := pacer.New(ctx)
	if err != nil {
		return err
	}
	defer p.Close() //nolint:errcheck // nothing was written
	var buf []byte
	for i := events.from; i < events.to; {
		due := min(s.Passed(time.Now().UnixMicro()), events.to)
		for ; i < due; i++ {
			buf = j.payload(buf[:0], i, s.Due(i))
			if err := st.conn.Publish("bids", buf); err != nil {
				return err
			}
		}
		if i < events.to {
			if err := p.Sleep(max(time.Until(s.At(i)), 100*time.Microsecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish waits for the last row and collects what the engine measured.
func (st *stage) finish(ctx context.Context, rows uint64, serverBefore time.Duration) (*result, error) {
	ended, err := st.engine.reply("read")
	if err != nil {
		return nil, err
	}
	serverAfter, err := meter.CPUOf(st.server.pid())
	if err != nil {
		return nil, err
	}
	select {
	case <-st.out.done:
	case err := <-st.engine.exited:
		return nil, fmt.Errorf("the engine ended: %w", err)
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("after a minute only %d of %d rows are visible", st.out.rows, st.out.want)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if st.out.err != nil {
		return nil, st.out.err
	}
	r, err := engineResult(ended, rows)
	if err != nil {
		return nil, err
	}
	r.latencies(st.out.rec)
	r.extra["server_cpu_s"] = figure((serverAfter - serverBefore).Seconds())
	return r, nil
}

// drainFull fills the input stream, starts the engine and waits until all rows
// are visible.
func (j jetStream) drainFull(ctx context.Context, e *env, st *stage, cfg engineConfig) (*result, error) {
	n := uint64(40_000 * e.duration.Seconds())
	if err := j.fill(ctx, st, n); err != nil {
		return nil, err
	}
	if err := st.watchOutput(ctx, 1<<62, countKept(span{0, n})); err != nil {
		return nil, err
	}
	return st.drain(ctx, n, cfg)
}

// drain starts the engine on a stream of n events and waits until everything is
// visible.
func (st *stage) drain(ctx context.Context, n uint64, cfg engineConfig) (*result, error) {
	before, err := meter.CPUOf(st.server.pid())
	if err != nil {
		return nil, err
	}
	started := time.Now()
	cfg.Marked = true
	if st.engine, err = startEngine(ctx, cfg); err != nil {
		return nil, err
	}
	select {
	case <-st.out.done:
	case err := <-st.engine.exited:
		return nil, fmt.Errorf("the engine ended: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r, err := st.finish(ctx, n, before)
	if err != nil {
		return nil, err
	}
	took := st.out.last.Sub(st.out.first)
	r.RowsPerSecond = figure(float64(n) / took.Seconds())
	r.extra["first_row_after_ms"] = figure(st.out.first.Sub(started).Seconds() * 1000)
	return r, nil
}

// fill publishes n events with acknowledgements.
func (j jetStream) fill(ctx context.Context, st *stage, n uint64) error {
	js, err := jetstream.New(st.conn, jetstream.WithPublishAsyncMaxPending(4_000))
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := js.PublishAsync("bids", j.payload(nil, i, time.Now().UnixMicro())); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	return st.holds(ctx, "IN", n)
}

// withoutEngine publishes events when they are due and reads them back.
func withoutEngine(ctx context.Context, e *env) (*result, error) {
	st, j := &stage{}, jetStream{}
	defer st.close()
	if err := st.open(ctx, e); err != nil {
		return nil, err
	}
	s := load.StartingIn(startDelay, e.bench.rate)
	n := uint64(float64(e.bench.rate) * (e.warmup + e.duration).Seconds())
	v := &visible{rec: load.NewRecorder(s.Start + e.warmup.Microseconds()), want: n, done: make(chan struct{})}
	if err := st.watch(ctx, "IN", v, func(m jetstream.Msg) { v.take(m.Data()) }); err != nil {
		return nil, err
	}
	if err := j.publish(ctx, st, s, span{0, n}); err != nil {
		return nil, err
	}
	select {
	case <-v.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := newResult()
	r.latencies(v.rec)
	return r, v.err
}

// serve is the role of the server: it prints its URL and runs until its input ends.
func serve(ctx context.Context, dir string) error {
	srv, err := startServer(dir)
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	if _, err := fmt.Println(strings.TrimSpace(srv.ClientURL())); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
