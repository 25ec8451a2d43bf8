package connectors

import "time"

// Clock is the engine's source of time, injected so that tests and simulations
// own it. All methods are safe for concurrent use.
type Clock interface {
	// Now is the wall clock, UTC.
	Now() time.Time
	// Mono is a monotonic reading; only differences mean something.
	Mono() time.Duration
	// AfterFunc calls f in its own goroutine after d. The returned function
	// stops the timer and reports whether it did so before f was started.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}
