package operatortest

import (
	"slices"
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
)

// tableMistake is one an operator on complete tables may make.
type tableMistake int

const (
	noTableMistake tableMistake = iota
	emitsPerBatch
	ignoresStart
	ignoresEmptyTables
	losesEmptyEnd
	mixesInputs
	showsUnfinished
	reversesRows
	skipsAnInput
	emitsTwice
	leavesOpen
	dropsFrames
	countsTablesWrong
	takesUnselected
	neverEnds
	lastTable // the number of mistakes
)

// union shows the latest tables of its inputs one behind the other. It makes one
// mistake.
type union struct {
	mistake tableMistake
	task    *operator.Task
	pool    *messages.Pool
	latest  [2][]int64
	coming  [2][]int64
}

func unionSchema() *messages.Schema {
	return messages.NewSchema(messages.Field{Name: "v", Type: messages.T(messages.BigInt)})
}

func (u *union) Open(t *operator.Task) error {
	u.task, u.pool = t, messages.NewPool(unionSchema())
	return nil
}

func (u *union) Close() error { return nil }

func (u *union) Process(input int, b *messages.Batch, out operator.Output) (bool, error) {
	start, end := b.Frame()&messages.FrameStart != 0, b.Frame()&messages.FrameEnd != 0
	into := input
	if u.mistake == mixesInputs {
		into = 0
	}
	if start && u.mistake != ignoresStart {
		u.coming[into] = nil
	}
	n := b.Rows()
	u.task.Counters.In += uint64(n)
	for i := range n {
		u.coming[into] = append(u.coming[into], b.Column(0).Int64s()[b.Row(i)])
	}
	if u.mistake == takesUnselected && n == 0 && b.Len() > 0 {
		u.coming[into] = append(u.coming[into], 0)
	}
	switch {
	case u.mistake == emitsPerBatch:
	case !end, u.mistake == losesEmptyEnd && n == 0 && !start, u.mistake == ignoresEmptyTables && n == 0 && start:
		return false, nil
	}
	u.latest[input] = u.coming[into]
	rows := slices.Concat(u.latest[0], u.latest[1])
	switch u.mistake {
	case showsUnfinished:
		rows = slices.Concat(u.latest[input], u.latest[1-input], u.coming[1-input])
	case reversesRows:
		slices.Reverse(rows)
	case skipsAnInput:
		rows = u.latest[input]
	case emitsTwice:
		u.emit(rows, out)
	default: // made elsewhere
	}
	u.emit(rows, out)
	return u.mistake == neverEnds, nil
}

func (u *union) Resume(operator.Output) (bool, error) { return true, nil }

func (u *union) emit(rows []int64, out operator.Output) {
	b := u.pool.Get()
	for _, v := range rows {
		b.Own(0).AppendInt64(v)
	}
	b.SetLen(len(rows))
	b.SetFrame(messages.FrameStart | messages.FrameEnd)
	switch u.mistake {
	case leavesOpen:
		b.SetFrame(messages.FrameStart)
	case dropsFrames:
		b.SetFrame(0)
	default: // made elsewhere
	}
	u.task.Counters.Out += uint64(len(rows))
	if u.mistake == countsTablesWrong {
		u.task.Counters.Out++
	}
	out.Emit(b.Publish())
}

func unionCase() Case {
	return Case{
		Name: "union", Inputs: []*messages.Schema{unionSchema(), unionSchema()}, Interleave: true, Ordered: true, Resend: true,
		Steps: []Step{
			TableOn(0, Row(3), Row(1), Row(2)),
			TableOn(1, Row(10), Row(9)),
			Watermark(0, 5), Watermark(1, 7),
			TableOn(0, Row(4), Row(3)),
			TableOn(1),
			TableOn(0),
			TableOn(1, Row(7), Row(8), Row(6), Row(5)),
			TableOn(0, Row(1)),
		},
		Want: [][]any{Row(1), Row(7), Row(8), Row(6), Row(5)},
		WantTable: func(latest [][][]any) [][]any {
			return slices.Concat(latest[0], latest[1])
		},
	}
}

func newUnion(m tableMistake) func() operator.Operator {
	return func() operator.Operator { return &union{mistake: m} }
}

func TestACorrectOperatorOnTablesPasses(t *testing.T) {
	Verify(t, newUnion(noTableMistake), unionCase())
}

func TestEveryMistakeWithTablesIsCaught(t *testing.T) {
	for m := range lastTable {
		c := unionCase()
		if failures := caughtWith(&c, newUnion(m)); (len(failures) > 0) != (m != noTableMistake) {
			t.Errorf("mistake %d: failures %q", m, failures)
		}
	}
}

func TestTheLastTableAloneIsCompared(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		c := unionCase()
		c.Table, c.WantTable = true, nil
		if wrong {
			c.Want = c.Want[1:]
		}
		if failures := caughtWith(&c, newUnion(noTableMistake)); (len(failures) > 0) != wrong {
			t.Errorf("wrong = %v: failures %q", wrong, failures)
		}
	}
}

func TestTablesThatAreNotSentAgainAreMissed(t *testing.T) {
	c := unionCase()
	c.Resend = false
	if failures := caughtWith(&c, newUnion(noTableMistake)); len(failures) == 0 {
		t.Error("an operator that does not save its tables passed without Resend")
	}
}

// The ways in which a table is cut: its rows stay in order, and each run of
// batches begins and ends once.
func TestTablesTravelAsFrames(t *testing.T) {
	c := unionCase()
	for _, w := range append(basicWays(&c), moreWays(&c)...) {
		var rows, tables [2]int
		var open [2]bool
		for _, a := range w.actions(&c) {
			if a.kind != tableStep {
				continue
			}
			if start := a.frame&messages.FrameStart != 0; start == open[a.input] {
				t.Errorf("%s: start = %v while open = %v", w.name, start, open[a.input])
			}
			open[a.input] = a.frame&messages.FrameEnd == 0
			if !open[a.input] {
				tables[a.input]++
			}
			rows[a.input] += len(a.rows)
			if w.batch == rowByRow && len(a.rows) > 1 {
				t.Errorf("%s: a batch of %d rows", w.name, len(a.rows))
			}
		}
		if rows != [2]int{6, 6} || tables != [2]int{4, 3} {
			t.Errorf("%s: %v rows in %v tables", w.name, rows, tables)
		}
	}
}
