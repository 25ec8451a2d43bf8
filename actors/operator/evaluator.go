package operator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Evaluator evaluates the expressions of a stateless operator under the row
// error policy of its task. Per batch: Begin, Eval for each expression, then
// Selection for the rows that are left, End. It belongs to one goroutine and
// does not allocate unless rows fail.
type Evaluator struct {
	policy *RowErrors
	task   *Task
	views  *messages.Pool
	b      *messages.Batch // of the host
	kept   *messages.Batch // b, or the view of it without the dropped rows

	failed []int32 // rows on which the current expression failed
	nulls  messages.Column
}

// NewEvaluator returns an evaluator for the operator that runs as t.
func NewEvaluator(t *Task) *Evaluator {
	return &Evaluator{policy: t.OnRowError, task: t, views: messages.NewViewPool()}
}

// Begin starts with the selected rows of b, which must stay valid until End.
func (ev *Evaluator) Begin(b *messages.Batch) { ev.b, ev.kept = b, b }

// End forgets the batch.
func (ev *Evaluator) End() {
	if ev.kept != ev.b {
		ev.kept.Release()
	}
	ev.b, ev.kept = nil, nil
}

// Selection returns the rows that are left, in the form of Batch.Selection. It
// is valid until the next Eval or End.
func (ev *Evaluator) Selection() []int32 { return ev.kept.Selection() }

// Rows is the number of rows that are left.
func (ev *Evaluator) Rows() int { return ev.kept.Rows() }

// Eval evaluates e for the rows that are left. Rows it cannot handle are
// dropped, counted as Bad, or get NULL, as the policy says; without a policy the
// first one is returned as a fault.BadRow that names the row's origin. The
// column is as described at Expr.Eval, valid until the next Eval.
func (ev *Evaluator) Eval(e Expr) (*messages.Column, error) {
	col, err := e.Eval(ev.kept)
	if err == nil {
		return col, nil
	}
	if ev.policy != nil && ev.policy.Drop {
		return ev.evalDropping(e, err)
	}
	return ev.evalNulling(e, err)
}

// evalDropping takes rows out of the selection until e succeeds.
func (ev *Evaluator) evalDropping(e Expr, err error) (*messages.Column, error) {
	for {
		row, stop := ev.judge(ev.kept, err)
		if stop != nil {
			return nil, stop
		}
		ev.task.Counters.Bad++
		if ev.kept == ev.b {
			ev.kept = ev.without(ev.b, row)
		} else {
			remove(ev.kept, row)
		}
		var col *messages.Column
		if col, err = e.Eval(ev.kept); err == nil {
			return col, nil
		}
	}
}

// evalNulling takes rows out of a selection of its own until e succeeds and
// then makes their values NULL.
func (ev *Evaluator) evalNulling(e Expr, err error) (*messages.Column, error) {
	ev.failed = ev.failed[:0]
	lane := ev.kept
	defer func() {
		if lane != ev.kept {
			lane.Release()
		}
	}()
	for {
		row, stop := ev.judge(lane, err)
		if stop != nil {
			return nil, stop
		}
		ev.failed = append(ev.failed, row)
		if lane == ev.kept {
			lane = ev.without(ev.kept, row)
		} else {
			remove(lane, row)
		}
		var col *messages.Column
		if col, err = e.Eval(lane); err == nil {
			return ev.withNulls(col, lane), nil
		}
	}
}

// judge returns the failed row, or the error that ends the query. It tells the
// policy about the row.
func (ev *Evaluator) judge(lane *messages.Batch, err error) (row int32, stop error) {
	re, ok := errors.AsType[*RowError](err)
	if !ok {
		return 0, err
	}
	if !selected(lane, re.Row) {
		return 0, fmt.Errorf("operator: an expression failed on row %d, which it was not asked for: %w", re.Row, err)
	}
	if fault.KindOf(re.Err) != fault.BadRow {
		return 0, err
	}
	if ev.policy == nil {
		return 0, fault.Wrap(fault.BadRow, err, "%s", origin(ev.b, re.Row))
	}
	if ev.policy.Report != nil {
		ev.policy.Report(ev.b, re.Row, re.Err)
	}
	return int32(re.Row), nil
}

// origin names the row by what a replay would call it too.
func origin(b *messages.Batch, row int) string {
	l := b.Lineage()
	switch {
	case l.A == nil:
		return "a row without lineage"
	case l.B == nil:
		return fmt.Sprintf("row at offset %d", l.A[row])
	default:
		return fmt.Sprintf("row at offset %d, path %d", l.A[row], l.B[row])
	}
}

func selected(b *messages.Batch, row int) bool {
	sel := b.Selection()
	if sel == nil {
		return row >= 0 && row < b.Len()
	}
	_, found := slices.BinarySearch(sel, int32(row))
	return found
}

// without returns a view of b that leaves out one more row. It is never
// published: only this evaluator sees it.
func (ev *Evaluator) without(b *messages.Batch, row int32) *messages.Batch {
	v := ev.views.View(b)
	sel := v.SelectBuffer(b.Rows())
	for k := range b.Rows() {
		if i := int32(b.Row(k)); i != row {
			sel = append(sel, i)
		}
	}
	v.Select(sel)
	return v
}

// remove takes a row out of the selection of a view made by without.
func remove(v *messages.Batch, row int32) {
	sel := v.Selection()
	if at, found := slices.BinarySearch(sel, row); found {
		v.Select(slices.Delete(sel, at, at+1))
	}
}

// withNulls copies the values of the rows selected in lane; the others are NULL.
func (ev *Evaluator) withNulls(col *messages.Column, lane *messages.Batch) *messages.Column {
	out := &ev.nulls
	out.Reset(col.Type())
	for _, i := range lane.Selection() {
		for out.Len() < int(i) {
			out.AppendNull()
		}
		out.AppendFrom(col, int(i))
	}
	for out.Len() < lane.Len() {
		out.AppendNull()
	}
	return out
}
