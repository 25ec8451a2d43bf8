package aggregate

import (
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// ingest adds a batch in two passes: the first finds the groups of all rows, the
// second updates one aggregate after the other, so that each runs as one loop.
func (o *Operator) ingest(b *messages.Batch) error {
	o.keys.start(b)
	in := &o.in
	in.b = b
	in.rows, in.entries = in.rows[:0], in.entries[:0]
	switch {
	case o.slices != nil:
		o.locateWindows(b)
	default:
		o.locate(b)
	}
	n := b.Rows()
	k := o.task.Counters
	k.In += uint64(n)
	k.Absorbed += uint64(len(in.rows))
	err := o.update(in)
	in.b, in.arg = nil, nil // the batch is not ours beyond the call
	return err
}

// locateWindows finds the groups of rows in windows.
func (o *Operator) locateWindows(b *messages.Batch) {
	c := b.Column(o.cfg.Window.Column)
	times := c.Int64s()
	hasNulls := c.Validity() != nil
	complete := o.cfg.Mode == Complete
	for i := range b.Rows() {
		r := b.Row(i)
		if hasNulls && c.IsNull(r) {
			o.task.Counters.Filtered++
			continue
		}
		slice := o.slices.sliceOf(times[r])
		if !complete && o.slices.lastEnd(slice) <= int64(o.wm) {
			o.late(b, r)
			continue
		}
		e, _ := o.keys.upsert(o.store, slice, b, r)
		o.touch(e, r)
	}
}

// locate finds the groups of rows without windows.
func (o *Operator) locate(b *messages.Batch) {
	for i := range b.Rows() {
		r := b.Row(i)
		if !o.timed {
			e, _ := o.keys.upsert(o.store, 0, b, r)
			o.touch(e, r)
			continue
		}
		at, ok := eventTime(b.Column(o.eventAt), r)
		if ok && at <= int64(o.wm) {
			o.late(b, r)
			continue
		}
		e, created := o.keys.upsert(o.store, 0, b, r)
		if created && ok { // a group whose time is NULL is never final
			o.store.SetTimer(e, messages.EventTime(at))
		}
		o.touch(e, r)
	}
}

func (o *Operator) late(b *messages.Batch, row int) {
	o.task.Counters.Late++
	if o.task.OnLate != nil {
		o.task.OnLate(b, row)
	}
}

// touch declares that the group of a row changes.
func (o *Operator) touch(e state.Entry, row int) {
	o.change(e)
	o.in.rows = append(o.in.rows, int32(row))
	o.in.entries = append(o.in.entries, e)
}

// change declares that a group changes, and with it the output.
func (o *Operator) change(e state.Entry) {
	slots := o.store.Mutate(e)
	switch o.cfg.Mode {
	case Update:
		if slots[0]&changed == 0 {
			slots[0] |= changed
			o.pending = append(o.pending, e)
		}
	case Complete:
		o.dirty = true
	case Append: // the watermark brings groups out, not their changes
	}
}

// update runs the aggregates over the located rows.
func (o *Operator) update(in *input) error {
	rows, entries := in.rows, in.entries
	defer func() { in.rows, in.entries = rows, entries }()
	for i := range o.cells {
		c := &o.cells[i]
		in.rows, in.entries, in.arg = rows, entries, nil
		if c.agg.Arg >= 0 {
			in.arg = in.b.Column(c.agg.Arg)
		}
		o.pick(c, in)
		if err := c.f.update(c, in); err != nil {
			return err
		}
	}
	return nil
}

// pick narrows the rows to those that pass the filter and whose argument is not
// NULL.
func (o *Operator) pick(c *cell, in *input) {
	var filter *messages.Column
	if c.agg.Filter >= 0 {
		filter = in.b.Column(c.agg.Filter)
	}
	nulls := in.arg != nil && !c.nulls && (in.arg.Validity() != nil || in.arg.Type().Kind == messages.Null)
	if filter == nil && !nulls {
		return
	}
	rows, entries := o.picked[:0], o.pickedAt[:0]
	for i, r := range in.rows {
		if filter != nil && (filter.IsNull(int(r)) || !filter.Bool(int(r))) || nulls && in.arg.IsNull(int(r)) {
			continue
		}
		rows = append(rows, r)
		entries = append(entries, in.entries[i])
	}
	o.picked, o.pickedAt = rows, entries
	in.rows, in.entries = rows, entries
}
