package nats

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// committer speaks for one sink during one attempt.
//
// # Exactly once, at once
//
// Rows are published when they are produced, with their identity in a header. A
// later attempt starts from the last committed epoch e and produces the rows of
// the epochs after e again, with the same identities; it must not publish those
// that are in the stream already. It finds them by reading the end of the
// stream from ScanFrom(e), which token e holds.
//
// Begin(e) is called when the marker of epoch e is injected into the sources,
// before any of them has sent a row behind it. Let L(e) be the highest stream
// sequence that had been acknowledged to any subtask of this attempt by then,
// or the end of the stream as last read (by Recover, and behind a Commit if no
// row has been acknowledged for a while) if that is higher. Then
// ScanFrom(e) = L(e)+1 is right:
//
//   - A row of a later epoch that this attempt publishes is sent after Begin(e)
//     and therefore stored after the message L(e), which was stored before that. A stream gives out ascending sequences, so the row's is
//     above L(e). It does not matter which subtask sends it, nor when the
//     subtask sees the marker.
//   - A row of a later epoch that an earlier attempt has published was found by
//     Recover, unless it was stored after Recover had read the end; the marker
//     stops writers of earlier attempts, and Close lets their rows settle. If it
//     is published again by a row of an epoch up to e, it is done with.
//     Otherwise it is part of token e by name (Adoption), wherever it lies.
//   - Rows of epochs up to e that lie above L(e), because they were in flight at
//     Begin(e) or written before the marker arrived at the sink, are harmless:
//     Flush(e) waits for their acknowledgements, and their sequences go into
//     token e (Own), so that they are not mistaken for rows of later epochs and
//     carried on for ever.
//
// If no row of a later epoch has come by the time of Prepare(e), L(e) is taken
// anew then; see atRest.
//
// Before the first commit there is no token. Recover then records the end of
// the stream in the marker, before any row is published, so that a second start
// reads from there.
//
// The marker is the last message of a subject of its own in another stream. It
// is written by compare-and-set only: Recover takes it over, which fences older
// attempts, and Commit(e) moves it on and fails when somebody else has it. After
// every connect it is read before anything is published.
type committer struct {
	sink  *sink
	req   connectors.WriteRequest
	exact bool
	order *sequencer // nil unless the sink is exclusive
	tag   string     // header that names this sink's rows
	nonce string     // names this attempt in the marker, should numbers be equal

	// ctx ends with Close.
	ctx    context.Context //nolint:containedctx // the committer outlives the calls that use it
	cancel context.CancelFunc
	wake   chan struct{} // something for the keeper to do
	kept   chan struct{} // closed when the keeper has ended; nil before it runs
	lease  lease         // of an exact committer
	told   string        // last reason passed to OnRetrying; belongs to Recover, then to the keeper

	left *leftRows // while rows of another guarantee are published with at_least_once

	progress atomic.Uint64 // rows acknowledged
	adopted  atomic.Uint64 // rows that were in the stream already
	// duplicates counts rows that only the server's duplicate window has kept from
	// being stored twice.
	duplicates atomic.Uint64
	maxRow     atomic.Int64              // bytes that a message may have besides headers
	unmet      atomic.Int64              // entries of adoption that no row has claimed
	refusal    atomic.Pointer[error]     // why the server did not take a row, last
	list       atomic.Pointer[[]*writer] // only grows; changed under mu

	mu sync.Mutex
	// mu guards the fields below. It is taken before the locks of writers.
	link      *link          // nil while there is none
	ready     bool           // writers may publish on link
	err       error          // the attempt is over
	created   time.Time      // of the stream
	base      uint64         // end of the stream as last read
	baseAt    time.Time      // when
	baseRows  uint64         // progress then
	marker    uint64         // sequence of our marker
	absent    time.Duration  // of the lease's clock, when the server said first that there is none; 0 while there is one
	committed messages.Epoch // the last epoch it was moved to
	begun     map[messages.Epoch]begun
	scanFrom  uint64 // where a restart begins to read, as of the last commit record
	settled   uint64 // progress when nothing from there on mattered, at the latest
	// adoption maps rows that an earlier attempt has published to 0, or to 1 + the
	// epoch of the last cut before the row was met again.
	adoption map[messages.ID128]messages.Epoch
}

// begun is what Begin notes.
type begun struct {
	highest uint64 // L of the epoch
	rows    uint64 // progress
}

func newCommitter(s *sink, r connectors.WriteRequest) *committer {
	c := &committer{
		sink: s, req: r, exact: r.Offer.Guarantee != connectors.AtLeastOnce, nonce: nuid.Next(),
		tag:  sinkTag(r.Query, r.Sink, r.Incarnation),
		wake: make(chan struct{}, 1), lease: newLease(), begun: map[messages.Epoch]begun{},
	}
	if s.exclusive && r.Offer.Guarantee == connectors.ExactlyOnce {
		c.order = &sequencer{least: fenceVersion}
		own := *s
		c.sink = &own
		subject := c.fencePlace().subject
		c.order.subject[0] = subject
		own.stream.subjects = append(own.stream.subjects[:len(own.stream.subjects):len(own.stream.subjects)], subject)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Recover implements connectors.Committer. It waits for a server as long as it
// takes.
func (c *committer) Recover(ctx context.Context, epoch messages.Epoch, last connectors.Token) error {
	if !c.exact {
		return c.recoverLoosely(ctx, epoch, last)
	}
	if c.kept != nil {
		return fault.New(fault.Internal, "Recover of a nats sink was called again after it had succeeded")
	}
	tok, err := decodeAnyToken(last)
	if err != nil {
		return err
	}
	return c.start(ctx, func(ctx context.Context, l *link) error { return c.takeOver(ctx, l, epoch, tok) })
}

// start connects, for as long as it takes, and calls takeOver with each new
// connection until it succeeds. Then rows can be published.
func (c *committer) start(ctx context.Context, takeOver func(context.Context, *link) error) error {
	var wait backoff
	for {
		asked := c.lease.now()
		l, err := c.startOnce(ctx, takeOver)
		if err == nil {
			c.lease.renew(asked)
			c.tell("")
			c.mu.Lock()
			c.link, c.ready = l, true
			c.mu.Unlock()
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
		if c.tell(err.Error()) {
			c.sink.log.Warn("nats sink waits for the server", "query", c.req.Query, "sink", c.req.Sink, "reason", err.Error())
		}
		if err := sleep(ctx, wait.next()); err != nil {
			return err
		}
	}
}

// tell passes on what the sink waits for, "" when rows flow, and reports whether
// it is new.
func (c *committer) tell(reason string) bool {
	if reason == c.told {
		return false
	}
	c.told = reason
	if c.req.OnRetrying != nil {
		c.req.OnRetrying(reason)
	}
	return true
}

// startOnce returns a connection that may publish.
func (c *committer) startOnce(ctx context.Context, takeOver func(context.Context, *link) error) (*link, error) {
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

// lookUp checks the stream and reads the marker: nil when there is none of this
// incarnation of the query. at is the sequence of the last marker, whosever it is.
func (c *committer) lookUp(ctx context.Context, l *link) (info *jetstream.StreamInfo, old *marker, at uint64, err error) {
	if info, err = c.checkStream(ctx, l); err != nil {
		return nil, nil, 0, err
	}
	c.mu.Lock()
	c.created, c.base = info.Created, info.State.LastSeq
	c.mu.Unlock()
	if !c.exact {
		return info, nil, 0, nil
	}
	if c.markerPlace().stream == markerStream {
		if err := l.ensureMarkers(ctx); err != nil {
			return nil, nil, 0, err
		}
	}
	if old, at, err = l.readMarker(ctx, c.markerPlace()); err != nil {
		return nil, nil, 0, err
	}
	if old == nil || old.Incarnation != c.incarnation() {
		return info, nil, at, nil
	}
	if old.Attempt > c.req.Attempt {
		return nil, nil, 0, c.fenced(old)
	}
	return info, old, at, nil
}

// takeOver checks the stream, fences older attempts and finds what they left.
func (c *committer) takeOver(ctx context.Context, l *link, epoch messages.Epoch, last *anyToken) error {
	info, old, at, err := c.lookUp(ctx, l)
	if err != nil {
		return err
	}
	tok, err := last.forAtOnce(old)
	if err != nil {
		return err
	}
	from, created := info.State.LastSeq+1, info.Created
	switch {
	case tok != nil:
		from, created = behind(tok.Own, tok.ScanFrom), tok.Created
	case old != nil && (old.Epoch == epoch || last != nil):
		from, created = old.ScanFrom, old.Created
	}
	if err := c.checkTail(info, created, from); err != nil {
		return err
	}
	m := c.newMarker(epoch, from)
	if at, err = l.writeMarker(ctx, c.markerPlace(), m, at); err != nil {
		return err
	}
	if err := c.putFence(ctx, l); err != nil {
		return err
	}
	if err := fault.Inject("sink/fenced"); err != nil {
		return err
	}
	if err := c.adopt(ctx, l, tok, from, at); err != nil {
		return err
	}
	return fault.Inject("sink/adopted")
}

// behind returns the first sequence from from on that is not in own, which are
// rows of committed epochs: nothing is lost if the stream has forgotten those.
func behind(own ranges, from uint64) uint64 {
	for _, s := range own {
		if s.from > from {
			break
		}
		from = max(from, s.to+1)
	}
	return from
}

// adopt reads the end of the stream.
func (c *committer) adopt(ctx context.Context, l *link, tok *token, from, marker uint64) error {
	found := map[messages.ID128]messages.Epoch{}
	var own ranges
	if tok != nil {
		own = tok.Own
		for _, id := range tok.Adoption {
			found[id] = 0
		}
	}
	end, err := l.scan(ctx, scanConfig{stream: c.sink.stream.name, from: from, tag: c.tag}, func(id messages.ID128, seq uint64) {
		if !own.has(seq) {
			found[id] = 0
		}
	})
	if err != nil {
		return err
	}
	if len(found) > 0 {
		c.sink.log.Info("nats sink adopts rows of an interrupted epoch", "query", c.req.Query, "sink", c.req.Sink, "rows", len(found), "scanned_from", from, "to", end)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adoption, c.base, c.marker, c.scanFrom = found, max(end, c.base), marker, from
	if c.order != nil {
		c.order.reset(l, end)
	}
	c.unmet.Store(int64(len(found)))
	return nil
}

// claim reports whether a row is in the stream already. cut is the epoch of the
// writer's last cut: the row belongs to a later one.
func (c *committer) claim(id messages.ID128, cut messages.Epoch) bool {
	if c.unmet.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	met, ok := c.adoption[id]
	if !ok || met != 0 {
		return false
	}
	c.adoption[id] = cut + 1
	c.unmet.Add(-1)
	c.adopted.Add(1)
	return true
}

// Writer implements connectors.Committer.
func (c *committer) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	enc, err := c.sink.encoder(c.req.Schema)
	if err != nil {
		return nil, err
	}
	return c.addWriter(subtask, rowEncoder{subject: c.sink.subject, enc: enc})
}

func (c *committer) addWriter(subtask int, enc rowEncoder) (*writer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		return nil, fault.New(fault.Internal, "a writer of a nats sink was asked for before Recover")
	}
	old := c.snapshot()
	w := newWriter(c, len(old), subtask, enc)
	if c.err != nil {
		w.fail(c.err)
	} else if c.ready {
		w.start(c.link)
	}
	list := append(old[:len(old):len(old)], w)
	c.list.Store(&list)
	return w, nil
}

// Begin implements connectors.Committer; see the type's comment. The order
// matters: first the writers note what is acknowledged from now on, then L is
// taken.
func (c *committer) Begin(e messages.Epoch) {
	if !c.exact {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.base
	for _, w := range c.snapshot() {
		l = max(l, w.begin(e))
	}
	c.begun[e] = begun{highest: l, rows: c.progress.Load()}
}

// Prepare implements connectors.Committer.
func (c *committer) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || !c.exact {
		return nil, c.err
	}
	b, ok := c.begun[e]
	if !ok {
		return nil, fault.New(fault.Internal, "Prepare of epoch %d of a nats sink without Begin", e)
	}
	if rest, ok := c.atRest(e); ok {
		b = rest
		c.begun[e] = b
	}
	t := token{Created: c.created, ScanFrom: b.highest + 1}
	for _, text := range tokens {
		var part writerToken
		if err := json.Unmarshal(text, &part); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "token of a subtask of a nats sink")
		}
		r, err := decodeRanges(part.Own)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "token of a subtask of a nats sink")
		}
		t.Own = append(t.Own, r...)
	}
	t.Own = t.Own.normal(t.ScanFrom)
	for id, met := range c.adoption {
		// Met by a row behind the cut of e or a later one: still of interest to
		// an attempt that starts from e.
		if met == 0 || met > e {
			t.Adoption = append(t.Adoption, id)
		} else {
			delete(c.adoption, id)
		}
	}
	return t.encode()
}

// atRest returns what Begin would note now, if no row behind the cut of e has come
// yet: all before it are acknowledged. The order matters: a row that comes later is
// sent after the highest sequence was read. So a query that goes quiet does not
// look for rows of later epochs between its own last ones and those of others.
func (c *committer) atRest(e messages.Epoch) (begun, bool) {
	b := begun{highest: c.base, rows: c.progress.Load()}
	list := c.snapshot()
	for _, w := range list {
		b.highest = max(b.highest, w.bound())
	}
	for _, w := range list {
		if !w.restsAt(e) {
			return b, false
		}
	}
	return b, true
}

// Commit implements connectors.Committer.
func (c *committer) Commit(ctx context.Context, e messages.Epoch, t connectors.Token) error {
	c.mu.Lock()
	l, err, done := c.link, c.err, c.committed >= e
	c.mu.Unlock()
	if err != nil || !c.exact || done {
		return err
	}
	tok, err := decodeToken(t)
	if err != nil {
		return err
	}
	if err := c.moveMarker(ctx, l, c.newMarker(e, tok.ScanFrom)); err != nil {
		return err
	}
	c.mu.Lock()
	c.committed, c.scanFrom = e, tok.ScanFrom
	if b, ok := c.begun[e]; ok {
		c.settled = b.rows
	}
	maps.DeleteFunc(c.begun, func(b messages.Epoch, _ begun) bool { return b <= e })
	c.mu.Unlock()
	c.readEnd(ctx, l)
	return nil
}

// defaultReadEndEvery is how often a sink without rows reads the end of its
// stream.
const defaultReadEndEvery = 10 * time.Second

// readEnd moves the place that a later attempt reads from, when no row of this
// sink does. Else a query that seldom emits would have to find everything that
// others have published since its last row, and could not start again once the
// stream was trimmed. When it fails the place stays as it was, which is safe.
func (c *committer) readEnd(ctx context.Context, l *link) {
	rows := c.progress.Load()
	c.mu.Lock()
	due := time.Since(c.baseAt) >= c.sink.readEndEvery
	moves := rows != c.baseRows
	if due {
		c.baseAt, c.baseRows = time.Now(), rows
	}
	created := c.created
	c.mu.Unlock()
	if !due || moves {
		return
	}
	info, err := l.info(ctx, &streamSpec{name: c.sink.stream.name})
	if err != nil || !info.Created.Equal(created) {
		return // whoever needs the stream reports it
	}
	c.moveBase(info.State.LastSeq)
}

// moveBase notes that end was given out before any row that is sent from now on.
// In an exclusive stream only rows of its own may move it.
func (c *committer) moveBase(end uint64) {
	if c.order != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = max(c.base, end)
	for _, w := range c.snapshot() {
		w.passed(end)
	}
}

// Close implements connectors.Committer. Rows in flight get a moment to settle,
// so that the next attempt finds them when it reads the end of the stream.
func (c *committer) Close() error {
	c.mu.Lock()
	if c.err == nil {
		c.err = fault.New(fault.Restart, "nats sink was closed")
	}
	c.mu.Unlock()
	patience, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	for _, w := range c.snapshot() {
		w.stop()
		select {
		case <-w.settled():
		case <-patience.Done():
		}
	}
	c.cancel()
	if c.kept != nil {
		<-c.kept
	}
	c.mu.Lock()
	l := c.link
	c.link = nil
	c.mu.Unlock()
	if l != nil {
		l.close()
	}
	return nil
}
