package nats

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// headerExpected makes the server refuse a row unless the last message of the
	// stream has that sequence.
	headerExpected = nats.ExpectedLastSeqHdr
	// headerFence makes the server refuse a row unless the last message for the
	// subject in headerFenceSubject has that sequence.
	headerFence        = nats.ExpectedLastSubjSeqHdr
	headerFenceSubject = jetstream.ExpectedLastSubjSeqSubjHeader
	// fenceSubjects begins the subject of the fences of exclusive sinks, which lie in
	// the stream of the rows.
	fenceSubjects = "streamd.fences."
	// fenceVersion is the first server that knows headerFenceSubject. Older ones would
	// take the number for a sequence of the row's own subject, and refuse the row.
	fenceVersion = "2.11.0"
)

// sequencer numbers the rows of an exclusive sink. Each row says which sequence
// it follows, the one of the row sent before it, so that the server refuses
// everything behind a message that somebody else has published, or behind a row
// of an earlier attempt that was taken out of a socket late. Rows of all subtasks
// go out one after the other for that; they do not wait for their answers.
//
// A message of somebody else costs one row: the next one finds the sequence that
// it expects again. So a refusal is looked into at once, though it proves nothing:
// rows behind one that the server could not take are refused, too. Whatever lies
// behind the end as last looked at must be a row that was acknowledged, or one
// that waits for its answer; see committer.resolve.
//
// # Fences
//
// A row of a process that was replaced may fit the end of the stream by chance, if
// its successor has come just there. So the stream holds a fence besides, a
// message that an attempt puts there when it takes over, before it looks for rows
// of earlier ones, and each row names the fence that it was sent behind. The server
// compares it with the last one while it stores the row: behind a new fence no row
// of an earlier attempt is stored any more, whenever it arrives, nor one that was
// left in a connection of this attempt that it has given up.
//
// Only the owner of the marker may put a fence there, by a compare-and-set on one
// that was read before the marker was; see committer.fence. Limits of the stream
// may remove the fence. Then all rows are refused until it is put there again.
//
// The server does so for streams with one replica. In one with several it takes no
// second row that names the same fence until the first is replicated (code 10164,
// seen with 2.15.3), which would leave one row in flight. Rows name no fence there.
type sequencer struct {
	single atomic.Bool // the stream has one replica
	least  string      // version of the server

	mu sync.Mutex
	// mu guards the fields below. It is held while a row is handed to the
	// connection, which copies it, but not while an answer is waited for.
	link     *link
	last     uint64 // sequence of the row sent last, if it is stored
	digits   [20]byte
	expected [1]string
	fence    uint64    // sequence of our fence
	fenced   [1]string // the same as text
	subject  [1]string // of the fence

	acks sync.Mutex
	// acks guards the fields below.
	base uint64 // end of the stream as last looked at
	own  ranges // acknowledged sequences behind it
}

// publish sends a row on l. Rows for a connection that is no longer the current
// one are not counted: they cannot be stored in order any more.
func (q *sequencer) publish(p *publication, l *link, writer int, row uint64, s *slot) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expected[0] = alias(strconv.AppendUint(q.digits[:0], q.last, 10))
	p.msg.Header[headerExpected] = q.expected[:]
	if q.single.Load() {
		p.msg.Header[headerFence], p.msg.Header[headerFenceSubject] = q.fenced[:], q.subject[:]
	} else {
		delete(p.msg.Header, headerFence)
		delete(p.msg.Header, headerFenceSubject)
	}
	err := p.publish(l, writer, row, s)
	if err == nil && l == q.link {
		q.last++
	}
	return err
}

// reset begins behind sequence end, which must be the stream's last. Nobody may
// publish meanwhile.
func (q *sequencer) reset(l *link, end uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.link, q.last = l, end
	q.acks.Lock()
	defer q.acks.Unlock()
	q.base, q.own = end, nil
}

// setFence notes where our fence is.
func (q *sequencer) setFence(seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fence, q.fenced[0] = seq, strconv.FormatUint(seq, 10)
}

// fencePlace is where the fences of an exclusive sink lie.
func (c *committer) fencePlace() place {
	return place{c.sink.stream.name, fenceSubjects + escaped(c.req.Query) + "." + escaped(c.req.Sink)}
}

// putFence puts a new fence into an exclusive stream. The marker must be ours. It
// is read once more behind the last fence: as a successor puts its own there after
// it has taken the marker, the write fails if there is one. Limits of the stream may
// remove that one, too; so after a write where none was the marker is read again: if
// it is still ours, a successor's fence comes later.
func (c *committer) putFence(ctx context.Context, l *link) error {
	if c.order == nil {
		return nil
	}
	for {
		_, last, err := l.readMarker(ctx, c.fencePlace())
		if err != nil {
			return err
		}
		if err := c.own(ctx, l); err != nil {
			return err
		}
		err = c.replaceFence(ctx, l, last)
		if err == nil || !isWrongLast(err) {
			return err
		}
	}
}

// replaceFence puts a new fence there if the last one is at sequence last, 0 for none.
func (c *committer) replaceFence(ctx context.Context, l *link, last uint64) error {
	seq, err := l.writeMarker(ctx, c.fencePlace(), c.newMarker(0, 0), last)
	if err != nil {
		return err
	}
	if last == 0 {
		if err := c.own(ctx, l); err != nil {
			return err
		}
	}
	c.order.setFence(seq)
	return nil
}

// checkFence puts a new fence there unless the last one is ours, on a connection
// that rows were sent on and whose answers have come.
func (c *committer) checkFence(ctx context.Context, l *link) error {
	if c.order == nil {
		return nil
	}
	_, last, err := l.readMarker(ctx, c.fencePlace())
	c.order.mu.Lock()
	ours := last == c.order.fence
	c.order.mu.Unlock()
	if err != nil || ours {
		return err
	}
	return c.putFence(ctx, l)
}

// acked notes that a row is stored at seq.
func (q *sequencer) acked(seq uint64) {
	q.acks.Lock()
	defer q.acks.Unlock()
	if seq > q.base {
		q.own = q.own.add(seq)
	}
}

// known returns the acknowledged sequences behind the end as last looked at, and
// up to where they leave nothing out.
func (q *sequencer) known() (own ranges, upTo uint64) {
	q.acks.Lock()
	defer q.acks.Unlock()
	own = q.own.normal(0)
	if len(own) > 0 && own[0].from == q.base+1 {
		return own, own[0].to
	}
	return own, q.base
}

// intruder is the first message in an exclusive stream that is not of this
// attempt.
type intruder struct {
	seq  uint64
	what string // subject, or identity of the row
	own  bool   // of an earlier attempt of the same query and sink
}

// note remembers the first one.
func (i *intruder) note(seq uint64, what string, own bool) {
	if i.seq == 0 {
		*i = intruder{seq, what, own}
	}
}

// err says what to do about it. What an earlier attempt has left is found by
// the next one; a message of somebody else is not.
func (i *intruder) err(stream string) error {
	switch {
	case i.seq == 0:
		return nil
	case i.own:
		err := fault.New(fault.Restart, "exclusive: message %d of stream %s is a row (%s) of an earlier attempt of this query that arrived late; the next attempt takes it over", i.seq, stream, i.what)
		return fault.WithClass(err, classExclusive)
	}
	err := fault.New(fault.Config, "exclusive: message %d of stream %s (subject %s) was published by somebody else; keep others from publishing to the stream "+
		"(give it subjects of its own, and permissions), or leave exclusive out", i.seq, stream, i.what)
	return fault.WithClass(err, classExclusive)
}
