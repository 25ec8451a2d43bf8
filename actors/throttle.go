package actors

import (
	"sync"
	"time"
)

// throttleStep is how much time one read of a limited source should take up at
// most: rows come in steps of that length rather than in bursts.
const throttleStep = 50 * time.Millisecond

// throttle spreads the rows of a source, of all its partitions together, evenly
// over time. It is safe for concurrent use.
type throttle struct {
	perSecond int64

	mu sync.Mutex
	// next is when the next rows may go, on the monotonic clock.
	next time.Duration
}

// newThrottle returns nil for no limit.
func newThrottle(perSecond int64) *throttle {
	if perSecond <= 0 {
		return nil
	}
	return &throttle{perSecond: perSecond}
}

// reserve returns when rows may go that ask at now. Those who ask later go later,
// so each is served in its turn and nobody asks twice.
func (t *throttle) reserve(now time.Duration, rows int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := max(now, t.next)
	t.next = at + time.Duration(float64(rows)/float64(t.perSecond)*float64(time.Second))
	return at
}

// batch is how many rows a read should bring, given the usual number.
func (t *throttle) batch(usual int) int {
	if t == nil {
		return usual
	}
	return min(usual, int(max(t.perSecond*int64(throttleStep)/int64(time.Second), 1)))
}

// mayTake reports whether the oldest result may be processed now, and else has
// the subtask woken when it may. Nothing but rows waits: neither a marker nor a
// stop passes through here.
func (s *subtask) mayTake(m *polledMsg) bool {
	src := s.source
	rows := m.slot.Payloads
	if m.b != nil {
		rows = max(rows, m.b.Rows())
	}
	if src.throttle == nil || rows == 0 {
		return true
	}
	now := s.sys.cfg.Clock.Mono()
	if !src.reserved {
		src.reserved, src.due = true, src.throttle.reserve(now, rows)
	}
	if now >= src.due {
		src.reserved = false
		return true
	}
	if src.dueStop == nil {
		src.dueStop = s.sys.cfg.Clock.AfterFunc(src.due-now, func() { s.post(&dueTick{}) })
	}
	return false
}

// undue forgets what waits for its turn.
func (src *sourceHalf) undue() {
	src.reserved = false
	if src.dueStop != nil {
		src.dueStop()
		src.dueStop = nil
	}
}
