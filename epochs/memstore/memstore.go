// Package memstore keeps segments and commit records in memory, with the crash
// semantics of a disk: simulations and tests use it in place of badgerstore, and
// so do queries that need no durability.
//
// A Disk outlives the stores opened on it. Disk.Open is a process that starts,
// Disk.Crash is the power cut: what was not synced is lost, or partly kept, and
// the open store fails from then on.
//
//	disk := memstore.New(memstore.Options{Seed: 1})
//	store, err := disk.Open()
//	...
//	disk.Crash()
//	store, err = disk.Open() // holds what was durable
//
// The package starts no goroutines and reads no clock; what it does depends on
// the calls and on the seed only.
package memstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// ErrCrashed is returned by a store whose disk has crashed since it was opened.
var ErrCrashed = errors.New("the disk has crashed")

// Options configure a Disk. The zero value is a disk without limits and faults
// that loses everything unsynced in a crash.
type Options struct {
	// Seed of the choice what of the unsynced data survives a crash.
	Seed uint64
	// KeepUnsynced is the probability, 0 to 100 percent, that a piece of
	// unsynced data (one segment of a Put, or a record) survives a crash.
	KeepUnsynced int
	// Quota is how many bytes of segments and records fit; 0 means no limit.
	Quota int64
	// Fault, if not nil, is called at the points named by the constants Op...;
	// when it returns an error, the operation stops there and returns it. It may
	// call Crash, and it may be called from several goroutines at a time.
	Fault func(op string) error
}

// The points at which Options.Fault is called.
const (
	OpOpen      = "open"
	OpCommitted = "committed"
	OpCheck     = "check"
	// OpPut, OpCommit, OpRewind: before anything is written.
	OpPut    = "put"
	OpCommit = "commit"
	OpRewind = "rewind"
	// OpPutSync, OpCommitSync: written, but not durable.
	OpPutSync    = "put/sync"
	OpCommitSync = "commit/sync"
	// OpPutDone, OpCommitDone: durable, but the caller does not know it yet.
	OpPutDone    = "put/done"
	OpCommitDone = "commit/done"
	OpLoad       = "load"
	OpDrop       = "drop"
)

// Disk is the durable part. It is safe for concurrent use.
type Disk struct {
	fault func(op string) error

	// mu guards the fields below.
	mu           sync.RWMutex
	rng          *rand.Rand
	keepUnsynced int
	quota        int64
	owner        *store // the open store
	chains       map[chainID][]epochs.Segment
	records      []record // oldest first
	highest      messages.Epoch
	size         int64
	unsynced     []change // in the order written
}

type chainID struct {
	operator string
	group    uint16
}

// record is a commit record with what it follows.
type record struct {
	prev, epoch messages.Epoch
	data        []byte
}

// change is written, but not synced: segments of one Put, or a record.
type change struct {
	segments []epochs.Segment
	record   *record
}

// New returns an empty disk.
func New(opts Options) *Disk {
	return &Disk{
		fault:        opts.Fault,
		rng:          rand.New(rand.NewPCG(opts.Seed, 0)),
		keepUnsynced: opts.KeepUnsynced,
		quota:        opts.Quota,
		chains:       map[chainID][]epochs.Segment{},
	}
}

// Open returns the store on the disk. Like a real one, it makes durable what it
// finds, also what an earlier store had written and not synced. While a store is
// open, Open fails with epochs.ErrLocked.
func (d *Disk) Open() (epochs.Segments, error) {
	if err := d.inject(OpOpen); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner != nil {
		return nil, fmt.Errorf("memstore: open: %w", epochs.ErrLocked)
	}
	for _, c := range d.unsynced {
		d.apply(c)
	}
	d.unsynced = nil
	d.owner = &store{disk: d}
	return d.owner, nil
}

// Crash cuts the power: the open store, if any, fails from now on with
// ErrCrashed, and what was not synced is lost but for a random part.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owner = nil
	for _, c := range d.unsynced {
		c.segments = slices.DeleteFunc(c.segments, func(epochs.Segment) bool { return !d.survives() })
		if c.record != nil && !d.survives() {
			c.record = nil
		}
		d.apply(c)
	}
	d.unsynced = nil
}

// SetQuota changes the number of bytes that fit; 0 means no limit.
func (d *Disk) SetQuota(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quota = bytes
}

// Damage flips a bit in the data of a stored segment and reports whether there
// is such a segment with data.
func (d *Disk) Damage(id epochs.SegmentID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, s := range d.chains[chainID{id.Operator, id.Group}] {
		if s.Epoch == id.Epoch && len(s.Data) > 0 {
			damaged := bytes.Clone(s.Data)
			damaged[len(damaged)/2] ^= 0x10
			d.chains[chainID{id.Operator, id.Group}][i].Data = damaged
			return true
		}
	}
	return false
}

func (d *Disk) inject(op string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(op)
}

func (d *Disk) survives() bool { return d.rng.IntN(100) < d.keepUnsynced }

// newest returns the epoch of the newest record, 0 if there is none.
func (d *Disk) newest() messages.Epoch {
	if len(d.records) == 0 {
		return 0
	}
	return d.records[len(d.records)-1].epoch
}

// apply makes a change durable.
func (d *Disk) apply(c change) {
	for _, s := range c.segments {
		id := chainID{s.Operator, s.Group}
		i, _ := slices.BinarySearchFunc(d.chains[id], s.Epoch, compareEpoch)
		d.chains[id] = slices.Insert(d.chains[id], i, s)
		d.size += int64(len(s.Data))
		d.highest = max(d.highest, s.Epoch)
	}
	if r := c.record; r != nil {
		d.records = append(d.records, *r)
		d.size += int64(len(r.data))
		d.highest = max(d.highest, r.epoch)
		// Nothing between the two records was committed, and nothing ever will be.
		d.remove(func(s epochs.Segment) bool { return s.Epoch > r.prev && s.Epoch < r.epoch })
	}
}

// remove deletes the segments that gone selects.
func (d *Disk) remove(gone func(epochs.Segment) bool) {
	for id, chain := range d.chains {
		chain = slices.DeleteFunc(chain, func(s epochs.Segment) bool {
			if !gone(s) {
				return false
			}
			d.size -= int64(len(s.Data))
			return true
		})
		if len(chain) == 0 {
			delete(d.chains, id)
		} else {
			d.chains[id] = chain
		}
	}
}

// removeRecords deletes the records that gone selects.
func (d *Disk) removeRecords(gone func(record) bool) {
	d.records = slices.DeleteFunc(d.records, func(r record) bool {
		if !gone(r) {
			return false
		}
		d.size -= int64(len(r.data))
		return true
	})
}

// restorable returns the part of a chain that restores epoch upTo: the newest
// base at or before it and what follows.
func restorable(chain []epochs.Segment, upTo messages.Epoch) []epochs.Segment {
	end, found := slices.BinarySearchFunc(chain, upTo, compareEpoch)
	if found {
		end++
	}
	chain = chain[:end]
	for i, s := range slices.Backward(chain) {
		if s.Base {
			return chain[i:]
		}
	}
	return chain
}

func compareEpoch(s epochs.Segment, e messages.Epoch) int {
	switch {
	case s.Epoch < e:
		return -1
	case s.Epoch > e:
		return 1
	}
	return 0
}
