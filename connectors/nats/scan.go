package nats

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// The headers of a row.
const (
	headerID   = "Nats-Msg-Id"
	headerSink = "Streamd-Sink"
)

// scanConfig says what to look for.
type scanConfig struct {
	stream string
	from   uint64 // first sequence
	tag    string // value of headerSink; rows of others are skipped
	// other, if not nil, takes what is skipped.
	other func(seq uint64, subject string)
}

// scan reads the headers of a stream from c.from to its end, as of the call,
// and reports the rows of one sink. It returns the last sequence.
func (l *link) scan(ctx context.Context, c scanConfig, row func(id messages.ID128, seq uint64)) (uint64, error) {
	return l.headers(ctx, c.stream, c.from, func(m *nats.Msg, seq uint64) {
		id, isRow := parseHexID(m.Header.Get(headerID))
		if isRow = isRow && m.Header.Get(headerSink) == c.tag; isRow {
			row(id, seq)
		} else if c.other != nil {
			c.other(seq, m.Subject)
		}
	})
}

// headers reads the messages of a stream from a sequence to its end, as of the
// call, without their payloads. It returns the last sequence.
func (l *link) headers(ctx context.Context, stream string, from uint64, each func(m *nats.Msg, seq uint64)) (uint64, error) {
	info, err := l.info(ctx, &streamSpec{name: stream})
	if err != nil {
		return 0, err
	}
	s := stretch{stream: stream, next: max(from, 1), end: info.State.LastSeq, replicated: replicated(info), each: each}
	for s.next <= s.end {
		done, err := l.readStretch(ctx, &s)
		if err != nil {
			return 0, err
		}
		if done {
			break
		}
		if s.futile++; s.futile == lagConsumers {
			return 0, lagError(stream, max(s.behind, s.next))
		}
	}
	return max(s.end, s.next-1), nil
}

// stretch is the part of a stream that is left to be read.
type stretch struct {
	stream     string
	next, end  uint64
	replicated bool
	each       func(m *nats.Msg, seq uint64)
	behind     uint64 // a message that the leader holds and the last consumer did not bring
	futile     int    // consumers that have brought nothing
}

// readStretch reads through one consumer. It reports whether the end was reached; if not,
// the consumer is on a replica that lags, or out of reach, and another one has to
// go on.
func (l *link) readStretch(ctx context.Context, s *stretch) (done bool, err error) {
	f, err := l.openFeed(ctx, feedConfig{stream: s.stream, seq: s.next, headersOnly: true, window: 8192})
	if err != nil {
		return false, err
	}
	defer f.close(ctx)
	var d delivery
	for ask, asked := true, 0; s.next <= s.end; {
		if ask && f.drained() {
			ask = false
			if done, err := l.complete(ctx, s); done || err != nil {
				return done, err
			}
			if asked++; asked > lagTicks {
				return false, nil
			}
		}
		select {
		case m := <-f.ch:
			ok, err := f.accept(m, &d)
			if f.unknown {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if !ok || d.seq < s.next { // a replica that ends before may begin at its own end
				continue
			}
			ask, asked = true, 0
			s.next, s.futile = d.seq+1, 0
			s.each(m, d.seq)
		case <-f.ticker.C:
			ask = true
			if _, err := f.tick(); err != nil {
				return false, err
			}
			if _, err := f.confirm(ctx); err != nil {
				return false, err
			}
		case <-l.gone:
			return false, fault.New(fault.Transient, "connection lost while stream %s was read: %s", s.stream, l.reason())
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, nil
}

// complete reports whether nothing of a stretch is left when its consumer says so.
func (l *link) complete(ctx context.Context, s *stretch) (bool, error) {
	if !s.replicated {
		return true, nil
	}
	m, err := l.next(ctx, s.stream, "", s.next)
	s.behind = m.Seq
	return err == nil && (m.Seq == 0 || m.Seq > s.end), err
}
