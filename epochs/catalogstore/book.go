package catalogstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// logFactor is how much longer than what is alive the log may become, and
	// logFloor what it may always be. Both in bytes.
	logFactor = 2
	logFloor  = 256 << 10
	// carryFactor is how many times the size of an entry's changes is carried
	// along with them when the log is too long, and carryFloor what always is.
	carryFactor = 2
	carryFloor  = 16 << 10
)

// logEntry is an entry of the log that is still needed, or was at Open.
type logEntry struct {
	number messages.Epoch
	size   int64
	live   int      // values alive whose newest place this is
	values []*value // those written here, dead ones included
}

// book is the catalog while its store is open, until a write fails.
type book struct {
	base epochs.Segments
	// prev and next number entries; they belong to whoever holds Catalog.io.
	prev, next messages.Epoch

	// mu guards the fields below.
	mu      sync.RWMutex
	queries map[string]*content
	entries []*logEntry // oldest first
	live    int64       // bytes of values that are alive
	total   int64       // bytes of the entries
	// damage says up to which entry some could not be read, nil: none.
	damage *value
	// failed is why the outcome of a write is unknown.
	failed error
}

// openBook reads the log. What it says about damage is on record before any query
// is opened, unless readOnly.
func openBook(ctx context.Context, base epochs.Segments, m mark, readOnly bool) (*book, error) {
	marked, err := m.isSet()
	if err != nil {
		return nil, err
	}
	records, highest, damage := base.Committed(ctx)
	if damage != nil && !errors.Is(damage, epochs.ErrDamaged) {
		return nil, damage
	}
	b := &book{base: base, next: highest + 1, queries: map[string]*content{}}
	slices.Reverse(records)
	var list []entry
	var numbers []messages.Epoch
	newest := messages.Epoch(0) // that can be read
	for _, r := range records {
		e, err := parseEntry(r.Epoch, r.Data)
		if errors.Is(err, epochs.ErrDamaged) {
			damage = errors.Join(damage, &epochs.RecordError{Epoch: r.Epoch, Err: err})
			continue
		}
		if err != nil {
			return nil, err
		}
		list, numbers, newest = append(list, e), append(numbers, r.Epoch), r.Epoch
	}
	// The highest number may be that of an entry whose record was never written:
	// nothing can follow that.
	b.prev = max(newest, newestUnreadable(damage))
	lost := b.replay(list, numbers, records)
	cause := epochs.NewestDamage(damage, newest)
	if marked || highest > newest && cause != nil {
		lost = highest // the newest one: whose it was nobody knows
	}
	if lost > 0 && (b.damage == nil || b.damage.epoch < lost) {
		b.kill(b.damage)
		b.damage = &value{kind: damageKind, epoch: lost}
		if cause != nil {
			b.damage.data = []byte(cause.Error())
		}
	}
	if readOnly {
		return b, nil
	}
	if gone, ok := errors.AsType[*epochs.LostError](damage); ok {
		marked = true
		err = b.accept(ctx, gone, m)
	}
	if err == nil && marked {
		err = b.record(ctx, m)
	}
	return b, err
}

// newestUnreadable returns the number of the newest record that is there but cannot
// be read according to damage, 0 if there is none.
func newestUnreadable(damage error) (newest messages.Epoch) {
	switch e := damage.(type) { //nolint:errorlint // the whole tree is walked
	case *epochs.RecordError:
		return e.Epoch
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			newest = max(newest, newestUnreadable(part))
		}
	case interface{ Unwrap() error }:
		return newestUnreadable(e.Unwrap())
	}
	return newest
}

// accept goes on without entries that are lost. The store below forgets then that
// they are; m is set before.
func (b *book) accept(ctx context.Context, gone *epochs.LostError, m mark) error {
	if gone.Have == 0 {
		return fmt.Errorf("%w; the catalog holds nothing to go back to: move %s away, and every query in it starts anew", gone, m.dir)
	}
	if err := m.set(); err != nil {
		return fault.Wrap(fault.Restart, err, "note that entries are lost")
	}
	if err := b.base.Rewind(ctx, gone.Have); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "go on from entry %d (%v)", gone.Have, gone)
	}
	_, highest, err := b.base.Committed(ctx)
	if err != nil && !errors.Is(err, epochs.ErrDamaged) { // older ones may be, too
		return err
	}
	b.prev, b.next = gone.Have, highest+1
	return nil
}

// record writes that every query is suspect; then m is not needed any more.
func (b *book) record(ctx context.Context, m mark) error {
	if err := b.write(ctx, nil); err != nil {
		return err
	}
	if err := m.clear(); err != nil {
		return fault.Wrap(fault.Restart, err, "remove the note that entries are lost")
	}
	return nil
}

// replay applies entries, oldest first, and returns the newest one that is
// missing, 0 if none is.
func (b *book) replay(list []entry, numbers []messages.Epoch, records []epochs.StoredRecord) (lost messages.Epoch) {
	if len(list) == 0 {
		return 0
	}
	oldest := list[len(list)-1].oldest
	size := map[messages.Epoch]int64{}
	for _, r := range records {
		size[r.Epoch] = int64(len(r.Data))
	}
	before := messages.Epoch(0)
	for i, e := range list {
		// The store drops lazily: what comes back is not needed.
		if numbers[i] >= oldest {
			if e.prev != before && e.prev >= oldest {
				lost = e.prev
			}
			le := &logEntry{number: numbers[i], size: size[numbers[i]]}
			b.entries = append(b.entries, le)
			b.total += le.size
			for _, c := range e.changes {
				b.apply(le, c)
			}
		}
		before = numbers[i]
	}
	return lost
}

// apply carries out a change that is in the given entry. mu is held, or nobody
// else knows the book.
func (b *book) apply(le *logEntry, c change) {
	if c.v.kind == damageKind {
		b.kill(b.damage)
		b.damage = c.v
		b.place(le, c.v)
		return
	}
	q := b.queries[c.v.query]
	if q == nil {
		q = newContent()
		b.queries[c.v.query] = q
	}
	switch {
	case c.v.kind == resetKind && !c.v.isCarried():
		for _, v := range q.all() {
			b.kill(v)
		}
		delete(b.queries, c.v.query)
		if !c.delete {
			q = newContent()
			b.queries[c.v.query] = q
			q.put(c.v)
			b.place(le, c.v)
		}
	case c.delete:
		b.kill(q.take(c.v))
	default:
		b.kill(q.put(c.v))
		b.place(le, c.v)
	}
}

// place notes that a value is alive and where.
func (b *book) place(le *logEntry, v *value) {
	v.in = le
	le.live++
	le.values = append(le.values, v)
	b.live += v.size()
}

// kill notes that a value is dead; nil is none.
func (b *book) kill(v *value) {
	if v == nil || v.in == nil {
		return
	}
	v.in.live--
	v.in = nil
	b.live -= v.size()
}

// carry picks the values of the oldest entries that are to be written again, when
// the log is too long, and returns them with the oldest entry needed then.
func (b *book) carry(size int64) ([]*value, messages.Epoch) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	over := b.total - max(logFactor*b.live, logFloor)
	budget := carryFactor*size + carryFloor
	var out []*value
	for _, le := range b.entries {
		if le.live > 0 && (over <= 0 || budget <= 0) {
			return out, le.number
		}
		for _, v := range le.values {
			if v.in == le {
				out = append(out, v)
				budget -= v.size()
			}
		}
		over -= le.size
	}
	return out, b.next
}

// write makes changes durable as one entry and carries them out. Catalog.io is
// held.
func (b *book) write(ctx context.Context, changes []change) error {
	b.mu.RLock()
	failed, damage := b.failed, b.damage
	b.mu.RUnlock()
	if failed != nil {
		return mustReopen(failed)
	}
	if damage != nil && damage.in == nil {
		changes = append([]change{{v: damage}}, changes...)
	}
	size := int64(0)
	for _, c := range changes {
		size += c.v.size()
	}
	carried, oldest := b.carry(size)
	all := make([]change, 0, len(carried)+len(changes))
	for _, v := range carried {
		all = append(all, change{v: v.carried()})
	}
	data := appendEntry(make([]byte, 0, size), b.prev, oldest, append(all, changes...))
	if err := b.base.Commit(ctx, b.prev, b.next, data); err != nil {
		return b.fail(err)
	}
	if !b.written(changes, carried, oldest, int64(len(data))) {
		return nil
	}
	if err := b.base.Drop(ctx, oldest, b.prev); err != nil {
		_ = b.fail(err) // the entry is durable; the next write tells
	}
	return nil
}

// written brings the memory up to date with the entry that has just become
// durable. It reports whether entries before oldest can be dropped. What the
// entry itself has made superfluous stays until the next one says so: an entry
// that is needed according to the newest one and missing is damage.
func (b *book) written(changes []change, carried []*value, oldest messages.Epoch, size int64) (drop bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	le := &logEntry{number: b.next, size: size}
	b.prev, b.next = b.next, b.next+1
	b.entries = append(b.entries, le)
	b.total += size
	for _, v := range carried {
		if v.in == nil {
			continue // dropped meanwhile; the deletion will be written
		}
		v.in.live--
		v.in = le
		le.live++
		le.values = append(le.values, v)
	}
	for _, c := range changes {
		b.apply(le, c)
	}
	for b.entries[0].number < oldest {
		b.total -= b.entries[0].size
		b.entries = b.entries[1:]
		drop = true
	}
	return drop
}

func (b *book) fail(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
	return err
}

// suspect returns why the content of a query may not be all there was, nil if it
// is. mu is held.
func (b *book) suspect(query string) error {
	if b.damage == nil {
		return nil
	}
	if q := b.queries[query]; q != nil && q.settled != nil && q.settled.epoch >= b.damage.epoch {
		return nil
	}
	cause := ""
	if len(b.damage.data) > 0 {
		cause = ": " + string(b.damage.data)
	}
	return fmt.Errorf("an entry of the catalog that all queries without state share cannot be read (up to entry %d%s): it may have held the newest epoch of query %q; "+
		"go back with --restore-epoch or start it anew with --fresh %s: %w", b.damage.epoch, cause, query, query, epochs.ErrDamaged)
}
