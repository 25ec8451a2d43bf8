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
	end := info.State.LastSeq
	if from > end {
		return end, nil
	}
	f, err := l.openFeed(ctx, feedConfig{stream: stream, seq: from, headersOnly: true, window: 8192})
	if err != nil {
		return 0, err
	}
	defer f.close(ctx)
	var d delivery
	for at := uint64(0); at < end && !f.drained(); {
		select {
		case m := <-f.ch:
			ok, err := f.accept(m, &d)
			if err != nil {
				return 0, err
			}
			if !ok {
				continue
			}
			at = d.seq
			each(m, d.seq)
		case <-f.ticker.C:
			if _, err := f.tick(); err != nil {
				return 0, err
			}
			if err := f.confirm(ctx); err != nil {
				return 0, err
			}
		case <-l.gone:
			return 0, fault.New(fault.Transient, "connection lost while stream %s was read: %s", stream, l.reason())
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return max(end, d.seq), nil
}
