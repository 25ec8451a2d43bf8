package memstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

var (
	errClosed = errors.New("memstore: the store is closed")
	// errUnknown: see Segments.Commit.
	errUnknown = errors.New("memstore: a write failed and its outcome is unknown; reopen the store")
)

// store is one opening of a disk. Its fields are guarded by the disk's mutex.
type store struct {
	disk    *Disk
	closed  bool
	unknown bool
	// epoch and bytes count what was put for the newest epoch; lastBytes is what
	// the epoch before it had.
	epoch            messages.Epoch
	bytes, lastBytes int64
}

// usable reports why the store may not be used. The disk's mutex is held.
func (s *store) usable(ctx context.Context) error {
	switch {
	case s.closed:
		return errClosed
	case s.disk.owner != s:
		return fmt.Errorf("memstore: %w", ErrCrashed)
	case s.unknown:
		return errUnknown
	}
	return ctx.Err()
}

// enter calls the fault hook, takes the mutex and checks the store. When it
// returns nil, the caller must unlock.
func (s *store) enter(ctx context.Context, op string) error {
	if err := s.disk.inject(op); err != nil {
		return err
	}
	s.disk.mu.Lock()
	if err := s.usable(ctx); err != nil {
		s.disk.mu.Unlock()
		return err
	}
	return nil
}

func (s *store) Committed(ctx context.Context) ([]epochs.StoredRecord, messages.Epoch, error) {
	if err := s.enter(ctx, OpCommitted); err != nil {
		return nil, 0, err
	}
	defer s.disk.mu.Unlock()
	var records []epochs.StoredRecord
	for _, r := range slices.Backward(s.disk.records) {
		records = append(records, epochs.StoredRecord{Epoch: r.epoch, Data: bytes.Clone(r.data)})
	}
	return records, s.disk.highest, nil
}

func (s *store) Check(ctx context.Context) error {
	if err := s.enter(ctx, OpCheck); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	return s.fits(max(s.bytes, s.lastBytes))
}

// fits reports whether the disk has room for n more bytes.
func (s *store) fits(n int64) error {
	if d := s.disk; d.quota > 0 && d.size+n > d.quota {
		return fmt.Errorf("memstore: %d of %d bytes used, %d more needed: %w", d.size, d.quota, n, epochs.ErrNoSpace)
	}
	return nil
}

func (s *store) Put(ctx context.Context, e messages.Epoch, segs []epochs.Segment) error {
	if err := s.enter(ctx, OpPut); err != nil {
		return err
	}
	staged, err := s.stage(e, segs)
	s.disk.mu.Unlock()
	if err != nil {
		return err
	}
	return s.sync(ctx, staged, OpPutSync, OpPutDone)
}

// stage writes segments without making them durable.
func (s *store) stage(e messages.Epoch, segs []epochs.Segment) (change, error) {
	d := s.disk
	if newest := d.newest(); e <= newest {
		return change{}, fmt.Errorf("memstore: put segments of epoch %d after the record of epoch %d", e, newest)
	}
	c := change{segments: make([]epochs.Segment, 0, len(segs))}
	seen := map[epochs.SegmentID]bool{}
	n := int64(0)
	for _, seg := range segs {
		if seg.Epoch != e {
			return change{}, fmt.Errorf("memstore: put segment %v with epoch %d", seg.SegmentID, e)
		}
		_, stored := slices.BinarySearchFunc(d.chains[chainID{seg.Operator, seg.Group}], e, compareEpoch)
		if stored || seen[seg.SegmentID] {
			return change{}, fmt.Errorf("memstore: segment %v was put before", seg.SegmentID)
		}
		seen[seg.SegmentID] = true
		seg.Data = bytes.Clone(seg.Data)
		c.segments = append(c.segments, seg)
		n += int64(len(seg.Data))
	}
	if err := s.fits(n); err != nil {
		return change{}, fmt.Errorf("memstore: put epoch %d: %w", e, err)
	}
	if e != s.epoch {
		s.epoch, s.lastBytes, s.bytes = e, s.bytes, 0
	}
	s.bytes += n
	d.unsynced = append(d.unsynced, c)
	return c, nil
}

// sync makes the staged change durable, with the fault points before and after.
func (s *store) sync(ctx context.Context, staged change, before, after string) error {
	if err := s.disk.inject(before); err != nil {
		s.lose()
		return err
	}
	s.disk.mu.Lock()
	err := s.usable(ctx)
	if err == nil {
		s.disk.unsynced = s.disk.unsynced[:len(s.disk.unsynced)-1]
		s.disk.apply(staged)
	}
	s.disk.mu.Unlock()
	if err == nil {
		err = s.disk.inject(after)
	}
	if err != nil {
		s.lose()
	}
	return err
}

// lose notes that the outcome of a write is unknown.
func (s *store) lose() {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.unknown = true
}

func (s *store) Commit(ctx context.Context, prev, e messages.Epoch, data []byte) error {
	if err := s.enter(ctx, OpCommit); err != nil {
		return err
	}
	d := s.disk
	if newest := d.newest(); newest != prev {
		d.mu.Unlock()
		return fmt.Errorf("memstore: commit epoch %d after %d: the newest record is that of epoch %d: %w", e, prev, newest, epochs.ErrConflict)
	}
	if e <= prev {
		d.mu.Unlock()
		return fmt.Errorf("memstore: commit epoch %d after %d: epochs must grow", e, prev)
	}
	staged := change{record: &record{prev: prev, epoch: e, data: bytes.Clone(data)}}
	d.unsynced = append(d.unsynced, staged)
	d.mu.Unlock()
	return s.sync(ctx, staged, OpCommitSync, OpCommitDone)
}

func (s *store) Rewind(ctx context.Context, to messages.Epoch) error {
	if err := s.enter(ctx, OpRewind); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	d := s.disk
	if !slices.ContainsFunc(d.records, func(r record) bool { return r.epoch == to }) {
		return fmt.Errorf("memstore: rewind to epoch %d: there is no record of it", to)
	}
	d.removeRecords(func(r record) bool { return r.epoch > to })
	d.remove(func(seg epochs.Segment) bool { return seg.Epoch > to })
	return nil
}

func (s *store) Load(ctx context.Context, r epochs.LoadRange, f func(epochs.Segment) error) error {
	for group := uint32(r.From); group < uint32(r.To); group++ {
		chain, err := s.chain(ctx, r, uint16(group))
		if err != nil {
			return err
		}
		for _, seg := range chain {
			if err := f(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// chain returns a copy of what is to be loaded of one group. Data is not
// copied: it is never changed in place.
func (s *store) chain(ctx context.Context, r epochs.LoadRange, group uint16) ([]epochs.Segment, error) {
	if err := s.enter(ctx, OpLoad); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	return slices.Clone(restorable(s.disk.chains[chainID{r.Operator, group}], r.UpTo)), nil
}

func (s *store) Drop(ctx context.Context, keep, committed messages.Epoch) error {
	if err := s.enter(ctx, OpDrop); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	d := s.disk
	// An epoch that is not committed may not survive a crash: nothing is dropped
	// for its sake.
	keep = min(keep, d.newest())
	recorded := map[messages.Epoch]bool{}
	for _, r := range d.records {
		recorded[r.epoch] = true
	}
	bases := map[chainID]messages.Epoch{}
	for id, chain := range d.chains {
		if needed := restorable(chain, keep); len(needed) > 0 && needed[0].Base {
			bases[id] = needed[0].Epoch
		}
	}
	d.remove(func(seg epochs.Segment) bool {
		orphan := seg.Epoch > committed && !recorded[seg.Epoch]
		return orphan || seg.Epoch < bases[chainID{seg.Operator, seg.Group}]
	})
	d.removeRecords(func(r record) bool { return r.epoch < keep })
	return nil
}

func (s *store) Size() int64 {
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	return s.disk.size
}

func (s *store) Close() error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if !s.closed && s.disk.owner == s {
		s.disk.owner = nil
	}
	s.closed = true
	return nil
}
