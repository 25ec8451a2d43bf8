package actors

// Nodes returns the nodes of the graph in the order in which they were added. The
// slice must not be changed.
func (g *Graph) Nodes() []*Node { return g.nodes }

// SourceSpec returns what the node reads from, nil if it is no source.
func (n *Node) SourceSpec() *SourceSpec { return n.source }

// SinkSpec returns what the node writes to, nil if it is no sink.
func (n *Node) SinkSpec() *SinkSpec { return n.sink }
