package operator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// reciprocal is 1000 / column 0 and fails on 0.
type reciprocal struct {
	out messages.Column
	err func(error) error // wraps the cause; nil: a fault.BadRow
}

func (*reciprocal) Type() messages.Type { return messages.T(messages.BigInt) }

func (e *reciprocal) Eval(b *messages.Batch) (*messages.Column, error) {
	e.out.Reset(e.Type())
	e.out.Resize(b.Len())
	in := b.Column(0)
	for k := range b.Rows() {
		i := b.Row(k)
		switch {
		case in.IsNull(i):
			e.out.SetNull(i)
		case in.Int64s()[i] == 0:
			err := fault.New(fault.BadRow, "division by zero")
			if e.err != nil {
				err = e.err(err)
			}
			return nil, &operator.RowError{Row: i, Err: err}
		default:
			e.out.Int64s()[i] = 1000 / in.Int64s()[i]
		}
	}
	return &e.out, nil
}

// numbers makes a batch of one bigint column; nil is NULL.
func numbers(values ...any) *messages.Batch {
	bl := messages.NewBuilder(messages.NewSchema(messages.Field{Name: "n", Type: messages.T(messages.BigInt)}))
	for i, v := range values {
		if v != nil {
			bl.Column(0).AppendInt64(int64(v.(int)))
		}
		bl.EndRow()
		bl.EndUnit(uint64(100+i), messages.EventTime(i))
	}
	return bl.Finish()
}

// evaluate returns the values of the rows that are left.
func evaluate(t *testing.T, ev *operator.Evaluator, e operator.Expr) []any {
	t.Helper()
	col, err := ev.Eval(e)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{}
	sel := ev.Selection()
	for k := range ev.Rows() {
		i := k
		if sel != nil {
			i = int(sel[k])
		}
		if col.IsNull(i) {
			got = append(got, nil)
		} else {
			got = append(got, int(col.Int64s()[i]))
		}
	}
	return got
}

func TestEvaluator(t *testing.T) {
	task := func(p *operator.RowErrors) *operator.Task {
		return &operator.Task{Counters: &epochs.Counters{}, OnRowError: p}
	}
	t.Run("without a policy returns the bad row's origin", func(t *testing.T) {
		ev := operator.NewEvaluator(task(nil))
		ev.Begin(numbers(1, 0, 2))
		defer ev.End()
		_, err := ev.Eval(&reciprocal{})
		if fault.KindOf(err) != fault.BadRow || !strings.Contains(err.Error(), "offset 101: division by zero") {
			t.Errorf("got %v (%v)", err, fault.KindOf(err))
		}
	})
	t.Run("drops and counts failing rows for all later expressions", func(t *testing.T) {
		var reported []string
		tk := task(&operator.RowErrors{Drop: true, Report: func(b *messages.Batch, row int, err error) {
			reported = append(reported, fmt.Sprintf("%d: %v", b.Lineage().A[row], err))
		}})
		ev := operator.NewEvaluator(tk)
		ev.Begin(numbers(0, 1, 0, 2, nil, 0))
		defer ev.End()
		if diff := cmp.Diff(evaluate(t, ev, &reciprocal{}), []any{1000, 500, nil}); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
		ref := operator.ColumnRef{Of: messages.T(messages.BigInt)}
		if diff := cmp.Diff(evaluate(t, ev, ref), []any{1, 2, nil}); diff != "" {
			t.Errorf("column: -got +want\n%s", diff)
		}
		want := []string{"100: division by zero", "102: division by zero", "105: division by zero"}
		if diff := cmp.Diff(reported, want); diff != "" {
			t.Errorf("reports: -got +want\n%s", diff)
		}
		if got := tk.Counters.Bad; got != 3 {
			t.Errorf("Bad = %d, want 3", got)
		}
	})
	t.Run("puts NULL in failing rows and keeps them for later expressions", func(t *testing.T) {
		tk := task(&operator.RowErrors{})
		ev := operator.NewEvaluator(tk)
		ev.Begin(numbers(0, 4, 0))
		defer ev.End()
		if diff := cmp.Diff(evaluate(t, ev, &reciprocal{}), []any{nil, 250, nil}); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
		ref := operator.ColumnRef{Of: messages.T(messages.BigInt)}
		if diff := cmp.Diff(evaluate(t, ev, ref), []any{0, 4, 0}); diff != "" {
			t.Errorf("column: -got +want\n%s", diff)
		}
		if got := tk.Counters.Bad; got != 0 {
			t.Errorf("Bad = %d, want 0: the rows were kept", got)
		}
	})
	t.Run("does not apply the policy to errors of another kind", func(t *testing.T) {
		ev := operator.NewEvaluator(task(&operator.RowErrors{Drop: true}))
		ev.Begin(numbers(0))
		defer ev.End()
		_, err := ev.Eval(&reciprocal{err: func(error) error { return errors.New("broken function") }})
		if err == nil || fault.KindOf(err) != fault.Internal {
			t.Errorf("got %v (%v), want an internal error", err, fault.KindOf(err))
		}
	})
	t.Run("refuses an error about a row that was not selected", func(t *testing.T) {
		ev := operator.NewEvaluator(task(&operator.RowErrors{Drop: true}))
		ev.Begin(numbers(1))
		defer ev.End()
		if _, err := ev.Eval(stubborn{}); err == nil {
			t.Error("no error")
		}
	})
}

// stubborn fails on row 0 also when it is not selected any more.
type stubborn struct{}

func (stubborn) Type() messages.Type { return messages.T(messages.BigInt) }

func (stubborn) Eval(*messages.Batch) (*messages.Column, error) {
	return nil, &operator.RowError{Row: 0, Err: fault.New(fault.BadRow, "no")}
}

func TestChildPathsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for parent := range 50 {
		path := uint64(0)
		if parent > 0 {
			path = operator.ChildPath(0, parent)
		}
		for index := -1; index < 200; index++ {
			p := operator.ChildPath(path, index)
			name := fmt.Sprintf("%d/%d", parent, index)
			if other, ok := seen[p]; ok && parent > 0 {
				t.Fatalf("%s and %s have the same path", name, other)
			}
			seen[p] = name
		}
	}
}
