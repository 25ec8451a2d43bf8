package nats

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// lookEvery is how often a transactional sink without rows looks at its marker, at
// most.
const lookEvery = time.Second

// # A marker that limits have removed
//
// The marker lies in the stream of the rows, so that the stream's limits (max_age,
// max_msgs, max_bytes) remove it like any other message, if the query is quiet for
// long enough. A missing marker alone does not tell that nobody has taken over and
// that no batch was stored: what they have left may have been removed, too. But the
// stream gives out ascending sequences. If the marker is known to have been the last
// one when the stream ended at sequence S (seen), and everything behind S is still
// there, a marker written since would be found. Then, and only then, it is put back,
// by a compare-and-set on the place being empty, so that of several attempts that
// find the same one wins.
//
// S is the marker itself as long as nobody else publishes to the stream. So that it
// keeps up with others, the sink looks at the marker once a second when it has no
// rows, or more often if max_age is short. The token of an epoch has S, as known
// before any of its rows was published, for the next attempt.
//
// What remains: an attempt that is frozen between the last look at the stream and
// the write of the marker, for longer than the stream keeps its successor's marker.

// take waits until nobody else publishes or looks.
func (c *transactionCommitter) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *transactionCommitter) give() { <-c.turn }

// keepMarker looks at the marker until Close, or until it is lost to somebody else.
func (c *transactionCommitter) keepMarker() {
	defer close(c.kept)
	for {
		every := lookEvery
		if age := time.Duration(c.maxAge.Load()); age > 0 {
			every = min(every, age/4)
		}
		if sleep(c.ctx, every) != nil {
			return
		}
		err := c.look(c.ctx)
		if c.ctx.Err() != nil {
			return
		}
		if err != nil && fault.KindOf(err) != fault.Transient {
			c.fail(err)
			return
		}
	}
}

// look makes sure that the marker is ours and there, unless an epoch was published
// since the last look. It connects if necessary.
func (c *transactionCommitter) look(ctx context.Context) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	c.mu.Lock()
	l, err, moved := c.link, c.err, c.marker != c.looked
	c.looked = c.marker
	c.mu.Unlock()
	if err != nil || moved {
		return err
	}
	if l == nil || !l.alive() {
		return c.publish(ctx, 0, c.verify)
	}
	info, err := l.info(ctx, &streamSpec{name: c.sink.stream.name})
	if err == nil {
		err = c.sameMarker(ctx, l, info)
	}
	switch {
	case err == nil:
		c.tell("")
	case fault.KindOf(err) == fault.Transient && ctx.Err() == nil:
		c.tell(err.Error()) // a server that is only slow does not lose the connection for that
	}
	return err
}

// sameMarker makes sure that the stream is the same and the marker ours. info must
// have been asked for before.
func (c *transactionCommitter) sameMarker(ctx context.Context, l *link, info *jetstream.StreamInfo) error {
	c.mu.Lock()
	created := c.created
	c.mu.Unlock()
	if err := c.checkIdentity(info, created); err != nil {
		return err
	}
	c.maxAge.Store(int64(info.Config.MaxAge))
	_, err := c.reread(ctx, l, info.State.LastSeq)
	return err
}

// reread reads the marker, which must be ours, and puts it back if limits have
// removed it. The stream had come to sequence end before. It reports whether the
// marker has changed.
func (c *transactionCommitter) reread(ctx context.Context, l *link, end uint64) (changed bool, err error) {
	m, at, err := l.readMarker(ctx, c.markerPlace())
	if err != nil {
		return false, err
	}
	if m == nil {
		if m, at, err = c.putBack(ctx, l, at); err != nil {
			return false, err
		}
	}
	c.markerPresent()
	if m.Nonce != c.nonce {
		return false, c.lost(m)
	}
	c.mu.Lock()
	changed = c.marker != at
	c.mu.Unlock()
	c.noteMarker(m.Epoch, at, end)
	return changed, nil
}

// noteMarker notes that our marker is at sequence at: epochs up to done are
// published. end is the end of the stream as known before that was read.
func (c *transactionCommitter) noteMarker(done messages.Epoch, at, end uint64) {
	// Prepare takes seen first and the epochs that are not confirmed then, so that
	// it names none that lies before seen.
	c.rows.Confirm(done)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marker, c.committed, c.seen = at, done, max(c.seen, at, end)
}

// putBack writes our marker once more. last is what readMarker has said about the
// place.
func (c *transactionCommitter) putBack(ctx context.Context, l *link, last uint64) (*marker, uint64, error) {
	info, err := l.details(ctx, c.sink.stream.name)
	if err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	seen, own, done, created := c.seen, c.marker, c.committed, c.created
	c.mu.Unlock()
	if err := c.checkIdentity(info, created); err != nil {
		return nil, 0, err
	}
	switch end := info.State.LastSeq; {
	case info.State.FirstSeq <= own: // limits remove what is first
		if err := c.markerAbsent(); err != nil {
			return nil, 0, err
		}
		err = c.fenced(nil)
	case !holds(info, seen+1):
		err = c.trimmed(info, seen+1, "whether another attempt has taken over")
	case c.sink.exclusive && end > own:
		alien := intruder{seq: end, what: "no longer known"}
		err = alien.err(info.Config.Name)
	}
	if err != nil {
		c.fail(err)
		return nil, 0, err
	}
	m := c.newMarker(done, 0)
	at, err := l.writeMarker(ctx, c.markerPlace(), m, last)
	return m, at, err
}

// unmarked finds out what is published when there is no marker of this query: a
// token that has been committed says which epochs may be, and from which sequence on
// their rows would lie. It returns the last epoch that is published.
func (c *transactionCommitter) unmarked(ctx context.Context, l *link, pending []messages.Epoch, from uint64) (messages.Epoch, error) {
	m, _, err := l.readMarker(ctx, c.markerPlace())
	if err != nil {
		return 0, err
	}
	info, err := l.details(ctx, c.sink.stream.name)
	if err != nil {
		return 0, err
	}
	doubt := fmt.Sprintf("whether epoch %d was published", pending[0])
	switch {
	case m != nil && m.Incarnation == c.incarnation():
		return 0, fault.New(fault.Transient, "attempt %d of query %q takes over sink %s at the same time", m.Attempt, c.req.Query, c.req.Sink)
	case m != nil:
		err := fault.New(fault.Config, "transactional: the marker of the query (subject %s in stream %s) was replaced by that of another query of the same name (incarnation %.8s), so that nothing tells %s; "+
			"look into the stream and start the query afresh", c.markerPlace().subject, info.Config.Name, m.Incarnation, doubt)
		return 0, fault.WithClass(err, classTrimmed)
	case !holds(info, from):
		return 0, c.trimmed(info, from, doubt)
	}
	return pending[0] - 1, nil
}

// trimmed is the error of a sink that has lost its marker, and with it what doubt
// says.
func (c *transactionCommitter) trimmed(info *jetstream.StreamInfo, from uint64, doubt string) error {
	err := fault.New(fault.Config, "transactional: the marker of the query (subject %s) is no longer in stream %s, nor is everything that was published from sequence %d on "+
		"(the stream begins with %d, and %d messages behind that are deleted), so that nothing tells %s; give the stream larger limits; look into the stream and start the query afresh",
		c.markerPlace().subject, info.Config.Name, from, info.State.FirstSeq, info.State.NumDeleted, doubt)
	return fault.WithClass(err, classTrimmed)
}

// details asks for the state of a stream with the sequences that were deleted.
func (l *link) details(ctx context.Context, stream string) (info *jetstream.StreamInfo, err error) {
	err = l.call(ctx, "look up stream "+stream, func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, stream)
		if err == nil {
			info, err = s.Info(ctx, jetstream.WithDeletedDetails(true))
		}
		return err
	})
	return info, err
}

// holds reports whether a stream still has everything that it has taken from
// sequence from on. info must be one of details.
func holds(info *jetstream.StreamInfo, from uint64) bool {
	s := info.State
	if s.FirstSeq > from || len(s.Deleted) < s.NumDeleted {
		return false
	}
	for _, seq := range s.Deleted {
		if seq >= from {
			return false
		}
	}
	return true
}
