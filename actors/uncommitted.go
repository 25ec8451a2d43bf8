package actors

import (
	"cmp"
	"fmt"
	"time"
)

// Uncommitted bounds what may flow while no epoch can begin, since the disk is
// full: beyond it a restart would have too much to repeat, and per-epoch sinks too
// much to hold. Zero fields mean the defaults.
type Uncommitted struct {
	Rows  int64         // read from sources since the last marker; default 1,000,000
	Bytes int64         // payload of them; default 256 MB
	Time  time.Duration // since the last marker; default 10 min
}

const (
	defaultUncommittedRows  = 1_000_000
	defaultUncommittedBytes = 256_000_000
	defaultUncommittedTime  = 10 * time.Minute
	// uncommittedEvery is how often the bounds are looked at while epochs cannot
	// begin.
	uncommittedEvery = 50 * time.Millisecond
)

// gate stops the sources while too much is uncommitted. It belongs to the query
// actor.
type gate struct {
	limits Uncommitted
	// rows, bytes and since are as of the last marker.
	rows, bytes int64
	since       time.Duration
	blocked     error // why epochs cannot begin, nil: they can
	held        bool  // sources have been told to stop
	ticking     bool
	stop        func() bool // of the tick
}

type (
	gateTick   struct{}
	holdSource struct{ held bool }
)

// read is what all sources have read in this attempt.
func (q *queryActor) read() (rows, bytes int64) {
	for i, n := range q.cfg.Graph.nodes {
		if n.source != nil {
			rows += q.att.metrics.Nodes[i].RowsIn.Load()
			bytes += q.att.metrics.Nodes[i].BytesIn.Load()
		}
	}
	return rows, bytes
}

// gateMarker notes that a marker is injected: what comes from now on is
// uncommitted.
func (q *queryActor) gateMarker() {
	q.gate.rows, q.gate.bytes = q.read()
	q.gate.since = q.sys.cfg.Clock.Mono()
}

// gateBlocked notes that epochs cannot begin, or can again.
func (q *queryActor) gateBlocked(err error) {
	q.gate.blocked = err
	if err == nil {
		q.holdSources(false)
		q.reportBlocked(nil)
		return
	}
	if !q.gate.held {
		q.reportBlocked(err)
	}
	q.gateLook()
}

// gateLook stops the sources if too much is uncommitted, else looks again soon.
func (q *queryActor) gateLook() {
	g := &q.gate
	if g.blocked == nil || g.held {
		return
	}
	rows, bytes := q.read()
	rows, bytes = rows-g.rows, bytes-g.bytes
	passed := q.sys.cfg.Clock.Mono() - g.since
	over := ""
	switch l := g.limits; {
	case rows >= cmp.Or(l.Rows, defaultUncommittedRows):
		over = fmt.Sprintf("%d rows", rows)
	case bytes >= cmp.Or(l.Bytes, defaultUncommittedBytes):
		over = fmt.Sprintf("%d MB", bytes/1_000_000)
	case passed >= cmp.Or(l.Time, defaultUncommittedTime):
		over = passed.Round(time.Second).String()
	}
	if over != "" {
		q.holdSources(true)
		q.reportBlocked(fmt.Errorf("disk full: sources are stopped, %s are not committed (max_uncommitted): %w", over, g.blocked))
		return
	}
	if !g.ticking {
		g.ticking = true
		g.stop = q.sys.cfg.Clock.AfterFunc(uncommittedEvery, func() { q.post(&gateTick{}) })
	}
}

// close stops looking.
func (g *gate) close() {
	if g.ticking {
		g.stop()
	}
}

// holdSources tells the sources to stop or to go on.
func (q *queryActor) holdSources(held bool) {
	if q.gate.held == held {
		return
	}
	q.gate.held = held
	q.toSources(&holdSource{held: held})
	if !held {
		q.sys.cfg.Log.Info("epochs can begin again, sources go on", "query", q.cfg.Query)
	}
}

// hold makes a source stop reading, or go on. What has been read already is
// processed; a source that is held is not idle.
func (s *subtask) hold(held bool) {
	src := s.source
	if src.held == held {
		return
	}
	src.held = held
	if held {
		return
	}
	src.activeAt = s.sys.cfg.Clock.Mono()
	s.poll()
}
