package nats

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// advanceTicks is how often an idle reader with a filter moves its position
// past messages of others, in ticks. Without it a stream that is trimmed would
// seem to have lost what this reader never wanted.
const advanceTicks = 10

// lookPause is how long a jump of sequences is not looked into after the last one,
// unless the server answers slowly.
const lookPause = 50 * time.Millisecond

// reader reads one partition.
type reader struct {
	src       *source
	partition string
	filter    string
	bounded   bool
	maxRows   int

	link *link // nil before the first connection
	feed *feed // nil while there is none
	wait backoff
	// pause is how long to wait before the next try.
	pause  time.Duration
	status connectors.Status // as last reported

	pos    position
	prefix []byte // of offsets
	origin messages.ID128
	known  bool      // pos.Created, prefix and origin are set
	last   uint64    // bounded: the last sequence to read
	ends   bool      // bounded: last is set
	gap    uint64    // first sequence of a jump that was not looked into; 0: none
	gapEnd uint64    // where the jump ended
	look   time.Time // when a jump may be looked into again before the next tick
	idle   int       // ticks without a message

	end        uint64    // the stream's last sequence when the consumer was made, or when advance last looked
	replicated bool      // the consumer may know less than the stream's leader; see leader.go
	settled    bool      // all up to end was read
	ask        bool      // something has happened since the leader was asked about that
	lag        int       // how often the leader was asked in vain
	left       time.Time // when the last Read returned

	req         connectors.ReadRequest // From is not used
	names       [2]string              // of the consumer, for streams that forget
	incarnation string                 // of the query
	acks        bool                   // the stream forgets what is acknowledged
	receipts    receipts

	msg  *nats.Msg // current message, for meta
	at   delivery
	meta connectors.Meta
}

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	if r.known {
		dst.SetOrigin(r.origin)
	}
	if r.feed != nil && time.Since(r.left) > pullHeartbeat { // requests may have expired meanwhile
		r.feed.ranDry()
	}
	defer func() { r.left = time.Now() }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.feed == nil {
			done, err := r.reattach(ctx, dst)
			if done || err != nil {
				return err
			}
			if r.feed == nil {
				continue
			}
		}
		select {
		case <-r.feed.ticker.C:
			if err := r.tick(ctx); err != nil {
				return r.broken(ctx, dst, err)
			}
		default:
		}
		end, err := r.drain(ctx, dst)
		if err == nil && !end && dst.Payloads == 0 {
			err = r.settle(ctx)
		}
		if err != nil {
			return r.broken(ctx, dst, err)
		}
		if s := r.now(); end || dst.Payloads > 0 || s.State != r.status.State {
			if end || r.bounded && s.State == connectors.CaughtUp {
				return r.finish(dst)
			}
			r.report(dst, s)
			return nil
		}
		if err := r.block(ctx, dst); err != nil {
			return r.broken(ctx, dst, err)
		}
	}
}

// block waits for something to happen and handles it.
func (r *reader) block(ctx context.Context, dst *connectors.Rows) error {
	select {
	case m := <-r.feed.ch:
		_, err := r.take(m, dst)
		return err
	case <-r.feed.ticker.C:
		return r.tick(ctx)
	case <-r.link.gone:
		return fault.New(fault.Transient, "connection to nats server %s lost: %s", r.src.conn.hosts(), r.link.reason())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain takes what is there. It reports whether the bounded end was passed.
func (r *reader) drain(ctx context.Context, dst *connectors.Rows) (end bool, err error) {
	for !end && !dst.Full(r.maxRows) {
		select {
		case m := <-r.feed.ch:
			if end, err = r.take(m, dst); err != nil {
				return false, err
			}
			continue
		default:
		}
		break
	}
	if r.gap != 0 && time.Now().After(r.look) {
		err = r.lookIntoGap(ctx)
	}
	return end || r.ends && r.pos.NextSeq > r.last, err
}

// take handles one message. It reports whether it lies beyond the bounded end.
func (r *reader) take(m *nats.Msg, dst *connectors.Rows) (bool, error) {
	ok, err := r.feed.accept(m, &r.at)
	if !ok {
		return false, err
	}
	broken := err // only asking for more failed: this message counts
	seq := r.at.seq
	r.ask, r.lag = true, 0
	switch {
	case r.acks && seq < r.pos.NextSeq:
		r.idle = 0
		if err := r.receipts.again(seq, m.Reply); err != nil {
			return false, err
		}
		return false, broken
	case seq < r.pos.NextSeq, r.pos.NextSeq == 0 && r.at.time < r.startNanos():
		// A replica that ends before the start may begin at its own end instead.
		return false, cmp.Or(r.skip(m), broken)
	}
	if r.ends && seq > r.last {
		return true, nil
	}
	// With a filter almost every message is behind a gap, and those that keep up need
	// not be asked about: what lies in the gap was not the partition's.
	if r.pos.NextSeq != 0 && seq > r.pos.NextSeq && r.gap == 0 && (r.filter == "" || !r.feed.prompt) {
		r.gap, r.gapEnd = r.pos.NextSeq, seq
	}
	r.idle = 0
	r.msg = m
	r.meta.Offset, r.meta.Arrival = seq, messages.EventTime(r.at.time/1000)
	if n := int64(len(m.Data)); n > r.src.maxRecord {
		err = dst.Refuse(m.Data[:min(len(m.Data), 4096)], fault.New(fault.BadRow, "message of %d bytes is larger than max_record_size (%d)", n, r.src.maxRecord), &r.meta)
	} else {
		err = dst.Record(m.Data, &r.meta)
	}
	r.msg = nil
	if err != nil {
		return false, err
	}
	r.pos.NextSeq = seq + 1
	if r.acks {
		r.receipts.add(seq, m.Reply)
	}
	return false, broken
}

// startNanos is the time before which messages are left out, in nanoseconds.
func (r *reader) startNanos() int64 {
	if r.src.start.kind != startTime {
		return math.MinInt64
	}
	return r.src.start.time.UnixNano()
}

// skip passes over a message before the start. The server may forget it.
func (r *reader) skip(m *nats.Msg) error {
	if !r.acks {
		return nil
	}
	return fault.Wrap(fault.Transient, r.link.nc.Publish(m.Reply, ackBody), "acknowledge message %d of stream %s", r.at.seq, r.src.stream.name)
}

// describe names the current message for people.
func (r *reader) describe() string {
	return fmt.Sprintf("stream %s sequence %d subject %s", r.src.stream.name, r.at.seq, r.msg.Subject)
}

// tick does what is due once a second.
func (r *reader) tick(ctx context.Context) error {
	flows, err := r.feed.tick()
	if err != nil {
		return err
	}
	r.ask = true
	r.idle++
	if flows {
		r.idle = 0 // a large message is on its way; questions would wait behind it
	}
	if r.acks {
		if err := r.receipts.keepAlive(time.Now()); err != nil {
			return err
		}
	}
	if r.gap != 0 {
		if err := r.lookIntoGap(ctx); err != nil {
			return err
		}
	}
	switch {
	case r.idle < 2 || len(r.feed.ch) > 0:
		return nil
	case r.feed.pending > 0:
		// What was announced does not come: it may have been deleted.
		if _, err := r.feed.confirm(ctx); err != nil {
			return err
		}
		if r.feed.pending > 0 {
			return nil
		}
		return r.checkLoss(ctx, r.pos.NextSeq, math.MaxUint64)
	case (r.filter != "" || r.replicated) && r.idle%advanceTicks == 0:
		return r.advance(ctx)
	}
	return nil
}

// advance moves the position of a filtered partition to where the stream ended
// when it was last called, if nothing of it is left before that: the consumer of a
// message that has just been stored may not know of it yet. On a stream with
// several replicas it also finds out whether the consumer's has stayed behind.
func (r *reader) advance(ctx context.Context) error {
	info, err := r.link.info(ctx, &r.src.stream)
	if err != nil {
		return err
	}
	if err := r.sameStream(info); err != nil {
		return err
	}
	end := r.end
	r.end = info.State.LastSeq
	if r.replicated {
		seq, err := r.unread(ctx, r.end)
		if err != nil {
			return err
		}
		if seq != 0 {
			r.settled = false // settle waits for it
			return nil
		}
	}
	// A message that is on its way was sent, so nothing is pending, and was not read.
	arrived, err := r.feed.confirm(ctx)
	if err != nil {
		return err
	}
	if r.filter != "" && r.pos.NextSeq != 0 && arrived && r.feed.drained() {
		r.pos.NextSeq = max(r.pos.NextSeq, end+1)
	}
	return nil
}

// lookIntoGap decides whether a jump of sequences is a hole, which is normal,
// or loss: a hole lies above the first message of the stream. The stream's
// first sequence only grows, so looking later never misses a loss. But it should
// be soon: a filtered partition that jumped over messages of others would seem to
// have lost them when the stream's limits remove them meanwhile.
func (r *reader) lookIntoGap(ctx context.Context) error {
	asked := time.Now()
	if err := r.checkLoss(ctx, r.gap, r.gapEnd); err != nil {
		return err
	}
	now := time.Now()
	r.gap, r.look = 0, now.Add(max(lookPause, 20*now.Sub(asked))) // it costs a twentieth of the time
	return nil
}

// checkLoss looks whether some of the messages [from, to), which were not read,
// have been removed.
func (r *reader) checkLoss(ctx context.Context, from, to uint64) error {
	info, err := r.link.info(ctx, &r.src.stream)
	if err != nil {
		return err
	}
	if err := r.sameStream(info); err != nil {
		return err
	}
	if from == 0 || info.State.FirstSeq <= from || !r.firstTells(info) {
		return nil
	}
	to = min(to, info.State.FirstSeq)
	r.pos.NextSeq = max(r.pos.NextSeq, to)
	return r.loss(from, to)
}

// sameStream notices that the stream is not the one the feed was made for. The
// feed then breaks, and attach decides what to do.
func (r *reader) sameStream(info *jetstream.StreamInfo) error {
	if info.Created.Equal(r.pos.Created) {
		return nil
	}
	return fault.New(fault.Transient, "stream %s was re-created", r.src.stream.name)
}

// loss reports that messages [from, first) are gone.
func (r *reader) loss(from, first uint64) error {
	if r.src.warn {
		r.src.log.Warn("messages were removed from the stream before they were read", "stream", r.src.stream.name, "filter", r.filter,
			"from", from, "to", first-1, "at_most", first-from)
		return nil
	}
	err := fault.New(fault.Config, "stream %s: messages %d to %d were removed before they were read (at most %d of this partition); "+
		"give the stream larger limits, or set on_data_loss = 'warn' to go on without them", r.src.stream.name, from, first-1, first-from)
	return fault.WithClass(err, classDataLoss)
}

// now is the state behind what was read.
func (r *reader) now() connectors.Status {
	if r.feed.drained() && r.settled {
		return connectors.Status{State: connectors.CaughtUp}
	}
	return connectors.Status{State: connectors.Reading, Lag: int64(max(r.feed.pending, uint64(min(r.lag, 1))))}
}

// report completes dst.
func (r *reader) report(dst *connectors.Rows, s connectors.Status) {
	r.status, dst.Status = s, s
	if r.known {
		dst.Next = appendOffset(dst.Next[:0], r.prefix, r.pos.NextSeq)
	}
}

// finish ends a bounded partition.
func (r *reader) finish(dst *connectors.Rows) error {
	if r.pos.NextSeq != 0 {
		r.pos.NextSeq = max(r.pos.NextSeq, r.last+1)
	}
	r.report(dst, connectors.Status{State: connectors.CaughtUp})
	return io.EOF
}

// broken handles an error: what time can cure becomes a status, and the next
// try follows in the next Read.
func (r *reader) broken(ctx context.Context, dst *connectors.Rows, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fault.KindOf(err) != fault.Transient {
		return err
	}
	if r.feed != nil {
		r.receipts.detach()
		r.feed.close(ctx)
		r.feed = nil
	}
	r.pause = r.wait.next()
	r.report(dst, connectors.Status{State: connectors.Retrying, Reason: err.Error(), Lag: -1})
	return nil
}

// Committed acknowledges messages of streams that keep them until then. For
// others there is nothing to do: the position is in our checkpoint only.
func (r *reader) Committed(ctx context.Context, next connectors.Offset) error {
	p, err := parsePosition(next)
	if err != nil {
		return err
	}
	return r.receipts.commit(ctx, &p)
}

// Close gives up consumer and connection.
func (r *reader) Close() error {
	r.receipts.close()
	if r.feed != nil {
		r.feed.close(context.Background())
		r.feed = nil
	}
	if r.link != nil {
		r.link.close()
		r.link = nil
	}
	return nil
}
