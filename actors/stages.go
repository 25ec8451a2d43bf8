package actors

import "fmt"

// stage is a run of fused nodes with the same number of subtasks: a source or
// inputs, then operators, then a sink or outputs.
type stage struct {
	index       int
	source      *Node
	ops         []*Node
	sink        *Node
	parallelism int
	ins, outs   []*link
}

// link is an edge between stages.
type link struct {
	kind     EdgeKind
	keys     []int
	from, to *stage
	input    int // which input of the consumer's first operator
	side     bool
	late     *Node // the operator of from whose late rows travel here, nil: none
}

// shared reports whether every subtask hears all subtasks of all inputs, so that
// all have the same watermark but for the order in which they hear it.
func (s *stage) shared() bool {
	for _, l := range s.ins {
		if l.kind == ForwardEdge {
			return false
		}
	}
	return s.source == nil
}

// name is the name of the last node, for messages.
func (s *stage) name() string {
	switch {
	case s.sink != nil && len(s.ops) == 0 && s.source == nil:
		return s.sink.name
	case len(s.ops) > 0:
		return s.ops[len(s.ops)-1].name
	case s.source != nil:
		return s.source.name
	default:
		return fmt.Sprintf("stage-%d", s.index)
	}
}

// planStages cuts the graph into stages. partitions gives the number of
// partitions per source node.
func planStages(g *Graph, partitions map[*Node]int) []*stage {
	readers := make([]int, len(g.nodes))
	for _, n := range g.nodes {
		for _, e := range n.in {
			if !e.side {
				readers[e.from.index]++
			}
		}
	}
	of := make([]*stage, len(g.nodes))
	var stages []*stage
	for _, n := range g.nodes {
		if s := fusable(n, of, readers); s != nil {
			of[n.index] = s
			s.append(n)
			continue
		}
		s := &stage{index: len(stages), parallelism: n.parallelism}
		switch {
		case n.source != nil:
			s.parallelism = partitions[n]
		case s.parallelism == 0:
			s.parallelism = of[n.in[0].from.index].parallelism
		}
		s.append(n)
		of[n.index] = s
		stages = append(stages, s)
		for i, e := range n.in {
			l := &link{side: e.side, late: e.lateNode(), kind: e.kind, keys: e.keys, from: of[e.from.index], to: s, input: i}
			l.from.outs = append(l.from.outs, l)
			s.ins = append(s.ins, l)
		}
		s.parallelism = min(s.parallelism, s.fed())
	}
	return stages
}

// lateNode is the operator whose late rows travel over the edge, nil: none.
func (e Edge) lateNode() *Node {
	if e.late {
		return e.from
	}
	return nil
}

// fed is how many subtasks of the stage its inputs can reach: row-by-row edges
// reach one subtask per producer, and a subtask without a producer would never
// see a marker.
func (s *stage) fed() int {
	if s.source != nil {
		return s.parallelism
	}
	n := 0
	for _, l := range s.ins {
		if l.kind != ForwardEdge {
			return s.parallelism
		}
		n = max(n, l.from.parallelism)
	}
	return n
}

func (s *stage) append(n *Node) {
	switch {
	case n.source != nil:
		s.source = n
	case n.sink != nil:
		s.sink = n
	default:
		s.ops = append(s.ops, n)
	}
}

// fusable returns the stage that n can join: it has one input, row by row, and
// is that input's only reader, with the same number of subtasks.
func fusable(n *Node, of []*stage, readers []int) *stage {
	if len(n.in) != 1 || n.in[0].side || n.noFuse || n.in[0].kind != ForwardEdge || readers[n.in[0].from.index] != 1 {
		return nil
	}
	s := of[n.in[0].from.index]
	if n.parallelism != 0 && n.parallelism != s.parallelism {
		return nil
	}
	return s
}

// consumers lists the subtasks of l.to that subtask p of l.from feeds.
func (l *link) consumers(p int) []int {
	if l.kind == ForwardEdge {
		return []int{p % l.to.parallelism}
	}
	all := make([]int, l.to.parallelism)
	for i := range all {
		all[i] = i
	}
	return all
}

// producers lists the subtasks of l.from that feed subtask c of l.to.
func (l *link) producers(c int) []int {
	var ps []int
	for p := range l.from.parallelism {
		if l.kind != ForwardEdge || p%l.to.parallelism == c {
			ps = append(ps, p)
		}
	}
	return ps
}

// inletOf returns the index of the inlet of consumer c that producer p feeds
// over l: inlets are numbered by link, then by producer.
func (l *link) inletOf(p, c int) int {
	n := 0
	for _, o := range l.to.ins {
		ps := o.producers(c)
		if o != l {
			n += len(ps)
			continue
		}
		for i, q := range ps {
			if q == p {
				return n + i
			}
		}
	}
	panic("actors: producer does not feed consumer")
}

// outletOf returns the index of the outlet of producer p that feeds consumer c
// over l: outlets are numbered by link, then by consumer.
func (l *link) outletOf(p, c int) int {
	n := 0
	for _, o := range l.from.outs {
		cs := o.consumers(p)
		if o != l {
			n += len(cs)
			continue
		}
		for i, q := range cs {
			if q == c {
				return n + i
			}
		}
	}
	panic("actors: producer does not feed consumer")
}
