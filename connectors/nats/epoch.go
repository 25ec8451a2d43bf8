package nats

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// epochCommitter publishes the rows of an epoch after the epoch has committed.
//
// # Exactly once, per epoch
//
// The rows of epoch e are part of checkpoint e (package held), so that they are
// the same rows in the same order however often they are published. Commit(e)
//
//  1. writes the marker: e is being published, its rows lie at ScanFrom or later.
//     ScanFrom is the highest stream sequence known to be given out by then, plus
//     one. The write is a compare-and-set: an attempt that was replaced fails here.
//  2. publishes the rows in order, many in flight. The identity of row n is a hash
//     of query incarnation, sink, e and n.
//  3. waits for all of them, and writes the marker: e is done.
//
// A crash anywhere in between leaves a marker that says what to do. The next
// attempt takes it over, which fences older ones, reads the stream from ScanFrom
// to its end and publishes the rows that it does not find there. The marker keeps
// ScanFrom until the epoch is done, so that a crash during that is no different.
// Epochs are published one after the other, and the marker of the next one says
// that those before it are done. The rows of at most two epochs are unpublished.
//
// If the marker is gone (somebody has deleted it), the token takes its place: it
// holds the sequence as known when the oldest unpublished epoch was prepared,
// which is before any of its rows was published.
//
// A lost connection is the keeper's business: it finds out which of the rows in
// flight are stored, and sends the others again, in order, after it has read the
// marker.
type epochCommitter struct {
	*committer
	rows *held.Rows
	out  *writer

	// The fields below belong to Recover, then to Commit.
	publishing messages.Epoch // the marker says so
	next       int64          // first row of that epoch that was not handed to out
	// found are rows that an earlier attempt has published.
	found map[messages.ID128]struct{}
	// left are the epochs up to which an earlier attempt may have published rows,
	// from sequence leftFrom on.
	left     messages.Epoch
	leftFrom uint64
	encoders encoders
	setBack  string // as in the marker; written by Recover only

	floorsMu sync.Mutex
	// floorsMu guards floors: where to look for rows of epochs that are prepared
	// and not published, oldest first.
	floors []floor
}

type floor struct {
	epoch messages.Epoch
	from  uint64
}

func newEpochCommitter(s *sink, r connectors.WriteRequest) (*epochCommitter, error) {
	rows, err := held.New(held.Config{Sink: "nats sink", Request: r})
	if err != nil {
		return nil, err
	}
	return &epochCommitter{committer: newCommitter(s, r), rows: rows, encoders: encoders{sink: s, schema: r.Schema}}, nil
}

// Recover implements connectors.Committer. It waits for a server as long as it
// takes.
func (c *epochCommitter) Recover(ctx context.Context, epoch messages.Epoch, last connectors.Token) error {
	if c.kept == nil {
		tok, err := decodeAnyToken(last)
		if err != nil {
			return err
		}
		if err := c.start(ctx, func(ctx context.Context, l *link) error { return c.takeOver(ctx, l, epoch, tok) }); err != nil {
			return err
		}
		if c.out, err = c.addWriter(0, rowEncoder{}); err != nil {
			return err
		}
	}
	err := retry(ctx, func() error { return c.publish(ctx, epoch) })
	if err == nil {
		c.found = nil
	}
	return err
}

// takeOver checks the stream, fences older attempts and finds what they left. It
// starts from the beginning when the connection was lost inside it.
func (c *epochCommitter) takeOver(ctx context.Context, l *link, epoch messages.Epoch, last *anyToken) error {
	info, old, at, err := c.lookUp(ctx, l)
	if err != nil {
		return err
	}
	setBack := old != nil && max(old.Epoch, old.Publishing) > epoch
	if setBack {
		if err := c.ahead(old, epoch); err != nil {
			return err
		}
	}
	tok, err := c.perEpoch(ctx, l, info, last, old != nil)
	if err != nil {
		return err
	}
	m := c.newMarker(0, info.State.LastSeq+1)
	created := info.Created
	if tok != nil {
		c.rows.Recover(tok.Rows)
		created, c.setBack = tok.Created, tok.SetBack
	}
	if old != nil {
		c.setBack = old.SetBack
	}
	switch {
	case setBack: // what the token lists is published, and what came later counts no more
		c.rows.Confirm(epoch)
		m.Epoch, c.setBack = epoch, c.nonce
	case old != nil:
		c.rows.Confirm(old.Epoch)
		m.Epoch = old.Epoch
		// Without its rows in the token another guarantee has published the epoch since.
		if old.Publishing > old.Epoch && slices.Contains(c.rows.Pending(epoch), old.Publishing) {
			m.Publishing, m.ScanFrom, created = old.Publishing, old.ScanFrom, old.Created
		}
	case tok != nil && len(c.rows.Pending(epoch)) > 0:
		m.Publishing, m.ScanFrom = c.rows.Pending(epoch)[0], tok.ScanFrom
	}
	m.SetBack = c.setBack
	if err := c.checkTail(info, created, m.ScanFrom); err != nil {
		return err
	}
	if at, err = l.writeMarker(ctx, c.markerPlace(), m, at); err != nil {
		return err
	}
	if err := c.putFence(ctx, l); err != nil {
		return err
	}
	c.publishing, c.next, c.left, c.leftFrom = m.Publishing, 0, epoch, m.ScanFrom
	c.found = map[messages.ID128]struct{}{}
	end, err := l.scan(ctx, scanConfig{stream: c.sink.stream.name, from: m.ScanFrom, tag: c.tag}, func(id messages.ID128, _ uint64) {
		c.found[id] = struct{}{}
	})
	if err != nil {
		return err
	}
	if len(c.found) > 0 {
		c.sink.log.Info("nats sink goes on with an epoch that was published in part", "query", c.req.Query, "sink", c.req.Sink, "epoch", m.Publishing, "rows", len(c.found), "scanned_from", m.ScanFrom, "to", end)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.marker, c.scanFrom, c.committed = max(end, c.base), at, m.ScanFrom, m.Epoch
	if c.order != nil {
		c.order.reset(l, end)
	}
	return nil
}

// ahead is the error of an attempt that starts from an older epoch than the one
// published last. It is nil, and the log has a warning, if the user accepts that.
func (c *committer) ahead(old *marker, epoch messages.Epoch) error {
	published := max(old.Epoch, old.Publishing)
	if c.req.AcceptDuplicates {
		c.sink.log.Warn("nats sink is set back to an older epoch than it has published; rows that follow may be in the stream already",
			"query", c.req.Query, "sink", c.req.Sink, "epoch", epoch, "published", published, "epochs_repeated", published-epoch)
		return nil
	}
	err := fault.New(fault.Config, "query %q starts from epoch %d, but its sink %s has published epoch %d to stream %s; start from the newest copy of the query's directory, "+
		"or accept that rows of %d epochs may be published twice, with --accept-duplicates", c.req.Query, epoch, c.req.Sink, published, c.sink.stream.name, published-epoch)
	return fault.WithClass(err, classAhead)
}

// rowID returns the identity of row n of epoch e. After the sink was set back,
// another row may get the number of one that is in the stream: a copy of a
// directory does not know which epochs were used. So it gets another identity, or
// the server's duplicate window would drop it, and a scan would take it for the
// other one.
func (c *epochCommitter) rowID(e messages.Epoch, n int64) messages.ID128 {
	id := c.rows.RowID(e, n)
	if c.setBack != "" {
		h := fnv.New128a()
		h.Write([]byte(c.setBack))
		sum := h.Sum(nil)
		id.Hi ^= binary.BigEndian.Uint64(sum)
		id.Lo ^= binary.BigEndian.Uint64(sum[8:])
	}
	return id
}

// perEpoch returns the last token if it is one of this mode. One of the other mode
// is let go of if nothing of an interrupted epoch is in the stream.
func (c *epochCommitter) perEpoch(ctx context.Context, l *link, info *jetstream.StreamInfo, last *anyToken, marked bool) (*epochToken, error) {
	if last == nil {
		return nil, nil
	}
	if last.epoch != nil {
		if last.epoch.Guarantee != c.req.Offer.Guarantee {
			return nil, last.epoch.unsettled()
		}
		return last.epoch, nil
	}
	tok, rows := last.atOnce, len(last.atOnce.Adoption)
	if err := c.checkTail(info, tok.Created, behind(tok.Own, tok.ScanFrom)); err != nil {
		return nil, err // those rows could not be found
	}
	if _, err := l.scan(ctx, scanConfig{stream: c.sink.stream.name, from: tok.ScanFrom, tag: c.tag}, func(_ messages.ID128, seq uint64) {
		if !tok.Own.has(seq) {
			rows++
		}
	}); err != nil {
		return nil, err
	}
	if rows > 0 || !marked {
		return nil, switched("at_once", "epoch", rows)
	}
	return nil, nil
}

// switched is the error for a sink whose visibility was changed in the middle of
// an epoch.
func switched(from, to string, rows int) error {
	err := fault.New(fault.Config, "nats sink: visibility was changed from '%s' to '%s' while %d rows of an interrupted epoch are not settled; "+
		"start the query with visibility = '%s', stop it in good order, and change it then", from, to, rows, from)
	return fault.WithClass(err, classAhead)
}

// Writer implements connectors.Committer.
func (c *epochCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	return newEpochWriter(c.committer, c.rows, subtask)
}

// Begin implements connectors.Committer.
func (c *epochCommitter) Begin(messages.Epoch) {}

// Prepare implements connectors.Committer.
func (c *epochCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	c.mu.Lock()
	created, from, err := c.created, c.base+1, c.err
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	rows, err := c.rows.Prepare(e, tokens)
	if err != nil {
		return nil, err
	}
	from = max(from, c.out.bound()+1)
	c.floorsMu.Lock()
	c.floors = append(c.floors, floor{e, from})
	if len(rows) > 0 { // some may have been published since the last Commit
		for len(c.floors) > 1 && c.floors[0].epoch < rows[0].Epoch {
			c.floors = c.floors[1:]
		}
		from = c.floors[0].from
	} else {
		c.floors = c.floors[:0]
	}
	c.floorsMu.Unlock()
	t := epochToken{Guarantee: c.req.Offer.Guarantee, Created: created, ScanFrom: from, Rows: rows, SetBack: c.setBack}
	return t.encode()
}

// Commit implements connectors.Committer.
func (c *epochCommitter) Commit(ctx context.Context, e messages.Epoch, _ connectors.Token) error {
	c.mu.Lock()
	l, err := c.link, c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if len(c.rows.Pending(e)) == 0 {
		if l != nil {
			c.readEnd(ctx, l)
		}
		return nil
	}
	return c.publish(ctx, e)
}

// publish publishes the rows of the epochs up to last. When it fails, another call
// goes on where it stopped.
func (c *epochCommitter) publish(ctx context.Context, last messages.Epoch) error {
	for _, e := range c.rows.Pending(last) {
		if err := c.begin(ctx, e); err != nil {
			return err
		}
		if err := c.rows.Replay(ctx, e, func(b *held.Block) error { return c.block(ctx, b) }); err != nil {
			return err
		}
		if err := c.out.await(ctx, c.out.tail.Load()); err != nil {
			return err
		}
		if err := c.end(ctx, e); err != nil {
			return err
		}
		c.rows.Confirm(e)
	}
	return nil
}

// begin notes in the marker that e is being published.
func (c *epochCommitter) begin(ctx context.Context, e messages.Epoch) error {
	if c.publishing == e {
		return nil
	}
	from := c.out.bound() + 1
	if e <= c.left {
		from = min(from, c.leftFrom)
	}
	c.mu.Lock()
	l, done := c.link, c.committed
	c.mu.Unlock()
	m := c.newMarker(done, from)
	m.Publishing, m.SetBack = e, c.setBack
	if err := c.moveMarker(ctx, l, m); err != nil {
		return err
	}
	c.publishing, c.next = e, 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scanFrom = from
	return nil
}

// block hands the rows of a block to the writer, which delivers them.
func (c *epochCommitter) block(ctx context.Context, b *held.Block) error {
	enc, err := c.encoders.get(b.Batch.Schema())
	if err != nil {
		return err
	}
	kinds := b.Batch.Kinds()
	for i := range b.Batch.Rows() {
		n := b.First + int64(i)
		if n < c.next {
			continue
		}
		id := c.rowID(b.Epoch, n)
		_, there := c.found[id]
		if before := kinds != nil && kinds[i] == messages.UpdateBefore; !there && !before {
			if err := c.out.put(ctx, enc, b.Batch, i, &id); err != nil {
				return err
			}
		} else if there {
			c.adopted.Add(1)
		}
		c.next = n + 1
	}
	return nil
}

// end notes in the marker that all rows of e are in the stream.
func (c *epochCommitter) end(ctx context.Context, e messages.Epoch) error {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	from := c.out.bound() + 1
	m := c.newMarker(e, from)
	m.SetBack = c.setBack
	if err := c.moveMarker(ctx, l, m); err != nil {
		return err
	}
	c.publishing = 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed, c.scanFrom, c.settled = e, from, c.progress.Load()
	return nil
}

// encoders are those for rows that come out of a checkpoint: the query, and with it
// the schema, may have changed since they went in.
type encoders struct {
	sink   *sink
	schema *messages.Schema // of today's rows
	last   rowEncoder
	of     *messages.Schema // that last is for
}

// get returns the encoder for rows of schema s.
func (e *encoders) get(s *messages.Schema) (*rowEncoder, error) {
	if s == e.of {
		return &e.last, nil
	}
	subject := e.sink.subject
	if !s.Equal(e.schema) {
		t, err := parseTemplate(subject.text, s)
		if err != nil {
			return nil, fault.Wrap(fault.Config, err, "rows that were held before the query was changed have to be published first; start the old query once and stop it in good order")
		}
		subject = t
	}
	enc, err := e.sink.encoder(s)
	if err != nil {
		return nil, err
	}
	e.last, e.of = rowEncoder{subject: subject, enc: enc}, s
	return &e.last, nil
}

// epochWriter implements connectors.Writer.
type epochWriter struct {
	connectors.Writer
	check rowCheck
}

func newEpochWriter(c *committer, rows *held.Rows, subtask int) (connectors.Writer, error) {
	enc, err := c.sink.encoder(c.req.Schema)
	if err != nil {
		return nil, err
	}
	w, err := rows.Writer(subtask)
	if err != nil {
		return nil, err
	}
	return &epochWriter{Writer: w, check: newRowCheck(c, rowEncoder{subject: c.sink.subject, enc: enc})}, nil
}

// Write implements connectors.Writer.
func (w *epochWriter) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	if err := w.check.batch(b); err != nil {
		return err
	}
	return w.Writer.Write(ctx, b, ids)
}
