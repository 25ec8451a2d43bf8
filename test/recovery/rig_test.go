package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// number reads an environment variable.
func number(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// setup is what a test wants of its rig.
type setup struct {
	lanes   []lane
	rate    int               // input rows per second; 0: 2,000
	options map[string]string // query options in addition to the usual ones
	dir     string            // for checkpoints; "": a temporary directory
	proxied func(r *rig) string
	long    bool // see summary
	// parallelism of the queries; 0: another one at each start
	parallelism int
}

// rig is a server, a feed, and a child that can be killed and started again.
type rig struct {
	t       *testing.T
	rng     *rand.Rand
	srv     *server
	url     string // of the server, for the child
	js      jetstream.JetStream
	path    string // of the binary
	sql     string // file with the script
	dir     string // of the checkpoints
	options string
	args    []string // of the child, in addition
	lanes   []lane
	taps    map[string]*tap
	cuts    map[string]*cut // last one seen of each query
	feed    *feed
	child   *process
	early   int // kills before all queries ran

	parallelism int // 0: random

	// exposed: rows may be there twice; twice counts them.
	exposed bool
	twice   map[string]int
}

// newRig starts a server and a feed; the child is started by the test.
func newRig(t *testing.T, s setup) *rig {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(number("RECOVERY_SEED", int(time.Now().UnixNano()%1_000_000)))
	t.Logf("RECOVERY_SEED=%d", seed)
	r := &rig{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), srv: startServer(t, bin["nats-server"]), path: bin["streamd"],
		sql: filepath.Join(t.TempDir(), "queries.sql"), dir: s.dir, lanes: s.lanes, taps: map[string]*tap{}, cuts: map[string]*cut{}, twice: map[string]int{},
	}
	if r.dir == "" {
		r.dir = t.TempDir()
	}
	if r.lanes == nil {
		r.lanes = allLanes()
	}
	for key, value := range s.options {
		r.options += fmt.Sprintf("SET %s = '%s';\n", key, value)
	}
	r.parallelism = s.parallelism
	_, r.js = r.srv.connect()
	var age time.Duration
	if s.long {
		age = 5 * time.Minute
	}
	r.createStreams(age)
	r.url = r.srv.url()
	if s.proxied != nil {
		r.url = s.proxied(r)
	}
	if s.rate == 0 {
		s.rate = 2000
	}
	r.feed = startFeed(r, s.rate, s.long)
	r.foreignProducer()
	return r
}

// createStreams makes the input, which keeps messages for a time unless it is zero,
// and the outputs. The duplicate window of the outputs is over before a killed child
// is back.
func (r *rig) createStreams(age time.Duration) {
	// The consumers of killed children stay for two minutes, and nobody starts a child
	// as often as these tests do: the server's usual limit is 1,000.
	configs := []jetstream.StreamConfig{{Name: inputStream, Subjects: []string{"in.*"}, MaxConsumers: 100_000, MaxAge: age}}
	for _, l := range r.lanes {
		if l.bucket != "" {
			eventually(r.t, "create bucket "+l.bucket, 10*time.Second, func(ctx context.Context) error {
				_, err := r.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: l.bucket})
				return err
			})
			continue
		}
		if !l.streams() {
			continue
		}
		r.taps[l.name] = &tap{r: r, stream: strings.ToUpper(l.name)}
		c := jetstream.StreamConfig{Name: strings.ToUpper(l.name), Subjects: []string{l.name + ".*"}, Duplicates: 100 * time.Millisecond}
		if l.atomic {
			_, marker := l.marker()
			c.Subjects, c.AllowAtomicPublish = append(c.Subjects, marker), true
		}
		configs = append(configs, c)
	}
	for _, c := range configs {
		eventually(r.t, "create stream "+c.Name, 10*time.Second, func(ctx context.Context) error {
			_, err := r.js.CreateStream(ctx, c)
			return err
		})
	}
}

// foreignProducer publishes to the output streams all the while.
func (r *rig) foreignProducer() {
	ctx, cancel := context.WithCancel(r.t.Context())
	nc, _ := r.srv.connect()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; pause(ctx, 17*time.Millisecond); i++ {
			for _, l := range r.lanes {
				if !l.streams() || l.alone {
					continue // it is the sink's alone
				}
				m := nats.NewMsg(l.name + ".foreign")
				m.Data = fmt.Appendf(nil, `{"foreign":%d}`, i)
				m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("foreign-%d", i))
				_ = nc.PublishMsg(m) // nothing is promised to this producer
			}
		}
	})
	r.t.Cleanup(func() { cancel(); wg.Wait() })
}

// start starts the child with a random parallelism.
func (r *rig) start(env ...string) {
	r.t.Helper()
	r.child = r.startIn(r.dir, r.url, env...)
}

// startIn starts a child on a checkpoint directory.
func (r *rig) startIn(dir, url string, env ...string) *process {
	r.t.Helper()
	parallelism := r.parallelism
	if parallelism == 0 {
		parallelism = 1 + r.rng.IntN(3)
	}
	text := r.options + fmt.Sprintf(sourceSQL, url, parallelism)
	for _, l := range r.lanes {
		text += l.sql(url)
	}
	if err := os.WriteFile(r.sql, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return startProcess(r.t, command{
		name: "streamd", path: r.path, env: env,
		args: append([]string{"run", r.sql, "--dir", dir, "--exit-on-failure"}, r.args...),
	})
}

// running waits until all queries have started.
func (r *rig) running() {
	r.t.Helper()
	eventually(r.t, "the child starts its queries", 30*time.Second, func(context.Context) error {
		if r.child.ended(0) {
			r.t.Fatalf("streamd ended by itself: %v\n%s", r.child.err, r.child.tail())
		}
		return r.child.said("query started", len(r.lanes))
	})
}

// commits waits until the sinks of all queries have committed an epoch in an
// attempt, or later ones.
func (r *rig) commits(epoch, attempt int) {
	r.t.Helper()
	for _, l := range r.lanes {
		eventually(r.t, fmt.Sprintf("epoch %d of %s", epoch, l.name), 60*time.Second, func(ctx context.Context) error {
			stream, subject := l.marker()
			s, err := r.js.Stream(ctx, stream)
			if err != nil {
				return err
			}
			m, err := s.GetLastMsgForSubject(ctx, subject)
			if err != nil {
				return err
			}
			var x struct{ Epoch, Attempt int }
			if err := json.Unmarshal(m.Data, &x); err != nil {
				return err
			}
			if x.Epoch < epoch || x.Attempt < attempt {
				return fmt.Errorf("the marker is %s\n%s", m.Data, r.child.tail())
			}
			return nil
		})
	}
}

// alive checks that the child has not given up.
func (r *rig) alive() {
	r.t.Helper()
	if r.child.ended(0) {
		r.t.Fatalf("streamd has ended: %v\n%s", r.child.err, r.child.tail())
	}
}

// pass lets time pass under load.
func (r *rig) pass(d time.Duration) { pause(r.t.Context(), d) }

// upTo is a random duration.
func (r *rig) upTo(d time.Duration) time.Duration { return time.Duration(r.rng.Int64N(int64(d))) }

// finish ends the feed, waits until the results are complete and holds them
// against the input; at the end the child drains. It returns the number of
// input rows that are in the log.
func (r *rig) finish() int {
	r.t.Helper()
	in := r.feed.halt()
	if r.child == nil || r.child.ended(0) {
		r.start()
	}
	var wrong string
	for limit := time.Now().Add(90 * time.Second); time.Now().Before(limit); r.pass(50 * time.Millisecond) {
		if wrong = r.verdict(in); wrong == "" || !strings.Contains(wrong, " missing: ") || r.child.ended(0) {
			break
		}
	}
	if wrong == "" {
		r.child.terminate(r.t)
		wrong = r.verdict(in) // nothing may be added either
	} else if !r.child.ended(0) {
		r.child.signal(r.t, syscall.SIGKILL)
	}
	if wrong != "" {
		r.t.Fatalf("%d input rows: %s\n%s\nnats-server:\n%s", len(in.rows), wrong, r.child.tail(), r.srv.proc.tail())
	}
	for _, l := range r.lanes {
		if !r.exposed && in.sum == nil {
			r.inspect(l, in, true)
		}
	}
	return len(in.rows)
}

// verdict says what is wrong with the results of all lanes, "" if nothing is.
func (r *rig) verdict(in *input) string {
	text := ""
	for _, l := range r.lanes {
		bad := l.check(r, in)
		if r.exposed {
			r.twice[l.name] = len(bad["duplicates"])
			delete(bad, "duplicates")
		}
		if len(bad) > 0 {
			text += fmt.Sprintf("query %s:\n%s", l.name, bad)
		}
	}
	return text
}

// tap reads an output stream, each message once.
type tap struct {
	r      *rig
	stream string
	seq    uint64 // last one read
	rows   [][]byte
}

// read returns everything in the stream but markers and what the foreign producer
// put there.
func (p *tap) read() [][]byte {
	eventually(p.r.t, "read stream "+p.stream, 3*time.Minute, func(ctx context.Context) error {
		s, err := p.r.js.Stream(ctx, p.stream)
		if err != nil {
			return err
		}
		last := s.CachedInfo().State.LastSeq
		if p.seq >= last {
			return nil
		}
		c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: p.seq + 1, AckPolicy: jetstream.AckNonePolicy,
			MemoryStorage: true, InactiveThreshold: 5 * time.Second,
		})
		if err != nil {
			return err
		}
		for p.seq < last {
			batch, err := c.Fetch(min(2000, int(last-p.seq)), jetstream.FetchMaxWait(10*time.Second))
			if err != nil {
				return err
			}
			if err := p.take(batch); err != nil {
				return err
			}
		}
		return s.DeleteConsumer(ctx, c.CachedInfo().Name)
	})
	return p.rows
}

// take keeps the messages of a batch. They come in the order of the stream.
func (p *tap) take(batch jetstream.MessageBatch) error {
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream != p.seq+1 {
			return fmt.Errorf("sequence %d follows %d", meta.Sequence.Stream, p.seq)
		}
		p.seq++
		if !strings.HasSuffix(m.Subject(), ".foreign") && !strings.HasPrefix(m.Subject(), "streamd.") {
			p.rows = append(p.rows, m.Data())
		}
	}
	return batch.Error()
}

// bucket reads the values of a key-value bucket.
func (r *rig) bucket(name string, bad problems) map[string]total {
	out := map[string]total{}
	eventually(r.t, "read bucket "+name, 30*time.Second, func(ctx context.Context) error {
		kv, err := r.js.KeyValue(ctx, name)
		if err != nil {
			return err
		}
		keys, err := kv.Keys(ctx)
		if errors.Is(err, jetstream.ErrNoKeysFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			e, err := kv.Get(ctx, k)
			if err != nil {
				return err
			}
			var x total
			if err := json.Unmarshal(e.Value(), &x); err != nil || x.K != k {
				bad.add("unreadable", "%s: %s", k, e.Value())
				continue
			}
			out[k] = x
		}
		return nil
	})
	return out
}
