package actors

import (
	"sync/atomic"

	"github.com/streamd-io/streamd/messages"
)

// Metrics are the live counters of an attempt, one entry per node of the graph
// in the order of definition. They are updated by the subtasks and may be read
// at any time.
type Metrics struct {
	Nodes []NodeMetrics
}

// NodeMetrics are the live counters of one node, summed over its subtasks.
type NodeMetrics struct {
	Name string
	// RowsIn and RowsOut count rows since the attempt started.
	RowsIn, RowsOut atomic.Int64
	// BytesIn counts payload bytes read by a source.
	BytesIn atomic.Int64
	// Bad counts records refused by a source.
	Bad atomic.Int64
	// Lost counts records that a source could not read and will not get again.
	Lost atomic.Int64
	// Skewed counts rows that were stamped too far in the future to move the
	// watermark, as of the last epoch.
	Skewed atomic.Int64
	// Stale counts elements of another attempt that were dropped.
	Stale atomic.Int64
	// BlockedNanos is the time its stage waited for credit or for its sink.
	BlockedNanos atomic.Int64
	// Watermark is the latest watermark of any subtask, as messages.EventTime.
	Watermark atomic.Int64
	// Partitions is how many partitions a source reads, CaughtUp how many of them
	// are at their end as confirmed by the outside system.
	Partitions, CaughtUp atomic.Int64
	// Late, StateRows and StateBytes are as of the last epoch.
	Late, StateRows, StateBytes atomic.Int64
}

func newMetrics(g *Graph) *Metrics {
	m := &Metrics{Nodes: make([]NodeMetrics, len(g.nodes))}
	for i, n := range g.nodes {
		m.Nodes[i].Name = n.name
		m.Nodes[i].Watermark.Store(int64(messages.NoEventTime))
	}
	return m
}
