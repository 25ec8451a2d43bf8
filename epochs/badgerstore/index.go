package badgerstore

import (
	"encoding/binary"
	"slices"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// blob is one key, or the keys of all parts of a large segment.
type blob struct {
	key   string // of the first part
	epoch messages.Epoch
	size  int64
	parts uint16 // 0: a pack
	live  int32  // members that are still needed
}

// keys calls f for every key of the blob.
func (b *blob) keys(f func(key []byte)) {
	if b.parts <= 1 {
		f([]byte(b.key))
		return
	}
	for part := range b.parts {
		f(b.partKey(part))
	}
}

// partKey is the key of a part of a large segment.
func (b *blob) partKey(part uint16) []byte {
	k := []byte(b.key)
	if part == 0 {
		return k
	}
	n := len(k) - 4
	binary.BigEndian.PutUint16(k[13:], part)
	binary.BigEndian.PutUint32(k[n:], checksum(k[:n]))
	return k
}

// entry is one segment: where it is and what it must look like.
type entry struct {
	epoch          messages.Epoch
	blob           *blob
	off, size, crc uint32
	base           bool
}

type chainID struct {
	operator string
	group    uint16
}

// index knows every segment and record of the store. Its owner locks it.
type index struct {
	chains map[chainID][]entry // by epoch
	// names holds one copy of each operator's name.
	names map[string]string
	// records are the retained ones, by epoch; sizes are those of the values.
	records []indexedRecord
	highest messages.Epoch
	live    int64 // bytes of blobs and records that are needed
	// dead blobs are to be deleted with the next write.
	dead     []*blob
	unlisted int // of dead, from the front: no record on disk needs them
	// deadRecords likewise.
	deadRecords []messages.Epoch
	// unreadable are packs whose directory is damaged: nobody knows what was in
	// them.
	unreadable []*blob
}

type indexedRecord struct {
	epoch messages.Epoch
	prev  messages.Epoch
	gaps  []span
	size  int64
	err   error // why it cannot be read
}

func newIndex() *index { return &index{chains: map[chainID][]entry{}, names: map[string]string{}} }

// newest returns the epoch of the newest record, 0 if there is none.
func (x *index) newest() messages.Epoch {
	if len(x.records) == 0 {
		return 0
	}
	return x.records[len(x.records)-1].epoch
}

// first reports whether there is only the record that no other preceded.
func (x *index) first() bool {
	return len(x.records) == 1 && x.records[0].err == nil && x.records[0].prev == 0
}

// gaps returns the spans of epochs that were never committed, of which the newest
// record that can be read knows.
func (x *index) gaps() []span {
	for _, r := range slices.Backward(x.records) {
		if r.err == nil {
			return r.gaps
		}
	}
	return nil
}

func (x *index) chainID(operator string, group uint16) chainID {
	name, known := x.names[operator]
	if !known {
		x.names[operator] = operator
		name = operator
	}
	return chainID{name, group}
}

// has reports whether the segment is known.
func (x *index) has(id epochs.SegmentID) bool {
	_, found := slices.BinarySearchFunc(x.chains[chainID{id.Operator, id.Group}], id.Epoch, compareEpoch)
	return found
}

// addBlob notes a blob; its members are added afterwards.
func (x *index) addBlob(b *blob) {
	x.highest = max(x.highest, b.epoch)
	x.live += b.size
}

func (x *index) add(id epochs.SegmentID, e entry) {
	c := x.chainID(id.Operator, id.Group)
	e.epoch = id.Epoch
	i, _ := slices.BinarySearchFunc(x.chains[c], e.epoch, compareEpoch)
	x.chains[c] = slices.Insert(x.chains[c], i, e)
	e.blob.live++
}

// kill marks a blob that nobody needs for deletion.
func (x *index) kill(b *blob) {
	x.live -= b.size
	x.dead = append(x.dead, b)
}

// remove forgets the segments that gone selects, and the blobs without members.
func (x *index) remove(gone func(entry) bool) {
	for id := range x.chains {
		x.removeFrom(id, gone)
	}
}

// removeFrom is remove for one chain.
func (x *index) removeFrom(id chainID, gone func(entry) bool) {
	kept := slices.DeleteFunc(x.chains[id], func(e entry) bool {
		if !gone(e) {
			return false
		}
		e.blob.live--
		if e.blob.live == 0 {
			x.kill(e.blob)
		}
		return true
	})
	if len(kept) == 0 {
		delete(x.chains, id)
	} else {
		x.chains[id] = kept
	}
}

// removeRecords forgets the records that gone selects.
func (x *index) removeRecords(gone func(messages.Epoch) bool) {
	x.records = slices.DeleteFunc(x.records, func(r indexedRecord) bool {
		if !gone(r.epoch) {
			return false
		}
		x.live -= r.size
		x.deadRecords = append(x.deadRecords, r.epoch)
		return true
	})
}

func (x *index) removeUnreadable(gone func(*blob) bool) {
	x.unreadable = slices.DeleteFunc(x.unreadable, func(b *blob) bool {
		if !gone(b) {
			return false
		}
		x.kill(b)
		return true
	})
}

// drop does the work of Segments.Drop.
func (x *index) drop(keep, committed messages.Epoch) {
	// An epoch that is not committed may not survive a crash: nothing is dropped
	// for its sake.
	keep = min(keep, x.newest())
	orphan := func(e messages.Epoch) bool { return e > committed && !x.recorded(e) }
	for id, chain := range x.chains {
		base := messages.Epoch(0)
		if needed := restorable(chain, keep); len(needed) > 0 && needed[0].base {
			base = needed[0].epoch
		}
		if chain[0].epoch < base || chain[len(chain)-1].epoch > committed {
			x.removeFrom(id, func(e entry) bool { return orphan(e.epoch) || e.epoch < base })
		}
	}
	x.removeRecords(func(e messages.Epoch) bool { return e < keep })
	x.removeFrom(recordChain, func(e entry) bool { return !x.recorded(e.epoch) }) // records stored apart
	x.removeUnreadable(func(b *blob) bool { return orphan(b.epoch) })
}

func (x *index) recorded(e messages.Epoch) bool {
	return slices.ContainsFunc(x.records, func(r indexedRecord) bool { return r.epoch == e })
}

// nextGaps returns the spans for a record of epoch e after prev: those still
// needed and the one between the two.
func (x *index) nextGaps(prev, e messages.Epoch) []span {
	gaps := slices.Clone(x.gaps())
	if len(gaps) > 0 {
		oldest := e
		for _, chain := range x.chains {
			oldest = min(oldest, chain[0].epoch)
		}
		for _, b := range x.dead {
			oldest = min(oldest, b.epoch)
		}
		gaps = slices.DeleteFunc(gaps, func(g span) bool { return g.to < oldest })
	}
	if e > prev+1 && x.highest > prev {
		gaps = append(gaps, span{prev + 1, e - 1})
	}
	return gaps
}

// within reports whether an epoch lies in one of the spans.
func within(gaps []span, e messages.Epoch) bool {
	return slices.ContainsFunc(gaps, func(g span) bool { return g.from <= e && e <= g.to })
}

// restorable returns the part of a chain that restores epoch upTo: the newest
// base at or before it and what follows.
func restorable(chain []entry, upTo messages.Epoch) []entry {
	end, found := slices.BinarySearchFunc(chain, upTo, compareEpoch)
	if found {
		end++
	}
	chain = chain[:end]
	for i, e := range slices.Backward(chain) {
		if e.base {
			return chain[i:]
		}
	}
	return chain
}

func compareEpoch(e entry, epoch messages.Epoch) int {
	switch {
	case e.epoch < epoch:
		return -1
	case e.epoch > epoch:
		return 1
	}
	return 0
}
