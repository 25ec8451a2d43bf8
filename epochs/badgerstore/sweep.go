package badgerstore

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// sweep compares the keys of the database with the index. Keys that were deleted and
// are there again are deleted with the next writes. If one is missing that belongs
// to a committed epoch, nothing is written any more: the next start finds the damage
// while older epochs may still be whole.
func (s *Store) sweep() error {
	s.mu.RLock()
	committed := s.x.newest()
	s.mu.RUnlock()
	found := map[string]bool{}
	txn := s.db.NewTransactionAt(newest, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		found[string(it.Item().Key())] = true
	}
	s.mu.Lock()
	missing, strays := s.x.compare(found, committed)
	s.mu.Unlock()
	if strays > 0 {
		s.log.Debug("deleted parts of the checkpoint were there again", "dir", s.dbDir, "keys", strays)
	}
	if missing == "" {
		return nil
	}
	err := fault.Wrap(fault.Restart, fmt.Errorf("key %x is gone from the database: %w", missing, epochs.ErrDamaged), "compact the checkpoint in %s", s.dbDir)
	s.log.Error("the checkpoint has lost a part of a committed epoch", "dir", s.dbDir, "err", err)
	s.write.Lock()
	defer s.write.Unlock()
	return s.fail(err)
}

// compare returns a key of an epoch up to committed, which was the newest before the
// keys were looked for, that was not found. What was found of these epochs and is not
// known is added to what is to be deleted; a record of a later one may be in the
// database before it is in the index. Keys are never used again, so that deleting one
// twice does no harm.
func (x *index) compare(found map[string]bool, committed messages.Epoch) (missing string, strays int) {
	known := make(map[string]bool, len(found))
	note := func(key string, e messages.Epoch) {
		known[key] = true
		if e <= committed && !found[key] {
			missing = key
		}
	}
	for _, chain := range x.chains {
		for _, e := range chain {
			e.blob.keys(func(k []byte) { note(string(k), e.epoch) })
		}
	}
	for _, r := range x.records {
		note(string(recordKey(r.epoch)), r.epoch)
	}
	for _, r := range x.deadRecords {
		known[string(recordKey(r))] = true
	}
	for _, blobs := range [][]*blob{x.dead, x.unreadable} {
		for _, b := range blobs {
			b.keys(func(k []byte) { known[string(k)] = true })
		}
	}
	for key := range found {
		e := epochOf(key)
		if known[key] || e > committed {
			continue
		}
		strays++
		if key[0] == recordPrefix {
			x.deadRecords = append(x.deadRecords, e)
		} else {
			x.dead = append(x.dead, &blob{key: key, epoch: e})
		}
	}
	return missing, strays
}

// fillerSize is the size of a key that fills a memory table.
const fillerSize = 1000

// flush fills the memory table, so that it is flushed and a compaction finds out
// what is garbage: with few and large values that would take very long. What fills
// it are deletions of what never was, which a compaction removes.
func (s *Store) flush() error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed || s.failed != nil {
		return nil
	}
	s.mu.RLock()
	version, lost := s.x.newest(), s.lost
	s.mu.RUnlock()
	if version == 0 || lost != nil {
		return nil
	}
	loader := s.db.NewKVLoader(loaderChunks)
	var err error
	for i := range memTableSize/fillerSize + 16 {
		key := fmt.Appendf(nil, "%c%0*d", fillerPrefix, fillerSize, i)
		if err = loader.Set(&pb.KV{Key: key, Version: uint64(version), Meta: []byte{deleteMark}}); err != nil {
			break
		}
	}
	if err := errors.Join(err, loader.Finish(), s.errors.take()); err != nil {
		return s.fail(fault.Wrap(fault.Restart, err, "flush the tables of the checkpoint in %s", s.dbDir))
	}
	return nil
}
