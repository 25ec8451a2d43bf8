package state

import (
	"math"

	"github.com/streamd-io/streamd/messages"
)

// Entry is a handle of an entry. It stays valid until the entry is deleted or
// its pane dropped.
type Entry struct {
	t  *table
	id uint32
}

// Slots returns the entry's slots for reading; see Store.Mutate for writing.
func (e Entry) Slots() []uint64 {
	t := e.t
	at := int(e.id)*int(t.stride) + int(t.words)
	end := at + int(t.nWords)
	return t.slab[at:end:end]
}

// IntKey returns the key of a store with integer keys.
func (e Entry) IntKey() int64 { return int64(e.t.slab[int(e.id)*int(e.t.stride)]) }

// Key returns the key of a store with keys of bytes.
func (e Entry) Key() []byte { return e.t.arena.read(e.t.slab[int(e.id)*int(e.t.stride)]) }

// Hash returns what the store keeps of the key's hash, the key group and the
// lower half; it finds the entry again.
func (e Entry) Hash() uint64 { return uint64(e.t.hash[e.id]) | uint64(e.t.group)<<56 }

// Pane returns the entry's pane.
func (e Entry) Pane() int64 { return e.t.at }

// Value returns value i; it is empty when never set.
func (e Entry) Value(i int) []byte { return e.t.arena.read(*e.t.value(e.id, i)) }

// SetValue replaces value i by a copy of v, at most MaxValue bytes. v may be
// part of the store.
func (s *Store) SetValue(e Entry, i int, v []byte) {
	e.t.touch(e.id)
	e.t.setValue(e.id, i, v)
}

// AppendValue appends v to value i, in place as long as there is room.
func (s *Store) AppendValue(e Entry, i int, v []byte) {
	e.t.touch(e.id)
	e.t.appendValue(e.id, i, v)
}

// MutateValue declares that value i is about to change and returns it for
// writing in place.
func (s *Store) MutateValue(e Entry, i int) []byte {
	e.t.touch(e.id)
	return e.Value(i)
}

// Timer returns the time the entry's timer is set to, or NoEventTime.
func (e Entry) Timer() messages.EventTime {
	return messages.EventTime(e.t.slab[int(e.id)*int(e.t.stride)+e.t.shape.timer] ^ timerBias)
}

// SetTimer sets the entry's timer, replacing an earlier one; NoEventTime clears
// it.
func (s *Store) SetTimer(e Entry, at messages.EventTime) {
	e.t.touch(e.id)
	e.t.slab[int(e.id)*s.shape.stride+s.shape.timer] = uint64(at) ^ timerBias
	if at != messages.NoEventTime {
		s.queueTimer(e.t, e.id, int64(at))
	}
}

// Due takes the next entry whose timer is due at t, in order of time; its timer
// is cleared. ok is false when there is none.
func (s *Store) Due(t messages.EventTime) (e Entry, at messages.EventTime, ok bool) {
	for {
		it, found := s.timers.pop(int64(t))
		if !found {
			return Entry{}, messages.NoEventTime, false
		}
		tab := s.tables[it.table]
		if tab.gone || int(it.id) >= len(tab.queued) || tab.queued[it.id] != it.at {
			s.timers.stale--
			continue
		}
		tab.queued[it.id] = math.MinInt64
		tab.timersSet--
		e = Entry{tab, it.id}
		at = e.Timer()
		switch {
		case at == messages.NoEventTime:
			continue // was cleared
		case int64(at) > it.at:
			s.queueTimer(tab, it.id, int64(at)) // was set later meanwhile
			continue
		}
		tab.touch(it.id)
		tab.slab[int(it.id)*s.shape.stride+s.shape.timer] = 0
		return e, at, true
	}
}
