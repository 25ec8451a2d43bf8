package nats

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// backoff spaces out repeated tries. The zero value is ready.
type backoff struct{ tries int }

// next returns the next pause: it doubles up to a limit, and half of it is
// random, so that many clients of one server do not return in step.
func (b *backoff) next() time.Duration {
	d := min(minPause<<min(b.tries, 10), maxPause)
	b.tries++
	return d/2 + rand.N(d/2+1) //nolint:gosec // not a secret
}

// reset starts over after a success.
func (b *backoff) reset() { b.tries = 0 }

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
