package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const partitions = 4

// script is what the child runs; %[1]s is the server, %[2]d the parallelism.
const script = `
SET parallelism = '%[2]d';
SET epoch_interval = '50ms';
CREATE SOURCE input (part INT, n BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 300 MILLISECONDS)
WITH (connector = 'nats', url = '%[1]s', stream = 'INPUT', filters = 'in.0,in.1,in.2,in.3', format = 'json', timestamp_format = 'unix_us');
CREATE SINK rows WITH (connector = 'nats', url = '%[1]s', stream = 'ROWS', subject = 'rows.{part}', format = 'json', guarantee = 'exactly_once');
CREATE SINK windows WITH (connector = 'nats', url = '%[1]s', stream = 'WINDOWS', subject = 'windows.{k}', format = 'json', guarantee = 'exactly_once');
INSERT INTO rows SELECT part, n, v * 2 AS v FROM input WHERE v %% 3 <> 0;
INSERT INTO windows
SELECT unix_micros(window.start) AS start, k, count(*) AS n, sum(v) AS sum, max(v) AS max
FROM input GROUP BY k, window(ts, '500 milliseconds');
`

// number reads an environment variable.
func number(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// run is one recovery test.
type run struct {
	t      *testing.T
	rng    *rand.Rand
	srv    *server
	js     jetstream.JetStream
	child  *process
	path   string
	sql    string
	dir    string
	rows   []row
	n      [partitions]int64
	newest [partitions]int64
}

func TestKillLoop(t *testing.T) {
	cycles := number("RECOVERY_CYCLES", 20)
	if testing.Short() {
		cycles = 3
	}
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(number("RECOVERY_SEED", int(time.Now().UnixNano()%1_000_000)))
	t.Logf("RECOVERY_SEED=%d", seed)
	r := &run{t: t, rng: rand.New(rand.NewPCG(seed, 1)), srv: startServer(t, bin["nats-server"]), path: bin["streamd"], dir: t.TempDir()}
	r.sql = filepath.Join(t.TempDir(), "queries.sql")
	nc, js := r.srv.connect()
	defer nc.Close()
	r.js = js
	r.createStreams()
	stopForeign := r.foreignProducer()
	for i := range cycles {
		r.cycle(i)
	}
	stopForeign()
	watermark := r.finish()
	r.check(watermark)
}

func (r *run) createStreams() {
	for _, c := range []jetstream.StreamConfig{
		{Name: "INPUT", Subjects: []string{"in.*"}},
		{Name: "ROWS", Subjects: []string{"rows.*"}, Duplicates: 150 * time.Millisecond},
		{Name: "WINDOWS", Subjects: []string{"windows.*"}, Duplicates: 150 * time.Millisecond},
	} {
		eventually(r.t, "create stream "+c.Name, 10*time.Second, func(ctx context.Context) error {
			_, err := r.js.CreateStream(ctx, c)
			return err
		})
	}
}

// foreignProducer publishes to the output streams all the while.
func (r *run) foreignProducer() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	nc, _ := r.srv.connect()
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(7 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			for _, subject := range []string{"rows.foreign", "windows.foreign"} {
				m := nats.NewMsg(subject)
				m.Data = fmt.Appendf(nil, `{"foreign":%d}`, i)
				m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("foreign-%s-%d", subject, i))
				if err := nc.PublishMsg(m); err != nil {
					continue // the server is down; nothing is promised to this producer
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait(); nc.Close() }
}

// start starts the child with a random parallelism.
func (r *run) start() {
	text := fmt.Sprintf(script, r.srv.url(), 1+r.rng.IntN(3))
	if err := os.WriteFile(r.sql, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.child = startProcess(r.t, "streamd", r.path, "run", r.sql, "--dir", r.dir)
}

// cycle runs the child under load and kills it: usually while rows flow,
// sometimes while it restores, and sometimes after a drain.
func (r *run) cycle(i int) {
	r.start()
	switch r.rng.IntN(8) {
	case 0: // during the start
		r.load(time.Duration(r.rng.IntN(60)) * time.Millisecond)
	case 1: // the server goes away under load
		r.load(200 * time.Millisecond)
		r.srv.restart()
		r.load(300 * time.Millisecond)
	default:
		r.load(time.Duration(150+r.rng.IntN(600)) * time.Millisecond)
	}
	if i%5 == 4 {
		eventually(r.t, "the child starts its queries", 30*time.Second, func(context.Context) error { return r.child.said("query started") })
		r.child.terminate(r.t)
		return
	}
	r.child.kill(r.t)
}

// load publishes rows for the given time. Every row is in the input log once it
// is acknowledged, and only then does the next one follow.
func (r *run) load(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		for range 1 + r.rng.IntN(20) {
			r.publish(r.rng.IntN(partitions), r.jitter())
		}
		r.pause(time.Millisecond)
	}
}

func (r *run) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.t.Context().Done():
	}
}

// jitter is how much older than its partition's newest row a row may be: within
// the delay.
func (r *run) jitter() int64 { return r.rng.Int64N(delayMicros * 9 / 10) }

func (r *run) publish(p int, back int64) {
	now := time.Now().UnixMicro()
	r.newest[p] = max(r.newest[p], now)
	r.put(row{Part: p, N: r.n[p], K: fmt.Sprintf("k%d", r.rng.IntN(10)), V: r.rng.Int64N(1000), Micros: r.newest[p] - back})
}

// put publishes a row and waits for the acknowledgement; the message id makes a
// repeated attempt harmless.
func (r *run) put(x row) {
	data, err := json.Marshal(x)
	if err != nil {
		r.t.Fatal(err)
	}
	id := fmt.Sprintf("%d/%d", x.Part, x.N)
	eventually(r.t, "publish "+id, 20*time.Second, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := r.js.Publish(ctx, fmt.Sprintf("in.%d", x.Part), data, jetstream.WithMsgID(id))
		return err
	})
	r.n[x.Part]++
	r.rows = append(r.rows, x)
}

// finish moves all partitions past the last window and returns the watermark
// that results.
func (r *run) finish() int64 {
	last := time.Now().UnixMicro() + 5*windowMicros
	for p := range partitions {
		r.put(row{Part: p, N: r.n[p], K: "last", V: 1, Micros: last})
	}
	return last - delayMicros
}

// check runs the child until the results are complete, then lets it drain, and
// compares everything.
func (r *run) check(watermark int64) {
	wantRows, wantWindows := stateless(r.rows), windows(r.rows, watermark)
	r.start()
	var rows, wins []string
	limit := time.Now().Add(60 * time.Second)
	for time.Now().Before(limit) {
		rows, wins = r.results()
		if len(rows) >= len(wantRows) && len(wins) >= len(wantWindows) {
			break
		}
		r.pause(50 * time.Millisecond)
	}
	r.child.terminate(r.t)
	rows, wins = r.results()
	r.t.Logf("%d input rows, %d results, %d windows", len(r.rows), len(wantRows), len(wantWindows))
	for _, c := range []struct {
		what      string
		want, got []string
	}{{"rows", wantRows, rows}, {"windows", wantWindows, wins}} {
		missing, extra := difference(c.want, c.got)
		if len(missing) > 0 || len(extra) > 0 {
			r.t.Errorf("%s: %d missing, %d too many\nmissing: %q\ntoo many: %q\n%s", c.what, len(missing), len(extra), head(missing), head(extra), r.child.tail())
		}
	}
}

// results reads the output streams, without what the foreign producer put there.
func (r *run) results() (rows, wins []string) {
	for _, data := range r.stream("ROWS") {
		var x row
		if err := json.Unmarshal(data, &x); err != nil {
			r.t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("%d/%d=%d", x.Part, x.N, x.V))
	}
	for _, data := range r.stream("WINDOWS") {
		var x struct {
			Start       int64
			K           string
			N, Sum, Max int64
		}
		if err := json.Unmarshal(data, &x); err != nil {
			r.t.Fatal(err)
		}
		wins = append(wins, fmt.Sprintf("%d/%s n=%d sum=%d max=%d", x.Start, x.K, x.N, x.Sum, x.Max))
	}
	sort.Strings(rows)
	sort.Strings(wins)
	return rows, wins
}

func (r *run) stream(name string) [][]byte {
	var out [][]byte
	eventually(r.t, "read stream "+name, 20*time.Second, func(ctx context.Context) error {
		out = nil
		s, err := r.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		last := s.CachedInfo().State.LastSeq
		c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return err
		}
		it, err := c.Messages(jetstream.PullMaxMessages(2000))
		if err != nil {
			return err
		}
		defer it.Stop()
		for seq := uint64(0); seq < last; {
			m, err := it.Next()
			if err != nil {
				return err
			}
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			seq = meta.Sequence.Stream
			if tok := m.Subject(); tok != "rows.foreign" && tok != "windows.foreign" {
				out = append(out, m.Data())
			}
		}
		return nil
	})
	return out
}
