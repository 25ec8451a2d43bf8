// Package filter has the operator that keeps the rows for which a predicate is
// true (WHERE, HAVING, and the residual condition of joins). It copies no rows:
// its output shows the input's columns through a selection.
package filter

import (
	"encoding/binary"
	"math/bits"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Config describes a filter.
type Config struct {
	// Predicate is a boolean expression compiled for this instance. Rows for
	// which it is false or NULL are left out and counted as Filtered.
	Predicate operator.Expr
}

// New returns a filter. Rows on which the predicate fails follow the task's row
// error policy.
func New(cfg Config) operator.Operator { return &filter{predicate: cfg.Predicate} }

type filter struct {
	predicate operator.Expr
	eval      *operator.Evaluator
	views     *messages.Pool
	counters  *epochs.Counters
	wm        messages.EventTime // highest watermark sent down with a batch
}

// Open checks the predicate's type.
func (f *filter) Open(t *operator.Task) error {
	if k := f.predicate.Type().Kind; k != messages.Boolean && k != messages.Null {
		return fault.New(fault.Config, "filter: the condition is of type %s, want boolean", f.predicate.Type())
	}
	f.eval = operator.NewEvaluator(t)
	f.views = messages.NewViewPool()
	f.counters = t.Counters
	f.counters.Rule = epochs.RowForRow
	f.wm = messages.NoEventTime
	return nil
}

// Process emits the batch itself when all its rows stay, a view when some do,
// and nothing when none does and nobody would miss it.
func (f *filter) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	f.eval.Begin(b)
	defer f.eval.End()
	bad := f.counters.Bad
	col, err := f.eval.Eval(f.predicate)
	if err != nil {
		return false, err
	}
	in := b.Rows()
	kept := f.emit(b, col, out)
	f.counters.In += uint64(in)
	f.counters.Out += uint64(kept)
	f.counters.Filtered += uint64(in-kept) - (f.counters.Bad - bad)
	return false, nil
}

func (f *filter) emit(b *messages.Batch, col *messages.Column, out operator.Output) (kept int) {
	sel := f.eval.Selection()
	if sel == nil && col.Type().Kind == messages.Boolean && count(col) == b.Len() {
		b.Retain(1)
		f.send(b, out)
		return b.Len()
	}
	v := f.views.View(b)
	buf := v.SelectBuffer(b.Rows())
	switch {
	case col.Type().Kind == messages.Null:
	case sel == nil:
		buf = appendTrue(buf, col)
	default:
		buf = appendTrueOf(buf, col, sel)
	}
	kept = len(buf)
	switch {
	case kept == b.Rows():
		v.Release()
		b.Retain(1)
		f.send(b, out)
		return kept
	case kept == 0 && b.Watermark() <= f.wm && b.Frame() == 0:
		v.Release()
		return 0
	}
	v.Select(buf)
	f.send(v.Publish(), out)
	return kept
}

func (f *filter) send(b *messages.Batch, out operator.Output) {
	f.wm = max(f.wm, b.Watermark())
	out.Emit(b)
}

// Close does nothing.
func (f *filter) Close() error { return nil }

// word returns bits 64k to 64k+63 of a boolean column that are true and not
// NULL.
func word(values, valid []byte, k, n int) uint64 {
	w := load(values, k)
	if valid != nil {
		w &= load(valid, k)
	}
	if rest := n - 64*k; rest < 64 {
		w &= 1<<rest - 1
	}
	return w
}

func load(m []byte, k int) uint64 {
	m = m[8*k:]
	if len(m) >= 8 {
		return binary.LittleEndian.Uint64(m)
	}
	var w uint64
	for i, b := range m {
		w |= uint64(b) << (8 * i)
	}
	return w
}

func count(col *messages.Column) int {
	n, values, valid := col.Len(), col.Bits(), col.Validity()
	total := 0
	for k := range (n + 63) / 64 {
		total += bits.OnesCount64(word(values, valid, k, n))
	}
	return total
}

func appendTrue(buf []int32, col *messages.Column) []int32 {
	n, values, valid := col.Len(), col.Bits(), col.Validity()
	for k := range (n + 63) / 64 {
		for w := word(values, valid, k, n); w != 0; w &= w - 1 {
			buf = append(buf, int32(64*k+bits.TrailingZeros64(w)))
		}
	}
	return buf
}

func appendTrueOf(buf []int32, col *messages.Column, sel []int32) []int32 {
	values, valid := col.Bits(), col.Validity()
	for _, i := range sel {
		if messages.BitSet(values, int(i)) && (valid == nil || messages.BitSet(valid, int(i))) {
			buf = append(buf, i)
		}
	}
	return buf
}
