package nats

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// kvCommitter speaks for one sink of a bucket during one attempt.
//
// # Converges, at once
//
// Values are written when they are produced. A later attempt starts from the last
// committed epoch e and produces every change after e again; what it writes may
// be older than what a reader has seen before, but the last value of each key is
// the right one, if
//
//   - values of one key are stored in the order they were produced in. There is
//     at most one on its way, and the next is sent when it is acknowledged. Each
//     expects the revision that the one before has got. So a copy of a value that
//     is sent again on another connection, or that the server takes out of an old
//     socket later, is stored before the next value or not at all.
//   - no value of an earlier attempt is stored behind one of a later attempt.
//     Recover takes over the marker before anything is written. An attempt that
//     meets a revision it did not expect reads the marker before it writes again,
//     and expects a revision then that was current before it read. So what it
//     writes after it has lost the marker is refused once the later attempt has
//     written the key, and overwritten when it does so: the row that has changed
//     the key belongs to an epoch after e, which the later attempt produces again.
//   - the values of committed epochs are in the bucket: Flush(e) waits for the
//     acknowledgement of each, or of a newer value of its key.
//
// The marker is moved by Commit(e), too, which finds out that somebody else has
// it; see committer.
//
// A key whose revision is not known, the usual case after a restart, is written
// as if it were new. If it is not, the server answers with its revision. So
// nothing has to be read at the start, and only recently written keys have to be
// remembered.
type kvCommitter struct {
	sink  *kvSink
	req   connectors.WriteRequest
	exact bool // writes expect revisions, and the marker fences
	// marks knows the marker of this sink; nothing else of it is used.
	marks *committer
	table *kvTable
	// rows are those of epochs, to be written after their commit; nil at once.
	rows *held.Rows
	left *kvPublisher // while rows of another guarantee are written with at_least_once

	ctx    context.Context //nolint:containedctx // the committer outlives the calls that use it
	cancel context.CancelFunc
	wake   chan struct{} // something for the keeper to do
	kept   chan struct{} // closed when the keeper has ended; nil before it runs

	progress  atomic.Uint64 // values acknowledged
	surprises atomic.Uint64 // times that a key was written by somebody else
	refusal   atomic.Pointer[error]

	mu sync.Mutex
	// mu guards the fields below.
	link      *link     // nil while there is none
	created   time.Time // of the bucket
	marker    uint64    // sequence of our marker
	committed messages.Epoch
}

// kvToken is what the commit record keeps about a bucket.
type kvToken struct {
	Version int       `json:"v"`
	Bucket  string    `json:"bucket"`
	Created time.Time `json:"created"` // tells the bucket from a later one of the same name
	// Rows lists what is written after the commit, per epoch.
	Rows held.Unconfirmed `json:"rows,omitempty"`
}

func newKVCommitter(s *kvSink, r connectors.WriteRequest) *kvCommitter {
	c := &kvCommitter{
		sink: s, req: r, exact: r.Offer.Guarantee != connectors.AtLeastOnce, wake: make(chan struct{}, 1),
		marks: newCommitter(&sink{conn: s.conn, stream: streamSpec{name: s.bucket.stream()}, log: s.log}, r),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.table = newKVTable(c)
	return c
}

// Recover implements connectors.Committer. It waits for a server as long as it
// takes.
func (c *kvCommitter) Recover(ctx context.Context, epoch messages.Epoch, last connectors.Token) error {
	if !c.exact {
		return c.recoverLoosely(ctx, epoch, last)
	}
	if c.kept != nil {
		return fault.New(fault.Internal, "Recover of a nats sink was called again after it had succeeded")
	}
	tok, err := c.decode(last)
	if err != nil {
		return err
	}
	return c.connect(ctx, func(ctx context.Context, l *link) error { return c.takeOver(ctx, l, epoch, tok) })
}

// connect calls takeOver with new connections until it succeeds. Then values can be
// written.
func (c *kvCommitter) connect(ctx context.Context, takeOver func(context.Context, *link) error) error {
	var wait backoff
	for {
		l, err := c.connectOnce(ctx, takeOver)
		if err == nil {
			c.marks.tell("")
			c.install(l)
			c.table.resume(l)
			c.kept = make(chan struct{})
			go c.keep()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fault.KindOf(err) != fault.Transient {
			return err
		}
		c.complain("nats sink waits for the server", err)
		if err := sleep(ctx, wait.next()); err != nil {
			return err
		}
	}
}

// complain passes on and logs what the sink waits for, once.
func (c *kvCommitter) complain(what string, err error) {
	if c.marks.tell(err.Error()) {
		c.sink.log.Warn(what, "query", c.req.Query, "sink", c.req.Sink, "reason", err.Error())
	}
}

// decode returns a token, nil if nothing is promised about what came before.
func (c *kvCommitter) decode(last connectors.Token) (*kvToken, error) {
	if len(last) == 0 {
		return nil, nil
	}
	var x kvToken
	if err := json.Unmarshal(last, &x); err != nil || x.Version != 1 {
		return nil, fault.New(fault.Config, "token of a nats sink of version %d is not known: %v", x.Version, err)
	}
	if x.Bucket != c.sink.bucket.name {
		was := "bucket " + x.Bucket
		if x.Bucket == "" {
			was = "a stream"
		}
		err := fault.New(fault.Config, "the checkpoint belongs to %s; values of its epochs are not in bucket %s; start the query afresh, or run it once with guarantee = 'at_least_once'", was, c.sink.bucket.name)
		return nil, fault.WithClass(err, classRecreated)
	}
	return &x, nil
}

// connectOnce returns a connection that may write.
func (c *kvCommitter) connectOnce(ctx context.Context, takeOver func(context.Context, *link) error) (*link, error) {
	l, err := c.sink.conn.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err = takeOver(ctx, l); err == nil {
		err = c.subscribe(l)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// takeOver checks the bucket and fences older attempts.
func (c *kvCommitter) takeOver(ctx context.Context, l *link, epoch messages.Epoch, tok *kvToken) error {
	if tok == nil {
		tok = &kvToken{}
	}
	info, err := c.check(ctx, l, tok.Created)
	if err != nil {
		return err
	}
	for _, text := range remarks(info) {
		c.sink.log.Warn("nats sink: "+text, "query", c.req.Query, "sink", c.req.Sink, "bucket", c.sink.bucket.name)
	}
	c.mu.Lock()
	c.created = info.Created
	c.mu.Unlock()
	c.table.allowSkip(info.Config.MaxAge == 0)
	limit := l.nc.MaxPayload()
	if size := int64(info.Config.MaxMsgSize); size > 0 {
		limit = min(limit, size)
	}
	c.marks.maxRow.Store(limit - headerBytes - int64(len(c.marks.tag)))
	if !c.exact {
		return nil
	}
	c.marks.mu.Lock()
	c.marks.created = info.Created
	c.marks.mu.Unlock()
	if err := l.ensureMarkers(ctx); err != nil {
		return err
	}
	old, at, err := l.readMarker(ctx, c.marks.markerPlace())
	if err != nil {
		return err
	}
	var written messages.Epoch // whose values are in the bucket
	if old != nil && old.Incarnation == c.marks.incarnation() {
		if old.Attempt > c.req.Attempt {
			return c.marks.fenced(old)
		}
		written = old.Epoch
	}
	if written, err = c.resumeRows(epoch, written, old, tok); err != nil {
		return err
	}
	if err := fault.Inject("kv/fence"); err != nil {
		return err
	}
	if at, err = l.writeMarker(ctx, c.marks.markerPlace(), c.marks.newMarker(written, 0), at); err != nil {
		return err
	}
	c.mu.Lock()
	c.marker = at
	c.mu.Unlock()
	return fault.Inject("kv/fenced")
}

// resumeRows takes over the rows of epochs that are not written yet, and returns the
// epoch for the marker.
func (c *kvCommitter) resumeRows(epoch, written messages.Epoch, old *marker, tok *kvToken) (messages.Epoch, error) {
	if c.rows == nil {
		for _, e := range tok.Rows {
			if e.Epoch > written {
				return 0, switched("epoch", "at_once", int(e.Rows))
			}
		}
		return epoch, nil
	}
	if written > epoch {
		if err := c.marks.ahead(old, epoch); err != nil {
			return 0, err
		}
		written = epoch // what came later is written again
	}
	c.rows.Recover(tok.Rows)
	c.rows.Confirm(written)
	return written, nil
}

// check looks the bucket up and verifies that it suits, and that it is the one
// created at the given time, unless that is zero.
func (c *kvCommitter) check(ctx context.Context, l *link, created time.Time) (*jetstream.StreamInfo, error) {
	spec := c.sink.bucket
	spec.create = spec.create && created.IsZero() // one with committed values is not made again
	info, err := spec.info(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := checkBucket(info, &spec, c.exact, len(c.marks.tag)); err != nil {
		return nil, err
	}
	if c.exact && !created.IsZero() && !info.Created.Equal(created) {
		err := fault.New(fault.Config, "converges: bucket %s was deleted and re-created at %s; values of committed epochs are gone; "+
			"start the query afresh, or run it once with guarantee = 'at_least_once'", spec.name, formatCreated(info.Created))
		return nil, fault.WithClass(err, classRecreated)
	}
	return info, nil
}

// subscribe receives the answers on l. The reply subject of a value is l.inbox,
// its slot, a dot, and the slot's serial.
func (c *kvCommitter) subscribe(l *link) error {
	return l.receiveAnswers(func(slot, serial uint64, a *ack) { c.table.answered(l, slot, serial, a) })
}

// track finds the keys that earlier attempts of this sink have left in the
// bucket, before the first complete table is written. closed ends the wait for a
// server.
func (c *kvCommitter) track(ctx context.Context, closed <-chan struct{}) error {
	if err := fault.Inject("kv/track"); err != nil {
		return err
	}
	var wait backoff
	for {
		found := map[string]uint64{}
		err := fault.New(fault.Transient, "nats sink has no connection to %s", c.sink.conn.hosts())
		if l := c.current(); l != nil {
			err = c.sink.bucket.each(ctx, l, tagName(c.marks.tag), func(op kvOp) {
				if delete(found, op.key); op.mine && !op.deleted {
					found[op.key] = op.seq
				}
			})
		}
		if err == nil {
			if err := fault.Inject("kv/tracked"); err != nil {
				return err
			}
			return c.table.track(found)
		}
		if fault.KindOf(err) != fault.Transient || ctx.Err() != nil {
			return err
		}
		select {
		case <-closed:
			return c.table.failure()
		default:
		}
		if err := sleep(ctx, wait.next()); err != nil {
			return err
		}
	}
}

// Writer implements connectors.Committer.
func (c *kvCommitter) Writer(_ context.Context, _, _ int) (connectors.Writer, error) {
	enc, err := c.sink.encoder(c.req.Schema)
	if err != nil {
		return nil, err
	}
	if c.kept == nil {
		return nil, fault.New(fault.Internal, "a writer of a nats sink was asked for before Recover")
	}
	w := newKVWriter(c, enc)
	c.table.add(w)
	return w, nil
}

// Begin implements connectors.Committer.
func (c *kvCommitter) Begin(messages.Epoch) {}

// Prepare implements connectors.Committer.
func (c *kvCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	err := c.table.failure()
	if err != nil || !c.exact {
		return nil, err
	}
	t := kvToken{Version: 1, Bucket: c.sink.bucket.name}
	if c.rows != nil {
		if t.Rows, err = c.rows.Prepare(e, tokens); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	t.Created = c.created.UTC()
	c.mu.Unlock()
	b, err := json.Marshal(t)
	return b, fault.Wrap(fault.Internal, err, "encode the token of a nats sink")
}

// Commit implements connectors.Committer.
func (c *kvCommitter) Commit(ctx context.Context, e messages.Epoch, _ connectors.Token) error {
	err := c.table.failure()
	c.mu.Lock()
	l, at, done := c.link, c.marker, c.committed >= e
	c.mu.Unlock()
	if err != nil || !c.exact || done {
		return err
	}
	if l == nil {
		return fault.New(fault.Transient, "nats sink has no connection to %s", c.sink.conn.hosts())
	}
	if err := fault.Inject("kv/mark"); err != nil {
		return err
	}
	seq, err := c.marks.replaceMarker(ctx, l, c.marks.newMarker(e, 0), at)
	if fault.ClassOf(err) == classFenced {
		c.table.fail(err)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.marker, c.committed = seq, e
	c.mu.Unlock()
	return fault.Inject("kv/marked")
}

// Close implements connectors.Committer.
func (c *kvCommitter) Close() error {
	c.table.fail(fault.New(fault.Restart, "nats sink was closed"))
	c.cancel()
	c.marks.cancel()
	if c.kept != nil {
		<-c.kept
	}
	if l := c.install(nil); l != nil {
		l.close()
	}
	return nil
}

// install makes l the connection and returns the one before.
func (c *kvCommitter) install(l *link) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.link
	c.link = l
	return old
}

func (c *kvCommitter) current() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// wrongLastRevision reads the revision out of "wrong last sequence: 17"; servers
// in a cluster do not always say it.
func wrongLastRevision(err error) (uint64, bool) {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return 0, false
	}
	_, text, _ := strings.Cut(api.Description, ": ")
	rev, bad := strconv.ParseUint(text, 10, 64)
	return rev, bad == nil
}
