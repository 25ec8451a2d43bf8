package actors

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// Graph is what a query consists of: nodes and the edges between them. It is
// built by one goroutine and not changed once it runs; it can be run again.
type Graph struct {
	nodes []*Node
	err   error
}

// NewGraph returns an empty graph.
func NewGraph() *Graph { return &Graph{} }

// Node is a source, an operator or a sink of a graph.
type Node struct {
	graph *Graph
	index int
	name  string
	in    []Edge
	// parallelism is fixed for this node; 0 means that of the first input, or
	// the number of partitions for a source.
	parallelism int

	source *SourceSpec
	op     func() operator.Operator
	sink   *SinkSpec
	errs   *operator.RowErrors
	noFuse bool
}

// Name returns the node's name, which is the uid of its state.
func (n *Node) Name() string { return n.name }

// SourceSpec is what a source node needs.
type SourceSpec struct {
	Source connectors.Source
	// Rows makes the collector that one reader fills.
	Rows func() (*connectors.Rows, error)
	// IdleTimeout is how long a partition must be caught up and silent until it
	// no longer holds back watermarks; 0 means 30 s, negative never.
	IdleTimeout time.Duration
	// MaxRowsPerSecond bounds the rows of all partitions together; 0 means no limit.
	MaxRowsPerSecond int64
	// Bounded reads what is there when the attempt starts and then ends.
	Bounded bool
	// OnBadRecord, if not nil, is told about each record that the on_error policy
	// kept out of the rows. It is called on an actor's goroutine, must not block
	// and must not keep the record.
	OnBadRecord func(*connectors.BadRecord)
}

// SinkSpec is what a sink node needs.
type SinkSpec struct {
	Sink   connectors.Sink
	Offer  connectors.Offer
	Schema *messages.Schema
	// KeyColumns identify a row in update mode.
	KeyColumns []int
	// Lineage asks for row identities: the plan gives rows stable ones.
	Lineage bool
}

// EdgeKind says how rows find the consumer's subtask.
type EdgeKind uint8

// The edge kinds.
const (
	// ForwardEdge: subtask i feeds subtask i, modulo the consumer's parallelism. A
	// consumer with such inputs only has at most as many subtasks as they have.
	ForwardEdge   EdgeKind = iota
	KeyedEdge              // by the hash of key columns
	BroadcastEdge          // every subtask gets every row
)

// Edge is a link from a node, to be passed to the consumer.
type Edge struct {
	from *Node
	kind EdgeKind
	keys []int
	side bool // bad records or late rows instead of the output
	late bool // of a side edge: late rows
}

// Forward links subtask to subtask; consecutive operators linked like this are
// fused.
func Forward(n *Node) Edge { return Edge{from: n, kind: ForwardEdge} }

// Keyed links by key: rows with equal values in the given columns of n's output
// meet in one subtask, in the order in which each producer sent them.
func Keyed(n *Node, columns ...int) Edge { return Edge{from: n, kind: KeyedEdge, keys: columns} }

// Broadcast links every subtask of n with every subtask of the consumer.
func Broadcast(n *Node) Edge { return Edge{from: n, kind: BroadcastEdge} }

// Source adds a source. Each partition becomes a subtask.
func (g *Graph) Source(name string, spec SourceSpec) *Node {
	if spec.Source == nil || spec.Rows == nil {
		g.fail("source %q has no Source or no Rows", name)
	}
	return g.add(&Node{name: name, source: &spec})
}

// Operator adds an operator with the given number of subtasks, 0 for as many as
// its first input has. f makes one instance per subtask. The name must be
// unique in the graph; state is found under it after a restart.
func (g *Graph) Operator(name string, parallelism int, f func() operator.Operator, in ...Edge) *Node {
	if f == nil || len(in) == 0 {
		g.fail("operator %q needs a factory and at least one input", name)
	}
	return g.add(&Node{name: name, parallelism: parallelism, op: f, in: in})
}

// Sink adds a sink. A sink whose traits ask for a single writer has one subtask.
func (g *Graph) Sink(name string, spec SinkSpec, in ...Edge) *Node {
	if spec.Sink == nil || len(in) == 0 {
		g.fail("sink %q needs a Sink and at least one input", name)
	}
	n := &Node{name: name, sink: &spec, in: in}
	if spec.Sink != nil && spec.Sink.Traits().SingleWriter {
		n.parallelism = 1
	}
	return g.add(n)
}

// OnRowError sets the policy for rows that a stateless operator cannot handle.
func (n *Node) OnRowError(p *operator.RowErrors) *Node { n.errs = p; return n }

func (g *Graph) add(n *Node) *Node {
	n.graph, n.index = g, len(g.nodes)
	if strings.HasPrefix(n.name, stashPrefix) {
		g.fail("%q cannot be the name of a node: what sinks hold is stored under %q", n.name, stashPrefix)
	}
	if !utf8.ValidString(n.name) {
		g.fail("the name of a node must be UTF-8, %q is not", n.name) // records and metrics hold it
	}
	for _, o := range g.nodes {
		if o.name == n.name {
			g.fail("two nodes are called %q", n.name)
		}
	}
	for _, e := range n.in {
		if e.from == nil || e.from.graph != g {
			g.fail("an input of %q belongs to another graph", n.name)
			continue
		}
		if e.from.sink != nil {
			g.fail("sink %q cannot be an input of %q", e.from.name, n.name)
		}
	}
	g.nodes = append(g.nodes, n)
	return n
}

func (g *Graph) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf("graph: "+format, args...)
	}
}

// RecordsOnly reports whether a checkpoint of the graph is commit records alone: no
// operator keeps state, and no rows wait in it for their epoch.
func (g *Graph) RecordsOnly() bool {
	return !slices.ContainsFunc(g.nodes, func(n *Node) bool {
		if n.sink != nil {
			return n.sink.Offer.Visibility != connectors.AtOnce
		}
		if n.op == nil {
			return false
		}
		_, stateful := n.op().(operator.Stateful)
		return stateful
	})
}

// Check reports what is wrong with the graph, nil if it can run.
func (g *Graph) Check() error {
	if g.err != nil {
		return g.err
	}
	used := make([]bool, len(g.nodes))
	sinks := 0
	for _, n := range g.nodes {
		for _, e := range n.in {
			used[e.from.index] = used[e.from.index] || !e.side
			if e.late && (e.from.op == nil || n.sink == nil) {
				return fmt.Errorf("graph: %q takes the late rows of %q; only a sink can, and only of an operator", n.name, e.from.name)
			}
			if e.side && !e.late && e.from.source == nil {
				return fmt.Errorf("graph: %q takes the bad records of %q, which is not a source", n.name, e.from.name)
			}
		}
		if n.sink != nil {
			sinks++
		}
	}
	if sinks == 0 {
		return fmt.Errorf("graph: there is no sink")
	}
	for i, n := range g.nodes {
		if n.sink == nil && !used[i] {
			return fmt.Errorf("graph: nothing reads the output of %q", n.name)
		}
	}
	return nil
}
