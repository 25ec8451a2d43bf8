package filter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var schema = messages.NewSchema(
	messages.Field{Name: "n", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "keep", Type: messages.T(messages.Boolean)},
)

// flag is the predicate "keep"; it fails on rows with n = bad.
type flag struct {
	bad int64
	out messages.Column
}

func (*flag) Type() messages.Type { return messages.T(messages.Boolean) }

func (e *flag) Eval(b *messages.Batch) (*messages.Column, error) {
	e.out.Reset(e.Type())
	e.out.Resize(b.Len())
	for k := range b.Rows() {
		i := b.Row(k)
		if e.bad != 0 && b.Column(0).Int64s()[i] == e.bad {
			return nil, &operator.RowError{Row: i, Err: fault.New(fault.BadRow, "bad row")}
		}
		messages.ClearBit(e.out.Bits(), i)
		if b.Column(1).IsNull(i) {
			e.out.SetNull(i)
		} else if b.Column(1).Bool(i) {
			messages.SetBit(e.out.Bits(), i)
		}
	}
	return &e.out, nil
}

// row is one row; keep is 't', 'f' or 'n' for NULL.
type row struct {
	n    int64
	keep byte
}

func build(bl *messages.Builder, rows []row) *messages.Batch {
	for _, r := range rows {
		bl.Column(0).AppendInt64(r.n)
		if r.keep != 'n' {
			bl.Column(1).AppendBool(r.keep == 't')
		}
		bl.EndRow()
		bl.EndUnit(uint64(r.n), messages.EventTime(r.n))
	}
	return bl.Finish()
}

// sink collects what a chain emits.
type sink struct {
	rows    []int64
	batches []*messages.Batch
	wm      messages.EventTime
}

func (s *sink) Emit(b *messages.Batch) {
	for k := range b.Rows() {
		s.rows = append(s.rows, b.Column(0).Int64s()[b.Row(k)])
	}
	s.wm = max(s.wm, b.Watermark())
	s.batches = append(s.batches, b)
}

func open(t *testing.T, cfg Config, policy *operator.RowErrors) (operator.Operator, *epochs.Counters) {
	t.Helper()
	c := &epochs.Counters{}
	op := New(cfg)
	if err := op.Open(&operator.Task{Counters: c, OnRowError: policy}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := op.Close(); err != nil {
			t.Error(err)
		}
	})
	return op, c
}

func process(t *testing.T, op operator.Operator, b *messages.Batch, s *sink) {
	t.Helper()
	more, err := op.Process(0, b, s)
	if err != nil || more {
		t.Fatalf("Process() = %v, %v", more, err)
	}
}

func TestFilterKeepsRowsThatAreTrue(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		rows := make([]row, r.IntN(200))
		var want []int64
		for i := range rows {
			rows[i] = row{int64(i), "tfn"[r.IntN(3)]}
			if rows[i].keep == 't' {
				want = append(want, int64(i))
			}
		}
		op, c := open(t, Config{&flag{}}, nil)
		bl := messages.NewBuilder(schema)
		s := &sink{wm: messages.NoEventTime}
		for len(rows) > 0 { // every batch size gives the same rows
			n := 1 + r.IntN(len(rows))
			b := build(bl, rows[:n])
			process(t, op, b, s)
			b.Release()
			rows = rows[n:]
		}
		if diff := cmp.Diff(s.rows, want); diff != "" {
			t.Fatalf("seed %d: -got +want\n%s", seed, diff)
		}
		if c.In != c.Out+c.Filtered || c.Out != uint64(len(want)) {
			t.Errorf("seed %d: counters do not balance: %+v", seed, *c)
		}
	}
}

func TestFilterNarrowsAnExistingSelection(t *testing.T) {
	op, _ := open(t, Config{&flag{}}, nil)
	b := build(messages.NewBuilder(schema), []row{{1, 't'}, {2, 't'}, {3, 'f'}, {4, 't'}})
	v := messages.NewViewPool().View(b)
	v.Select([]int32{1, 2, 3})
	v.Publish()
	s := &sink{}
	process(t, op, v, s)
	if diff := cmp.Diff(s.rows, []int64{2, 4}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestFilterPassesABatchThatIsKeptWhole(t *testing.T) {
	op, _ := open(t, Config{&flag{}}, nil)
	b := build(messages.NewBuilder(schema), []row{{1, 't'}, {2, 't'}})
	s := &sink{}
	process(t, op, b, s)
	if len(s.batches) != 1 || s.batches[0] != b {
		t.Errorf("got %v, want the batch itself", s.batches)
	}
	s.batches[0].Release()
	b.Release()
}

func TestFilterDoesNotLoseTheWatermark(t *testing.T) {
	op, _ := open(t, Config{&flag{}}, nil)
	views := messages.NewViewPool()
	s := &sink{wm: messages.NoEventTime}
	send := func(wm messages.EventTime, f messages.Frame) {
		v := views.View(build(messages.NewBuilder(schema), []row{{1, 'f'}}))
		v.SetMarks([]messages.Mark{{Row: 0, At: wm}})
		v.SetWatermark(wm)
		v.SetFrame(f)
		process(t, op, v.Publish(), s)
	}
	send(10, 0)
	if len(s.batches) != 1 || s.wm != 10 || s.batches[0].Selection() == nil || s.batches[0].Rows() != 0 {
		t.Fatalf("got %d batches, watermark %v; want an empty batch with watermark 10", len(s.batches), s.wm)
	}
	send(10, 0)
	if len(s.batches) != 1 {
		t.Errorf("a batch without rows and news was emitted")
	}
	send(10, messages.FrameEnd)
	if len(s.batches) != 2 || s.batches[1].Frame() != messages.FrameEnd {
		t.Errorf("the end of a table was lost")
	}
}

func TestFilterAppliesTheRowErrorPolicy(t *testing.T) {
	rows := []row{{1, 't'}, {2, 't'}, {3, 'f'}}
	for name, c := range map[string]struct {
		policy        *operator.RowErrors
		bad, filtered uint64
	}{
		"drop": {&operator.RowErrors{Drop: true}, 1, 1},
		"null": {&operator.RowErrors{}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			op, counters := open(t, Config{&flag{bad: 2}}, c.policy)
			s := &sink{}
			process(t, op, build(messages.NewBuilder(schema), rows), s)
			if diff := cmp.Diff(s.rows, []int64{1}); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
			want := epochs.Counters{Rule: epochs.RowForRow, In: 3, Out: 1, Bad: c.bad, Filtered: c.filtered}
			if diff := cmp.Diff(*counters, want); diff != "" {
				t.Errorf("counters: -got +want\n%s", diff)
			}
		})
	}
	t.Run("fail", func(t *testing.T) {
		op, _ := open(t, Config{&flag{bad: 2}}, nil)
		_, err := op.Process(0, build(messages.NewBuilder(schema), rows), &sink{})
		if fault.KindOf(err) != fault.BadRow {
			t.Errorf("got %v, want a bad row", err)
		}
	})
}

func TestFilterRefusesAConditionThatIsNotBoolean(t *testing.T) {
	err := New(Config{operator.ColumnRef{Of: messages.T(messages.BigInt)}}).Open(&operator.Task{Counters: &epochs.Counters{}})
	if fault.KindOf(err) != fault.Config {
		t.Errorf("got %v, want a config error", err)
	}
}

func TestFilterTakesNullAsFalse(t *testing.T) {
	op, c := open(t, Config{null{}}, nil)
	s := &sink{}
	process(t, op, build(messages.NewBuilder(schema), []row{{1, 't'}}), s)
	if len(s.rows) != 0 || c.Filtered != 1 {
		t.Errorf("got %v, filtered %d", s.rows, c.Filtered)
	}
}

// null is the literal NULL.
type null struct{}

func (null) Type() messages.Type { return messages.T(messages.Null) }

func (null) Eval(b *messages.Batch) (*messages.Column, error) {
	var c messages.Column
	c.Resize(b.Len())
	return &c, nil
}

// discard releases what it gets.
type discard struct{}

func (discard) Emit(b *messages.Batch) { b.Release() }

func BenchmarkFilter(b *testing.B) {
	for _, n := range []int{1, 256, 1024} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			rows := make([]row, n)
			for i := range rows {
				rows[i] = row{int64(i), "tf"[i&1]}
			}
			in := build(messages.NewBuilder(schema), rows)
			op := New(Config{operator.ColumnRef{Index: 1, Of: messages.T(messages.Boolean)}})
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
