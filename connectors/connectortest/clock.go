// Package connectortest holds connectors to their contracts. Every connector's
// own tests call Source and Sink with a description of how to make one; a
// connector kept in another module can do the same.
//
// The package also has what such tests need besides: clocks, and a collector
// that reads a source like the engine does.
package connectortest

import (
	"sort"
	"sync"
	"time"
)

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now implements connectors.Clock.
func (SystemClock) Now() time.Time { return time.Now().UTC() }

// Mono implements connectors.Clock.
func (SystemClock) Mono() time.Duration { return time.Duration(time.Now().UnixNano()) }

// AfterFunc implements connectors.Clock.
func (SystemClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Clock is a clock that stands still until it is told to advance. It is safe
// for concurrent use.
type Clock struct {
	mu     sync.Mutex
	start  time.Time
	now    time.Time
	timers []*timer
	// added is closed and replaced when a timer is set.
	added chan struct{}
}

type timer struct {
	at time.Time
	f  func()
}

// NewClock returns a clock that shows now.
func NewClock(now time.Time) *Clock {
	return &Clock{start: now, now: now.UTC(), added: make(chan struct{})}
}

// Now implements connectors.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Mono implements connectors.Clock.
func (c *Clock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Sub(c.start)
}

// AfterFunc implements connectors.Clock.
func (c *Clock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{at: c.now.Add(d), f: f}
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	c.timers = append(c.timers, t)
	close(c.added)
	c.added = make(chan struct{})
	return func() bool { return c.stop(t) }
}

func (c *Clock) stop(t *timer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.timers {
		if c.timers[i] == t {
			c.timers = append(c.timers[:i], c.timers[i+1:]...)
			return true
		}
	}
	return false
}

// Advance moves the clock and starts the timers that are due, earliest first.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	sort.SliceStable(c.timers, func(i, j int) bool { return c.timers[i].at.Before(c.timers[j].at) })
	n := sort.Search(len(c.timers), func(i int) bool { return c.timers[i].at.After(c.now) })
	due := append([]*timer(nil), c.timers[:n]...)
	c.timers = c.timers[n:]
	c.mu.Unlock()
	for _, t := range due {
		go t.f()
	}
}

// Blocked waits until at least n timers are set: until that many goroutines
// wait for the clock.
func (c *Clock) Blocked(n int) {
	for {
		c.mu.Lock()
		enough, added := len(c.timers) >= n, c.added
		c.mu.Unlock()
		if enough {
			return
		}
		<-added
	}
}
