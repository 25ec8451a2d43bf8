package badgerstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// packBelow is the size from which a segment has a key of its own.
	packBelow = 16 << 10
	// packSize is how large a pack may grow.
	packSize = 64 << 10
	// partSize is how large the value of a part may be; Badger takes none that is
	// larger than a log file.
	partSize = 512 << 10
	// maxSegment is what the parts of a segment can be counted with.
	maxSegment = math.MaxInt32
	// putDeletes limits the deletions that go along with one Put, in blobs;
	// commitDeletes those of a transaction, in keys, which has to fit into 15 % of
	// a memory table: with the overhead of each key, and the record.
	putDeletes    = 4096
	commitDeletes = 48
	deleteCost    = 32
	// chunkOverhead is what Badger counts for an entry besides key and value, at
	// most; chunkBytes bounds the values that are handed to it at once.
	chunkOverhead = 32
	chunkBytes    = 32 << 20
)

// deleteMark is the meta byte of a deletion in a loader.
const deleteMark = 1

// Put implements epochs.Segments.
func (s *Store) Put(ctx context.Context, e messages.Epoch, segs []epochs.Segment) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.complete(); err != nil {
		return err
	}
	sorted, err := s.checkPut(e, segs)
	if err != nil {
		return fmt.Errorf("put segments of epoch %d: %w", e, err)
	}
	if err := s.put(e, sorted); err != nil {
		return s.fail(fault.Wrap(fault.Restart, err, "put segments of epoch %d", e))
	}
	return nil
}

// checkPut returns the segments by operator and group.
func (s *Store) checkPut(e messages.Epoch, segs []epochs.Segment) ([]epochs.Segment, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if have := s.x.newest(); e <= have {
		return nil, fmt.Errorf("there is a record of epoch %d", have)
	}
	sorted := slices.SortedFunc(slices.Values(segs), func(a, b epochs.Segment) int {
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Group, b.Group))
	})
	for i, seg := range sorted {
		switch {
		case seg.Group == recordChain.group:
			return nil, fmt.Errorf("segment %v: no group has the number %d", seg.SegmentID, recordChain.group)
		case seg.Epoch != e:
			return nil, fmt.Errorf("segment %v is of another epoch", seg.SegmentID)
		case i > 0 && seg.SegmentID == sorted[i-1].SegmentID, s.x.has(seg.SegmentID):
			return nil, fmt.Errorf("segment %v was put before", seg.SegmentID)
		case len(seg.Data) > maxSegment:
			return nil, fmt.Errorf("segment %v has %d bytes, more than %d", seg.SegmentID, len(seg.Data), maxSegment)
		}
	}
	return sorted, nil
}

func (s *Store) put(e messages.Epoch, segs []epochs.Segment) error {
	if e != s.numberEpoch {
		s.numberEpoch, s.number = e, 0
		s.mu.Lock()
		s.lastBytes, s.epochBytes = s.epochBytes, 0
		s.mu.Unlock()
	}
	// What is written is in the index before, so that it is not forgotten when
	// the write fails half-way; nothing loads an epoch without a record.
	s.mu.Lock()
	kvs := s.layOut(e, segs)
	// Only what no record on disk needs: a record that waits for its deletion may
	// come back with a crash, and an epoch that is listed has to be whole.
	dead := s.x.dead[:min(s.x.unlisted, putDeletes)]
	for _, b := range dead {
		b.keys(func(k []byte) { kvs = append(kvs, &pb.KV{Key: k, Version: uint64(e), Meta: []byte{deleteMark}}) })
	}
	s.mu.Unlock()
	if len(kvs) == 0 {
		return nil
	}
	slices.SortFunc(kvs, func(a, b *pb.KV) int { return bytes.Compare(a.Key, b.Key) })
	if err := fault.Inject("epochs/persist/write"); err != nil {
		return err
	}
	if err := s.load(kvs); err != nil {
		return err
	}
	s.mu.Lock()
	s.x.dead = s.x.dead[len(dead):]
	s.x.unlisted -= len(dead)
	s.mu.Unlock()
	return fault.Inject("epochs/persist/synced")
}

// load writes keys and values, chunk by chunk, each when the one before has been
// written: Badger has no memory table any more when it could not make the file of the
// next one, and ends the process over whatever it is asked for then.
func (s *Store) load(kvs []*pb.KV) error {
	for len(kvs) > 0 {
		loader := s.db.NewKVLoader(1)
		n, keys, bytes := 0, int64(0), 0
		for n < len(kvs) && int64(n+2) < s.db.MaxBatchCount() && bytes < chunkBytes {
			kv := kvs[n]
			size := int64(len(kv.Key) + chunkOverhead)
			if len(kv.Value) < valueThreshold {
				size += int64(len(kv.Value))
			}
			if n > 0 && keys+size >= s.db.MaxBatchSize() {
				break
			}
			if err := loader.Set(kv); err != nil {
				return err
			}
			n, keys, bytes = n+1, keys+size, bytes+len(kv.Value)
		}
		if err := errors.Join(loader.Finish(), s.errors.take()); err != nil {
			return err
		}
		kvs = kvs[n:]
	}
	return nil
}

// layOut makes keys and values of segments and enters them into the index. mu
// and write are held.
func (s *Store) layOut(e messages.Epoch, segs []epochs.Segment) []*pb.KV {
	kvs := make([]*pb.KV, 0, len(segs)/2+4)
	var pack packBuilder
	flush := func() {
		if len(pack.segments) > 0 {
			kvs = append(kvs, s.addPack(e, &pack))
			pack = packBuilder{}
		}
	}
	for _, seg := range segs {
		s.epochBytes += int64(len(seg.Data))
		s.totalBytes += int64(len(seg.Data))
		if len(seg.Data) >= packBelow {
			kvs = append(kvs, s.addLarge(seg)...)
			continue
		}
		if pack.size()+len(seg.Data) > packSize {
			flush()
		}
		pack.add(seg)
	}
	flush()
	return kvs
}

func (s *Store) nextNumber() uint32 {
	s.number++
	return s.number - 1
}

func (s *Store) addPack(e messages.Epoch, p *packBuilder) *pb.KV {
	key, value := packKey(e, s.nextNumber()), p.encode()
	b := &blob{key: string(key), epoch: e, size: int64(len(value))}
	s.x.addBlob(b)
	off := len(value) - len(p.data)
	for i, size := range p.sizes {
		s.x.add(p.segments[i].SegmentID, entry{blob: b, off: uint32(off), size: size, crc: p.crcs[i], base: p.segments[i].Base})
		off += int(size)
	}
	return &pb.KV{Key: key, Value: value, Version: uint64(e)}
}

// addLarge makes the parts of a large segment. The values are slices of its
// data, which is not changed while Put runs.
func (s *Store) addLarge(seg epochs.Segment) []*pb.KV {
	parts := (len(seg.Data) + partSize - 1) / partSize
	k := segmentKey{
		id: seg.SegmentID, number: s.nextNumber(), parts: uint16(parts),
		base: seg.Base, size: uint32(len(seg.Data)), crc: checksum(seg.Data),
	}
	b := &blob{key: string(k.encode()), epoch: seg.Epoch, size: int64(len(seg.Data)), parts: k.parts}
	s.x.addBlob(b)
	s.x.add(seg.SegmentID, entry{blob: b, size: k.size, crc: k.crc, base: k.base})
	kvs := make([]*pb.KV, parts)
	for i := range kvs {
		kvs[i] = &pb.KV{
			Key:     b.partKey(uint16(i)),
			Value:   seg.Data[i*partSize : min((i+1)*partSize, len(seg.Data))],
			Version: uint64(seg.Epoch),
		}
	}
	return kvs
}

// Commit implements epochs.Segments.
func (s *Store) Commit(ctx context.Context, prev, e messages.Epoch, record []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.complete(); err != nil {
		return err
	}
	s.mu.RLock()
	have, witness := s.x.newest(), s.witness
	value := storedRecord{prev: prev, gaps: s.x.nextGaps(prev, e), data: record}
	s.mu.RUnlock()
	if have != prev {
		return fmt.Errorf("commit epoch %d after %d: the newest record is that of epoch %d: %w", e, prev, have, epochs.ErrConflict)
	}
	if e <= prev {
		return fmt.Errorf("commit epoch %d after %d: epochs must grow", e, prev)
	}
	if err := s.checkUnchanged(witness); err != nil {
		return fmt.Errorf("commit epoch %d: %w", e, err)
	}
	if len(record) > partSize {
		if len(record) > maxSegment {
			return fault.New(fault.Config, "commit epoch %d: the record has %d bytes, more than %d", e, len(record), maxSegment)
		}
		value.apart, value.data = true, nil
		if err := s.put(e, []epochs.Segment{recordSegment(e, record)}); err != nil {
			return s.fail(fault.Wrap(fault.Restart, err, "put the commit record of epoch %d", e))
		}
	}
	if err := s.commit(e, value); err != nil {
		return s.fail(fault.Wrap(fault.Restart, err, "commit epoch %d", e))
	}
	s.gc.wake()
	return nil
}

func (s *Store) commit(e messages.Epoch, r storedRecord) error {
	if err := fault.Inject("epochs/commit/write"); err != nil {
		return err
	}
	value := r.encode()
	if err := s.transact(e, func(txn *badger.Txn) error {
		if r.prev != 0 {
			if _, err := txn.Get(recordKey(r.prev)); err != nil {
				return fmt.Errorf("the record of epoch %d: %w", r.prev, err)
			}
		}
		return txn.Set(recordKey(e), value)
	}); err != nil {
		return err
	}
	s.mu.Lock()
	s.x.records = append(s.x.records, indexedRecord{epoch: e, prev: r.prev, gaps: r.gaps, size: int64(len(value))})
	s.x.highest = max(s.x.highest, e)
	s.x.live += int64(len(value))
	s.totalBytes += int64(len(value))
	if e > r.prev+1 {
		skipped := span{r.prev + 1, e - 1}
		s.x.remove(func(x entry) bool { return within([]span{skipped}, x.epoch) })
		s.x.removeUnreadable(func(b *blob) bool { return within([]span{skipped}, b.epoch) })
	}
	s.mu.Unlock()
	s.db.SetDiscardTs(uint64(e))
	if err := fault.Inject("epochs/commit/synced"); err != nil {
		return err
	}
	if err := s.setWitness(e); err != nil {
		return err
	}
	return fault.Inject("epochs/commit/witnessed")
}

// setWitness writes the epoch witness.
func (s *Store) setWitness(e messages.Epoch) error {
	if err := writeFile(s.dir, witnessName, witnessContent(e)); err != nil {
		return fmt.Errorf("epoch witness: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.witness = e
	return nil
}

// transact runs f in a transaction at version e, adds deletions that wait, and
// commits it durably.
func (s *Store) transact(e messages.Epoch, f func(*badger.Txn) error) error {
	txn := s.db.NewTransactionAt(newest, true)
	defer txn.Discard()
	if err := f(txn); err != nil {
		return err
	}
	s.mu.RLock()
	records := slices.Clone(s.x.deadRecords[:min(len(s.x.deadRecords), commitDeletes)])
	dead, keys, size := s.x.dead, len(records), int64(0)
	for i, b := range dead {
		n := max(int(b.parts), 1)
		keys += n
		size += int64(n * (len(b.key) + deleteCost))
		if keys > commitDeletes || size > s.db.MaxBatchSize()/2 {
			dead = dead[:i] // the rest is left to a Put, which has no limit
			break
		}
	}
	s.mu.RUnlock()
	var err error
	remove := func(k []byte) {
		if err == nil {
			err = txn.Delete(k)
		}
	}
	for _, b := range dead {
		b.keys(remove)
	}
	for _, r := range records {
		remove(recordKey(r))
	}
	if err != nil {
		return err
	}
	if err := errors.Join(txn.CommitAt(uint64(e), nil), s.errors.take()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x.dead = s.x.dead[len(dead):]
	s.x.deadRecords = s.x.deadRecords[len(records):]
	s.x.unlisted = max(0, s.x.unlisted-len(dead))
	if len(s.x.deadRecords) == 0 {
		s.x.unlisted = len(s.x.dead)
	}
	return nil
}

// Rewind implements epochs.Segments.
func (s *Store) Rewind(ctx context.Context, to messages.Epoch) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	known, version := s.x.recorded(to), s.x.highest+1
	if s.lost != nil {
		version = max(version, usedBy(s.lost, s.x.highest)+1)
	}
	s.mu.RUnlock()
	if !known {
		return fmt.Errorf("rewind to epoch %d: there is no record of it", to)
	}
	// The witness first: after a crash in between it is older than the newest
	// record, which is the harmless way round.
	if err := s.rewind(to, version); err != nil {
		return s.fail(fault.Wrap(fault.Restart, err, "rewind to epoch %d", to))
	}
	return nil
}

func (s *Store) rewind(to, version messages.Epoch) error {
	if s.lost != nil { // the witness is all that knows which epochs there have been
		if err := s.keepVersion(version); err != nil {
			return err
		}
	}
	if err := s.setWitness(to); err != nil {
		return err
	}
	if err := fault.Inject("epochs/rewind/witnessed"); err != nil {
		return err
	}
	s.mu.Lock()
	s.lost = nil
	s.x.highest = version
	s.x.removeRecords(func(e messages.Epoch) bool { return e > to })
	s.x.remove(func(e entry) bool { return e.epoch > to })
	s.x.removeUnreadable(func(b *blob) bool { return b.epoch > to })
	// Newest first, so that a crash between two transactions leaves a rewind to
	// an epoch in between.
	slices.Sort(s.x.deadRecords)
	slices.Reverse(s.x.deadRecords)
	s.mu.Unlock()
	for {
		if err := s.keepVersion(version); err != nil {
			return err
		}
		s.mu.RLock()
		left := len(s.x.deadRecords)
		s.mu.RUnlock()
		if left == 0 {
			return nil
		}
	}
}

// keepVersion makes the numbers up to version used for ever: deleting what never
// was keeps it.
func (s *Store) keepVersion(version messages.Epoch) error {
	return s.transact(version, func(txn *badger.Txn) error { return txn.Delete([]byte("version")) })
}

// Drop implements epochs.Segments. What it forgets is deleted together with the
// next writes.
func (s *Store) Drop(ctx context.Context, keep, committed messages.Epoch) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x.drop(keep, committed)
	return nil
}
