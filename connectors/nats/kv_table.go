package nats

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/messages/fault"
)

// kvTable holds what a committer knows about keys: which revision each had last,
// and the values that are on their way. There is at most one value of a key in
// flight; newer ones wait, and each replaces the one before.
//
// Invariant: an entry that is not idle has a slot and a value in out; one that is
// idle has neither, and nothing in next.
type kvTable struct {
	c     *kvCommitter
	seeds [2]maphash.Seed

	mu sync.Mutex
	// mu guards the fields below and all entries. It is held while a value is
	// handed to nats.go, which blocks when the socket is full, for as long as the
	// connection's write deadline at most.
	keys map[string]*kvEntry // by subject
	// oldest and newest are the ends of the list of idle entries that may be
	// forgotten; idle counts them.
	oldest, newest *kvEntry
	idle           int
	slots          []kvSlot
	free           []int // slots
	conflicts      []*kvEntry
	buffers        buffers // of values
	frames         uint64  // complete tables begun
	sends          uint64  // messages sent
	answeredTo     uint64  // the last of them that was answered
	link           *link
	limit          int64 // largest message the server takes
	open           bool  // values may be sent on link
	err            error // nothing more is written
	writers        []*kvWriter
	out            kvPublication
	// tracking is set once complete tables are written: keys with a value are
	// remembered then, so that they can be deleted.
	tracking bool
	// skip leaves out values that are in the bucket already; mayskip is set
	// if nothing else removes them there.
	skip, mayskip bool
}

// kvSlot names a value in flight in the reply subject.
type kvSlot struct {
	e      *kvEntry
	serial uint64 // of the last message; answers to others are of no interest
	order  uint64 // which of all messages that was
}

type kvState uint8

const (
	kvIdle     kvState = iota
	kvHeld             // to be sent once the table is open
	kvSent             // sent on link, no answer yet
	kvRefused          // answered with an error
	kvConflict         // the key had another revision than expected
)

// kvEntry is what is known about a key.
type kvEntry struct {
	subject string
	// rev is the revision that the next write expects: 0 is that of a key nobody
	// has written, and the guess for one that this attempt knows nothing about.
	rev   uint64
	known bool // rev comes from an answer of the server
	state kvState
	slot  int
	tries int // conflicts since the last success
	out   kvValue
	next  kvValue

	prev, after *kvEntry // list of idle entries

	// For complete tables.
	live  bool      // the last value given was not a deletion
	frame uint64    // in which the key was met last
	hash  [2]uint64 // of what is in the bucket
	same  bool      // hash is valid
}

// kvValue is a value on its way. It stands for the rows of its covers: the one
// that made it and those that it has replaced.
type kvValue struct {
	set     bool
	deleted bool
	data    []byte
	owner   *kvWriter
	covers  []kvCover
}

// kvCover is a row of a writer, before its cut number gen.
type kvCover struct {
	w   *kvWriter
	gen uint64
}

func newKVTable(c *kvCommitter) *kvTable {
	t := &kvTable{c: c, keys: map[string]*kvEntry{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	t.out.init(c.marks.tag)
	t.buffers.limit = c.sink.maxBytes
	return t
}

// add makes w one of the writers.
func (t *kvTable) add(w *kvWriter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writers = append(t.writers, w)
	if t.err != nil {
		w.failed()
	}
}

// remove makes w no longer one of the writers; all that it was given is written.
func (t *kvTable) remove(w *kvWriter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writers = slices.DeleteFunc(t.writers, func(o *kvWriter) bool { return o == w })
}

// allowSkip says whether values that are in the bucket already may be left out of
// a complete table.
func (t *kvTable) allowSkip(ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mayskip = ok
}

// track begins to remember all keys with a value, found among them with their
// revisions.
func (t *kvTable) track(found map[string]uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.writers) != 1 {
		return fault.New(fault.Internal, "a complete table comes to the nats sink of bucket %s from %d subtasks", t.c.sink.bucket.name, len(t.writers))
	}
	t.tracking, t.skip = true, t.mayskip
	for key, rev := range found {
		e := t.entry([]byte(t.c.sink.prefix + key))
		e.rev, e.known, e.live = rev, true, true
	}
	return nil
}

// entry finds or makes the entry of a subject.
func (t *kvTable) entry(subject []byte) *kvEntry {
	if e := t.keys[string(subject)]; e != nil {
		return e
	}
	e := &kvEntry{subject: string(subject)}
	t.keys[e.subject] = e
	return e
}

// store makes a copy of data the value of an entry, on its way or behind the one
// that is.
func (t *kvTable) store(e *kvEntry, w *kvWriter, data []byte, deleted bool) {
	e.live = !deleted
	if e.state != kvIdle {
		t.put(&e.next, w, data, deleted)
		return
	}
	t.unlist(e)
	if n := len(t.free); n > 0 {
		e.slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		e.slot = len(t.slots)
		t.slots = append(t.slots, kvSlot{})
	}
	t.slots[e.slot].e, e.state = e, kvHeld
	t.put(&e.out, w, data, deleted)
	if t.open {
		t.send(e)
	}
}

// put fills v.
func (t *kvTable) put(v *kvValue, w *kvWriter, data []byte, deleted bool) {
	if v.set {
		v.owner.values--
		v.owner.bytes -= int64(len(v.data))
		v.owner.wake()
		t.buffers.put(v.data)
	}
	v.set, v.deleted, v.data, v.owner = true, deleted, append(t.buffers.get(len(data)), data...), w
	w.values++
	w.bytes += int64(len(data))
	for _, c := range v.covers {
		if c.w == w {
			return // its older row waits for the same answer
		}
	}
	v.covers = append(v.covers, kvCover{w, w.gen})
	w.count(w.gen, 1)
}

// send publishes the value of e that is on its way.
func (t *kvTable) send(e *kvEntry) {
	if err := fault.Inject("kv/put"); err != nil {
		t.failLocked(err)
		return
	}
	s := &t.slots[e.slot]
	s.serial++
	t.sends++
	s.order, e.state = t.sends, kvSent
	if err := t.out.publish(t.link, e, s.serial, t.c.exact); err != nil {
		// The connection is gone, and the keeper finds what is to be sent again.
		t.open = false
		t.c.kick()
		return
	}
	if err := fault.Inject("kv/sent"); err != nil {
		t.failLocked(err)
	}
}

// done notes that the value in flight is stored at seq, and sends the next one.
func (t *kvTable) done(e *kvEntry, seq uint64) {
	e.rev, e.known, e.tries = seq, true, 0
	if t.skip {
		e.hash, e.same = t.hash(e.out.data), !e.out.deleted
	}
	t.release(&e.out)
	if e.next.set {
		e.out, e.next = e.next, e.out
		e.state = kvHeld
		if t.open {
			t.send(e)
		}
		return
	}
	t.slots[e.slot].e = nil
	t.free = append(t.free, e.slot)
	e.state = kvIdle
	t.list(e)
}

// release empties v; the rows it stands for are written.
func (t *kvTable) release(v *kvValue) {
	for _, c := range v.covers {
		c.w.count(c.gen, -1)
	}
	v.owner.values--
	v.owner.bytes -= int64(len(v.data))
	v.owner.wake()
	t.buffers.put(v.data)
	clear(v.covers)
	*v = kvValue{covers: v.covers[:0]}
}

// holds reports whether data is what the key has, or will have when all is
// written.
func (t *kvTable) holds(e *kvEntry, data []byte) bool {
	switch {
	case e.next.set:
		return !e.next.deleted && bytes.Equal(e.next.data, data)
	case e.out.set:
		return !e.out.deleted && bytes.Equal(e.out.data, data)
	}
	return e.same && e.hash == t.hash(data)
}

func (t *kvTable) hash(data []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(t.seeds[0], data), maphash.Bytes(t.seeds[1], data)}
}

// list adds an idle entry to those that may be forgotten, and forgets the oldest
// when there are too many.
func (t *kvTable) list(e *kvEntry) {
	if t.tracking && e.live {
		return
	}
	e.prev, e.after = t.newest, nil
	if t.newest != nil {
		t.newest.after = e
	} else {
		t.oldest = e
	}
	t.newest = e
	t.idle++
	if t.idle > t.c.sink.maxIdle {
		old := t.oldest
		t.unlist(old)
		delete(t.keys, old.subject)
	}
}

// unlist takes an entry out of the list of idle ones, if it is there.
func (t *kvTable) unlist(e *kvEntry) {
	if e.prev == nil && t.oldest != e {
		return
	}
	if e.prev != nil {
		e.prev.after = e.after
	} else {
		t.oldest = e.after
	}
	if e.after != nil {
		e.after.prev = e.prev
	} else {
		t.newest = e.prev
	}
	e.prev, e.after = nil, nil
	t.idle--
}

// answered handles the server's answer to a value sent on l. It is called from
// the goroutine of the subscription.
func (t *kvTable) answered(l *link, slot, serial uint64, a *ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l != t.link || slot >= uint64(len(t.slots)) || t.slots[slot].serial != serial {
		return
	}
	e := t.slots[slot].e
	if e == nil || e.state != kvSent {
		return
	}
	t.answeredTo = max(t.answeredTo, t.slots[slot].order)
	switch {
	case a.err == nil && string(a.stream) != t.c.sink.bucket.stream():
		t.failLocked(fault.WithClass(fault.New(fault.Config, "value for subject %s was stored in stream %s, not in %s; only one of them may take the subject",
			e.subject, a.stream, t.c.sink.bucket.stream()), classSubject))
	case a.err == nil:
		if err := fault.Inject("kv/answered"); err != nil {
			t.failLocked(err)
			return
		}
		t.c.progress.Add(1)
		t.done(e, a.seq)
		return
	case isWrongLast(a.err):
		e.state = kvConflict
		if e.known && e.tries == 0 {
			t.c.surprises.Add(1)
		}
		e.rev, e.known = wrongLastRevision(a.err)
		e.tries++
		t.conflicts = append(t.conflicts, e)
	case fault.KindOf(a.err) == fault.BadRow:
		t.failLocked(fault.Wrap(fault.BadRow, a.err, "value of %d bytes for key %s of bucket %s", len(e.out.data), e.subject[len(t.c.sink.prefix):], t.c.sink.bucket.name))
	default:
		e.state = kvRefused
		t.open = false
		err := a.err // a is used again
		t.c.refusal.Store(&err)
	}
	t.c.kick()
}

// resume opens the table for l and sends what is to be sent: everything on a new
// connection, else what was not sent or was refused.
func (t *kvTable) resume(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := t.link != l
	t.link, t.limit, t.open = l, l.nc.MaxPayload(), t.err == nil
	t.out.inbox = l.inbox
	if fresh {
		t.conflicts = t.conflicts[:0]
	}
	for i := 0; i < len(t.slots) && t.open; i++ {
		e := t.slots[i].e
		if e == nil || !fresh && (e.state == kvSent || e.state == kvConflict) {
			continue
		}
		if fresh && e.state == kvSent {
			e.known = false // it may have been stored: a conflict is no surprise
		}
		t.send(e)
	}
}

// close keeps values from being sent until resume.
func (t *kvTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = false
}

// takeConflicts returns the entries whose key had another revision.
func (t *kvTable) takeConflicts() []*kvEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.conflicts
	t.conflicts = nil
	return c
}

// unknown returns those of entries whose revision the server has not told, and
// how many conflicts in a row one of them had at most.
func (t *kvTable) unknown(entries []*kvEntry) (out []*kvEntry, tries int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		tries = max(tries, e.tries)
		if e.state == kvConflict && !e.known {
			out = append(out, e)
		}
	}
	return out, tries
}

// learn notes the revision of a key that had a conflict.
func (t *kvTable) learn(e *kvEntry, rev uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.state == kvConflict {
		e.rev, e.known = rev, true
	}
}

// putBack takes entries back that could not be retried.
func (t *kvTable) putBack(entries []*kvEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conflicts = append(t.conflicts, entries...)
}

// retry sends entries again that had a conflict; the caller has made sure that
// this attempt may still write, after their revisions were learned.
func (t *kvTable) retry(l *link, entries []*kvEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		if e.state != kvConflict || t.link != l {
			continue // sent again on another connection
		}
		if e.state = kvHeld; t.open {
			t.send(e)
		}
	}
}

// pending counts the values that wait for an answer, and all that are on their
// way.
func (t *kvTable) pending() (sent, busy int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		if e := t.slots[i].e; e != nil {
			busy++
			if e.state == kvSent {
				sent++
			}
		}
	}
	return sent, busy
}

// sent reports whether a value for a subject waits for its answer.
func (t *kvTable) sent(subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.keys[subject]
	return e != nil && e.state == kvSent
}

func (t *kvTable) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failLocked(err)
}

func (t *kvTable) failLocked(err error) {
	if t.err != nil {
		return
	}
	t.err, t.open = err, false
	for _, w := range t.writers {
		w.failed()
	}
}

func (t *kvTable) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// kvPublication is the scratch for sending a value.
type kvPublication struct {
	msg      nats.Msg
	inbox    string
	reply    []byte
	rev      [20]byte
	expected []string
	op       []string
}

func (p *kvPublication) init(tag string) {
	p.expected, p.op = make([]string, 1), []string{"DEL"}
	p.msg.Header = nats.Header{headerSink: []string{tag}}
}

// publish sends the value of e that is on its way. nats.go copies everything
// before it returns, so that the strings may alias buffers.
func (p *kvPublication) publish(l *link, e *kvEntry, serial uint64, expect bool) error {
	p.reply = append(p.reply[:0], p.inbox...)
	p.reply = strconv.AppendInt(p.reply, int64(e.slot), 10)
	p.reply = append(p.reply, '.')
	p.reply = strconv.AppendUint(p.reply, serial, 10)
	if expect {
		p.expected[0] = alias(strconv.AppendUint(p.rev[:0], e.rev, 10))
		p.msg.Header[headerRevision] = p.expected
	}
	if e.out.deleted {
		p.msg.Header[headerOperation] = p.op
	} else {
		delete(p.msg.Header, headerOperation)
	}
	p.msg.Subject, p.msg.Reply, p.msg.Data = e.subject, alias(p.reply), e.out.data
	return l.nc.PublishMsg(&p.msg)
}
