package demo

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/internal/pacer"
)

// generator publishes bids. Event i is a function of i, so a restarted demo makes
// other bids only because time has gone on.
type generator struct {
	conn    *nats.Conn
	subject string
	rate    int
	sent    atomic.Int64
	pace    *pacer.Pacer
	quit    context.CancelFunc // ends pace
	done    chan struct{}
}

// tick is how often the events that are due are published. Shorter ticks make
// smaller batches, which cost the same each.
const tick = time.Millisecond

func newGenerator(conn *nats.Conn, subject string, rate int) *generator {
	return &generator{conn: conn, subject: subject, rate: rate}
}

func (g *generator) start() error {
	ctx, quit := context.WithCancel(context.Background())
	pace, err := pacer.New(ctx)
	if err != nil {
		quit()
		return err
	}
	g.pace, g.quit, g.done = pace, quit, make(chan struct{})
	go g.run()
	return nil
}

// stop ends the generator, if it was started.
func (g *generator) stop() {
	if g.done != nil {
		g.quit()
		<-g.done
	}
}

func (g *generator) run() {
	defer close(g.done)
	defer g.pace.Close() //nolint:errcheck // nothing was written
	start := time.Now()
	rng := rand.New(rand.NewPCG(uint64(start.UnixNano()), 1))
	var buf []byte
	for i := int64(0); ; {
		due := int64(time.Since(start).Seconds() * float64(g.rate))
		for ; i < due; i++ {
			at := start.Add(time.Duration(float64(i) / float64(g.rate) * float64(time.Second)))
			buf = appendBid(buf[:0], rng, i, at.UnixMicro())
			if err := g.conn.Publish(g.subject, buf); err != nil {
				return // the connection is closed: the demo is ending
			}
			g.sent.Add(1)
		}
		if err := g.pace.Sleep(tick - time.Since(start)%tick); err != nil {
			return // the demo is ending
		}
	}
}

var channels = [...]string{"Google", "Facebook", "Baidu", "Apple"}

// appendBid writes a bid of about 200 bytes of JSON: half of the bids go to a few
// hot auctions, prices are spread evenly over six powers of ten, as in the
// Nexmark benchmark.
func appendBid(b []byte, rng *rand.Rand, i, micros int64) []byte {
	auction := 1000 + rng.Int64N(200)
	if rng.IntN(2) == 0 {
		auction = 1000 + i/50_000%10*20
	}
	price := int64(math.Round(math.Pow(10, rng.Float64()*6) * 100))
	channel := rng.IntN(len(channels))
	b = append(b, `{"auction":`...)
	b = strconv.AppendInt(b, auction, 10)
	b = append(b, `,"bidder":`...)
	b = strconv.AppendInt(b, 1000+rng.Int64N(5000), 10)
	b = append(b, `,"price":`...)
	b = strconv.AppendInt(b, price, 10)
	b = append(b, `,"channel":"`...)
	b = append(b, channels[channel]...)
	b = append(b, `","url":"https://www.nexmark.example/`...)
	b = strconv.AppendUint(b, rng.Uint64(), 36)
	b = append(b, "/item.htm?query=1&channel_id="...)
	b = strconv.AppendInt(b, int64(channel), 10)
	b = append(b, `","ts":`...)
	b = strconv.AppendInt(b, micros, 10)
	return append(b, '}')
}
