package actors

import (
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
)

// LateSchema is the schema of the rows on a LateRows edge: the first columns of
// the operator's input, then the operator that left the row out, by its uid, and
// the watermark that the row was behind.
func LateSchema(columns ...messages.Field) *messages.Schema {
	fields := append([]messages.Field{}, columns...)
	return messages.NewSchema(append(fields,
		messages.Field{Name: "late_operator", Type: messages.T(messages.String)},
		messages.Field{Name: "late_watermark", Type: messages.T(messages.Timestamp)})...)
}

// lateReasons is how many columns LateSchema adds.
const lateReasons = 2

// LateRows links the rows that an operator drops as late with a sink for them. They
// have the schema of that sink, made by LateSchema of the first columns of the
// operator's input, and travel with the markers like all others.
func LateRows(op *Node) Edge { return Edge{from: op, kind: ForwardEdge, side: true, late: true} }

// lateRows collects the late rows of one operator of a chain. The operator reports
// the rows of one batch during a call; they leave behind it.
type lateRows struct {
	chain func() *operator.Chain
	op    int // in the chain
	node  *Node
	outs  []*fanout
	pool  *messages.Pool
	from  *messages.Batch // whose rows, nil: none
	rows  []int32
}

// wireLate makes the collectors of operators whose late rows go somewhere.
func (s *subtask) wireLate() {
	for i, n := range s.stage.ops {
		l := &lateRows{chain: func() *operator.Chain { return s.chain }, op: i, node: n}
		for _, f := range s.outs {
			if f.link.late == n {
				l.outs = append(l.outs, f)
				l.pool = messages.NewPool(f.link.to.sink.sink.Schema)
			}
		}
		if l.pool != nil {
			s.late = append(s.late, l)
		}
	}
}

// onLate is what an operator tells its late rows, nil if nobody takes them.
func (s *subtask) onLate(n *Node) func(*messages.Batch, int) {
	for _, l := range s.late {
		if l.node == n {
			return l.add
		}
	}
	return nil
}

func (l *lateRows) add(b *messages.Batch, row int) {
	if l.from != b {
		l.send() // an operator that looks at several batches in a call
		b.Retain(1)
		l.from = b
	}
	l.rows = append(l.rows, int32(row))
}

// send sends what has been collected. The columns are those of the batch.
func (l *lateRows) send() {
	if l.from == nil {
		return
	}
	from := l.from
	out := l.pool.Get()
	out.InheritSide(from)
	out.SetMarks(nil)
	out.SetWatermark(messages.NoEventTime) // the edge carries the chain's
	out.SetFrame(0)
	width := out.Columns() - lateReasons
	for i := range width {
		out.Share(i, from.Column(i), from)
	}
	wm := int64(l.chain().Reached(l.op))
	for range from.Len() {
		out.Own(width).AppendString(l.node.name)
		out.Own(width + 1).AppendInt64(wm)
	}
	out.Select(append(out.SelectBuffer(len(l.rows)), l.rows...))
	out.Publish()
	out.Retain(len(l.outs) - 1)
	for _, f := range l.outs {
		f.emit(out)
	}
	l.release()
}

func (l *lateRows) release() {
	if l.from != nil {
		l.from.Release()
		l.from, l.rows = nil, l.rows[:0]
	}
}

// sendLate sends the late rows of all operators.
func (s *subtask) sendLate() {
	for _, l := range s.late {
		l.send()
	}
}
