package catalogstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Query is the store of one query. It implements epochs.Segments.
type Query struct {
	catalog *Catalog
	book    *book
	name    string

	// write makes the changing calls take turns and guards closed.
	write  sync.Mutex
	closed bool
}

// usable reports why the store cannot be written to. write is held.
func (q *Query) usable(ctx context.Context) error {
	if q.closed {
		return errors.New("checkpoint is closed")
	}
	q.book.mu.RLock()
	defer q.book.mu.RUnlock()
	if q.book.failed != nil {
		return mustReopen(q.book.failed)
	}
	return ctx.Err()
}

// content returns what there is of the query; book.mu is held.
func (q *Query) content() *content {
	if c := q.book.queries[q.name]; c != nil {
		return c
	}
	return newContent()
}

// Committed implements epochs.Segments.
func (q *Query) Committed(ctx context.Context) ([]epochs.StoredRecord, messages.Epoch, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	q.book.mu.RLock()
	defer q.book.mu.RUnlock()
	if q.book.failed != nil {
		return nil, 0, mustReopen(q.book.failed)
	}
	c := q.content()
	var out []epochs.StoredRecord
	for _, v := range slices.Backward(c.records) {
		out = append(out, epochs.StoredRecord{Epoch: v.epoch, Data: bytes.Clone(v.data)})
	}
	return out, c.highest, q.book.suspect(q.name)
}

// Check implements epochs.Segments: it checks the store below.
func (q *Query) Check(ctx context.Context) error {
	q.write.Lock()
	err := q.usable(ctx)
	q.write.Unlock()
	if err != nil {
		return err
	}
	q.catalog.io.Lock()
	defer q.catalog.io.Unlock()
	return q.book.base.Check(ctx)
}

// Put implements epochs.Segments.
func (q *Query) Put(ctx context.Context, e messages.Epoch, segs []epochs.Segment) error {
	q.write.Lock()
	defer q.write.Unlock()
	if err := q.usable(ctx); err != nil {
		return err
	}
	q.book.mu.Lock()
	changes, err := q.checkPut(e, segs)
	if err == nil && len(changes) > 0 {
		changes = append(q.pending(), changes...)
	}
	q.book.mu.Unlock()
	if err != nil {
		return fmt.Errorf("put segments of epoch %d: %w", e, err)
	}
	if len(changes) == 0 {
		return nil
	}
	return q.catalog.write(ctx, q.book, changes)
}

// checkPut makes the changes of a Put. book.mu is held.
func (q *Query) checkPut(e messages.Epoch, segs []epochs.Segment) ([]change, error) {
	if err := q.book.suspect(q.name); err != nil {
		return nil, err
	}
	c := q.content()
	if have := c.newest(); e <= have {
		return nil, fmt.Errorf("there is a record of epoch %d", have)
	}
	seen := map[epochs.SegmentID]bool{}
	changes := make([]change, 0, len(segs))
	for _, s := range segs {
		chain := chainID{s.Operator, s.Group}
		switch {
		case s.Epoch != e:
			return nil, fmt.Errorf("segment %v is of another epoch", s.SegmentID)
		case seen[s.SegmentID], find(c.chains[chain], e) != nil:
			return nil, fmt.Errorf("segment %v was put before", s.SegmentID)
		}
		seen[s.SegmentID] = true
		changes = append(changes, change{v: &value{kind: segmentKind, query: q.name, chain: chain, epoch: e, base: s.Base, data: bytes.Clone(s.Data)}})
	}
	return changes, nil
}

// pending takes the deletions that wait. book.mu is held for writing.
func (q *Query) pending() []change {
	c := q.book.queries[q.name]
	if c == nil {
		return nil
	}
	out := c.pending
	c.pending = nil
	return out
}

// Commit implements epochs.Segments. With the record go the segments of epochs
// that it skips: they were never committed and never will be.
func (q *Query) Commit(ctx context.Context, prev, e messages.Epoch, record []byte) error {
	q.write.Lock()
	defer q.write.Unlock()
	if err := q.usable(ctx); err != nil {
		return err
	}
	q.book.mu.Lock()
	changes, err := q.checkCommit(prev, e, record)
	q.book.mu.Unlock()
	if err != nil {
		return fmt.Errorf("commit epoch %d after %d: %w", e, prev, err)
	}
	return q.catalog.write(ctx, q.book, changes)
}

// checkCommit makes the changes of a Commit. book.mu is held for writing.
func (q *Query) checkCommit(prev, e messages.Epoch, record []byte) ([]change, error) {
	if err := q.book.suspect(q.name); err != nil {
		return nil, err
	}
	c := q.content()
	if have := c.newest(); have != prev {
		return nil, fmt.Errorf("the newest record is that of epoch %d: %w", have, epochs.ErrConflict)
	}
	if e <= prev {
		return nil, errors.New("epochs must grow")
	}
	changes := append(q.pending(), change{v: &value{kind: recordKind, query: q.name, epoch: e, data: bytes.Clone(record)}})
	for _, chain := range c.chains {
		for _, v := range slices.Backward(chain) {
			if v.epoch <= prev {
				break
			}
			if v.epoch < e {
				changes = append(changes, change{v, true})
			}
		}
	}
	if c.mark != nil && c.mark.epoch <= e {
		changes = append(changes, change{c.mark, true})
	}
	return changes, nil
}

// Load implements epochs.Segments.
func (q *Query) Load(ctx context.Context, r epochs.LoadRange, f func(epochs.Segment) error) error {
	for group := uint32(r.From); group < uint32(r.To); group++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		q.book.mu.RLock()
		failed := q.book.failed
		chain := slices.Clone(restorable(q.content().chains[chainID{r.Operator, uint16(group)}], r.UpTo))
		q.book.mu.RUnlock()
		if failed != nil {
			return mustReopen(failed)
		}
		for _, v := range chain {
			id := epochs.SegmentID{Operator: r.Operator, Group: uint16(group), Epoch: v.epoch}
			if err := f(epochs.Segment{SegmentID: id, Base: v.base, Data: v.data}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rewind implements epochs.Segments. It settles a query that damage has made
// suspect: what it is rewound to is written anew.
func (q *Query) Rewind(ctx context.Context, to messages.Epoch) error {
	q.write.Lock()
	defer q.write.Unlock()
	if err := q.usable(ctx); err != nil {
		return err
	}
	q.book.mu.Lock()
	c := q.content()
	if find(c.records, to) == nil {
		q.book.mu.Unlock()
		return fmt.Errorf("rewind to epoch %d: there is no record of it", to)
	}
	changes := q.pending()
	settle := q.book.suspect(q.name) != nil
	if settle {
		changes = append(changes, change{v: &value{kind: resetKind, query: q.name, epoch: q.book.damage.epoch}})
	}
	for _, v := range c.all() {
		switch {
		case v.kind != recordKind && v.kind != segmentKind:
		case v.epoch > to && !settle:
			changes = append(changes, change{v, true})
		case v.epoch <= to && settle:
			fresh := *v
			fresh.in = nil
			changes = append(changes, change{v: &fresh})
		}
	}
	used := messages.Epoch(1)
	if settle { // each entry up to there may have been lost, with an epoch of this query
		used = max(used, q.book.damage.epoch)
	}
	changes = append(changes, change{v: &value{kind: highestKind, query: q.name, epoch: c.highest + used}})
	q.book.mu.Unlock()
	return q.catalog.write(ctx, q.book, changes)
}

// Drop implements epochs.Segments. What it forgets is deleted together with the
// query's next change.
func (q *Query) Drop(ctx context.Context, keep, committed messages.Epoch) error {
	q.write.Lock()
	defer q.write.Unlock()
	if err := q.usable(ctx); err != nil {
		return err
	}
	q.book.mu.Lock()
	defer q.book.mu.Unlock()
	c := q.book.queries[q.name]
	if c == nil {
		return nil
	}
	// An epoch that is not committed may not survive a crash: nothing is dropped
	// for its sake.
	keep = min(keep, c.newest())
	var gone []*value
	for _, r := range c.records {
		if r.epoch < keep {
			gone = append(gone, r)
		}
	}
	for _, chain := range c.chains {
		base := messages.Epoch(0)
		if needed := restorable(chain, keep); len(needed) > 0 && needed[0].base {
			base = needed[0].epoch
		}
		for _, v := range chain {
			if v.epoch < base || v.epoch > committed && c.record(v.epoch) == nil {
				gone = append(gone, v)
			}
		}
	}
	for _, v := range gone {
		q.book.kill(c.take(v))
		c.pending = append(c.pending, change{v, true})
	}
	if len(gone) > 0 {
		c.pending = append(c.pending, c.keepHighest(q.name)...)
	}
	return nil
}

// Size implements epochs.Segments: the bytes alive in the log.
func (q *Query) Size() int64 {
	q.book.mu.RLock()
	defer q.book.mu.RUnlock()
	return q.content().bytes
}

// forget removes everything of the query, and what damage made suspect about it.
func (q *Query) forget(ctx context.Context) error {
	q.write.Lock()
	defer q.write.Unlock()
	if err := q.usable(ctx); err != nil {
		return err
	}
	q.book.mu.RLock()
	damage, known := q.book.damage, q.book.queries[q.name] != nil
	q.book.mu.RUnlock()
	reset := change{v: &value{kind: resetKind, query: q.name}, delete: true}
	if damage != nil {
		reset = change{v: &value{kind: resetKind, query: q.name, epoch: damage.epoch}}
	} else if !known {
		return nil
	}
	return q.catalog.write(ctx, q.book, []change{reset})
}

// Close implements epochs.Segments. The catalog stays open.
func (q *Query) Close() error {
	q.write.Lock()
	defer q.write.Unlock()
	q.closed = true
	q.catalog.mu.Lock()
	defer q.catalog.mu.Unlock()
	if q.catalog.users[q.name] == q {
		delete(q.catalog.users, q.name)
	}
	return nil
}
