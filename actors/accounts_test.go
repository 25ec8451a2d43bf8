package actors

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// tally passes the rows of even numbers on and counts them, in the end with an
// error.
type tally struct {
	task  *operator.Task
	wrong func(*epochs.Counters)
	views *messages.Pool
}

func (o *tally) Open(t *operator.Task) error {
	o.task, o.views = t, messages.NewViewPool()
	t.Counters.Rule = epochs.RowForRow
	return nil
}
func (o *tally) Close() error { return nil }

func (o *tally) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	v := o.views.View(b)
	sel := v.SelectBuffer(b.Rows())
	for i := range b.Rows() {
		if r := b.Row(i); b.Column(1).Int64s()[r]%2 == 0 {
			sel = append(sel, int32(r))
		}
	}
	v.Select(sel)
	c := o.task.Counters
	c.In += uint64(b.Rows())
	c.Out += uint64(len(sel))
	c.Filtered += uint64(b.Rows() - len(sel))
	if o.wrong != nil {
		o.wrong(c)
		o.wrong = nil
	}
	out.Emit(v)
	return false, nil
}

func TestTheFinalEpochIsOnlyCommittedIfTheRowsAddUp(t *testing.T) {
	for what, c := range map[string]struct {
		wrong func(*epochs.Counters)
		want  []string
	}{
		"right":              {nil, nil},
		"a filtered row":     {func(c *epochs.Counters) { c.Filtered++ }, []string{`operator "even"`, "the rows do not add up: 100 in, filtered 51"}},
		"a late row too few": {func(c *epochs.Counters) { c.Late-- }, []string{`operator "even"`, "late -1"}},
		"a row in and out":   {func(c *epochs.Counters) { c.In++; c.Out++ }, []string{`operator "even": 101 rows in, but 100 rows out of ["src"]`, `operator "out": 50 rows in, but 51 rows out of ["even"]`}},
	} {
		t.Run(what, func(t *testing.T) {
			src := &sliceSource{parts: [][][2]int64{numbers(60, 13), numbers(40, 7)}, bounded: true, batch: 7}
			sink := &collectSink{}
			g := NewGraph()
			var made atomic.Bool // subtasks are made at the same time; one is wrong
			op := g.Operator("even", 2, func() operator.Operator {
				if made.Swap(true) {
					return &tally{}
				}
				return &tally{wrong: c.wrong}
			}, Keyed(g.Source("src", src.spec()), 0))
			g.Sink("out", sink.spec(), Forward(op))
			a, store := start(t, g, nil)
			err := wait(t, a)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				checkAccounts(t, a, store)
				return
			}
			if fault.KindOf(err) != fault.Internal {
				t.Fatalf("got error %v, want an internal one", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
			recs, _, err := store.Committed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				if rec, err := epochs.DecodeRecord(r.Data); err != nil || rec.Final {
					t.Errorf("record of epoch %d: final, or error %v", r.Epoch, err)
				}
			}
		})
	}
}

// checkAccounts compares the counters of the record with what was read and with
// the metrics.
func checkAccounts(t *testing.T, a *Attempt, store epochs.Segments) {
	t.Helper()
	recs, _, err := store.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := epochs.DecodeRecord(recs[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]uint64{"src": {100, 100}, "even": {100, 50}, "out": {50, 50}}
	if len(rec.Counters) != len(want) {
		t.Errorf("the record has counters of %d nodes, want %d", len(rec.Counters), len(want))
	}
	for i := range rec.Counters {
		c := &rec.Counters[i]
		if got := [2]uint64{c.In, c.Out}; got != want[c.Operator] {
			t.Errorf("%s: %d rows in and out, want %d", c.Operator, got, want[c.Operator])
		}
		m := &a.Metrics().Nodes[i]
		for j := range a.Metrics().Nodes {
			if a.Metrics().Nodes[j].Name == c.Operator {
				m = &a.Metrics().Nodes[j]
			}
		}
		if in, out := uint64(m.RowsIn.Load()), uint64(m.RowsOut.Load()); in != c.In || out != c.Out {
			t.Errorf("%s: the metrics say %d rows in and %d out, the record %d and %d", c.Operator, in, out, c.In, c.Out)
		}
	}
}
