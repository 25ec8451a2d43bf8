package limit

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var schema = messages.NewSchema(messages.Field{Name: "n", Type: messages.T(messages.BigInt)})

func build(bl *messages.Builder, from, to int) *messages.Batch {
	for i := from; i < to; i++ {
		bl.Column(0).AppendInt64(int64(i))
		bl.EndRow()
	}
	return bl.Finish()
}

// sink collects rows.
type sink struct {
	rows []int64
	wm   messages.EventTime
}

func (s *sink) Emit(b *messages.Batch) {
	for k := range b.Rows() {
		s.rows = append(s.rows, b.Column(0).Int64s()[b.Row(k)])
	}
	s.wm = max(s.wm, b.Watermark())
	b.Release()
}

func open(t *testing.T, cfg Config) (operator.Operator, *epochs.Counters) {
	t.Helper()
	c := &epochs.Counters{}
	op := New(cfg)
	if err := op.Open(&operator.Task{UID: "q/limit", Parallelism: 1, Counters: c}); err != nil {
		t.Fatal(err)
	}
	return op, c
}

func process(t *testing.T, op operator.Operator, b *messages.Batch, s *sink) {
	t.Helper()
	if more, err := op.Process(0, b, s); more || err != nil {
		t.Fatalf("Process() = %v, %v", more, err)
	}
}

// checkpoint returns the segments of one epoch.
func checkpoint(t *testing.T, op operator.Operator, e messages.Epoch) []epochs.Segment {
	t.Helper()
	snap := op.(operator.Stateful).Snapshots()
	snap.Freeze(e)
	var out []epochs.Segment
	done, err := snap.Encode(func() bool { return false }, func(s epochs.Segment) error {
		s.Data = append([]byte(nil), s.Data...)
		out = append(out, s)
		return nil
	})
	if !done || err != nil {
		t.Fatalf("Encode() = %v, %v", done, err)
	}
	return out
}

func TestAppendModeCountsSinceTheQueryFirstStarted(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, total := r.IntN(80), r.IntN(120)
		var want []int64
		for i := range min(n, total) {
			want = append(want, int64(i))
		}
		cfg := Config{Rows: int64(n)}
		op, c := open(t, cfg)
		s := &sink{}
		bl := messages.NewBuilder(schema)
		var latest []epochs.Segment
		in, out := uint64(0), uint64(0)
		for from := 0; from < total; {
			to := from + 1 + r.IntN(total-from)
			b := build(bl, from, to)
			process(t, op, b, s)
			b.Release()
			from = to
			// Each epoch ends with a restart from what has been saved so far.
			if segs := checkpoint(t, op, messages.Epoch(from)); len(segs) > 0 {
				latest = segs
			}
			in, out = in+c.In, out+c.Out
			if c.In != c.Out+c.Filtered {
				t.Fatalf("seed %d: counters do not balance: %+v", seed, *c)
			}
			op, c = open(t, cfg)
			for _, seg := range latest {
				if err := op.(operator.Stateful).Snapshots().Restore(seg); err != nil {
					t.Fatal(err)
				}
			}
		}
		if diff := cmp.Diff(s.rows, want); diff != "" {
			t.Fatalf("seed %d: -got +want\n%s", seed, diff)
		}
		if in != uint64(total) || out != uint64(len(want)) {
			t.Errorf("seed %d: in %d, out %d, want %d, %d", seed, in, out, total, len(want))
		}
	}
}

func TestTheCountIsSavedOnlyWhenItChanged(t *testing.T) {
	op, _ := open(t, Config{Rows: 3})
	bl := messages.NewBuilder(schema)
	process(t, op, build(bl, 0, 5), &sink{})
	if got := len(checkpoint(t, op, 1)); got != 1 {
		t.Errorf("%d segments, want 1", got)
	}
	process(t, op, build(bl, 5, 9), &sink{})
	if got := len(checkpoint(t, op, 2)); got != 0 {
		t.Errorf("%d segments although nothing changed", got)
	}
}

func TestALoweredLimitLetsNothingMoreThrough(t *testing.T) {
	op, _ := open(t, Config{Rows: 10})
	bl := messages.NewBuilder(schema)
	process(t, op, build(bl, 0, 8), &sink{})
	segs := checkpoint(t, op, 1)
	op, c := open(t, Config{Rows: 5})
	if err := op.(operator.Stateful).Snapshots().Restore(segs[0]); err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	process(t, op, build(bl, 8, 12), s)
	if len(s.rows) != 0 || c.Filtered != 4 {
		t.Errorf("got %v, counters %+v", s.rows, *c)
	}
}

func TestCompleteModeNeedsNoState(t *testing.T) {
	op, _ := open(t, Config{Rows: 3, Complete: true})
	if _, stateful := op.(operator.Stateful); stateful {
		t.Error("complete mode has state")
	}
}

func TestLimitTakesTheSelectedRowsAndKeepsTheWatermark(t *testing.T) {
	op, _ := open(t, Config{Rows: 2})
	views := messages.NewViewPool()
	s := &sink{wm: messages.NoEventTime}
	for wm := range messages.EventTime(3) {
		v := views.View(build(messages.NewBuilder(schema), 0, 6))
		v.Select([]int32{1, 3, 5})
		v.SetWatermark(wm)
		process(t, op, v.Publish(), s)
	}
	if diff := cmp.Diff(s.rows, []int64{1, 3}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if s.wm != 2 {
		t.Errorf("watermark %v, want 2", s.wm)
	}
}

func TestConfigIsChecked(t *testing.T) {
	task := &operator.Task{Parallelism: 1, Counters: &epochs.Counters{}}
	if err := New(Config{Rows: -1}).Open(task); fault.KindOf(err) != fault.Config {
		t.Errorf("got %v, want a config error", err)
	}
	task.Parallelism = 2
	if err := New(Config{Rows: 1}).Open(task); err == nil {
		t.Error("two subtasks were accepted")
	}
}
