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

// keysAt reads the keys of the database as they are when it is made, even when
// their tables have been replaced since.
type keysAt struct {
	txn *badger.Txn
	it  *badger.Iterator
}

func (s *Store) keysNow() (k *keysAt, err error) {
	defer withoutTable(&err)
	txn := s.db.NewTransactionAt(newest, false)
	return &keysAt{txn: txn, it: txn.NewIterator(badger.IteratorOptions{})}, nil
}

// withoutTable makes an error of the panic with which Badger answers who reads when it
// has no memory table, since a write has failed; see load.
func withoutTable(err *error) {
	if r := recover(); r != nil {
		*err = fault.New(fault.Restart, "the database cannot be read after a failed write: %v", r)
	}
}

// each calls f for every key, in order.
func (k *keysAt) each(f func(*badger.Item) error) error {
	for k.it.Rewind(); k.it.Valid(); k.it.Next() {
		if err := f(k.it.Item()); err != nil {
			return err
		}
	}
	return nil
}

func (k *keysAt) close() {
	k.it.Close()
	k.txn.Discard()
}

// sweep compares the keys of the database after a compaction with the index and
// with those before it. What the compaction has lost is written again. Keys that
// were deleted and are there again are deleted with the next writes. If one is
// missing for good that belongs to a committed epoch, nothing is written any more:
// the next start finds the damage while older epochs may still be whole.
func (s *Store) sweep(before *keysAt) error {
	missing, err := s.missing(before)
	if err == nil && len(missing) > 0 {
		if err = s.writeAgain(before, missing); err == nil {
			s.log.Warn("a compaction has lost a part of the checkpoint; it was written again", "dir", s.dbDir, "keys", len(missing))
			missing, err = s.missing(before)
		}
	}
	for key := range missing {
		err = errors.Join(err, fmt.Errorf("key %x is gone from the database: %w", key, epochs.ErrDamaged))
		break
	}
	if err == nil {
		return nil
	}
	s.write.Lock()
	defer s.write.Unlock()
	if s.failed != nil { // another write has, and nothing can be said about this one
		return err
	}
	err = fault.Wrap(fault.Restart, err, "compact the checkpoint in %s", s.dbDir)
	s.log.Error("the checkpoint has lost a part of a committed epoch", "dir", s.dbDir, "err", err)
	return s.fail(err)
}

// missing returns the keys that are needed and not there, and notes what is there
// and was deleted.
func (s *Store) missing(before *keysAt) (map[string]bool, error) {
	s.mu.RLock()
	committed := s.x.newest()
	s.mu.RUnlock()
	// In this order: what is written meanwhile is not gone.
	gone, found := map[string]bool{}, map[string]bool{}
	if err := before.each(func(item *badger.Item) error { gone[string(item.Key())] = true; return nil }); err != nil {
		return nil, err
	}
	after, err := s.keysNow()
	if err != nil {
		return nil, err
	}
	defer after.close()
	if err := after.each(func(item *badger.Item) error {
		key := string(item.Key())
		found[key] = true
		delete(gone, key)
		return nil
	}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	missing, strays := s.x.compare(found, gone, committed)
	s.mu.Unlock()
	if strays > 0 {
		s.log.Debug("deleted parts of the checkpoint were there again", "dir", s.dbDir, "keys", strays)
	}
	return missing, nil
}

// writeAgain writes keys as they were before.
func (s *Store) writeAgain(before *keysAt, missing map[string]bool) error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.failed != nil {
		return s.failed
	}
	var kvs []*pb.KV
	size := 0
	err := before.each(func(item *badger.Item) error {
		if !missing[string(item.Key())] {
			return nil
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		kvs = append(kvs, &pb.KV{Key: item.KeyCopy(nil), Value: value, Version: item.Version()})
		if size += len(value); size < chunkBytes {
			return nil
		}
		err = s.load(kvs)
		kvs, size = nil, 0
		return err
	})
	if err != nil {
		return err
	}
	return s.load(kvs)
}

// compare returns the keys that are needed and were not found, if they belong to an
// epoch up to committed, which was the newest before they were looked for, or are
// among those that were there before: what is being written need not be there yet.
// What was found of these epochs and is not known is added to what is to be deleted;
// a record of a later one may be in the database before it is in the index. Keys are
// never used again, so that deleting one twice does no harm.
func (x *index) compare(found, gone map[string]bool, committed messages.Epoch) (missing map[string]bool, strays int) {
	known := make(map[string]bool, len(found))
	missing = map[string]bool{}
	note := func(key string, e messages.Epoch) {
		known[key] = true
		if !found[key] && (e <= committed || gone[key]) {
			missing[key] = true
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
	var kvs []*pb.KV
	for i := range memTableSize/fillerSize + 16 {
		key := fmt.Appendf(nil, "%c%0*d", fillerPrefix, fillerSize, i)
		kvs = append(kvs, &pb.KV{Key: key, Version: uint64(version), Meta: []byte{deleteMark}})
	}
	if err := s.load(kvs); err != nil {
		return s.fail(fault.Wrap(fault.Restart, err, "flush the tables of the checkpoint in %s", s.dbDir))
	}
	return nil
}
