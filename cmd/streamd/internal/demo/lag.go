package demo

import (
	"encoding/json"
	"sync"

	"github.com/streamd-io/streamd/runtime"
)

// lag knows how far the queries have read the stream of bids. It listens to
// their epochs, which say where they stand; live counters tell what has been
// read since.
type lag struct {
	before    uint64        // bids in the stream at the start
	published func() uint64 // and now

	// mu guards the fields below.
	mu      sync.Mutex
	at      map[string]position
	backlog int64 // most of the bids from before the start that a query had not read
}

// position is where a query stands in its last epoch.
type position struct {
	read     uint64 // bids of the stream
	rows     int64  // read by the attempt that committed the epoch
	restarts int    // tells that attempt from later ones
}

// OnStarted implements runtime.Listener.
func (l *lag) OnStarted(*runtime.Query) {}

// OnTerminated implements runtime.Listener.
func (l *lag) OnTerminated(*runtime.Query, error) {}

// OnProgress implements runtime.Listener.
func (l *lag) OnProgress(q *runtime.Query, p *runtime.Progress) {
	restarts := q.Status().Restarts
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch(q.Name(), p, restarts)
}

// epoch notes where a query stands. The caller holds mu.
func (l *lag) epoch(query string, p *runtime.Progress, restarts int) {
	at, known := l.at[query]
	at = at.after(p, restarts)
	if at.read == 0 {
		return
	}
	l.at[query] = at
	if !known {
		l.backlog = max(l.backlog, int64(l.before)-int64(at.read)+at.rows)
	}
}

// after is the position in the next epoch.
func (at position) after(p *runtime.Progress, restarts int) position {
	if at.restarts != restarts {
		at.rows = 0
	}
	at.restarts = restarts
	at.rows += p.NumInputRows
	for _, s := range p.Sources {
		var parts map[string]struct {
			Next uint64 `json:"next_seq"`
		}
		if err := json.Unmarshal(s.EndOffset, &parts); err != nil {
			continue // another connector's offset
		}
		for _, o := range parts {
			if o.Next > 0 {
				at.read = o.Next - 1
			}
		}
	}
	return at
}

// unread is how many bids are published that the query has not read; ok is false
// before its first epoch.
func (l *lag) unread(q *runtime.Query) (n int64, ok bool) {
	l.mu.Lock()
	at := l.at[q.Name()]
	l.mu.Unlock()
	if at.read == 0 {
		return 0, false
	}
	n = int64(l.published()) - int64(at.read)
	if m := q.Metrics(); m != nil && q.Status().Restarts == at.restarts {
		for i := range m.Nodes {
			if m.Nodes[i].Partitions.Load() > 0 {
				n -= m.Nodes[i].RowsIn.Load() - at.rows
			}
		}
	}
	return max(n, 0), true
}

// Unread is how many bids each query has not read, of those whose position is
// known.
func (d *Demo) Unread() map[string]int64 {
	out := map[string]int64{}
	for _, q := range d.session.Queries() {
		if n, ok := d.lag.unread(q); ok {
			out[q.Name()] = n
		}
	}
	return out
}

// slowest is the largest number of unread bids; ok is false while none is known.
func (d *Demo) slowest() (n int64, ok bool) {
	for _, v := range d.Unread() {
		n, ok = max(n, v), true
	}
	return n, ok
}

// behind reports whether so many unread bids mean that the queries do not keep
// up: those of more than a second, which is what an epoch takes, beside what an
// earlier run has left.
func (d *Demo) behind(unread int64) bool {
	d.lag.mu.Lock()
	defer d.lag.mu.Unlock()
	return unread > int64(d.cfg.Rate)+d.lag.backlog
}
