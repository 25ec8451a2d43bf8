package nats

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// What is said to the server about a delivered message.
var (
	ackBody      = []byte("+ACK")
	progressBody = []byte("+WPI")
)

const (
	// ackTries is how often an epoch's acknowledgements are sent before the server
	// is left to deliver the messages again.
	ackTries = 5
	// markInterval is how often the consumer's description is brought up to date.
	markInterval = time.Second
)

// receipts are the messages of a stream with workqueue or interest retention
// that were taken and are not acknowledged yet. The server forgets a message
// that is acknowledged, so that happens when its epoch is durable and not
// before. The reader's goroutine adds, that of Committed takes away; all methods
// are safe for concurrent use.
type receipts struct {
	log    *slog.Logger
	stream string

	// beat ends live, the goroutine, and ended is closed when it has; nil: it does not
	// run. Only the reader's goroutine uses them.
	beat  context.CancelFunc
	ended chan struct{}

	mu sync.Mutex
	// mu guards the fields below.
	link *link // over which list was delivered; nil: none of it can be acknowledged
	cfg  jetstream.ConsumerConfig
	list []receipt // in the order of sequences
	tail uint64    // the last sequence that was added to list
	// durable is the first sequence that is not in a committed epoch, 0: unknown. It
	// belongs to the stream that was created then.
	durable uint64
	created time.Time
	told    time.Time // when the server last heard that list is being worked on
	// marked is the value of durable in the consumer's description, and when it was
	// written. marks says that it is needed there.
	marked   uint64
	markedAt time.Time
	marks    bool
}

// receipt is what it takes to acknowledge a message.
type receipt struct {
	seq   uint64
	reply string
}

// attach notes the consumer that delivers from now on. Whatever was delivered
// before and not acknowledged comes again.
func (a *receipts) attach(l *link, cfg *jetstream.ConsumerConfig, now time.Time) {
	a.silence()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link, a.cfg, a.told, a.marks = l, *cfg, now, cfg.FilterSubject != ""
	a.marked, a.markedAt = a.durable, now
	a.forget()
	ctx, cancel := context.WithCancel(context.Background())
	a.beat, a.ended = cancel, make(chan struct{})
	go a.live(ctx, a.ended)
}

// live keeps messages while nobody reads, because the query is held back: the server
// would deliver them again, and another query of the name would take the consumer
// for abandoned.
func (a *receipts) live(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	t := time.NewTicker(pullHeartbeat)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			if a.keepAlive(now) != nil {
				return // the connection is gone: the next Read sees that, too
			}
		}
	}
}

// silence ends live. The caller does not hold the lock.
func (a *receipts) silence() {
	if a.beat != nil {
		a.beat()
		<-a.ended
		a.beat = nil
	}
}

// detach notes that nothing can be acknowledged for the time being.
func (a *receipts) detach() {
	a.silence()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link = nil
	a.forget()
}

func (a *receipts) forget() { a.list, a.tail = a.list[:0], 0 }

// from is the first sequence that has to stay with the server, 0 if everything.
func (a *receipts) from() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.durable
}

// begin sets where the partition starts, unless that is known for this stream.
func (a *receipts) begin(p *position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.durable == 0 || !a.created.Equal(p.Created) {
		a.durable, a.created = p.NextSeq, p.Created
	}
}

// restart sets where the partition starts after the stream has changed.
func (a *receipts) restart(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.durable = seq
}

// add notes a message that was taken for the first time by this attempt.
func (a *receipts) add(seq uint64, reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.durable == 0 {
		a.durable = seq // the server delivers in order: there is nothing before it
	}
	a.list, a.tail = append(a.list, receipt{seq, reply}), seq
}

// again handles a message that was taken before: it is acknowledged if it is in
// a committed epoch, and otherwise waits for its own.
func (a *receipts) again(seq uint64, reply string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case seq < a.durable && a.link != nil:
		err := a.link.nc.Publish(reply, ackBody)
		return fault.Wrap(fault.Transient, err, "acknowledge message %d of stream %s", seq, a.stream)
	case seq > a.tail:
		a.list, a.tail = append(a.list, receipt{seq, reply}), seq
	}
	return nil // else it is in the list
}

// commit acknowledges everything before position p. It returns when the server has
// confirmed that, or when the messages will come again and be acknowledged then.
func (a *receipts) commit(ctx context.Context, p *position) error {
	a.mu.Lock()
	if !p.Created.Equal(a.created) { // nothing was delivered, or only from another stream
		a.mu.Unlock()
		return nil
	}
	a.durable = max(a.durable, p.NextSeq)
	l, n := a.link, 0
	for n < len(a.list) && a.list[n].seq < a.durable {
		n++
	}
	batch := slices.Clone(a.list[:n])
	a.mu.Unlock()
	if l == nil || len(batch) == 0 {
		return nil
	}
	if err := a.mark(ctx, l, time.Now(), markInterval); err != nil {
		return err
	}
	var wait backoff
	for try := 1; ; try++ {
		err := a.send(ctx, l, batch)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.Transient {
			return err
		}
		if !l.alive() || !a.uses(l) {
			return nil // they come again over the next connection
		}
		if try == ackTries {
			a.log.Warn("acknowledgements were not confirmed; the messages will be delivered again and dropped", "stream", a.stream,
				"from", batch[0].seq, "to", batch[len(batch)-1].seq, "error", err)
			break
		}
		if err := sleep(ctx, wait.next()); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link == l {
		last := batch[len(batch)-1].seq
		n, _ := slices.BinarySearchFunc(a.list, last+1, func(r receipt, seq uint64) int { return compareSeq(r.seq, seq) })
		a.list = slices.Delete(a.list, 0, n)
	}
	return nil
}

func compareSeq(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// uses reports whether messages still come over l.
func (a *receipts) uses(l *link) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.link == l
}

// send acknowledges a batch. The server works acknowledgements off in the order
// in which they come, so the answer to the last one stands for all.
func (a *receipts) send(ctx context.Context, l *link, batch []receipt) error {
	return l.call(ctx, "acknowledge messages of stream "+a.stream, func(ctx context.Context) error {
		for _, r := range batch[:len(batch)-1] {
			if err := l.nc.Publish(r.reply, ackBody); err != nil {
				return err
			}
		}
		_, err := l.nc.RequestWithContext(ctx, batch[len(batch)-1].reply, ackBody)
		return err
	})
}

// mark writes into the consumer's description up to where epochs are durable,
// unless that was done less than interval ago. With a filter the server's own
// floor cannot tell: it also passes over what others read.
func (a *receipts) mark(ctx context.Context, l *link, now time.Time, interval time.Duration) error {
	a.mu.Lock()
	cfg, next := a.cfg, a.durable
	due := a.marks && a.link == l && next > a.marked && now.Sub(a.markedAt) >= interval
	a.mu.Unlock()
	if !due {
		return nil
	}
	err := a.write(ctx, l, cfg, cfg.Metadata[metaIncarnation], next)
	if err != nil && fault.KindOf(err) != fault.Transient && !isGone(err) { // who reads makes another one, or says what is lost
		return err
	}
	if err == nil {
		a.mu.Lock()
		a.marked, a.markedAt = next, now
		a.mu.Unlock()
	}
	return nil
}

// write brings the consumer's description up to date.
func (a *receipts) write(ctx context.Context, l *link, cfg jetstream.ConsumerConfig, incarnation string, next uint64) error {
	cfg.Metadata = map[string]string{metaIncarnation: incarnation, metaNext: strconv.FormatUint(next, 10)}
	return l.call(ctx, "update the consumer on stream "+a.stream, func(ctx context.Context) error {
		_, err := l.js.UpdateConsumer(ctx, a.stream, cfg)
		return err
	})
}

// isGone reports whether there is no consumer that could be described.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDoesNotExist) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// keepAlive tells the server that messages are still being worked on, so that
// epochs that take longer than the server waits do not bring them again.
func (a *receipts) keepAlive(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link == nil || now.Sub(a.told) < a.cfg.AckWait/3 {
		return nil
	}
	a.told = now
	for _, r := range a.list {
		if err := a.link.nc.Publish(r.reply, progressBody); err != nil {
			return fault.Wrap(fault.Transient, err, "keep messages of stream %s", a.stream)
		}
	}
	return nil
}

// close is called when nothing is read and committed any more. The description
// says so, too, so that a query that is started afresh need not wait.
func (a *receipts) close() {
	a.silence()
	a.mu.Lock()
	l, n := a.link, 0
	cfg, next := a.cfg, a.marked
	if a.marks {
		next = max(a.durable, next)
	}
	for n < len(a.list) && a.list[n].seq < a.durable {
		n++
	}
	if n > 0 {
		a.log.Warn("committed messages could not be acknowledged; the next start does it", "stream", a.stream, "messages", n)
	}
	a.mu.Unlock()
	if l == nil || !l.alive() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := a.write(ctx, l, cfg, "", next)
	if err != nil && !isGone(err) { // so nobody waits for it
		a.log.Warn("the consumer's description could not be updated", "stream", a.stream, "error", err)
	}
}
