package nats

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// stuckAfter is how long rows may wait without any acknowledgement before the
// connection counts as lost.
const stuckAfter = 10 * time.Second

// kick tells the keeper that something is to be repaired.
func (c *committer) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// refused notes why the server did not take a row. Writers call it with their
// lock held, so it must not take the committer's.
func (c *committer) refused(err error) {
	if !isWrongLast(err) {
		c.refusal.Store(&err)
	} else {
		// In an exclusive stream rows behind one that was refused are refused, too:
		// its reason is the one that counts.
		c.refusal.CompareAndSwap(nil, &err)
	}
	c.kick()
}

// install makes l the connection that rows go to. Nobody publishes on it yet.
func (c *committer) install(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.ready = l, false
}

// subscribe receives the answers on l. The reply subject of a row is
// l.inbox, the writer's index, a dot, and the row's number.
func (c *committer) subscribe(l *link) error {
	return l.receiveAnswers(func(index, row uint64, a *ack) {
		if w := c.writer(index); w != nil {
			w.answered(l, row, a)
		}
	})
}

// receiveAnswers subscribes to the acknowledgements of what is published with the
// reply subject l.inbox, a number, a dot, and another number. f is called in the
// goroutine of the subscription; a is valid during the call.
func (l *link) receiveAnswers(f func(first, second uint64, a *ack)) error {
	if l.inbox != "" {
		return nil
	}
	inbox := l.nc.NewInbox() + "."
	var a ack // used by the subscription's goroutine only
	sub, err := l.nc.Subscribe(inbox+">", func(m *nats.Msg) {
		first, second, _ := strings.Cut(m.Subject[min(len(inbox), len(m.Subject)):], ".")
		i, ok1 := parseUint(first)
		n, ok2 := parseUint(second)
		if !ok1 || !ok2 {
			return // not an answer
		}
		parseAck(m, &a)
		f(i, n, &a)
	})
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // bounded by what is in flight
	}
	if err != nil {
		return fault.Wrap(fault.Transient, err, "subscribe for acknowledgements")
	}
	l.inbox = inbox
	return nil
}

func (c *committer) writer(i uint64) *writer {
	list := c.list.Load()
	if list == nil || i >= uint64(len(*list)) {
		return nil
	}
	return (*list)[i]
}

// keep runs until Close. It repairs what breaks: it dials again, finds out what
// became of the rows in flight, and sends again what was not stored.
func (c *committer) keep() {
	defer close(c.kept)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var wait backoff
	var seen uint64 // progress at the last repair
	silent, stuckAt := 0, uint64(0)
	var late lap
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.gone():
		case <-c.wake:
		case <-c.lease.stale:
			if !c.renewLease() {
				return
			}
			continue
		case <-ticker.C:
			if c.exact && !c.renewLease() {
				return
			}
			p := c.progress.Load()
			if p != stuckAt || !c.pending() {
				c.tell("") // rows get through again
			}
			if late.tick(c.snapshot()) {
				if c.denied() {
					return
				}
				c.drop()
				break
			}
			if p != stuckAt || !c.waiting() {
				silent, stuckAt = 0, p
				continue
			}
			silent++
			if c.denied() {
				return
			}
			if time.Duration(silent)*time.Second < stuckAfter {
				continue
			}
			silent = 0
			c.drop()
		}
		if p := c.progress.Load(); p != seen {
			wait.reset()
			seen = p
		} else if sleep(c.ctx, wait.next()) != nil {
			return
		}
		if !c.repair(&wait) {
			return
		}
		late = lap{}
	}
}

// gone is closed when the current connection is lost.
func (c *committer) gone() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return nil
	}
	return c.link.gone
}

// waiting reports whether rows that were sent wait for their answer.
func (c *committer) waiting() bool {
	for _, w := range c.snapshot() {
		if w.open.Load() && w.tail.Load() > w.head.Load() {
			return true
		}
	}
	return false
}

// pending reports whether there are rows that are not stored.
func (c *committer) pending() bool {
	return slices.ContainsFunc(c.snapshot(), func(w *writer) bool { return w.tail.Load() > w.head.Load() })
}

// denied fails the attempt when the server has refused the permission to publish a
// row that waits for its answer.
func (c *committer) denied() bool {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil {
		return false
	}
	err := l.deniedRow(c.sent)
	if err == nil {
		return false
	}
	c.fail(fault.WithClass(fault.Wrap(fault.Config, err, "publish to stream %s", c.sink.stream.name), classPermission))
	return true
}

// sent reports whether a row with a subject waits for its answer.
func (c *committer) sent(subject string) bool {
	found := false
	for _, w := range c.snapshot() {
		w.each(func(_ uint64, s *slot) { found = found || s.state == slotSent && string(s.subject) == subject })
	}
	return found
}

// drop closes the current connection.
func (c *committer) drop() {
	c.mu.Lock()
	l := c.link
	c.link, c.ready = nil, false
	c.mu.Unlock()
	if l != nil {
		l.close()
	}
}

func (c *committer) snapshot() []*writer {
	if list := c.list.Load(); list != nil {
		return *list
	}
	return nil
}

// fail ends the attempt.
func (c *committer) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	for _, w := range c.snapshot() {
		w.fail(err)
	}
}

// repair brings the writers back to work. It returns false when the attempt is
// over.
func (c *committer) repair(wait *backoff) bool {
	c.mu.Lock()
	c.ready = false
	c.mu.Unlock()
	for {
		for _, w := range c.snapshot() {
			w.open.Store(false)
			if err := w.failure(); err != nil && fault.KindOf(err) != fault.Restart {
				c.fail(err)
				return false
			}
		}
		err := c.repairOnce(c.ctx)
		if c.ctx.Err() != nil {
			return false
		}
		if p := c.refusal.Swap(nil); p != nil && err == nil {
			// What was refused has been sent again; if nothing gets through, that is
			// repeated with growing pauses.
			c.sink.log.Warn("nats server refused rows; they are sent again", "query", c.req.Query, "sink", c.req.Sink, "reason", (*p).Error())
			c.tell((*p).Error()) // until rows get through
			return true
		}
		if err == nil {
			c.tell("")
			return true
		}
		if fault.KindOf(err) != fault.Transient {
			c.fail(err)
			return false
		}
		if c.tell(err.Error()) {
			c.sink.log.Warn("nats sink repairs its connection", "query", c.req.Query, "sink", c.req.Sink, "reason", err.Error())
		}
		if sleep(c.ctx, wait.next()) != nil {
			return false
		}
	}
}

// repairOnce connects if necessary, resolves the rows in flight and sends again
// those that were not stored.
func (c *committer) repairOnce(ctx context.Context) error {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	fence := c.putFence
	if l != nil && l.alive() {
		fence = c.checkFence
		// Rows were refused. Those behind them may still be stored: wait for
		// their answers, else the rows could not be told from lost ones.
		if !c.settle(ctx) {
			c.drop()
			return fault.New(fault.Transient, "nats server %s does not answer", c.sink.conn.hosts())
		}
	} else {
		c.drop()
		var err error
		if l, err = c.sink.conn.dial(ctx); err != nil {
			return err
		}
		c.install(l) // so that Close closes it; writers are not told yet
	}
	if err := c.verify(ctx, l); err != nil {
		return err
	}
	if err := fence(ctx, l); err != nil { // before rows are looked for
		return err
	}
	if c.exact {
		if err := c.resolve(ctx, l); err != nil {
			return err
		}
	}
	if err := c.subscribe(l); err != nil {
		return err
	}
	return c.resume(ctx, l)
}

// resume lets all writers go on with l, which is verified and subscribed.
func (c *committer) resume(ctx context.Context, l *link) error {
	done := map[*writer]bool{}
	for {
		for _, w := range c.snapshot() {
			if done[w] {
				continue
			}
			if err := w.resend(ctx, l); err != nil {
				return err
			}
			done[w] = true
		}
		c.mu.Lock()
		complete := len(done) == len(c.snapshot())
		c.ready = complete // writers made from now on start with l
		c.mu.Unlock()
		if complete {
			return nil
		}
	}
}

// verify makes sure that the stream is the same and that this attempt may still
// publish.
func (c *committer) verify(ctx context.Context, l *link) error {
	info, err := c.checkStream(ctx, l)
	if err != nil || !c.exact {
		return err
	}
	if err := c.checkScanFrom(info); err != nil {
		return err
	}
	return c.own(ctx, l)
}

// resolve finds out which of the rows without an answer are in the stream, and
// whether an exclusive one holds anything else.
func (c *committer) resolve(ctx context.Context, l *link) error {
	type place struct {
		w   *writer
		row uint64
	}
	open := map[messages.ID128]place{}
	from := uint64(math.MaxUint64)
	c.mu.Lock()
	created := c.created
	c.mu.Unlock()
	for _, w := range c.snapshot() {
		w.each(func(row uint64, s *slot) {
			open[s.id] = place{w, row}
			from = min(from, s.bound+1)
		})
	}
	var own ranges
	var known uint64
	if c.order != nil {
		own, known = c.order.known()
		from = min(from, known+1)
	} else if len(open) == 0 {
		return nil
	}
	info, err := l.info(ctx, &c.sink.stream)
	if err != nil {
		return err
	}
	if err := c.checkTail(info, created, from); err != nil {
		return err
	}
	var alien intruder
	cfg := scanConfig{stream: c.sink.stream.name, from: from, tag: c.tag}
	if c.order != nil {
		fence := c.fencePlace().subject
		cfg.other = func(seq uint64, subject string) {
			if seq > known && !own.has(seq) && subject != fence {
				alien.note(seq, subject, false)
			}
		}
	}
	end, err := l.scan(ctx, cfg, func(id messages.ID128, seq uint64) {
		if p, ok := open[id]; ok {
			p.w.found(p.row, seq)
		} else if seq > known && !own.has(seq) {
			alien.note(seq, string(appendHexID(nil, id)), true)
		}
	})
	if err != nil || c.order == nil {
		return err
	}
	c.order.reset(l, end)
	return alien.err(c.sink.stream.name)
}

// settle waits until no row that was sent on the current connection is without
// an answer. It gives up after stuckAfter or when the connection is lost.
func (c *committer) settle(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	for _, w := range c.snapshot() {
		for w.sent() > 0 {
			select {
			case <-w.answers:
			case <-c.gone():
				return false
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}
