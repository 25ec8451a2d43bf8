package eventtime

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const none = messages.NoEventTime

var schema = messages.NewSchema(messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)})

// unit is the rows of one source offset. A time of none is NULL.
type unit struct {
	times   []messages.EventTime
	arrival messages.EventTime
}

func build(bl *messages.Builder, from int, units []unit) *messages.Batch {
	for i, u := range units {
		for _, at := range u.times {
			if at != none {
				bl.Column(0).AppendInt64(int64(at))
			}
			bl.EndRow()
		}
		bl.EndUnit(uint64(from+i), u.arrival)
	}
	return bl.Finish()
}

// sink notes by which watermark each row would be judged.
type sink struct {
	before  []messages.EventTime
	wm      messages.EventTime
	batches []*messages.Batch
}

func (s *sink) Emit(b *messages.Batch) {
	marks := b.Marks()
	for k := range b.Rows() {
		for len(marks) > 0 && int(marks[0].Row) < b.Row(k) {
			s.wm = marks[0].At
			marks = marks[1:]
		}
		s.before = append(s.before, s.wm)
	}
	s.wm = b.Watermark()
	s.batches = append(s.batches, b)
}

func open(t *testing.T, cfg Config) *Operator {
	t.Helper()
	op := New(cfg).(*Operator)
	if err := op.Open(&operator.Task{Counters: &epochs.Counters{}}); err != nil {
		t.Fatal(err)
	}
	return op
}

func process(t *testing.T, op *Operator, b *messages.Batch, s *sink) {
	t.Helper()
	if more, err := op.Process(0, b, s); err != nil || more {
		t.Fatalf("Process() = %v, %v", more, err)
	}
}

// judge is the published rule, unit by unit, in its plainest form.
func judge(units []unit, delay, skew messages.EventTime) (before []messages.EventTime, wm messages.EventTime) {
	wm = none
	top := none
	for _, u := range units {
		for _, at := range u.times {
			before = append(before, wm)
			if at != none && (skew == 0 || at <= u.arrival+skew) {
				top = max(top, at)
			}
		}
		if top != none {
			wm = max(wm, top-delay)
		}
	}
	return before, wm
}

func TestWatermarkFollowsTheRuleWhateverTheBatches(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		units := make([]unit, 1+r.IntN(60))
		for i := range units {
			units[i].arrival = messages.EventTime(1000 + 10*i)
			for range r.IntN(4) {
				at := units[i].arrival + messages.EventTime(r.IntN(200)-120)
				if r.IntN(8) == 0 {
					at = none
				}
				units[i].times = append(units[i].times, at)
			}
		}
		delay, skew := messages.EventTime(r.IntN(50)), messages.EventTime(r.IntN(2)*30)
		cfg := Config{Delay: time.Duration(delay) * time.Microsecond, MaxFutureSkew: time.Duration(skew) * time.Microsecond}
		want, wantWM := judge(units, delay, skew)

		op := open(t, cfg)
		s := &sink{wm: none}
		bl := messages.NewBuilder(schema)
		for from := 0; from < len(units); {
			to := from + 1 + r.IntN(len(units)-from)
			b := build(bl, from, units[from:to])
			process(t, op, b, s)
			b.Release()
			if r.IntN(3) == 0 { // a restart at the batch's end
				wm := op.Watermark()
				op = open(t, cfg)
				op.Restore(wm)
			}
			from = to
		}
		if diff := cmp.Diff(s.before, want); diff != "" {
			t.Fatalf("seed %d: -got +want\n%s", seed, diff)
		}
		if op.Watermark() != wantWM || s.wm != wantWM {
			t.Errorf("seed %d: watermark %v, last batch %v, want %v", seed, op.Watermark(), s.wm, wantWM)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Run("stand behind the last row of the unit", func(t *testing.T) {
		op := open(t, Config{Delay: 10 * time.Microsecond})
		s := &sink{wm: none}
		process(t, op, build(messages.NewBuilder(schema), 0, []unit{{times: []messages.EventTime{50, 20}}, {times: []messages.EventTime{40}}, {times: []messages.EventTime{60}}}), s)
		want := []messages.Mark{{Row: 1, At: 40}, {Row: 3, At: 50}}
		if diff := cmp.Diff(s.batches[0].Marks(), want); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
	})
	t.Run("treat each row as a unit when there is no lineage", func(t *testing.T) {
		op := open(t, Config{})
		bl := messages.NewBuilder(schema)
		for _, at := range []int64{5, 3, 7} {
			bl.Column(0).AppendInt64(at)
			bl.EndRow()
		}
		s := &sink{wm: none}
		process(t, op, bl.Finish(), s)
		want := []messages.Mark{{Row: 0, At: 5}, {Row: 2, At: 7}}
		if diff := cmp.Diff(s.batches[0].Marks(), want); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
	})
	t.Run("ignore rows that are not selected", func(t *testing.T) {
		op := open(t, Config{})
		b := build(messages.NewBuilder(schema), 0, []unit{{times: []messages.EventTime{90}}, {times: []messages.EventTime{5, 99}}, {times: []messages.EventTime{8}}})
		v := messages.NewViewPool().View(b)
		v.Select([]int32{1, 3})
		s := &sink{wm: none}
		process(t, op, v.Publish(), s)
		want := []messages.Mark{{Row: 1, At: 5}, {Row: 3, At: 8}}
		if diff := cmp.Diff(s.batches[0].Marks(), want); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
	})
	t.Run("are absent when nothing advances", func(t *testing.T) {
		op := open(t, Config{})
		op.Restore(100)
		s := &sink{wm: none}
		process(t, op, build(messages.NewBuilder(schema), 0, []unit{{times: []messages.EventTime{none}}, {times: []messages.EventTime{99}}}), s)
		if m := s.batches[0].Marks(); m != nil || s.wm != 100 {
			t.Errorf("marks %v, watermark %v, want none and 100", m, s.wm)
		}
	})
}

func TestSkewedRows(t *testing.T) {
	op := open(t, Config{MaxFutureSkew: 100 * time.Microsecond})
	s := &sink{wm: none}
	process(t, op, build(messages.NewBuilder(schema), 0, []unit{
		{[]messages.EventTime{1101, 1100}, 1000}, // the first is one too far ahead
		{[]messages.EventTime{5000}, none},       // unknown arrival: not checked
		{[]messages.EventTime{messages.MaxEventTime}, none},
	}), s)
	if got := op.Skewed(); got != 2 {
		t.Errorf("Skewed() = %d, want 2", got)
	}
	want := []messages.Mark{{Row: 1, At: 1100}, {Row: 2, At: 5000}}
	if diff := cmp.Diff(s.batches[0].Marks(), want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if got := s.batches[0].Rows(); got != 4 {
		t.Errorf("%d rows went on, want 4", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{Delay: -1}, {MaxFutureSkew: -1}} {
		if err := New(cfg).Open(&operator.Task{Counters: &epochs.Counters{}}); fault.KindOf(err) != fault.Config {
			t.Errorf("%+v: got %v, want a config error", cfg, err)
		}
	}
	op := open(t, Config{})
	bl := messages.NewBuilder(messages.NewSchema(messages.Field{Name: "x", Type: messages.T(messages.String)}))
	bl.EndRow()
	if _, err := op.Process(0, bl.Finish(), &sink{}); fault.KindOf(err) != fault.Config {
		t.Errorf("got %v, want a config error", err)
	}
}

// discard releases what it gets.
type discard struct{}

func (discard) Emit(b *messages.Batch) { b.Release() }

func BenchmarkEventTime(b *testing.B) {
	bl := messages.NewBuilder(schema)
	units := make([]unit, 1024)
	for i := range units {
		units[i] = unit{[]messages.EventTime{messages.EventTime(i)}, messages.EventTime(i)}
	}
	in := build(bl, 0, units)
	op := New(Config{MaxFutureSkew: time.Minute}).(*Operator)
	if err := op.Open(&operator.Task{Counters: &epochs.Counters{}}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		op.Restore(none)
		if _, err := op.Process(0, in, discard{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/row")
}
