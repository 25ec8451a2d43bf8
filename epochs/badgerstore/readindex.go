package badgerstore

import (
	"context"

	"github.com/dgraph-io/badger/v4"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// readIndex builds the index from the keys and the directories of packs.
func (s *Store) readIndex(ctx context.Context) error {
	s.x = newIndex()
	s.x.highest = messages.Epoch(s.db.MaxVersion())
	txn := s.db.NewTransactionAt(newest, false)
	defer txn.Discard()
	// Records first: they say which epochs were committed.
	if err := s.scan(ctx, txn, recordPrefix, s.indexRecord); err != nil {
		return err
	}
	if err := s.scan(ctx, txn, packPrefix, s.indexPack); err != nil {
		return err
	}
	var last *blob
	err := s.scan(ctx, txn, segmentPrefix, func(item *badger.Item) error {
		last = s.indexSegment(item, last)
		return nil
	})
	s.db.SetDiscardTs(uint64(s.x.newest()))
	return err
}

func (s *Store) scan(ctx context.Context, txn *badger.Txn, prefix byte, f func(*badger.Item) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}})
	defer it.Close()
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := f(it.Item()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) indexRecord(item *badger.Item) error {
	e, ok := parseRecordKey(item.Key())
	if !ok {
		s.indexUnreadable(item)
		return nil
	}
	r := indexedRecord{epoch: e, size: item.ValueSize()}
	r.err = item.Value(func(b []byte) error {
		parsed, err := parseRecord(e, b)
		r.gaps, r.prev = parsed.gaps, parsed.prev
		return err
	})
	s.x.records = append(s.x.records, r)
	s.x.highest = max(s.x.highest, e)
	s.x.live += r.size
	return nil
}

func (s *Store) indexPack(item *badger.Item) error {
	e, number, ok := parsePackKey(item.Key())
	if !ok {
		s.indexUnreadable(item)
		return nil
	}
	b := &blob{key: string(item.Key()), epoch: e, size: item.ValueSize()}
	s.x.addBlob(b)
	s.numbered(e, number)
	if within(s.x.gaps(), e) {
		s.x.kill(b)
		return nil
	}
	var members []packMember
	if err := item.Value(func(v []byte) (err error) {
		members, err = parsePack(e, v)
		return err
	}); err != nil || len(members) == 0 {
		s.log.Error("a part of the checkpoint cannot be read", "epoch", e, "err", err)
		s.x.unreadable = append(s.x.unreadable, b)
		return nil
	}
	for _, m := range members {
		s.x.add(m.id, entry{blob: b, off: m.off, size: m.size, crc: m.crc, base: m.base})
	}
	return nil
}

// indexSegment adds the part of a large segment that item is. Parts follow each
// other; last is what the call for the item before returned.
func (s *Store) indexSegment(item *badger.Item, last *blob) *blob {
	k, err := parseSegmentKey(item.Key())
	if err != nil {
		s.indexUnreadable(item)
		return nil
	}
	k.part = 0
	first := string(k.encode())
	if last != nil && last.key == first {
		return last
	}
	b := &blob{key: first, epoch: k.id.Epoch, size: int64(k.size), parts: k.parts}
	s.x.addBlob(b)
	s.numbered(k.id.Epoch, k.number)
	if within(s.x.gaps(), k.id.Epoch) {
		s.x.kill(b)
	} else {
		s.x.add(k.id, entry{blob: b, size: k.size, crc: k.crc, base: k.base})
	}
	return b
}

// indexUnreadable notes a key that makes no sense.
func (s *Store) indexUnreadable(item *badger.Item) {
	b := &blob{key: string(item.Key()), size: item.ValueSize()}
	b.epoch = epochOf(b.key)
	s.log.Error("a part of the checkpoint cannot be read", "key", b.key, "err", epochs.ErrDamaged)
	s.x.live += b.size
	s.x.unreadable = append(s.x.unreadable, b)
}

// numbered makes the numbers of an epoch go on behind those it has.
func (s *Store) numbered(e messages.Epoch, number uint32) {
	switch {
	case e > s.numberEpoch:
		s.numberEpoch, s.number = e, number+1
	case e == s.numberEpoch:
		s.number = max(s.number, number+1)
	}
}
