package actors

import (
	"time"

	"github.com/streamd-io/streamd/connectors"
)

// SystemClock is the clock of the operating system.
type SystemClock struct{ start time.Time }

// NewSystemClock returns a clock whose monotonic reading starts at 0 now.
func NewSystemClock() connectors.Clock { return &SystemClock{start: time.Now()} }

// Now returns the wall clock in UTC.
func (c *SystemClock) Now() time.Time { return time.Now().UTC() }

// Mono returns the time since the clock was made, on the monotonic clock.
func (c *SystemClock) Mono() time.Duration { return time.Since(c.start) }

// AfterFunc calls f in its own goroutine after d.
func (c *SystemClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}
