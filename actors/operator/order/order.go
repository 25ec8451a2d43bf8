// Package order has the operator that sorts complete tables (ORDER BY in
// complete mode, with an optional LIMIT). A table arrives as a run of batches
// between FrameStart and FrameEnd and leaves as one.
//
// Each batch is sorted when it arrives; emitting is a merge of the sorted runs
// that yields every operator.MaxEmit rows. The sort is stable: rows with equal
// keys stay in order of input, then of arrival.
package order

import (
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Config describes a sort.
type Config struct {
	Schema *messages.Schema
	Keys   []Key
	// Limit is the number of rows to emit per table if Limited.
	Limit   int64
	Limited bool
	// Inputs is the number of inputs; 0 means 1. With several, each input brings
	// its part of the table as frames of its own. Whenever a part is replaced, the
	// table made of the latest complete part of every input is emitted; an input
	// that has brought none yet counts as empty. The parts are not saved: after a
	// restart each producer must send its part again.
	Inputs int
}

// New returns the operator.
func New(cfg Config) operator.Operator {
	cfg.Inputs = max(cfg.Inputs, 1)
	return &order{cfg: cfg, inputs: make([]part, cfg.Inputs)}
}

type order struct {
	cfg      Config
	sorter   sorter
	pool     *messages.Pool
	dense    *messages.Pool
	inputs   []part
	merge    merge
	counters *epochs.Counters
	replaced int   // the input whose part is new in the table being emitted
	emitted  int64 // rows of that table
	started  bool  // its FrameStart is out
}

// part is what one input contributes: sorted batches, each holding one
// reference.
type part struct {
	table   []*messages.Batch // latest complete
	coming  []*messages.Batch // being received
	open    bool
	rowsIn  int64 // of coming
	rowsNow int64 // of table
}

func release(batches []*messages.Batch) {
	for i, b := range batches {
		b.Release()
		batches[i] = nil
	}
}

// Open checks the keys.
func (o *order) Open(t *operator.Task) error {
	if o.cfg.Limited && o.cfg.Limit < 0 {
		return fault.New(fault.Config, "order: the limit is %d, want at least 0", o.cfg.Limit)
	}
	for _, k := range o.cfg.Keys {
		f := o.cfg.Schema.Fields[k.Column]
		if !sortable(f.Type) {
			return fault.New(fault.Config, "order: column %q of type %s has no order", f.Name, f.Type)
		}
	}
	o.sorter = sorter{keys: o.cfg.Keys}
	o.merge.less = o.sorter.compare
	o.pool = messages.NewPool(o.cfg.Schema)
	o.dense = messages.NewPool(o.cfg.Schema)
	o.counters = t.Counters
	o.counters.Rule = epochs.AnyRows
	return nil
}

// Close drops the tables.
func (o *order) Close() error {
	for i := range o.inputs {
		release(o.inputs[i].table)
		release(o.inputs[i].coming)
		o.inputs[i] = part{}
	}
	return nil
}

// Process sorts the batch and, when it ends a table, begins to emit.
func (o *order) Process(input int, b *messages.Batch, out operator.Output) (bool, error) {
	p := &o.inputs[input]
	if b.Frame()&messages.FrameStart != 0 {
		release(p.coming) // a table begun anew replaces one that never ended
		o.counters.Filtered += uint64(p.rowsIn)
		p.coming, p.rowsIn, p.open = p.coming[:0], 0, true
	}
	if !p.open {
		if b.Rows() == 0 {
			return false, nil
		}
		return false, fault.New(fault.Internal, "order: rows outside a complete table; ORDER BY needs output mode complete")
	}
	o.counters.In += uint64(b.Rows())
	p.rowsIn += int64(b.Rows())
	if run := o.sorter.run(o.dense, b, o.most()); run != nil {
		p.coming = append(p.coming, run)
	}
	if b.Frame()&messages.FrameEnd == 0 {
		return false, nil
	}
	release(p.table)
	p.table, p.coming = p.coming, p.table[:0]
	p.rowsNow, p.rowsIn, p.open = p.rowsIn, 0, false
	o.begin(input)
	return o.Resume(out)
}

// most is how many rows of one batch can ever be emitted.
func (o *order) most() int {
	const all = int(^uint(0) >> 1)
	if o.cfg.Limited && o.cfg.Limit < int64(all) {
		return int(o.cfg.Limit)
	}
	return all
}

// begin sets the merge up over the latest table of every input, one of which has
// just been replaced.
func (o *order) begin(replaced int) {
	o.replaced = replaced
	o.merge.reset()
	for i := range o.inputs {
		for _, b := range o.inputs[i].table {
			o.merge.add(b, i == replaced)
		}
	}
	o.merge.heapify()
	o.emitted, o.started = 0, false
}

// Resume emits the next batch of the table.
func (o *order) Resume(out operator.Output) (bool, error) {
	res := o.pool.Get()
	n := operator.MaxEmit
	if left := int64(o.most()) - o.emitted; left < int64(n) {
		n = int(left)
	}
	taken := o.merge.take(res, n)
	o.emitted += int64(taken)
	o.counters.Out += uint64(taken)
	more := !o.merge.empty() && o.emitted < int64(o.most())
	var f messages.Frame
	if !o.started {
		f |= messages.FrameStart
		o.started = true
	}
	if !more {
		f |= messages.FrameEnd
		// Rows of the other parts were accounted for when they came.
		o.counters.Filtered += uint64(o.inputs[o.replaced].rowsNow - o.merge.fresh)
		o.merge.reset()
	}
	res.SetFrame(f)
	out.Emit(res.Publish())
	return more, nil
}
