package nats

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// transactionSubjects begins the subject of the markers of transactions, which
	// lie in the stream of the rows.
	transactionSubjects = "streamd.transactions."
	// atomicVersion is the first server with atomic batches. Older ones would store
	// the messages of a batch one by one.
	atomicVersion = "2.12.0"
	// askAfter is how many bytes of a batch may be on their way before the server
	// has to say that it has them: it drops what it has no room for.
	askAfter = 1 << 20
	// batchTimeout is how long the server may take to store a batch. That a server
	// is gone is noticed earlier.
	batchTimeout = time.Minute

	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"

	codeAtomicDisabled = 10174
	codeBatchTooLarge  = 10199
)

// transactionCommitter publishes the rows of an epoch, after the epoch has
// committed, as one atomic batch of JetStream: readers see all of them or none.
//
// The last message of the batch is the marker of the sink: epoch e is published. It
// is part of the batch and a compare-and-set on the marker before it. So the batch
// of e is stored once, whoever sends it how often: a batch of an attempt that was
// replaced, or one that was believed lost and is sent again, is refused as a whole.
// Nothing has to be searched in the stream, and no row carries an identity; a new
// attempt takes over by a marker of its own. Unlike with rows that are published
// one by one, nothing remains exposed when a frozen process wakes up.
//
// The server holds a batch in memory or in a file until its last message has come,
// and forgets it after some seconds without one: it is no place to prepare an
// epoch in. The rows come from the checkpoint (package held). A batch has a limit
// (1,000 messages unless the server is told otherwise). An epoch is asked for early
// at half of it; one that exceeds it fails the query, since publishing it in parts
// would break the promise.
type transactionCommitter struct {
	*committer // connection, checks and markers; keepMarker runs instead of its keeper
	rows       *held.Rows
	encoders   encoders
	taken      bool          // the marker is ours
	turn       chan struct{} // full while somebody publishes, or looks at the marker
	maxAge     atomic.Int64  // limit of the stream, in nanoseconds

	// committer.mu guards the fields below.
	seen   uint64 // our marker was the last one when the stream ended there
	looked uint64 // our marker at the last look
}

func newTransactionCommitter(s *sink, r connectors.WriteRequest) (*transactionCommitter, error) {
	rows, err := held.New(held.Config{Sink: "nats sink", Request: r, MaxRows: int64(s.maxBatch - 1)})
	if err != nil {
		return nil, err
	}
	own := *s
	c := &transactionCommitter{committer: newCommitter(&own, r), rows: rows, turn: make(chan struct{}, 1)}
	own.stream.atomic = true
	own.stream.subjects = append(own.stream.subjects[:len(own.stream.subjects):len(own.stream.subjects)], c.markerPlace().subject)
	c.encoders.sink, c.encoders.schema = c.sink, r.Schema
	return c, nil
}

// Recover implements connectors.Committer. It waits for a server as long as it
// takes.
func (c *transactionCommitter) Recover(ctx context.Context, epoch messages.Epoch, last connectors.Token) error {
	tok, err := decodeAnyToken(last)
	if err != nil {
		return err
	}
	first := func(ctx context.Context, l *link) error { return c.takeOver(ctx, l, epoch, tok) }
	var wait backoff
	for {
		err := c.publish(ctx, epoch, first)
		if err == nil && c.kept == nil {
			c.kept = make(chan struct{})
			go c.keepMarker()
		}
		if err == nil || fault.KindOf(err) != fault.Transient || ctx.Err() != nil {
			return err
		}
		if err := sleep(ctx, wait.next()); err != nil {
			return err
		}
	}
}

// takeOver checks the stream, fences older attempts and finds out what they have
// published.
func (c *transactionCommitter) takeOver(ctx context.Context, l *link, epoch messages.Epoch, last *anyToken) error {
	if c.taken {
		return c.verify(ctx, l)
	}
	if err := l.atLeast(atomicVersion, "guarantee = 'transactional' (atomic batches)"); err != nil {
		return err
	}
	info, old, at, err := c.lookUp(ctx, l)
	if err != nil {
		return err
	}
	setBack := old != nil && old.Epoch > epoch
	if setBack {
		if err := c.ahead(old, epoch); err != nil {
			return err
		}
	}
	m := c.newMarker(0, 0)
	if last != nil {
		if last.epoch == nil || last.epoch.Guarantee != connectors.Transactional {
			if err := last.unsettled(); err != nil {
				return err
			}
		} else {
			if err := c.checkIdentity(info, last.epoch.Created); err != nil {
				return err
			}
			c.rows.Recover(last.epoch.Rows)
		}
	}
	switch {
	case setBack:
		m.Epoch = epoch
		c.rows.Confirm(epoch)
	case old != nil:
		m.Epoch = old.Epoch
		c.rows.Confirm(old.Epoch)
	default:
		if pending := c.rows.Pending(epoch); len(pending) > 0 {
			if m.Epoch, err = c.unmarked(ctx, l, pending, last.epoch.ScanFrom); err != nil {
				return err
			}
		}
	}
	if at, err = l.writeMarker(ctx, c.markerPlace(), m, at); err != nil {
		return err
	}
	c.taken = true
	c.maxAge.Store(int64(info.Config.MaxAge))
	c.noteMarker(m.Epoch, at, 0)
	return nil
}

// verify makes sure, on a new connection, that the stream is the same and that
// this attempt may still publish, and learns what became of a batch whose answer
// was lost.
func (c *transactionCommitter) verify(ctx context.Context, l *link) error {
	if err := l.atLeast(atomicVersion, "guarantee = 'transactional' (atomic batches)"); err != nil {
		return err
	}
	info, err := c.checkStream(ctx, l)
	if err != nil {
		return err
	}
	return c.sameMarker(ctx, l, info)
}

// Writer implements connectors.Committer.
func (c *transactionCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	return newEpochWriter(c.committer, c.rows, subtask)
}

// Begin implements connectors.Committer.
func (c *transactionCommitter) Begin(messages.Epoch) {}

// Prepare implements connectors.Committer.
func (c *transactionCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	c.mu.Lock()
	t := epochToken{Guarantee: connectors.Transactional, Created: c.created, ScanFrom: c.seen + 1}
	err := c.err
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if t.Rows, err = c.rows.Prepare(e, tokens); err != nil {
		if fault.KindOf(err) == fault.Config {
			err = fault.Wrap(fault.Config, err, "transactional: an epoch has to fit into one atomic batch (max_batch_size = %d; the server's limit is jetstream.limits.batch.max_msgs)", c.sink.maxBatch)
			err = fault.WithClass(err, classTooLarge)
		}
		return nil, err
	}
	return t.encode()
}

// Commit implements connectors.Committer.
func (c *transactionCommitter) Commit(ctx context.Context, e messages.Epoch, _ connectors.Token) error {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err != nil || len(c.rows.Pending(e)) == 0 {
		return err
	}
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	return c.publish(ctx, e, c.verify)
}

// publish connects if necessary, calling look with a new connection, and publishes
// the epochs up to last. After an error that is Transient it can be called again.
func (c *transactionCommitter) publish(ctx context.Context, last messages.Epoch, look func(context.Context, *link) error) error {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	var err error
	if l == nil || !l.alive() {
		c.drop()
		if l, err = c.startOnce(ctx, look); err == nil {
			c.install(l)
		}
	}
	for err == nil {
		pending := c.rows.Pending(last)
		if len(pending) == 0 {
			c.tell("")
			return nil
		}
		err = c.epoch(ctx, l, pending[0])
	}
	if fault.KindOf(err) == fault.Transient {
		c.drop() // what the server knows of the batch is looked up on a new connection
		c.tell(err.Error())
	}
	return err
}

// epoch publishes an epoch, or finds that it is published.
func (c *transactionCommitter) epoch(ctx context.Context, l *link, e messages.Epoch) error {
	c.mu.Lock()
	at := c.marker
	c.mu.Unlock()
	end, err := c.batch(ctx, l, e, at)
	if err == nil {
		c.noteMarker(e, end, 0)
		return nil
	}
	if !isWrongLast(err) {
		return err
	}
	changed, readErr := c.reread(ctx, l, 0)
	switch {
	case readErr != nil:
		return readErr
	case changed:
		return nil // an earlier try was stored
	case c.sink.exclusive:
		var alien intruder
		_, scanErr := l.scan(ctx, scanConfig{stream: c.sink.stream.name, from: at + 1, tag: c.tag, other: func(seq uint64, subject string) {
			alien.note(seq, subject, false)
		}}, func(id messages.ID128, seq uint64) { alien.note(seq, string(appendHexID(nil, id)), true) })
		if scanErr == nil {
			scanErr = alien.err(c.sink.stream.name)
		}
		if scanErr != nil {
			return scanErr
		}
	}
	return err
}

// batch sends the rows of e as one batch, with a marker behind them that replaces
// the one at sequence at, and returns its sequence.
func (c *transactionCommitter) batch(ctx context.Context, l *link, e messages.Epoch, at uint64) (uint64, error) {
	b := newBatch(l, c.tag)
	if c.sink.exclusive {
		b.header(headerExpected, at) // the marker is the stream's last message
	}
	var subject, data []byte
	err := c.rows.Replay(ctx, e, func(block *held.Block) error {
		enc, err := c.encoders.get(block.Batch.Schema())
		if err != nil {
			return err
		}
		kinds := block.Batch.Kinds()
		for i := range block.Batch.Rows() {
			if kinds != nil && kinds[i] == messages.UpdateBefore {
				continue
			}
			if subject, err = enc.subject.append(subject[:0], block.Batch, i); err != nil {
				return err
			}
			if data, err = enc.enc.Encode(data[:0], block.Batch, i); err != nil {
				return err
			}
			if err := b.add(ctx, subject, data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(c.newMarker(e, 0))
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "encode a marker")
	}
	b.header(nats.ExpectedLastSubjSeqHdr, at)
	b.msg.Header.Set(nats.ExpectedStreamHdr, c.sink.stream.name)
	return b.commit(ctx, c.markerPlace().subject, text)
}

// batch is an atomic batch that is being sent.
type batch struct {
	l     *link
	msg   nats.Msg
	seq   uint64
	bytes int // sent since the server has said that it has everything
	ack   ack
}

func newBatch(l *link, tag string) *batch {
	return &batch{l: l, msg: nats.Msg{Header: nats.Header{headerSink: []string{tag}, headerBatch: []string{nuid.Next()}}}}
}

func (b *batch) header(name string, seq uint64) { b.msg.Header.Set(name, strconv.FormatUint(seq, 10)) }

// add sends a message. What is wrong with the batch may show later.
func (b *batch) add(ctx context.Context, subject, data []byte) error {
	b.next(subject, data)
	b.bytes += len(data) + len(subject)
	if b.seq > 1 && b.bytes < askAfter {
		err := b.l.nc.PublishMsg(&b.msg)
		return fault.Wrap(fault.Transient, err, "publish to %s", subject)
	}
	m, err := b.request(ctx)
	delete(b.msg.Header, headerExpected) // only the first message may have it
	if err != nil || len(m.Data) == 0 {
		return err
	}
	parseAck(m, &b.ack)
	return b.refused()
}

// commit sends the last message and returns its sequence in the stream.
func (b *batch) commit(ctx context.Context, subject string, data []byte) (uint64, error) {
	b.msg.Header.Set(headerBatchCommit, "1")
	b.next([]byte(subject), data)
	m, err := b.request(ctx)
	if err != nil {
		return 0, err
	}
	parseAck(m, &b.ack)
	return b.ack.seq, b.refused()
}

func (b *batch) next(subject, data []byte) {
	b.seq++
	b.header(headerBatchSeq, b.seq)
	b.msg.Subject, b.msg.Data, b.msg.Reply = alias(subject), data, ""
}

// request sends the message and waits until the server has answered or the
// connection is lost.
func (b *batch) request(ctx context.Context) (m *nats.Msg, err error) {
	b.bytes = 0
	r := &request{what: "publish a batch to " + b.msg.Subject, limit: batchTimeout, rows: true}
	err = b.l.run(ctx, r, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		answered := make(chan struct{})
		go func() {
			select {
			case <-b.l.gone:
				cancel()
			case <-answered:
			}
		}()
		m, err = b.l.nc.RequestMsgWithContext(ctx, &b.msg)
		close(answered)
		cancel()
		return err
	})
	return m, err
}

// refused gives an error of the server its kind.
func (b *batch) refused() error {
	api, ok := errors.AsType[*jetstream.APIError](b.ack.err)
	switch {
	case !ok:
		return b.ack.err
	case api.ErrorCode == codeAtomicDisabled:
		return fault.WithClass(fault.Wrap(fault.Config, api, "transactional"), classAtomic)
	case api.ErrorCode == codeBatchTooLarge:
		err := fault.Wrap(fault.Config, api, "transactional: %d messages in one epoch (set max_batch_size to the server's limit, so that epochs are ended early; raise both; or shorten epoch_interval)", b.seq)
		return fault.WithClass(err, classTooLarge)
	}
	return b.ack.err
}
