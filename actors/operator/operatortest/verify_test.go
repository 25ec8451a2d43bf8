package operatortest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// mistake is one an operator may make.
type mistake int

const (
	none mistake = iota
	forgetsState
	countsBatches
	keepsBatches
	keepsOutput
	emitsAll
	ignoresSelection
	ignoresUnits
	ignoresWatermarks
	writesBehindSnapshots
	leavesState
	countsWrong
	fails
	forgetsTimers
)

// tally sums values per key and emits the sum of a key 10 µs of event time after
// its first row. It makes one mistake.
type tally struct {
	mistake mistake
	store   *state.Store
	task    *operator.Task
	pool    *messages.Pool
	wm      messages.EventTime
	hashes  []uint64
	upTo    messages.EventTime
}

func tallySchema() *messages.Schema {
	return messages.NewSchema(
		messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)},
		messages.Field{Name: "k", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "v", Type: messages.T(messages.BigInt)})
}

const tallyDelay = 10

func (o *tally) Open(t *operator.Task) error {
	o.task = t
	o.wm = messages.NoEventTime
	o.pool = messages.NewPool(messages.NewSchema(tallySchema().Fields[1:]...))
	var err error
	o.store, err = state.New(state.Config{UID: t.UID, From: t.From, To: t.To, IntKeys: true, Words: 1, Timers: true})
	return err
}

func (o *tally) Close() error { return nil }

func (o *tally) Start(wm messages.EventTime) { o.wm = wm }

type forgetful struct{ *state.Store }

func (forgetful) Rows() int64 { return 0 }

func (o *tally) Snapshots() operator.Snapshotter {
	if o.mistake == forgetsState {
		s, _ := state.New(o.store.Config())
		return forgetful{s}
	}
	return o.store
}

func (o *tally) Whole(_ int, b *messages.Batch, wm messages.EventTime) bool {
	if o.mistake == ignoresUnits {
		return true
	}
	if o.store.NextTimer() <= wm {
		return false
	}
	for i := range b.Rows() {
		if ts := b.Column(0).Int64s()[b.Row(i)]; ts+tallyDelay <= int64(wm) || ts <= int64(wm) {
			return false
		}
	}
	return true
}

func (o *tally) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	switch o.mistake {
	case keepsBatches:
		b.Retain(1)
	case fails:
		return false, errors.New("no more")
	default: // made further on
	}
	o.hashes = operator.HashKeys(o.hashes, b, []int{1})
	n := b.Rows()
	if o.mistake == ignoresSelection {
		n = b.Len()
		o.task.Counters.In -= uint64(n - b.Rows())
	}
	o.task.Counters.In += uint64(n)
	for i := range n {
		r := i
		if o.mistake != ignoresSelection {
			r = b.Row(i)
		}
		ts := messages.EventTime(b.Column(0).Int64s()[r])
		if ts <= o.wm && o.mistake != ignoresWatermarks {
			o.task.Counters.Late++
			continue
		}
		o.task.Counters.Absorbed++
		e, created := o.store.UpsertInt(o.hashes[r], 0, b.Column(1).Int64s()[r])
		if created && o.mistake != forgetsTimers {
			o.store.SetTimer(e, ts+tallyDelay)
		}
		slots := e.Slots()
		if o.mistake != writesBehindSnapshots {
			slots = o.store.Mutate(e)
		}
		slots[0] += uint64(b.Column(2).Int64s()[r])
		if o.mistake == countsBatches {
			slots[0]++
			break
		}
	}
	return false, nil
}

func (o *tally) Watermark(wm messages.EventTime, out operator.Output) (bool, error) {
	o.wm, o.upTo = wm, wm
	return o.Resume(out)
}

func (o *tally) Resume(out operator.Output) (bool, error) {
	limit := operator.MaxEmit
	if o.mistake == emitsAll {
		limit = 1 << 30
	}
	b := o.pool.Get()
	n := 0
	for ; n < limit; n++ {
		e, _, ok := o.store.Due(o.upTo)
		if !ok {
			break
		}
		b.Own(0).AppendInt64(e.IntKey())
		b.Own(1).AppendInt64(int64(e.Slots()[0]))
		if o.mistake != leavesState {
			o.store.Delete(e)
		}
	}
	if n == 0 {
		b.Release()
		return false, nil
	}
	b.SetLen(n)
	if o.mistake != countsWrong {
		o.task.Counters.Out += uint64(n)
	}
	b.Publish()
	if o.mistake == keepsOutput {
		b.Retain(1)
	}
	out.Emit(b)
	return n == limit, nil
}

func tallyCase() Case {
	c := Case{Name: "tally", Inputs: []*messages.Schema{tallySchema()}, KeyColumns: [][]int{{1}}, Empty: true, Late: 1}
	c.Steps = []Step{
		Rows(0, Row(1, 7, 1), Row(2, 8, 2)),
		Rows(0, Row(3, 7, 3), Row(30, 8, 4)),
		Watermark(0, 5),
		Rows(0, Row(4, 9, 99)), // late
		Rows(0, Row(12, 7, 5)),
		Watermark(0, 11), // 7 is out
		Rows(0, Row(13, 7, 6), Row(14, 8, 7)),
		Watermark(0, 50),
	}
	c.Want = [][]any{{7, 9}, {8, 13}, {7, 6}}
	var many [][]any
	for k := range 3000 {
		many = append(many, Row(100, k, k))
		c.Want = append(c.Want, []any{k, k})
	}
	c.Steps = append(c.Steps, Rows(0, many...), Watermark(0, 200), Advance(time.Second), Flush())
	return c
}

func TestACorrectOperatorPasses(t *testing.T) {
	VerifyBriefly(t, func() operator.Operator { return &tally{} }, tallyCase())
	short := tallyCase()
	short.Steps = short.Steps[:8]
	short.Want = short.Want[:3]
	Verify(t, func() operator.Operator { return &tally{} }, short)
}

func TestInputsTakeTurnsInAnyOrder(t *testing.T) {
	c := Case{Name: "two inputs", Inputs: []*messages.Schema{tallySchema(), tallySchema()}, KeyColumns: [][]int{{1}, {1}}, Interleave: true, Empty: true}
	c.Steps = []Step{
		Rows(0, Row(1, 7, 1)), Rows(1, Row(2, 7, 2), Row(2, 8, 4)), Watermark(0, 20), Watermark(1, 0),
		Rows(0, Row(21, 9, 8)), Rows(1, Row(3, 8, 16)), Flush(), Watermark(1, 50), Watermark(0, 60),
	}
	c.Want = [][]any{{7, 3}, {8, 20}, {9, 8}}
	Verify(t, func() operator.Operator { return &tally{} }, c)
	for i := range c.Steps {
		if c.Steps[i].kind == watermarkStep && c.Steps[i].wm == 0 {
			c.Steps[i].wm = 15 // now the order matters: rows of input 1 are late if input 0 is first
		}
	}
	c.Want = [][]any{{7, 3}, {8, 4}, {9, 8}}
	c.Late = 1
	if failures := caught(&c, none); len(failures) == 0 {
		t.Error("no order of the inputs made a difference")
	}
}

// recorder is a test that only notes whether it failed.
type recorder struct{ failures []string }

type giveUp struct{}

func (*recorder) Helper()             {}
func (r *recorder) Error(args ...any) { r.failures = append(r.failures, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(giveUp{})
}

func caught(c *Case, m mistake) []string {
	return caughtWith(c, func() operator.Operator { return &tally{mistake: m} })
}

// caughtWith runs a case in every way until one fails.
func caughtWith(c *Case, newOp func() operator.Operator) []string {
	r := &recorder{}
	for _, w := range append(basicWays(c), moreWays(c)...) {
		if w.batch == rowByRow && c.rows() > 100 {
			continue
		}
		func() {
			defer func() {
				if v := recover(); v != nil && v != (giveUp{}) {
					panic(v)
				}
			}()
			runCase(r, c, w, newOp)
		}()
		if len(r.failures) > 0 {
			break
		}
	}
	return r.failures
}

func TestEveryMistakeIsCaught(t *testing.T) {
	for m := none; m <= forgetsTimers; m++ {
		c := tallyCase()
		if m != emitsAll {
			c.Steps, c.Want = c.Steps[:8], c.Want[:3]
		}
		if failures := caught(&c, m); (len(failures) > 0) != (m != none) {
			t.Errorf("mistake %d: failures %q", m, failures)
		}
	}
}

func TestValuesReadBackAsTheyWereWritten(t *testing.T) {
	in := messages.MapType(messages.T(messages.String), messages.ArrayType(messages.T(messages.Int)))
	b := messages.NewPool(messages.NewSchema(messages.Field{Name: "m", Type: in})).Get()
	want := []any{[]any{"a", []any{int64(1), nil}}, []any{"b", nil}}
	Append(b.Own(0), want)
	Append(b.Own(0), nil)
	b.SetLen(2)
	b.Publish()
	if got := fmt.Sprint(Value(b.Column(0), 0), Value(b.Column(0), 1)); got != fmt.Sprint(any(want), nil) {
		t.Errorf("got %v, want %v", got, want)
	}
}
