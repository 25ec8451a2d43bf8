package eventtime

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/explode"
	"github.com/streamd-io/streamd/actors/operator/filter"
	"github.com/streamd-io/streamd/actors/operator/project"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// judged is a row and the watermark it was judged by.
type judged struct {
	At, Watermark messages.EventTime
}

// recorder stands for a stateful operator. It has no Splitter, so that the chain
// must apply the watermark behind every unit that moves it.
type recorder struct {
	wm   messages.EventTime
	rows []judged
}

func (r *recorder) Open(*operator.Task) error { return nil }
func (r *recorder) Close() error              { return nil }

func (r *recorder) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	for k := range b.Rows() {
		r.rows = append(r.rows, judged{messages.EventTime(b.Column(0).Int64s()[b.Row(k)]), r.wm})
	}
	return false, nil
}

func (r *recorder) Watermark(wm messages.EventTime, _ operator.Output) (bool, error) {
	r.wm = wm
	return false, nil
}

// compactor copies the selected rows out.
type compactor struct{ pool *messages.Pool }

func (c *compactor) Open(*operator.Task) error { return nil }
func (c *compactor) Close() error              { return nil }

func (c *compactor) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	if c.pool == nil {
		c.pool = messages.NewPool(b.Schema())
	}
	out.Emit(b.Compact(c.pool))
	return false, nil
}

// end takes nothing: the recorder emits nothing.
type end struct{}

func (end) Emit(b *messages.Batch)       { b.Release() }
func (end) Watermark(messages.EventTime) {}

// Rows: event time, whether the filter keeps it, and a list of copies elements.
func TestAChainJudgesEachRowByTheUnitsBeforeIt(t *testing.T) {
	schema := messages.NewSchema(
		messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)},
		messages.Field{Name: "keep", Type: messages.T(messages.Boolean)},
		messages.Field{Name: "list", Type: messages.ArrayType(messages.T(messages.Int))},
	)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 21))
		end := &recorder{wm: none}
		wmOp := New(Config{}).(*Operator)
		ops := []operator.Operator{
			wmOp,
			filter.New(filter.Config{Predicate: operator.ColumnRef{Index: 1, Of: messages.T(messages.Boolean)}}),
		}
		if r.IntN(2) == 0 {
			ops = append(ops, &compactor{})
		}
		ops = append(ops,
			explode.New(explode.Config{Input: schema, Column: 2, Keep: []int{0}}),
			project.New(project.Config{Columns: []project.Column{{Name: "ts", Expr: operator.ColumnRef{Index: 0, Of: schema.Fields[0].Type}}}}),
			end,
		)
		chain := newChain(t, ops)
		bl := messages.NewBuilder(schema)
		var want []judged
		wm := none
		offset := uint64(0)
		for range 8 {
			for range r.IntN(12) {
				unitMax := wm
				for range 1 + r.IntN(3) {
					at, keep, copies := messages.EventTime(r.IntN(500)), r.IntN(3) == 0, r.IntN(3)
					bl.Column(0).AppendInt64(int64(at))
					bl.Column(1).AppendBool(keep)
					for range copies {
						bl.Column(2).Child(0).AppendInt32(1)
						if keep {
							want = append(want, judged{at, wm})
						}
					}
					bl.Column(2).CloseList()
					bl.EndRow()
					unitMax = max(unitMax, at)
				}
				bl.EndUnit(offset, 0)
				offset++
				wm = unitMax
			}
			chain.Deliver(0, bl.Finish())
			for chain.Busy() {
				if err := chain.Step(); err != nil {
					t.Fatal(err)
				}
			}
			if end.wm != wm || wmOp.Watermark() != wm {
				t.Fatalf("seed %d: the watermark reached %v, want %v", seed, end.wm, wm)
			}
		}
		if diff := cmp.Diff(end.rows, want); diff != "" {
			t.Fatalf("seed %d: -got +want\n%s", seed, diff)
		}
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	}
}

func newChain(t *testing.T, ops []operator.Operator) *operator.Chain {
	t.Helper()
	var links []operator.Link
	for _, op := range ops {
		task := &operator.Task{Parallelism: 1, Counters: &epochs.Counters{}}
		if err := op.Open(task); err != nil {
			t.Fatal(err)
		}
		links = append(links, operator.Link{Op: op, Task: task})
	}
	return operator.NewChain(links, none, end{})
}
