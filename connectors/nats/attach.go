package nats

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// reattach tries to get a feed. done means that Read has to return: the state
// has changed, or the partition has ended.
func (r *reader) reattach(ctx context.Context, dst *connectors.Rows) (done bool, err error) {
	if err := sleep(ctx, r.pause); err != nil {
		return true, err
	}
	r.pause = 0
	if err := r.attach(ctx); err != nil {
		was := r.status
		if err = r.broken(ctx, dst, err); err != nil {
			return true, err
		}
		return was.State != connectors.Retrying || was.Reason != r.status.Reason, nil
	}
	dst.SetOrigin(r.origin)
	return false, nil
}

// attach makes connection and consumer for the position r.pos. It is the only
// way to get a feed, whether at the start, after a lost connection, or after
// the consumer was lost.
func (r *reader) attach(ctx context.Context) error {
	if r.link != nil && !r.link.alive() {
		r.link.close()
		r.link = nil
	}
	if r.link == nil {
		l, err := r.src.conn.dial(ctx)
		if err != nil {
			return err
		}
		r.link = l
	}
	info, err := r.link.info(ctx, &r.src.stream)
	if err != nil {
		return err
	}
	var held holders
	if r.acks = forgets(info); r.acks {
		if err := r.checkStart(info); err != nil {
			return err
		}
		if held, err = r.holders(ctx); err != nil {
			return err
		}
	}
	if err := r.place(info, &held); err != nil {
		return err
	}
	if r.bounded && !r.ends {
		r.last, r.ends = info.State.LastSeq, true
	}
	if err := r.open(ctx, info, &held); err != nil {
		return err
	}
	r.replicated, r.end = replicated(info), info.State.LastSeq
	r.settled, r.ask, r.lag = !r.replicated, true, 0
	if r.settled && r.feed.pending == 0 {
		r.placeEmpty(r.end)
	}
	r.wait.reset()
	r.idle, r.look, r.left = 0, time.Time{}, time.Now()
	return nil
}

// open makes the consumer.
func (r *reader) open(ctx context.Context, info *jetstream.StreamInfo, held *holders) (err error) {
	if r.acks {
		r.receipts.begin(&r.pos)
		return r.openDurable(ctx, info, held)
	}
	c := feedConfig{stream: r.src.stream.name, filter: r.filter, seq: r.pos.NextSeq, window: r.window()}
	if r.pos.NextSeq == 0 {
		c.time = r.src.start.time
	}
	r.feed, err = r.link.openFeed(ctx, c)
	return err
}

// window is how many messages may be on their way: enough for the next Read
// while one is being worked on.
func (r *reader) window() int { return min(max(2*r.maxRows, 64), 8192) }

// place compares the position with the stream as it is now and decides where
// to read. The server would answer none of these cases with an error.
func (r *reader) place(info *jetstream.StreamInfo, held *holders) error {
	first, next := max(info.State.FirstSeq, 1), info.State.LastSeq+1
	name := r.src.stream.name
	switch {
	case r.pos.Created.IsZero():
		if err := r.placeStart(first, next); err != nil {
			return err
		}
	case !r.pos.Created.Equal(info.Created):
		if !r.src.warn {
			err := connectors.Foreign("stream %s was deleted and re-created at %s; the checkpoint belongs to the one of %s; "+
				"start the query anew (--fresh %s), or set on_data_loss = 'warn' to read the new stream from its first message",
				name, formatCreated(info.Created), formatCreated(r.pos.Created), r.req.Query)
			return fault.WithClass(err, classRecreated)
		}
		r.src.log.Warn("stream was re-created; reading it from its first message", "stream", name, "filter", r.filter)
		r.pos.NextSeq, r.gap, r.ends = first, 0, false
		r.receipts.restart(first)
	case r.pos.NextSeq > next:
		if !r.src.warn {
			err := connectors.Foreign("stream %s ends at sequence %d, the checkpoint continues at %d; the stream was restored from an older copy; "+
				"start the query anew (--fresh %s), or set on_data_loss = 'warn' to go on at the stream's end", name, next-1, r.pos.NextSeq, r.req.Query)
			return fault.WithClass(err, classBeyondEnd)
		}
		r.src.log.Warn("checkpoint lies beyond the end of the stream; going on at its end", "stream", name, "filter", r.filter, "position", r.pos.NextSeq, "end", next)
		r.pos.NextSeq, r.gap = next, 0
		r.receipts.restart(next)
	case r.acks:
		if err := r.checkHolders(info, held); err != nil {
			return err
		}
		r.gap = 0
	default:
		from := r.pos.NextSeq
		if r.gap != 0 {
			from = r.gap
		}
		if from != 0 && first > from {
			if err := r.loss(from, first); err != nil {
				return err
			}
		}
		r.gap = 0
		if r.pos.NextSeq != 0 {
			r.pos.NextSeq = max(r.pos.NextSeq, first)
		}
	}
	return r.identify(info)
}

// placeStart applies the option start. A sequence is fixed at once if it can be,
// so that a lost connection does not move it.
func (r *reader) placeStart(first, next uint64) error {
	switch s := r.src.start; s.kind {
	case startEarliest:
		// Left open until the first message: a stream that is being trimmed
		// would otherwise lose its first message before the consumer exists.
		r.pos.NextSeq = 0
	case startLatest:
		r.pos.NextSeq = next
	case startTime:
		r.pos.NextSeq = 0
	case startSeq:
		if s.seq > next {
			err := fault.New(fault.Config, "start: stream %s ends at sequence %d, before %d", r.src.stream.name, next-1, s.seq)
			return fault.WithClass(err, classBeyondEnd)
		}
		if s.seq < first {
			if err := r.loss(s.seq, first); err != nil {
				return err
			}
		}
		r.pos.NextSeq = max(s.seq, first)
	}
	return nil
}

// identify binds the position to the stream.
func (r *reader) identify(info *jetstream.StreamInfo) error {
	r.pos.Stream, r.pos.Filter, r.pos.Created = r.src.stream.name, r.filter, info.Created
	p, err := r.pos.prefix()
	if err != nil {
		return err
	}
	r.prefix, r.origin, r.known = p, r.pos.origin(), true
	return nil
}
