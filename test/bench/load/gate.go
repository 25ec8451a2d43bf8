package load

import (
	"context"
	"sync/atomic"
)

// Run is the measured part of a load.
type Run struct {
	Schedule Schedule
	// FlatOut makes rows come as fast as they are taken; the schedule gives only
	// their event times.
	FlatOut bool
	// Count ends a load that comes flat out behind so many events; 0: Stop does.
	Count uint64
	// Events due from From on are measured; the load ends with those due before
	// Until, or, flat out, when it is stopped. In microseconds since the Unix epoch.
	From, Until int64
}

// Gate holds a load back until everything has started, so that starting does
// not count as latency. Safe for concurrent use.
type Gate struct {
	run     atomic.Pointer[Run]
	begun   chan struct{}
	arrived chan struct{}
}

// maxReaders bounds how many readers may wait at a gate.
const maxReaders = 1 << 16

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{begun: make(chan struct{}), arrived: make(chan struct{}, maxReaders)}
}

// Begin lets the load start. It is called once.
func (g *Gate) Begin(r Run) {
	g.run.Store(&r)
	close(g.begun)
}

// Await returns when n readers wait at the gate, behind what they make in
// advance, or with the first error that comes from failed.
func (g *Gate) Await(ctx context.Context, n int, failed <-chan error) error {
	for range n {
		select {
		case <-g.arrived:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// arrive tells that a reader waits.
func (g *Gate) arrive() { g.arrived <- struct{}{} }

// wait returns the run once it has begun.
func (g *Gate) wait(ctx context.Context) (*Run, error) {
	select {
	case <-g.begun:
		return g.run.Load(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
