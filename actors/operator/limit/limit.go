// Package limit has the operator behind LIMIT without ORDER BY. In append mode
// it lets through the first rows since the query first started; in complete mode
// the first rows of each table. Under ORDER BY the limit belongs to package
// order.
package limit

import (
	"encoding/binary"
	"fmt"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Config describes a limit.
type Config struct {
	// Rows is the number of rows to let through.
	Rows int64
	// Complete counts anew for each table, a run of batches from FrameStart to
	// FrameEnd, and needs no state.
	Complete bool
}

// New returns the operator. In append mode it must run as one subtask, and its
// state is the number of rows let through.
func New(cfg Config) operator.Operator {
	l := limit{cfg: cfg}
	if cfg.Complete {
		return &l
	}
	return &counting{limit: l}
}

// limit counts rows since the start of the table or of the query.
type limit struct {
	cfg      Config
	done     int64 // rows let through
	views    *messages.Pool
	counters *epochs.Counters
	wm       messages.EventTime // highest watermark sent down with a batch
}

// Open checks the configuration.
func (l *limit) Open(t *operator.Task) error {
	if l.cfg.Rows < 0 {
		return fault.New(fault.Config, "limit: %d rows, want at least 0", l.cfg.Rows)
	}
	if t.Parallelism > 1 {
		return fault.New(fault.Internal, "limit: %d subtasks cannot count together, want 1", t.Parallelism)
	}
	l.views = messages.NewViewPool()
	l.counters = t.Counters
	l.counters.Rule = epochs.RowForRow
	l.wm = messages.NoEventTime
	return nil
}

// Close does nothing.
func (l *limit) Close() error { return nil }

// Process emits the batch, a view of its first rows, or nothing if nobody would
// miss it.
func (l *limit) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	if l.cfg.Complete && b.Frame()&messages.FrameStart != 0 {
		l.done = 0
	}
	in := b.Rows()
	n := int(max(0, min(int64(in), l.cfg.Rows-l.done))) // the limit may have been lowered
	l.done += int64(n)
	l.counters.In += uint64(in)
	l.counters.Out += uint64(n)
	l.counters.Filtered += uint64(in - n)
	switch {
	case n == in:
		b.Retain(1)
	case n == 0 && b.Watermark() <= l.wm && b.Frame() == 0:
		return false, nil
	default:
		b = l.first(b, n)
	}
	l.wm = max(l.wm, b.Watermark())
	out.Emit(b)
	return false, nil
}

// first returns a view of the first n selected rows.
func (l *limit) first(b *messages.Batch, n int) *messages.Batch {
	v := l.views.View(b)
	if sel := b.Selection(); sel != nil {
		v.Select(sel[:n])
		return v.Publish()
	}
	buf := v.SelectBuffer(n)
	for i := range int32(n) {
		buf = append(buf, i)
	}
	v.Select(buf)
	return v.Publish()
}

// counting is the limit of append mode, whose count survives restarts.
type counting struct {
	limit
	snap snapshotter
}

// Open makes the state.
func (c *counting) Open(t *operator.Task) error {
	if err := c.limit.Open(t); err != nil {
		return err
	}
	// The number of rows is not part of the description: a query may go on with
	// another limit.
	s, err := state.New(state.Config{UID: t.UID, To: 1, Kind: "limit", Schema: "rows", Format: 1})
	if err != nil {
		return err
	}
	c.snap = snapshotter{Store: s, done: &c.done}
	return nil
}

// Snapshots returns the state: one number.
func (c *counting) Snapshots() operator.Snapshotter { return &c.snap }

// snapshotter writes the count when an epoch ends, if it has changed.
type snapshotter struct {
	*state.Store
	done  *int64
	saved int64
}

// Freeze puts the count into the store.
func (s *snapshotter) Freeze(e messages.Epoch) {
	if *s.done != s.saved {
		s.saved = *s.done
		s.SetBlob(binary.LittleEndian.AppendUint64(nil, uint64(s.saved)))
	}
	s.Store.Freeze(e)
}

// Restore takes the count of an earlier epoch.
func (s *snapshotter) Restore(seg epochs.Segment) error {
	if err := s.Store.Restore(seg); err != nil {
		return err
	}
	blob := s.Blob()
	if len(blob) == 0 {
		return nil
	}
	if len(blob) != 8 {
		return fmt.Errorf("limit: the saved count has %d bytes, want 8: %w", len(blob), epochs.ErrDamaged)
	}
	s.saved = int64(binary.LittleEndian.Uint64(blob))
	*s.done = s.saved
	return nil
}
