package nats

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/streamd-io/streamd/messages/fault"
)

// An attempt may publish for leaseFor after a look at the marker that showed that
// it was its own, and looks again every renewEvery. So a process that was frozen
// longer than that, and replaced meanwhile, sends nothing after it has woken up
// but what its connection had taken over already.
const (
	leaseFor   = 2 * time.Second
	renewEvery = time.Second
)

// lease is how long rows may be published. Safe for concurrent use.
type lease struct {
	// now is a monotonic clock that goes on while the process is frozen.
	now   func() time.Duration
	until atomic.Int64  // of now
	stale chan struct{} // somebody waits for the lease to be renewed
}

func newLease() lease {
	start := time.Now()
	return lease{now: func() time.Duration { return time.Since(start) }, stale: make(chan struct{}, 1)}
}

// renew notes that the marker was ours at the time asked.
func (l *lease) renew(asked time.Duration) { l.until.Store(int64(asked + leaseFor)) }

// valid reports whether rows may be published. If not, the keeper is told.
func (l *lease) valid() bool {
	if int64(l.now()) < l.until.Load() {
		return true
	}
	select {
	case l.stale <- struct{}{}:
	default:
	}
	return false
}

// due reports whether it is time to look at the marker again.
func (l *lease) due() bool { return int64(l.now()+leaseFor-renewEvery) >= l.until.Load() }

// own makes sure that the marker is ours and renews the lease.
func (c *committer) own(ctx context.Context, l *link) error {
	asked := c.lease.now()
	m, _, err := c.ownMarker(ctx, l)
	if err != nil {
		return err
	}
	if m == nil || m.Nonce != c.nonce {
		return c.fenced(m)
	}
	c.lease.renew(asked)
	return nil
}

// mayPublish makes sure that the lease is valid. The keeper calls it before each row
// that it sends again: the process may have been frozen behind its last look at the
// marker.
func (c *committer) mayPublish(ctx context.Context, l *link) error {
	if !c.exact || c.lease.valid() {
		return nil
	}
	if err := c.own(ctx, l); err != nil {
		return err
	}
	if !c.lease.valid() {
		return fault.New(fault.Transient, "nats server %s takes longer than %v to say whether rows may be published", c.sink.conn.hosts(), leaseFor)
	}
	return nil
}

// renewLease is called by the keeper. It returns false when the attempt is over. A
// server that does not answer counts as a lost connection.
func (c *committer) renewLease() bool {
	c.mu.Lock()
	l, ready := c.link, c.ready
	c.mu.Unlock()
	if !ready || l == nil || !c.lease.due() {
		return true
	}
	switch err := c.own(c.ctx, l); {
	case err == nil:
		for _, w := range c.snapshot() {
			w.wake()
		}
	case c.ctx.Err() != nil:
		return false
	case fault.KindOf(err) == fault.Transient:
		c.drop()
		c.kick()
	default:
		c.fail(err)
		return false
	}
	return true
}
