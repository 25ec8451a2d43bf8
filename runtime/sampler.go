package runtime

import (
	"sync"
	"time"

	"github.com/streamd-io/streamd/connectors"
)

// sampler lets one event through per interval and counts the others. It is safe
// for concurrent use.
type sampler struct {
	clock connectors.Clock
	every time.Duration

	// mu guards the fields below.
	mu   sync.Mutex
	next time.Duration
	n    int
}

func newSampler(c connectors.Clock, every time.Duration) *sampler {
	return &sampler{clock: c, every: every}
}

// take reports whether this event is to be shown, and how many there were since
// the last one that was, itself included.
func (s *sampler) take() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	now := s.clock.Mono()
	if now < s.next {
		return 0, false
	}
	n := s.n
	s.n, s.next = 0, now+s.every
	return n, true
}
