package project

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var bigint = messages.T(messages.BigInt)

// quotient is 100 / n.
type quotient struct{ out messages.Column }

func (*quotient) Type() messages.Type { return bigint }

func (e *quotient) Eval(b *messages.Batch) (*messages.Column, error) {
	e.out.Reset(bigint)
	e.out.Resize(b.Len())
	in, out := b.Column(0).Int64s(), e.out.Int64s()
	for k := range b.Rows() {
		i := b.Row(k)
		if in[i] == 0 {
			return nil, &operator.RowError{Row: i, Err: fault.New(fault.BadRow, "division by zero")}
		}
		out[i] = 100 / in[i]
	}
	return &e.out, nil
}

// constant is a literal whose frozen column grows when needed.
type constant struct{ col *messages.Column }

func (*constant) Type() messages.Type { return messages.T(messages.String) }

func (e *constant) Eval(b *messages.Batch) (*messages.Column, error) {
	if e.col == nil || e.col.Len() != b.Len() {
		c := messages.NewPool(messages.NewSchema(messages.Field{Name: "c", Type: e.Type()})).Get()
		for range b.Len() {
			c.Own(0).AppendString("k")
		}
		c.SetLen(b.Len())
		e.col = c.Publish().Column(0)
	}
	return e.col, nil
}

func columns() []Column {
	return []Column{
		{"q", &quotient{}}, {"n", operator.ColumnRef{Index: 0, Of: bigint}}, {"c", &constant{}},
	}
}

func numbers(values ...int64) *messages.Batch {
	bl := messages.NewBuilder(messages.NewSchema(messages.Field{Name: "n", Type: bigint}))
	for i, v := range values {
		bl.Column(0).AppendInt64(v)
		bl.EndRow()
		bl.EndUnit(uint64(i), messages.EventTime(i))
	}
	return bl.Finish()
}

// sink collects rows as text; NULL is "-".
type sink struct {
	rows    []string
	batches []*messages.Batch
}

func (s *sink) Emit(b *messages.Batch) {
	for k := range b.Rows() {
		i := b.Row(k)
		q := "-"
		if !b.Column(0).IsNull(i) {
			q = fmt.Sprint(b.Column(0).Int64s()[i])
		}
		s.rows = append(s.rows, fmt.Sprintf("%s %d %s @%d", q, b.Column(1).Int64s()[i], b.Column(2).Str(i), b.Lineage().A[i]))
	}
	s.batches = append(s.batches, b)
}

func open(t *testing.T, policy *operator.RowErrors) (operator.Operator, *epochs.Counters) {
	t.Helper()
	c := &epochs.Counters{}
	op := New(Config{columns()})
	if err := op.Open(&operator.Task{Counters: c, OnRowError: policy}); err != nil {
		t.Fatal(err)
	}
	return op, c
}

func TestProject(t *testing.T) {
	t.Run("computes, shares and repeats columns", func(t *testing.T) {
		op, c := open(t, nil)
		s := &sink{}
		for range 3 { // the expression's scratch is taken away each time
			b := numbers(5, 10)
			if _, err := op.Process(0, b, s); err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		one := []string{"20 5 k @0", "10 10 k @1"}
		want := append(append(append([]string{}, one...), one...), one...)
		if diff := cmp.Diff(s.rows, want); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
		for _, b := range s.batches { // nobody's column was overwritten later
			if got := b.Column(0).Int64s(); !cmp.Equal(got, []int64{20, 10}) {
				t.Errorf("a batch now holds %v", got)
			}
			if got := b.Schema().String(); got != "q bigint, n bigint, c string" {
				t.Errorf("schema %q", got)
			}
			b.Release()
		}
		if c.In != 6 || c.Out != 6 {
			t.Errorf("counters %+v", *c)
		}
	})
	t.Run("leaves bad rows out", func(t *testing.T) {
		op, c := open(t, &operator.RowErrors{Drop: true})
		s := &sink{}
		if _, err := op.Process(0, numbers(0, 50, 0, 25), s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.rows, []string{"2 50 k @1", "4 25 k @3"}); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
		if diff := cmp.Diff(*c, epochs.Counters{Rule: epochs.RowForRow, In: 4, Out: 2, Bad: 2}); diff != "" {
			t.Errorf("counters: -got +want\n%s", diff)
		}
	})
	t.Run("makes failing values NULL", func(t *testing.T) {
		op, c := open(t, &operator.RowErrors{})
		s := &sink{}
		for range 2 {
			if _, err := op.Process(0, numbers(0, 50), s); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"- 0 k @0", "2 50 k @1", "- 0 k @0", "2 50 k @1"}
		if diff := cmp.Diff(s.rows, want); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
		if c.Bad != 0 || c.Out != 4 {
			t.Errorf("counters %+v", *c)
		}
	})
	t.Run("fails with the row's origin", func(t *testing.T) {
		op, _ := open(t, nil)
		_, err := op.Process(0, numbers(1, 0), &sink{})
		if fault.KindOf(err) != fault.BadRow || err.Error() != "row at offset 1: division by zero" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("keeps selection, marks, watermark and frame", func(t *testing.T) {
		op, _ := open(t, nil)
		v := messages.NewViewPool().View(numbers(0, 50, 25))
		v.Select([]int32{1, 2})
		v.SetMarks([]messages.Mark{{Row: 1, At: 7}})
		v.SetWatermark(7)
		v.SetFrame(messages.FrameStart)
		s := &sink{}
		if _, err := op.Process(0, v.Publish(), s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.rows, []string{"2 50 k @1", "4 25 k @2"}); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
		b := s.batches[0]
		if !cmp.Equal(b.Marks(), []messages.Mark{{Row: 1, At: 7}}) || b.Watermark() != 7 || b.Frame() != messages.FrameStart {
			t.Errorf("got marks %v, watermark %v, frame %d", b.Marks(), b.Watermark(), b.Frame())
		}
	})
	t.Run("emits an empty batch only for a watermark or a frame", func(t *testing.T) {
		op, _ := open(t, nil)
		views := messages.NewViewPool()
		s := &sink{}
		for _, wm := range []messages.EventTime{5, 5, 6} {
			v := views.View(numbers(1))
			v.Select([]int32{})
			v.SetWatermark(wm)
			if _, err := op.Process(0, v.Publish(), s); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.batches) != 2 {
			t.Errorf("%d batches, want 2", len(s.batches))
		}
	})
}

// discard releases what it gets.
type discard struct{}

func (discard) Emit(b *messages.Batch) { b.Release() }

func BenchmarkProject(b *testing.B) {
	for _, n := range []int{1, 256, 1024} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			values := make([]int64, n)
			for i := range values {
				values[i] = int64(i) + 1
			}
			in := numbers(values...)
			op := New(Config{columns()})
			if err := op.Open(&operator.Task{Counters: &epochs.Counters{}}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := op.Process(0, in, discard{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
}
