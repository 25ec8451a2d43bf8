//go:build !linux

package pacer

import (
	"context"
	"time"
)

// Pacer waits for instants. It belongs to one goroutine.
type Pacer struct{ ctx context.Context }

// New returns a pacer whose waits end with ctx.
func New(ctx context.Context) (*Pacer, error) { return &Pacer{ctx}, nil }

// Sleep waits for d or until the context has ended.
func (p *Pacer) Sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.ctx.Done():
		return p.ctx.Err()
	case <-t.C:
		return nil
	}
}

// Close does nothing.
func (p *Pacer) Close() error { return nil }
