package aggregate

import (
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// stateFormat is the version of the records' layout.
const stateFormat = 1

// Operator is a keyed aggregation. It implements operator.Operator and its
// optional interfaces.
type Operator struct {
	cfg     Config
	schema  *messages.Schema
	keys    *keys
	cells   []cell
	slices  *slicing // nil without a window
	timed   bool     // groups are dropped by timers: an event-time key without a window
	eventAt int      // input column with the event time of the key, -1: none
	words   int
	values  int
	results int // first result column of the output

	task  *operator.Task
	store *state.Store
	scrap *state.Store // combined slices of one window; nil if windows have one slice
	wm    messages.EventTime

	in       input
	picked   []int32       // rows that pass an aggregate's filter
	pickedAt []state.Entry // and their entries

	pending []state.Entry // update: groups with slot 0 marked changed
	dirty   bool          // complete: something changed
	armed   bool          // a timer is set

	job job
	out batchWriter
}

// New returns an operator. The error is of kind fault.Config.
func New(cfg Config) (*Operator, error) {
	if cfg.Window != nil {
		w := *cfg.Window
		if w.Slide == 0 {
			w.Slide = w.Size
		}
		cfg.Window = &w
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	o := &Operator{cfg: cfg, keys: newKeys(cfg.Keys, cfg.Input), eventAt: -1, wm: messages.NoEventTime}
	var results []messages.Field
	var err error
	if o.cells, results, o.words, o.values, err = layout(&o.cfg); err != nil {
		return nil, err
	}
	var fields []messages.Field
	if w := cfg.Window; w != nil {
		t := cfg.Input.Fields[w.Column].Type
		o.slices = newSlicing(w)
		fields = append(fields, messages.Field{Name: "window", Type: messages.StructType(
			messages.Field{Name: "start", Type: t}, messages.Field{Name: "end", Type: t})})
	} else if cfg.EventTimeKey >= 0 {
		o.eventAt = cfg.Keys[cfg.EventTimeKey]
		o.timed = cfg.Mode != Complete
	}
	for _, k := range cfg.Keys {
		fields = append(fields, cfg.Input.Fields[k])
	}
	o.results = len(fields)
	o.schema = messages.NewSchema(append(fields, results...)...)
	o.job.closed = noWindow
	o.out.init(o)
	return o, nil
}

// Schema is the schema of the output: the window (struct of start and end), if
// there is one, the keys, the results.
func (o *Operator) Schema() *messages.Schema { return o.schema }

// State returns the operator's store; nil before Open.
func (o *Operator) State() *state.Store { return o.store }

// Snapshots returns the operator's state for the host; see operator.Stateful.
func (o *Operator) Snapshots() operator.Snapshotter { return o.store }

// Open makes the empty state.
func (o *Operator) Open(t *operator.Task) error {
	o.task = t
	t.Counters.Rule = epochs.IntoState
	cfg := state.Config{
		UID: t.UID, From: t.From, To: t.To,
		Kind: "aggregate", Schema: o.cfg.describe(o.schema.Fields[o.results:]), Format: stateFormat,
		IntKeys: o.keys.ints(), Words: o.words, Values: o.values, Timers: o.timed,
	}
	var err error
	if o.store, err = state.New(cfg); err != nil {
		return fault.Wrap(fault.Config, err, "aggregate")
	}
	if o.slices != nil && !o.slices.tumbling() {
		cfg.Timers = false
		if o.scrap, err = state.New(cfg); err != nil {
			return fault.Wrap(fault.Config, err, "aggregate")
		}
	}
	for i := range o.cells {
		o.cells[i].store, o.cells[i].scrap = o.store, o.scrap
	}
	o.in.store = o.store
	return nil
}

// Close does nothing: the state is memory.
func (o *Operator) Close() error {
	o.out.drop()
	return nil
}

// Start goes on from a restored state: output that was pending when it was
// saved is pending again. An aggregation over everything has its one group from
// the beginning: over no rows at all the counts are 0 and the rest is NULL.
func (o *Operator) Start(wm messages.EventTime) {
	o.wm = wm
	if o.single() && o.task.From == 0 && o.store.Rows() == 0 {
		e, _ := o.store.UpsertInt(0, 0, 0) // rows without keys have the hash 0
		o.change(e)
	}
	o.job.closed = noWindow
	if o.slices != nil {
		o.job.closed = o.slices.closedBy(int64(wm))
	}
	switch o.cfg.Mode {
	case Update:
		o.pending = o.pending[:0]
		c := o.store.ScanAll()
		for e, ok := c.Next(); ok && (o.cfg.EmitInterval > 0 || o.single()); e, ok = c.Next() {
			if e.Slots()[0]&changed != 0 {
				o.pending = append(o.pending, e)
			}
		}
	case Complete:
		o.dirty = o.dirty || (o.cfg.EmitInterval > 0 || o.cfg.AtMarkers) && o.store.Rows() > 0
	case Append: // nothing is pending; the watermark brings groups out
	}
	o.arm()
}

// single reports whether there is one group whatever the rows are.
func (o *Operator) single() bool { return len(o.cfg.Keys) == 0 && o.slices == nil }

// arm sets the emission timer if something is pending.
func (o *Operator) arm() {
	if o.armed || o.cfg.EmitInterval == 0 || len(o.pending) == 0 && !o.dirty {
		return
	}
	o.armed = true
	o.task.SetTimer(operator.ProcessingTime, o.task.Now()+o.cfg.EmitInterval)
}

// Whole reports whether no row of b is late at wm and wm releases nothing.
func (o *Operator) Whole(_ int, b *messages.Batch, wm messages.EventTime) bool {
	switch {
	case o.cfg.Mode == Complete:
		return true
	case o.slices != nil:
		return o.wholeWindows(b, int64(wm))
	case o.timed:
		if o.store.NextTimer() <= wm {
			return false
		}
		for i := range b.Rows() {
			if at, ok := eventTime(b.Column(o.eventAt), b.Row(i)); ok && at <= int64(wm) {
				return false
			}
		}
	}
	return true
}

func (o *Operator) wholeWindows(b *messages.Batch, wm int64) bool {
	if start, ok := o.slices.next(o.job.closed, o.store); ok && start+o.slices.size <= wm {
		return false
	}
	first, any := int64(messages.MaxEventTime), false
	c := b.Column(o.cfg.Window.Column)
	times := c.Int64s()
	for i := range b.Rows() {
		if r := b.Row(i); !c.IsNull(r) {
			first, any = min(first, times[r]), true
		}
	}
	if !any {
		return true
	}
	slice := floor(first, o.slices.slice, o.slices.offset)
	return o.slices.firstStart(slice)+o.slices.size > wm
}

// eventTime returns the event time of a key column: its value, or the end of a
// window; ok is false for NULL.
func eventTime(c *messages.Column, row int) (at int64, ok bool) {
	if c.IsNull(row) {
		return 0, false
	}
	if c.Type().Kind == messages.Struct {
		return eventTime(c.Child(1), row)
	}
	return c.Int64s()[row], true
}

// Process adds the rows of b.
func (o *Operator) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	if err := insertsOnly(b); err != nil {
		return false, err
	}
	if err := o.ingest(b); err != nil {
		return false, err
	}
	if o.cfg.Mode == Append {
		return false, nil
	}
	if o.cfg.EmitInterval > 0 {
		o.arm()
		return false, nil
	}
	if o.cfg.AtMarkers {
		return false, nil
	}
	o.emitPending(messages.NoEventTime)
	return o.Resume(out)
}

func insertsOnly(b *messages.Batch) error {
	kinds := b.Kinds()
	if kinds == nil {
		return nil
	}
	for i := range b.Rows() {
		if k := kinds[b.Row(i)]; k != messages.Insert {
			return fault.New(fault.Internal, "aggregate: a row of kind %d in an input that should only have inserts", k)
		}
	}
	return nil
}

// emitPending plans the emission of what changed.
func (o *Operator) emitPending(now messages.EventTime) {
	switch {
	case o.cfg.Mode == Update && len(o.pending) > 0:
		o.job.plan(jobPending, o.wm, now)
	case o.cfg.Mode == Complete && o.dirty:
		o.dirty = false
		o.job.plan(jobTable, o.wm, now)
	}
}

// Watermark emits the groups that are final at wm (append) and drops what no
// later row can change.
func (o *Operator) Watermark(wm messages.EventTime, out operator.Output) (bool, error) {
	switch {
	case o.cfg.Mode == Complete:
	case o.cfg.Mode == Update:
		// Pending changes go out before what they belong to is dropped.
		if (o.slices != nil || o.timed) && o.cfg.EmitInterval > 0 {
			o.emitPending(messages.NoEventTime)
		}
		o.job.plan(jobEvict, wm, messages.NoEventTime)
	default:
		o.job.plan(jobFinal, wm, messages.NoEventTime)
	}
	o.wm = wm
	return o.Resume(out)
}

// Horizon is the end of the last window that is open, or the last time of a group.
func (o *Operator) Horizon() messages.EventTime {
	at := messages.NoEventTime
	switch {
	case o.cfg.Mode == Complete:
	case o.slices != nil:
		for slice, ok := o.store.MinPane(); ok; slice, ok = o.store.NextPane(slice + 1) {
			at = messages.EventTime(o.slices.lastEnd(slice))
		}
	case o.timed:
		c := o.store.ScanAll()
		for e, ok := c.Next(); ok; e, ok = c.Next() {
			if t := e.Timer(); t < messages.MaxEventTime {
				at = max(at, t)
			}
		}
	}
	return at
}

// Timer emits what changed since the last emission.
func (o *Operator) Timer(_ operator.Domain, _ time.Duration, now messages.EventTime, out operator.Output) (bool, error) {
	o.armed = false
	return o.Flush(now, out)
}

// Flush emits what changed since the last emission.
func (o *Operator) Flush(now messages.EventTime, out operator.Output) (bool, error) {
	if o.cfg.Mode == Append {
		return false, nil
	}
	o.emitPending(now)
	return o.Resume(out)
}
