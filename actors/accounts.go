package actors

import (
	"errors"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// endCounters count the rows of a subtask's source and sink, which are no
// operators, so that the commit record accounts for every row on its way. They
// belong to the subtask's actor.
type endCounters struct {
	in, out, bad uint64
}

func (c *endCounters) delivered(b *messages.Batch) { c.in += uint64(b.Rows()) }
func (c *endCounters) emitted(b *messages.Batch)   { c.out += uint64(b.Rows()) }
func (c *endCounters) refused(records int)         { c.bad += uint64(records) }

// append adds the counters of the source and of the sink of a stage to those of
// its operators.
func (c *endCounters) append(to []epochs.Counters, st *stage) []epochs.Counters {
	if st.source != nil {
		to = append(to, epochs.Counters{
			Operator: st.source.name, Rule: epochs.RowForRow, In: c.in + c.bad, Out: c.in, Bad: c.bad, Watermark: messages.NoEventTime,
		})
	}
	if st.sink != nil {
		to = append(to, epochs.Counters{
			Operator: st.sink.name, Rule: epochs.RowForRow, In: c.out, Out: c.out, Watermark: messages.NoEventTime,
		})
	}
	return to
}

// account completes the counters of an epoch, which are those of this attempt
// still, and checks them when the epoch is the final one: a row that got lost or
// was counted twice is a bug of the engine, and its results are not committed.
func (q *queryActor) account(sums map[string]*epochs.Counters, o *openEpoch) {
	list := make([]epochs.Counters, 0, len(sums))
	for _, n := range q.cfg.Graph.nodes {
		if c := sums[n.name]; c != nil {
			c.Inputs = n.inputs()
			list = append(list, *c)
		}
	}
	q.publishRows(list)
	if !o.marker.Final {
		return
	}
	var errs []error
	for i := range list {
		if err := list[i].Balance(); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, epochs.UnevenEdges(nil, list)...)
	if err := errors.Join(errs...); err != nil {
		q.fail(fault.At(fault.Location{Query: q.cfg.Query, Epoch: uint64(o.marker.Epoch)}, fault.Wrap(fault.Internal, err, "final epoch")))
	}
}

// inputs names the nodes whose rows n takes; nil if it takes other things as
// well, or rows more than once.
func (n *Node) inputs() []string {
	var names []string
	for _, e := range n.in {
		if e.side || e.kind == BroadcastEdge {
			return nil
		}
		names = append(names, e.from.name)
	}
	return names
}

// publishRows shows the rows of nodes inside a stage as of the epoch. Those of
// its first and last node are counted live, at the same places as endCounters.
func (q *queryActor) publishRows(list []epochs.Counters) {
	first, last := map[string]bool{}, map[string]bool{}
	for _, st := range q.stages {
		nodes := nodesOf(st)
		if len(nodes) > 0 {
			first[nodes[0].name], last[nodes[len(nodes)-1].name] = true, true
		}
	}
	for i := range q.att.metrics.Nodes {
		n := &q.att.metrics.Nodes[i]
		for _, c := range list {
			if c.Operator != n.Name {
				continue
			}
			if !first[n.Name] {
				n.RowsIn.Store(int64(c.In))
			}
			if !last[n.Name] {
				n.RowsOut.Store(int64(c.Out))
			}
		}
	}
}
