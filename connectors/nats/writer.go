package nats

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// slot holds one row until it is acknowledged.
type slot struct {
	id      messages.ID128
	hasID   bool
	subject []byte
	data    []byte // of the writer's buffers
	// bound is a stream sequence that was given out before the row was sent: the
	// row's own is higher.
	bound uint64
	state slotState
}

type slotState uint8

const (
	slotWaiting slotState = iota // not sent on the current connection
	slotSent                     // sent, no answer yet
	slotRefused                  // answered with an error
	slotDone                     // acknowledged
)

// writer publishes the rows of one subtask. The rows in flight are a window
// [head, tail) of a ring of slots: Write adds at the tail, acknowledgements
// move the head.
type writer struct {
	c       *committer
	index   int // in the committer's list, part of reply subjects
	subtask int
	enc     rowEncoder
	space   chan struct{} // Write looks again whether it may go on
	answers chan struct{} // something was answered while the writer was not open
	closed  chan struct{}

	head, tail atomic.Uint64 // rows; tail is moved by Write only
	bytes      atomic.Int64  // payload bytes in flight
	open       atomic.Bool   // rows may be published

	// For Write only.
	out     publication
	row     []byte // as encoded
	buffers buffers
	emptied uint64 // rows before it have given their buffers back

	mu sync.Mutex
	// mu guards the fields below and the slots of [head, tail), not their buffers.
	ring    []slot
	link    *link
	limit   int64 // largest message the server takes
	err     error
	flushes []flushWaiter

	noted sync.Mutex
	// noted guards the fields below. It is never held while something blocks.
	highest uint64 // highest sequence known to be given out
	pending []epochRows
	lastCut messages.Epoch
	cutRow  uint64 // first row behind lastCut
}

// flushWaiter waits until head has reached row.
type flushWaiter struct {
	row  uint64
	done chan struct{}
}

// epochRows collects the sequences of rows of one epoch that were acknowledged
// after Begin.
type epochRows struct {
	epoch messages.Epoch
	cut   uint64 // first row behind the epoch
	isCut bool
	own   ranges
}

// publication is the scratch for sending a row.
type publication struct {
	msg   nats.Msg
	reply []byte
	id    [32]byte
	ids   []string
}

func newWriter(c *committer, index, subtask int, enc rowEncoder) *writer {
	w := &writer{
		c: c, index: index, subtask: subtask, enc: enc, space: make(chan struct{}, 1), answers: make(chan struct{}, 1), closed: make(chan struct{}),
		ring: make([]slot, c.sink.maxPending), highest: c.base,
	}
	w.out.init(c.tag)
	w.buffers.limit = c.sink.maxBytes
	return w
}

func (p *publication) init(tag string) {
	p.ids = make([]string, 1)
	p.msg.Header = nats.Header{headerSink: []string{tag}}
}

// Write implements connectors.Writer.
func (w *writer) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	if w.c.exact && ids == nil && b.Rows() > 0 {
		return fault.New(fault.Internal, "nats sink with exactly_once at once got rows without identities")
	}
	kinds := b.Kinds()
	for i := range b.Rows() {
		row := b.Row(i)
		if kinds != nil && kinds[row] == messages.UpdateBefore {
			continue // the new value follows
		}
		if kinds != nil && kinds[row] == messages.Delete {
			return w.c.deletion()
		}
		if w.c.exact && w.c.claim(ids[i], w.lastCut) {
			continue
		}
		var id *messages.ID128
		if ids != nil {
			id = &ids[i]
		}
		if err := w.put(ctx, &w.enc, b, row, id); err != nil {
			return err
		}
	}
	return nil
}

// rowEncoder makes messages of rows of one schema.
type rowEncoder struct {
	subject *template
	enc     format.Encoder
}

// put publishes one physical row; id may be nil. It blocks until there is room.
func (w *writer) put(ctx context.Context, enc *rowEncoder, b *messages.Batch, row int, id *messages.ID128) error {
	s, err := w.reserve(ctx)
	if err != nil {
		return err
	}
	if s.subject, err = enc.subject.append(s.subject[:0], b, row); err != nil {
		return err
	}
	if w.row, err = enc.enc.Encode(w.row[:0], b, row); err != nil {
		return err
	}
	s.data = append(w.buffers.get(len(w.row)), w.row...)
	if cap(w.row) > 1<<largestBuffer {
		w.row = nil
	}
	if s.hasID = id != nil; s.hasID {
		s.id = *id
	}
	return w.send(s)
}

// reserve returns the slot behind the tail, waiting until there is room for
// another row.
func (w *writer) reserve(ctx context.Context) (*slot, error) {
	head := w.head.Load()
	for ; !w.room(); head = w.head.Load() {
		select {
		case <-w.space:
		case <-w.closed:
			return nil, w.failure()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// The writer was open after head was looked at, so that the keeper does not send
	// any of these rows again.
	for ; w.emptied < head; w.emptied++ {
		s := &w.ring[w.emptied%uint64(len(w.ring))]
		w.buffers.put(s.data)
		s.data = nil
	}
	return &w.ring[w.tail.Load()%uint64(len(w.ring))], nil
}

func (w *writer) room() bool {
	select {
	case <-w.closed:
		return false
	default:
	}
	n := w.tail.Load() - w.head.Load()
	return w.open.Load() && (!w.c.exact || w.c.lease.valid()) && n < uint64(len(w.ring)) && (n == 0 || w.bytes.Load() < w.c.sink.maxBytes)
}

// send publishes the row in the slot behind the tail. Once it returns without
// an error the row is the writer's to deliver.
func (w *writer) send(s *slot) error {
	w.mu.Lock()
	if w.err != nil {
		defer w.mu.Unlock()
		return w.err
	}
	if size := int64(len(s.data)); size+w.c.headerSize() > w.limit {
		defer w.mu.Unlock()
		return fault.New(fault.BadRow, "row of %d bytes for subject %s is larger than the server takes (max_payload %d)", size, s.subject, w.limit)
	}
	row := w.tail.Load()
	s.bound, s.state = w.bound(), slotWaiting
	w.bytes.Add(int64(len(s.data)))
	w.tail.Store(row + 1)
	l := w.link
	if w.open.Load() {
		s.state = slotSent
	} else {
		l = nil // the keeper will send it
	}
	w.mu.Unlock()
	if l == nil {
		return nil
	}
	if err := w.c.publish(&w.out, l, w.index, row, s); err != nil {
		w.lost(l)
	}
	return nil
}

// bound is the sequence that the next row to be sent will be above of.
func (w *writer) bound() uint64 {
	w.noted.Lock()
	defer w.noted.Unlock()
	return w.highest
}

// publish sends one row.
func (c *committer) publish(p *publication, l *link, writer int, row uint64, s *slot) error {
	if c.order != nil {
		return c.order.publish(p, l, writer, row, s)
	}
	return p.publish(l, writer, row, s)
}

// publish sends one row. nats.go copies everything before it returns, so that
// the strings may alias buffers.
func (p *publication) publish(l *link, writer int, row uint64, s *slot) error {
	p.reply = append(p.reply[:0], l.inbox...)
	p.reply = strconv.AppendInt(p.reply, int64(writer), 10)
	p.reply = append(p.reply, '.')
	p.reply = strconv.AppendUint(p.reply, row, 10)
	if s.hasID {
		p.ids[0] = alias(appendHexID(p.id[:0], s.id))
		p.msg.Header[headerID] = p.ids
	} else {
		delete(p.msg.Header, headerID)
	}
	p.msg.Subject, p.msg.Reply, p.msg.Data = alias(s.subject), alias(p.reply), s.data
	return l.nc.PublishMsg(&p.msg)
}

// alias returns b as a string without copying; b must not change while the
// string is in use.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// lost tells the keeper that a row could not be sent on l.
func (w *writer) lost(l *link) {
	w.mu.Lock()
	current := w.link == l
	if current {
		w.open.Store(false)
	}
	w.mu.Unlock()
	if current {
		w.c.kick()
	}
}

// answered handles the server's answer to a row that was sent on l. It is called
// from the goroutine of the subscription.
func (w *writer) answered(l *link, row uint64, a *ack) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if row < w.head.Load() || row >= w.tail.Load() {
		return
	}
	s := &w.ring[row%uint64(len(w.ring))]
	switch {
	case s.state == slotDone:
	case a.err == nil && string(a.stream) != w.c.sink.stream.name:
		err := fault.New(fault.Config, "row for subject %s was stored in stream %s, not in %s; only one of them may take the subject", s.subject, a.stream, w.c.sink.stream.name)
		w.failLocked(fault.WithClass(err, classSubject))
		w.c.kick()
	case a.err == nil && !a.dup && a.seq <= s.bound:
		// Sequences only rise while a stream lives.
		w.open.Store(false)
		w.failLocked(w.c.restarted(a.seq, s.bound))
		w.c.kick()
	case a.err == nil:
		if a.dup {
			w.c.duplicates.Add(1)
		}
		w.done(row, s, a.seq)
	case l != w.link:
		// The row is being sent again on another connection.
	case fault.KindOf(a.err) == fault.BadRow:
		w.open.Store(false)
		w.failLocked(fault.Wrap(fault.BadRow, a.err, "row for subject %s", s.subject))
		w.c.kick()
	default:
		s.state = slotRefused
		w.open.Store(false)
		w.c.refused(a.err)
	}
	if !w.open.Load() {
		select {
		case w.answers <- struct{}{}:
		default:
		}
	}
}

// done notes that a row is stored at seq. w.mu is held.
func (w *writer) done(row uint64, s *slot, seq uint64) {
	s.state = slotDone
	w.c.progress.Add(1)
	w.note(row, seq)
	if w.c.order != nil {
		w.c.order.acked(seq)
	}
	head := w.head.Load()
	if row != head {
		return
	}
	for tail := w.tail.Load(); head < tail; head++ {
		s := &w.ring[head%uint64(len(w.ring))]
		if s.state != slotDone {
			break
		}
		w.bytes.Add(-int64(len(s.data)))
	}
	w.head.Store(head)
	w.wakeLocked(head)
}

// note keeps the sequence of a stored row for the tokens of epochs in progress.
func (w *writer) note(row, seq uint64) {
	w.noted.Lock()
	defer w.noted.Unlock()
	w.highest = max(w.highest, seq)
	for i := range w.pending {
		if p := &w.pending[i]; !p.isCut || row < p.cut {
			p.own = p.own.add(seq)
		}
	}
}

// begin starts to collect the sequences of epoch e and returns the highest one
// so far.
func (w *writer) begin(e messages.Epoch) uint64 {
	w.noted.Lock()
	defer w.noted.Unlock()
	w.pending = append(w.pending, epochRows{epoch: e})
	return w.highest
}

// passed notes a sequence that was given out, to whomever.
func (w *writer) passed(seq uint64) {
	w.noted.Lock()
	defer w.noted.Unlock()
	w.highest = max(w.highest, seq)
}

// wake wakes who waits for room.
func (w *writer) wake() {
	select {
	case w.space <- struct{}{}:
	default:
	}
}

// wakeLocked wakes who waits for head or for room.
func (w *writer) wakeLocked(head uint64) {
	keep := w.flushes[:0]
	for _, f := range w.flushes {
		if f.row <= head {
			close(f.done)
		} else {
			keep = append(keep, f)
		}
	}
	w.flushes = keep
	w.wake()
}

// start lets a writer without rows publish on l.
func (w *writer) start(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link, w.limit = l, l.nc.MaxPayload()
	w.open.Store(true)
}

// restsAt reports whether no row has come behind the cut of e.
func (w *writer) restsAt(e messages.Epoch) bool {
	w.noted.Lock()
	defer w.noted.Unlock()
	return w.lastCut == e && w.cutRow == w.tail.Load()
}

// resend publishes the rows that are not stored on l, in order, and opens the
// writer. Only the keeper calls it, while the writer is not open.
func (w *writer) resend(ctx context.Context, l *link) error {
	var out publication
	out.init(w.c.tag)
	w.mu.Lock()
	w.link, w.limit = l, l.nc.MaxPayload()
	w.mu.Unlock()
	for row := w.head.Load(); ; row++ {
		if err := w.c.mayPublish(ctx, l); err != nil {
			return err
		}
		w.mu.Lock()
		row = max(row, w.head.Load())
		failed := w.err != nil
		if failed || row >= w.tail.Load() {
			w.open.Store(!failed)
			w.wakeLocked(w.head.Load())
			w.mu.Unlock()
			return nil //nolint:nilerr // who uses a failed writer learns why
		}
		s := &w.ring[row%uint64(len(w.ring))]
		again := s.state != slotDone
		if again {
			s.state = slotSent
		}
		w.mu.Unlock()
		if !again {
			continue
		}
		// The slot cannot be used for another row meanwhile: Write waits until
		// the writer is open.
		if err := w.c.publish(&out, l, w.index, row, s); err != nil {
			return fault.Wrap(fault.Transient, err, "publish to %s", s.subject)
		}
	}
}

// each calls f for every row that is not known to be stored.
func (w *writer) each(f func(row uint64, s *slot)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for row := w.head.Load(); row < w.tail.Load(); row++ {
		if s := &w.ring[row%uint64(len(w.ring))]; s.state != slotDone {
			f(row, s)
		}
	}
}

// found notes that a row without an answer is stored at seq.
func (w *writer) found(row, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := &w.ring[row%uint64(len(w.ring))]; row >= w.head.Load() && row < w.tail.Load() && s.state != slotDone {
		w.done(row, s, seq)
	}
}

// sent counts the rows that wait for an answer.
func (w *writer) sent() int {
	n := 0
	w.each(func(_ uint64, s *slot) {
		if s.state == slotSent {
			n++
		}
	})
	return n
}

// writerToken is what a subtask adds to the token of an epoch.
type writerToken struct {
	Own []byte `json:"own,omitempty"`
}

// Cut implements connectors.Writer.
func (w *writer) Cut(e messages.Epoch) (connectors.Flush, error) {
	row := w.tail.Load()
	w.noted.Lock()
	w.lastCut, w.cutRow = e, row
	for i := range w.pending {
		if p := &w.pending[i]; p.epoch == e {
			p.cut, p.isCut = row, true
		}
	}
	w.noted.Unlock()
	return func(ctx context.Context) (connectors.Token, error) {
		if err := w.await(ctx, row); err != nil {
			return nil, err
		}
		if !w.c.exact {
			return nil, nil
		}
		return w.token(e)
	}, nil
}

// token takes out what was collected for epoch e.
func (w *writer) token(e messages.Epoch) (connectors.Token, error) {
	w.noted.Lock()
	var own ranges
	keep := w.pending[:0]
	for _, p := range w.pending {
		if p.epoch == e {
			own = p.own
		}
		if p.epoch > e {
			keep = append(keep, p)
		}
	}
	w.pending = keep
	w.noted.Unlock()
	b, err := json.Marshal(writerToken{Own: own.normal(0).encode()})
	return b, fault.Wrap(fault.Internal, err, "encode the token of subtask %d of a nats sink", w.subtask)
}

// await waits until all rows before row are acknowledged.
func (w *writer) await(ctx context.Context, row uint64) error {
	w.mu.Lock()
	if w.err != nil {
		defer w.mu.Unlock()
		return w.err
	}
	if w.head.Load() >= row {
		w.mu.Unlock()
		return nil
	}
	f := flushWaiter{row: row, done: make(chan struct{})}
	w.flushes = append(w.flushes, f)
	w.mu.Unlock()
	select {
	case <-f.done:
		return nil
	case <-w.closed:
		return w.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settled is closed once no row that was sent waits for its answer.
func (w *writer) settled() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := flushWaiter{row: w.tail.Load(), done: make(chan struct{})}
	if w.head.Load() >= f.row || w.link == nil || !w.link.alive() || !w.open.Load() {
		close(f.done)
	} else {
		w.flushes = append(w.flushes, f)
	}
	return f.done
}

// fail ends the writer.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *writer) failLocked(err error) {
	if w.err == nil {
		w.err = err
		close(w.closed)
	}
}

func (w *writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// stop ends the writer without waiting for rows in flight.
func (w *writer) stop() { w.fail(fault.New(fault.Restart, "nats sink was closed")) }

// Close implements connectors.Writer.
func (w *writer) Close() error {
	w.stop()
	return nil
}
