// Package eventtime has the operator behind WATERMARK FOR column AS column -
// delay: it derives the watermark of one source partition from the event times
// of its rows. It stands at the head of the chain of that partition, one
// instance per partition, and copies no rows.
//
// The rule is per unit, the rows of one source offset: behind a unit the
// watermark is the greatest event time seen so far minus the delay, and it never
// goes back. Rows of a unit have equal Lineage.A, are adjacent and come in one
// batch; without lineage every row is a unit.
package eventtime

import (
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Config describes the watermark of a source.
type Config struct {
	// Column is the index of the event time, of type timestamp or timestamp_ntz.
	// Rows in which it is NULL do not move the watermark.
	Column int
	// Delay is how much later than a younger row a row may come, to the
	// microsecond.
	Delay time.Duration
	// MaxFutureSkew is how far ahead of its arrival time a row may be stamped and
	// still move the watermark; 0 means no limit. Rows without an arrival time are
	// not checked.
	MaxFutureSkew time.Duration
}

// Operator is an operator whose state is one instant, which the host stores
// with the offset of the partition. All methods belong to the operator's
// goroutine.
type Operator struct {
	cfg      Config
	wm       messages.EventTime
	skewed   uint64
	views    *messages.Pool
	counters *epochs.Counters
}

// New returns the operator.
func New(cfg Config) operator.Operator {
	return &Operator{cfg: cfg, wm: messages.NoEventTime, views: messages.NewViewPool()}
}

// Watermark returns the watermark behind the rows seen so far, NoEventTime if
// there is none yet.
func (o *Operator) Watermark() messages.EventTime { return o.wm }

// Restore sets the watermark that Watermark returned at the restored epoch. It
// is called before the first row.
func (o *Operator) Restore(wm messages.EventTime) { o.wm = wm }

// Skewed is the number of rows since the start of the instance that would have
// moved the watermark but were too far in the future. The rows themselves went on.
func (o *Operator) Skewed() uint64 { return o.skewed }

// Open checks the configuration.
func (o *Operator) Open(t *operator.Task) error {
	if o.cfg.Delay < 0 || o.cfg.MaxFutureSkew < 0 {
		return fault.New(fault.Config, "watermark: delay %v and max_future_skew %v must not be negative", o.cfg.Delay, o.cfg.MaxFutureSkew)
	}
	o.counters = t.Counters
	o.counters.Rule = epochs.RowForRow
	return nil
}

// Close does nothing.
func (o *Operator) Close() error { return nil }

// Process emits a view of b that carries the marks.
func (o *Operator) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	c := b.Column(o.cfg.Column)
	if k := c.Type().Kind; k != messages.Timestamp && k != messages.TimestampNTZ {
		return false, fault.New(fault.Config, "watermark: column %q is of type %s, want timestamp", b.Schema().Fields[o.cfg.Column].Name, c.Type())
	}
	v := o.views.View(b)
	v.SetMarks(o.mark(b, c, v))
	v.SetWatermark(o.wm)
	o.counters.In += uint64(b.Rows())
	o.counters.Out += uint64(b.Rows())
	out.Emit(v.Publish())
	return false, nil
}

// mark moves the watermark over all units of b and returns where it advances,
// nil if nowhere.
func (o *Operator) mark(b *messages.Batch, c *messages.Column, v *messages.Batch) []messages.Mark {
	times, valid := c.Int64s(), c.Validity()
	units, arrivals := b.Lineage().A, b.Arrivals()
	if o.cfg.MaxFutureSkew == 0 {
		arrivals = nil
	}
	sel, rows := b.Selection(), b.Rows()
	var marks []messages.Mark
	// A row at or before the watermark cannot move it: unitMax starts there.
	unitMax := o.wm
	for k := range rows {
		i, next := k, k+1
		if sel != nil {
			i = int(sel[k])
			if next < rows {
				next = int(sel[next])
			}
		}
		if at := messages.EventTime(times[i]); at > unitMax && (valid == nil || messages.BitSet(valid, i)) && o.credible(at, arrivals, i) {
			unitMax = at
		}
		if unitMax == o.wm || units != nil && k+1 < rows && units[next] == units[i] {
			continue
		}
		if wm := unitMax.Minus(o.cfg.Delay); wm > o.wm {
			o.wm = wm
			if marks == nil {
				marks = v.MarkBuffer(rows - k)
			}
			marks = append(marks, messages.Mark{Row: int32(i), At: wm})
		}
		unitMax = o.wm
	}
	return marks
}

// credible reports whether a row may move the watermark.
func (o *Operator) credible(at messages.EventTime, arrivals []messages.EventTime, i int) bool {
	limit := messages.MaxEventTime - 1 // the limits of the type are no instants
	if arrivals != nil && arrivals[i] != messages.NoEventTime {
		limit = min(limit, arrivals[i].Minus(-o.cfg.MaxFutureSkew))
	}
	if at <= limit {
		return true
	}
	o.skewed++
	return false
}
