package state

import (
	"math"

	"github.com/streamd-io/streamd/messages"
)

// timerBias maps event times to words so that the word 0 is "no timer".
const timerBias = 1 << 63

// timerItem is a queued timer. It is stale unless the table's queued[id] still
// equals at.
type timerItem struct {
	at    int64
	table uint32
	id    uint32
}

// timerHeap is a 4-ary heap of timers. It is not part of snapshots: records
// hold their timers, and restoring queues them again.
//
// It is a heap and not a hierarchical time wheel because no step of it is long,
// however far time jumps: a wheel that moves a coarse slot down has to move all
// of it. Measured with 1,000,000 timers spread over a minute and over an hour,
// time advancing by 100 ms: a wheel of 64-slot levels takes 110 to 120 ns a timer
// and its longest step 12 to 45 ms; this heap takes 420 to 440 ns, its longest
// step 0.3 ms, or 4 ms when its slice grows. With 10,000 timers both take
// 200 to 600 ns. An entry whose timer moves on is queued once per expiry and not
// once per row, so the cost of a pop is not part of the row path.
type timerHeap struct {
	items []timerItem
	stale int // at most so many items may be stale
}

// queueTimer makes sure that the entry is visited at the given time at the
// latest. An entry whose timer moves later keeps its place and is queued again
// when that place comes up.
func (s *Store) queueTimer(t *table, id uint32, at int64) {
	if q := t.queued[id]; q != math.MinInt64 {
		if q <= at {
			return
		}
		s.timers.stale++
	} else {
		t.timersSet++
	}
	t.queued[id] = at
	h := &s.timers
	if h.stale > 1024 && h.stale > len(h.items)/2 {
		s.rebuildTimers()
	}
	h.push(timerItem{at, t.number, id})
}

// rebuildTimers removes stale items.
func (s *Store) rebuildTimers() {
	h := &s.timers
	kept := h.items[:0]
	for _, it := range h.items {
		if t := s.tables[it.table]; !t.gone && int(it.id) < len(t.queued) && t.queued[it.id] == it.at {
			kept = append(kept, it)
		}
	}
	h.items, h.stale = kept, 0
	for i := (len(kept) - 2) / 4; i >= 0; i-- {
		h.down(i)
	}
}

func (h *timerHeap) next() messages.EventTime {
	if len(h.items) == 0 {
		return messages.MaxEventTime
	}
	return messages.EventTime(h.items[0].at)
}

func (h *timerHeap) push(it timerItem) {
	h.items = append(h.items, it)
	i := len(h.items) - 1
	for i > 0 {
		p := (i - 1) / 4
		if h.items[p].at <= it.at {
			break
		}
		h.items[i] = h.items[p]
		i = p
	}
	h.items[i] = it
}

func (h *timerHeap) pop(upTo int64) (timerItem, bool) {
	if len(h.items) == 0 || h.items[0].at > upTo {
		return timerItem{}, false
	}
	it := h.items[0]
	n := len(h.items) - 1
	h.items[0] = h.items[n]
	h.items = h.items[:n]
	if n > 0 {
		h.down(0)
	}
	return it, true
}

func (h *timerHeap) down(i int) {
	it := h.items[i]
	for {
		first := 4*i + 1
		if first >= len(h.items) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h.items)); c++ {
			if h.items[c].at < h.items[least].at {
				least = c
			}
		}
		if h.items[least].at >= it.at {
			break
		}
		h.items[i] = h.items[least]
		i = least
	}
	h.items[i] = it
}
