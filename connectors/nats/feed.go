package nats

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/streamd-io/streamd/messages/fault"
)

const (
	pullExpiry    = 5 * time.Second // a request for messages lives that long
	pullHeartbeat = time.Second     // and the server gives a sign of life that often
	// silentTicks is how many heartbeats may be missing before the consumer
	// counts as lost.
	silentTicks = 3
	// consumerTTL is when the server drops a consumer nobody pulls from.
	consumerTTL = 2 * time.Minute
	// pullBytes bounds what one request brings.
	pullBytes = 8 << 20
)

// feedConfig says what a feed delivers.
type feedConfig struct {
	stream string
	filter string    // "" means everything
	seq    uint64    // first stream sequence, unless time is set
	time   time.Time // first message stored at or after
	// headersOnly leaves the payloads out.
	headersOnly bool
	// window is how many messages may be on their way at most.
	window int
	// durable is the consumer to make instead of one of the feed's own, which
	// goes with it.
	durable *jetstream.ConsumerConfig
}

// consumer is what the server is asked for.
func (c *feedConfig) consumer() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Name: "streamd-" + nuid.Next(), AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerTTL, HeadersOnly: c.headersOnly,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(c.seq, 1),
	}
	if c.durable != nil {
		cfg = *c.durable
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverAllPolicy, 0
		if c.seq > 0 {
			cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, c.seq
		}
	}
	if !c.time.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &c.time
	}
	cfg.FilterSubject, cfg.MaxDeliver, cfg.ReplayPolicy = c.filter, -1, jetstream.ReplayInstantPolicy
	return cfg
}

// feed is a consumer of our own on the server and the messages on their way
// from it. It is used by one goroutine.
type feed struct {
	l       *link
	stream  string
	name    string
	keep    bool // the consumer outlives the feed
	inbox   string
	sub     *nats.Subscription
	ch      chan *nats.Msg
	ticker  *time.Ticker
	window  int
	next    string // subject of requests for messages
	request []byte // body of the usual request
	single  []byte // body of a request for one message of any size

	outstanding int    // requested and not delivered yet
	last        uint64 // consumer sequence of the last message
	pending     uint64 // messages behind the last one, as the server said
	dry         uint64 // the server may have been without a request behind this consumer sequence
	// prompt says that the message that was accepted last was sent as soon as it was
	// stored: it is the only one that had not been sent, and a request waited for it.
	prompt bool
	// unknown says that the server knew nobody who takes requests, before anybody has
	// answered one: in a cluster, word of a new consumer may come late.
	unknown bool
	met     bool  // something has come from the consumer
	huge    bool  // the next message is larger than a usual request may bring
	heard   bool  // something came since the last tick
	bytes   int64 // that had come in over the connection at the last tick
	silent  int   // ticks without anything
}

// openFeed makes the consumer and asks for the first messages.
func (l *link) openFeed(ctx context.Context, c feedConfig) (*feed, error) {
	cfg := c.consumer()
	f := &feed{l: l, stream: c.stream, name: cfg.Name, keep: c.durable != nil, window: c.window, inbox: l.nc.NewInbox()}
	err := l.call(ctx, "create a consumer on stream "+c.stream, func(ctx context.Context) error {
		h, err := l.js.CreateConsumer(ctx, c.stream, cfg)
		if err == nil {
			f.pending = h.CachedInfo().NumPending
		}
		return consumerError(c.stream, err)
	})
	if err != nil {
		return nil, err
	}
	f.next = l.api + "CONSUMER.MSG.NEXT." + c.stream + "." + f.name
	if f.request, err = pullRequest(max(c.window/2, 1), pullBytes); err != nil {
		return nil, err
	}
	if f.single, err = pullRequest(1, 0); err != nil {
		return nil, err
	}
	// Room for all messages, and for what the server says about requests while
	// nobody reads: a few heartbeats until they expire.
	f.ch = make(chan *nats.Msg, c.window+64)
	if f.sub, err = l.nc.ChanSubscribe(f.inbox, f.ch); err != nil {
		return nil, fault.Wrap(fault.Transient, err, "subscribe for messages of stream %s", c.stream)
	}
	f.ticker = time.NewTicker(pullHeartbeat)
	if err := f.refill(); err != nil {
		f.close(ctx)
		return nil, err
	}
	return f, nil
}

// pullRequest is the body of a request for messages; 0 bytes means any size.
func pullRequest(batch, bytes int) ([]byte, error) {
	b, err := json.Marshal(struct {
		Expires   time.Duration `json:"expires"`
		Batch     int           `json:"batch"`
		MaxBytes  int           `json:"max_bytes,omitempty"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{pullExpiry, batch, bytes, pullHeartbeat})
	return b, fault.Wrap(fault.Internal, err, "encode a pull request")
}

// refill asks for more once half of the window is free.
func (f *feed) refill() error {
	half := max(f.window/2, 1)
	for f.outstanding <= f.window-half {
		body, n := f.request, half
		if f.huge {
			body, n = f.single, 1
		}
		if err := f.l.nc.PublishRequest(f.next, f.inbox, body); err != nil {
			return fault.Wrap(fault.Transient, err, "ask for messages of stream %s", f.stream)
		}
		f.outstanding += n
		if f.huge {
			f.huge = false
			break // the rest is asked for when it has come
		}
	}
	return nil
}

// accept takes a message out of the channel. It reports whether it is one of
// the stream's and then fills d. An error of kind Transient means that the feed
// is broken and a new one has to be made.
func (f *feed) accept(m *nats.Msg, d *delivery) (bool, error) {
	f.heard = true
	if !parseDelivery(m.Reply, d) {
		return false, f.notice(m)
	}
	if d.consumer != f.last+1 {
		return false, fault.New(fault.Transient, "stream %s: message %d of the consumer came after %d: some were lost on the way", f.stream, d.consumer, f.last)
	}
	f.prompt = f.pending == 0 && d.pending == 0 && d.consumer > f.dry+1
	f.last, f.pending, f.met = d.consumer, d.pending, true
	f.outstanding = max(f.outstanding-1, 0)
	if f.outstanding <= len(f.ch) {
		f.ranDry()
	}
	return true, f.refill()
}

// ranDry notes that the server may have been without a request behind what has come.
func (f *feed) ranDry() { f.dry = f.last + uint64(len(f.ch)) }

// notice handles what the server says about a request.
func (f *feed) notice(m *nats.Msg) error {
	status, text := m.Header.Get("Status"), m.Header.Get("Description")
	f.unknown = status == "503" && !f.met
	f.met = f.met || status != "503"
	rest, _ := parseUint(m.Header.Get("Nats-Pending-Messages"))
	switch {
	case status == "100":
		if n, ok := parseUint(m.Header.Get("Nats-Last-Consumer")); ok && n > f.last {
			return fault.New(fault.Transient, "stream %s: the server has sent %d messages, %d have come", f.stream, n, f.last)
		}
		return nil
	case status == "404", status == "408":
	case status == "409" && text == "Message Size Exceeds MaxBytes":
		// A request that has brought nothing cannot bring the next message.
		left, _ := parseUint(m.Header.Get("Nats-Pending-Bytes"))
		f.huge = left >= pullBytes
	case status == "409" && text == "Batch Completed":
	default:
		return fault.New(fault.Transient, "consumer on stream %s was lost: %s %s", f.stream, status, text)
	}
	f.outstanding = max(f.outstanding-int(min(rest, 1<<30)), 0)
	return f.refill()
}

// tick is called for every tick of the ticker. It reports whether something is
// coming in, if only a part of a message. The error says that the server has
// fallen silent.
func (f *feed) tick() (flows bool, err error) {
	bytes := f.l.bytes.Load()
	flows = bytes != f.bytes && !f.heard // what was heard explains the bytes
	f.bytes = bytes
	if f.heard || flows || len(f.ch) > 0 {
		f.heard, f.silent = false, 0
		return flows, nil
	}
	f.silent++
	if f.silent >= silentTicks {
		return false, fault.New(fault.Transient, "stream %s: no sign of life from the server for %v", f.stream, silentTicks*pullHeartbeat)
	}
	return false, nil
}

// drained reports whether everything the server has sent was accepted and it
// said that nothing follows.
func (f *feed) drained() bool { return f.pending == 0 && len(f.ch) == 0 }

// confirm asks the server whether messages wait for this consumer. It is for
// the case that messages that were announced have been deleted meanwhile. It
// reports whether all that the server has sent has come; if not, what waits behind
// it stays unknown.
func (f *feed) confirm(ctx context.Context) (arrived bool, err error) {
	err = f.l.call(ctx, "look up the consumer on stream "+f.stream, func(ctx context.Context) error {
		h, err := f.l.js.Consumer(ctx, f.stream, f.name)
		if err != nil {
			return err
		}
		i := h.CachedInfo()
		if arrived = i.Delivered.Consumer == f.last; arrived {
			f.pending = i.NumPending
		}
		return nil
	})
	return arrived, err
}

// close gives the consumer up, unless it is a durable one. That the server may not hear of it does not
// matter: it drops consumers nobody uses.
func (f *feed) close(ctx context.Context) {
	f.ticker.Stop()
	if !f.l.alive() {
		return
	}
	_ = f.sub.Unsubscribe() // fails only when the connection has gone meanwhile
	if f.keep {
		return
	}
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = f.l.js.DeleteConsumer(c, f.stream, f.name) // see above
}
