package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Load implements epochs.Segments.
func (s *Store) Load(ctx context.Context, r epochs.LoadRange, f func(epochs.Segment) error) error {
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if s.db == nil {
		return errReopen
	}
	txn := s.db.NewTransactionAt(newest, false)
	defer txn.Discard()
	l := loader{store: s, txn: txn}
	for group := uint32(r.From); group < uint32(r.To); group++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := chainID{r.Operator, uint16(group)}
		chain, err := s.chain(id, r.UpTo)
		if err != nil {
			return err
		}
		for _, e := range chain {
			seg := epochs.Segment{SegmentID: epochs.SegmentID{Operator: r.Operator, Group: uint16(group), Epoch: e.epoch}, Base: e.base}
			seg.Data, err = l.read(e)
			if err != nil { // the value log may have been rewritten in between
				seg.Data, err = l.read(e)
			}
			if err != nil {
				if s.dropped(id, e) {
					continue
				}
				return fmt.Errorf("load segment of %s, key group %d, epoch %d: %w", r.Operator, group, e.epoch, err)
			}
			if err := f(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// chain returns what restores a group at an epoch.
func (s *Store) chain(id chainID, upTo messages.Epoch) ([]entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	chain := restorable(s.x.chains[id], upTo)
	for _, b := range s.x.unreadable {
		if b.epoch <= upTo && (len(chain) == 0 || !chain[0].base || b.epoch > chain[0].epoch) {
			return nil, fmt.Errorf("load %s, key group %d, epoch %d: a pack of epoch %d cannot be read: %w", id.operator, id.group, upTo, b.epoch, epochs.ErrDamaged)
		}
	}
	return slices.Clone(chain), nil
}

// dropped reports whether a segment has been dropped since its entry was copied.
func (s *Store) dropped(id chainID, e entry) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, found := slices.BinarySearchFunc(s.x.chains[id], e.epoch, compareEpoch)
	return !found
}

// loader reads segments in one transaction; buf is used again and again.
type loader struct {
	store *Store
	txn   *badger.Txn
	buf   []byte
}

// read returns the data of a segment, valid until the next call.
func (l *loader) read(e entry) ([]byte, error) {
	l.buf = l.buf[:0]
	var err error
	if e.blob.parts == 0 {
		err = l.value([]byte(e.blob.key), func(v []byte) error {
			if uint64(e.off)+uint64(e.size) > uint64(len(v)) {
				return errors.New("the pack is too short")
			}
			l.buf = append(l.buf, v[e.off:e.off+e.size]...)
			return nil
		})
	} else {
		e.blob.keys(func(key []byte) {
			if err == nil {
				err = l.value(key, func(v []byte) error { l.buf = append(l.buf, v...); return nil })
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, epochs.ErrDamaged)
	}
	if len(l.buf) != int(e.size) || checksum(l.buf) != e.crc {
		return nil, fmt.Errorf("its checksum does not fit: %w", epochs.ErrDamaged)
	}
	return l.buf, nil
}

func (l *loader) value(key []byte, f func([]byte) error) error {
	item, err := l.txn.Get(key)
	if err != nil {
		return err
	}
	return item.Value(f)
}
