package sim

import (
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// probe passes rows on and is the place where faults strike operators.
type probe struct {
	r *run
	c *epochs.Counters
}

func (o *probe) Open(t *operator.Task) error {
	o.c = t.Counters
	if err := o.r.point("op/open"); err != nil {
		return err
	}
	o.r.opened++
	return nil
}

func (o *probe) Close() error {
	o.r.opened--
	return nil
}

func (o *probe) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	if err := o.r.point("op/process"); err != nil {
		return false, err
	}
	o.c.In += uint64(b.Rows())
	o.c.Out += uint64(b.Rows())
	b.Retain(1)
	out.Emit(b)
	return false, nil
}

// divides is the predicate v % by != rest, inverted if not is set.
type divides struct {
	by, rest int64
	not      bool
	out      messages.Column
}

func (*divides) Type() messages.Type { return messages.T(messages.Boolean) }

func (e *divides) Eval(b *messages.Batch) (*messages.Column, error) {
	e.out.Reset(e.Type())
	e.out.Resize(b.Len())
	for k := range b.Rows() {
		i := b.Row(k)
		if e.keeps(b.Column(colValue).Int64s()[i]) {
			messages.SetBit(e.out.Bits(), i)
		} else {
			messages.ClearBit(e.out.Bits(), i)
		}
	}
	return &e.out, nil
}

func (e *divides) keeps(v int64) bool { return (v%e.by != e.rest) != e.not }

// repeat emits each row v % 4 times with the number of the copy as v, one row
// per call.
type repeat struct {
	c    *epochs.Counters
	pool *messages.Pool
	b    *messages.Batch
	row  int
	copy int64
}

func (o *repeat) Open(t *operator.Task) error {
	o.c, o.pool = t.Counters, messages.NewPool(inputSchema)
	return nil
}

func (o *repeat) Close() error {
	if o.b != nil {
		o.b.Release()
		o.b = nil
	}
	return nil
}

func (o *repeat) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	o.c.In += uint64(b.Rows())
	for k := range b.Rows() {
		if b.Column(colValue).Int64s()[b.Row(k)]%4 == 0 {
			o.c.Filtered++
		}
	}
	b.Retain(1)
	o.b, o.row, o.copy = b, 0, 0
	return o.Resume(out)
}

func (o *repeat) Resume(out operator.Output) (bool, error) {
	b := o.b
	for ; o.row < b.Rows(); o.row, o.copy = o.row+1, 0 {
		i := b.Row(o.row)
		if o.copy == b.Column(colValue).Int64s()[i]%4 {
			continue
		}
		v := o.pool.Get()
		for c := range colValue {
			v.Own(c).AppendInt64(b.Column(c).Int64s()[i])
		}
		v.Own(colValue).AppendInt64(o.copy)
		v.SetLen(1)
		l := b.Lineage()
		offsets, paths := v.LineageBuffers(1)
		path := uint64(0)
		if l.B != nil {
			path = l.B[i]
		}
		v.SetLineage(messages.Lineage{Base: l.Base, A: append(offsets, l.A[i]), B: append(paths, operator.ChildPath(path, int(o.copy)))})
		o.c.Out++
		o.copy++
		out.Emit(v.Publish())
		return true, nil
	}
	return false, o.Close()
}

// tally counts rows by key and emits a key's count when the watermark is gap
// behind its latest row: (key, rows, first time, latest time, 0).
type tally struct {
	r     *run
	gap   messages.EventTime
	task  *operator.Task
	store *state.Store
	wm    messages.EventTime
	pool  *messages.Pool
	hash  []uint64
}

var tallyConfig = state.Config{Kind: "tally", Schema: "k", Format: 1, IntKeys: true, Words: 3, Timers: true}

func (o *tally) Open(t *operator.Task) error {
	o.task, o.pool, o.wm = t, messages.NewPool(inputSchema), messages.NoEventTime
	cfg := tallyConfig
	cfg.UID, cfg.From, cfg.To = t.UID, t.From, t.To
	var err error
	o.store, err = state.New(cfg)
	return err
}

func (o *tally) Snapshots() operator.Snapshotter { return o.store }
func (o *tally) Start(wm messages.EventTime)     { o.wm = wm }
func (o *tally) Close() error                    { return nil }

func (o *tally) Whole(_ int, b *messages.Batch, wm messages.EventTime) bool {
	if o.store.NextTimer() <= wm {
		return false
	}
	for k := range b.Rows() {
		if at := messages.EventTime(b.Column(colTime).Int64s()[b.Row(k)]); at+o.gap <= wm {
			return false
		}
	}
	return true
}

func (o *tally) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	if err := o.r.point("op/process"); err != nil {
		return false, err
	}
	o.hash = operator.HashKeys(o.hash, b, []int{colKey})
	o.task.Counters.In += uint64(b.Rows())
	for k := range b.Rows() {
		i := b.Row(k)
		at := b.Column(colTime).Int64s()[i]
		if messages.EventTime(at)+o.gap <= o.wm {
			o.task.Counters.Late++
			continue
		}
		o.task.Counters.Absorbed++
		e, created := o.store.UpsertInt(o.hash[i], 0, b.Column(colKey).Int64s()[i])
		s := o.store.Mutate(e)
		if created {
			s[1], s[2] = uint64(at), uint64(at)
		}
		s[0]++
		s[1], s[2] = uint64(min(int64(s[1]), at)), uint64(max(int64(s[2]), at))
		o.store.SetTimer(e, messages.EventTime(int64(s[2]))+o.gap)
	}
	return false, nil
}

func (o *tally) Watermark(wm messages.EventTime, out operator.Output) (bool, error) {
	o.wm = wm
	return o.Resume(out)
}

func (o *tally) Resume(out operator.Output) (bool, error) {
	e, _, ok := o.store.Due(o.wm)
	if !ok {
		return false, nil
	}
	v := o.pool.Get()
	s := e.Slots()
	for c, x := range []int64{e.IntKey(), int64(s[0]), int64(s[1]), int64(s[2]), 0} {
		v.Own(c).AppendInt64(x)
	}
	v.SetLen(1)
	o.store.Delete(e)
	o.task.Counters.Out++
	out.Emit(v.Publish())
	return true, nil
}

// share passes on the rows whose key is its turn, so that all subtasks together
// pass on each row once.
type share struct {
	task  *operator.Task
	views *messages.Pool
}

func (o *share) Open(t *operator.Task) error {
	o.task, o.views = t, messages.NewViewPool()
	return nil
}

func (o *share) Close() error { return nil }

func (o *share) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	v := o.views.View(b)
	sel := v.SelectBuffer(b.Rows())
	for k := range b.Rows() {
		if i := b.Row(k); b.Column(colKey).Int64s()[i]%int64(o.task.Parallelism) == int64(o.task.Index) {
			sel = append(sel, int32(i))
		}
	}
	v.Select(sel)
	o.task.Counters.In += uint64(len(sel))
	o.task.Counters.Out += uint64(len(sel))
	out.Emit(v.Publish())
	return false, nil
}

// union passes on the rows of several inputs.
type union struct{ c *epochs.Counters }

func (o *union) Open(t *operator.Task) error { o.c = t.Counters; return nil }
func (o *union) Close() error                { return nil }

func (o *union) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	o.c.In += uint64(b.Rows())
	o.c.Out += uint64(b.Rows())
	b.Retain(1)
	out.Emit(b)
	return false, nil
}
