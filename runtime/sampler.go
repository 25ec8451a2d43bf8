package runtime

import (
	"log/slog"
	"sync"
	"time"

	"github.com/streamd-io/streamd/connectors"
)

// sampler logs one event per interval and counts the others. It is safe
// for concurrent use.
type sampler struct {
	clock connectors.Clock
	every time.Duration

	// mu guards the fields below.
	mu   sync.Mutex
	next time.Duration
	n    int    // events since the last one that was logged
	last func() // logs the latest of them
}

func newSampler(c connectors.Clock, every time.Duration) *sampler {
	return &sampler{clock: c, every: every}
}

// log logs an event, or keeps it back until it is another's turn or flush.
func (s *sampler) log(l *slog.Logger, text string, attrs ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.last = func() { l.Warn(text, append(attrs, "since_last", s.n)...) }
	if s.clock.Mono() >= s.next {
		s.show()
	}
}

// flush logs the last event that was kept back, with how many there were.
func (s *sampler) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n > 0 {
		s.show()
	}
}

// show logs the last event. The caller holds mu.
func (s *sampler) show() {
	s.last()
	s.n, s.last, s.next = 0, nil, s.clock.Mono()+s.every
}
