package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	partitions  = 4
	inputStream = "INPUT"
)

// feed publishes rows to the input stream, all the while and in one order, and
// writes each into the log once it is acknowledged.
type feed struct {
	r    *rig
	rng  *rand.Rand
	js   jetstream.JetStream
	rate int // rows per second
	// group is how many rows may be on their way at once: more than one only where the
	// server stays up, since a row that has to be sent again comes behind others.
	group int
	stop  context.CancelFunc // ends the feed behind the row it is at
	drop  context.CancelFunc // gives that row up as well
	life  context.Context    // ended by drop
	clean bool               // all rows keep the delay
	done  sync.WaitGroup

	// For the publishing goroutine, or for the test once it has ended.
	n      [partitions]int64
	newest [partitions]int64

	mu  sync.Mutex // guards the log
	log input
}

// subjects are those of the partitions.
var subjects = [partitions]string{"in.0", "in.1", "in.2", "in.3"}

// keys are those of the rows but the last ones.
var keys = strings.Split("k0 k1 k2 k3 k4 k5 k6 k7 k8 k9", " ")

// startFeed publishes until halt. With sums it keeps sums instead of rows.
func startFeed(r *rig, rate int, sums bool) *feed {
	_, js := r.srv.connect()
	life, drop := context.WithCancel(r.t.Context())
	ctx, stop := context.WithCancel(life)
	f := &feed{r: r, rng: rand.New(rand.NewPCG(r.rng.Uint64(), 2)), js: js, rate: rate, group: 1, stop: stop, drop: drop, life: life}
	if rate > 5000 {
		f.group = 100
	}
	f.log.init()
	if sums {
		f.clean, f.log.sum = true, newSummary()
	}
	f.done.Go(func() { f.run(ctx) })
	return f
}

// run keeps to the rate on average: an outage of the server is made up for.
func (f *feed) run(ctx context.Context) {
	const step = 4 * time.Millisecond
	owed := 0.0
	last := time.Now()
	for pause(ctx, step) {
		now := time.Now()
		owed = min(owed+now.Sub(last).Seconds()*float64(f.rate), float64(f.rate)) // at most a second's worth
		last = now
		for owed >= 1 && ctx.Err() == nil {
			n := min(int(owed), f.group)
			if n == 1 {
				f.publish(f.next())
			} else {
				f.publishAll(n)
			}
			owed -= float64(n)
		}
	}
}

// next makes a row: usually one that keeps the delay, one in a hundred behind
// its own partition's watermark, and now and then one from a clock that is wrong.
func (f *feed) next() row {
	p := f.rng.IntN(partitions)
	x := row{Part: p, ID: f.n[p]*partitions + int64(p), K: keys[f.rng.IntN(len(keys))], V: f.rng.Int64N(1000)}
	f.n[p]++
	f.newest[p] = max(f.newest[p], time.Now().UnixMicro())
	switch n := f.rng.IntN(1000); {
	case f.clean:
		x.Micros = f.newest[p] - f.rng.Int64N(delayMicros*9/10)
	case n < 10:
		x.Micros = f.newest[p] - delayMicros - f.rng.Int64N(4*windowMicros)
	case n == 10:
		x.Micros = f.newest[p] + time.Hour.Microseconds()
	default:
		x.Micros = f.newest[p] - f.rng.Int64N(delayMicros*9/10)
	}
	return x
}

// publish sends a row until the server has it; the message id makes a repeated
// attempt harmless.
func (f *feed) publish(x row) {
	data, err := json.Marshal(x)
	if err != nil {
		panic(err) // the type has no values that cannot be encoded
	}
	m := nats.NewMsg(subjects[x.Part])
	m.Data = data
	for {
		try, cancel := context.WithTimeout(f.life, 500*time.Millisecond)
		ack, err := f.js.PublishMsg(try, m, jetstream.WithMsgID(fmt.Sprint(x.ID)))
		cancel()
		if err == nil {
			x.Seq = ack.Sequence
			f.mu.Lock()
			f.log.add(x)
			f.mu.Unlock()
			return
		}
		if !pause(f.life, 5*time.Millisecond) {
			return
		}
	}
}

// publishAll sends rows without waiting for each, which takes a server that
// stays up.
func (f *feed) publishAll(n int) {
	rows, acks := make([]row, n), make([]jetstream.PubAckFuture, n)
	for i := range rows {
		rows[i] = f.next()
		x := &rows[i]
		data := fmt.Appendf(nil, `{"part":%d,"id":%d,"k":"%s","v":%d,"ts":%d}`, x.Part, x.ID, x.K, x.V, x.Micros)
		var err error
		if acks[i], err = f.js.PublishAsync(subjects[x.Part], data); err != nil {
			f.r.t.Errorf("publish row %d: %v", rows[i].ID, err)
			return
		}
	}
	for i, a := range acks {
		select {
		case ack := <-a.Ok():
			rows[i].Seq = ack.Sequence
			f.mu.Lock()
			f.log.add(rows[i])
			f.mu.Unlock()
		case err := <-a.Err():
			f.r.t.Errorf("publish row %d: %v", rows[i].ID, err)
			return
		case <-f.life.Done():
			return
		}
	}
}

// halt ends the feed, with a row in each partition that moves all of them past
// the last window, and returns the whole input.
func (f *feed) halt() *input {
	f.stop()
	f.done.Wait()
	last := time.Now().UnixMicro() + 5*windowMicros
	for p := range partitions {
		f.publish(row{Part: p, ID: f.n[p]*partitions + int64(p), K: "last", V: 1, Micros: last})
		f.n[p]++
	}
	return f.snapshot()
}

// abandon ends the feed where nobody takes rows any more, and returns what was
// in the log.
func (f *feed) abandon() *input {
	f.drop()
	f.done.Wait()
	return f.snapshot()
}

// sent is how many rows were put in.
func (f *feed) sent() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log.sum != nil {
		return f.log.sum.rows
	}
	return int64(len(f.log.rows))
}

// settled is a snapshot with everything that had been read from the stream when it was
// called: a row is there before its answer has come, and while a server restarts the
// answer may take half a second.
func (f *feed) settled() *input {
	n := f.sent() + int64(f.group)
	eventually(f.r.t, "the feed goes on", 20*time.Second, func(context.Context) error {
		if have := f.sent(); have < n {
			return fmt.Errorf("%d rows, want %d", have, n)
		}
		return nil
	})
	return f.snapshot()
}

// snapshot is what is in the log. Sums go on, unless the feed has ended.
func (f *feed) snapshot() *input {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.log
	in.rows = in.rows[:len(in.rows):len(in.rows)]
	return &in
}
