package operatortest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
)

// maxRestarts bounds the boundaries at which long cases are saved and restored,
// maxSplits the places where they are cut.
const (
	maxRestarts = 25
	maxSplits   = 40
)

// action is what a host does at once: a step, or several steps as one batch.
type action struct {
	Step
	marks []messages.Mark
}

// way is a way to run a case.
type way struct {
	name    string
	subs    []int // numbers of subtasks, the next one after each restart
	batch   batching
	cut     int // cutAt: number of rows in the first batch
	sparse  bool
	restart int // save and restore behind this action, from 1; 0: never; -1: behind each
	crash   bool
	seed    uint64 // interleaves the inputs and cuts tables by this seed, 0: as written
}

type batching uint8

const (
	asWritten batching = iota
	rowByRow
	allAtOnce
	cutAt
)

func (w way) parallelism(generation int) int {
	if len(w.subs) == 0 {
		return 1
	}
	return w.subs[generation%len(w.subs)]
}

// Verify runs every case in every way. newOp returns a new instance each time.
func Verify(t *testing.T, newOp func() operator.Operator, cases ...Case) {
	t.Helper()
	for i := range cases {
		c := &cases[i]
		t.Run(c.Name, func(t *testing.T) {
			for _, w := range append(basicWays(c), moreWays(c)...) {
				t.Run(w.name, func(t *testing.T) { runCase(t, c, w, newOp) })
			}
		})
	}
}

// VerifyBriefly is Verify without the ways whose number grows with the case, for
// cases that are large or many.
func VerifyBriefly(t *testing.T, newOp func() operator.Operator, cases ...Case) {
	t.Helper()
	for i := range cases {
		c := &cases[i]
		for _, w := range basicWays(c) {
			if w.batch == rowByRow && c.rows() > 1000 {
				continue
			}
			t.Run(c.Name+" "+w.name, func(t *testing.T) { runCase(t, c, w, newOp) })
		}
	}
}

// rows is the number of rows that go in.
func (c *Case) rows() int {
	rows := 0
	for _, s := range c.Steps {
		rows += len(s.rows)
	}
	return rows
}

// basicWays lists the ways that every case is run.
func basicWays(c *Case) []way {
	ws := []way{
		{name: "as written"},
		{name: "row by row", batch: rowByRow},
		{name: "all at once", batch: allAtOnce},
		{name: "with selections", batch: allAtOnce, sparse: true},
		{name: "restored behind every step", restart: -1},
		{name: "restored behind every row", restart: -1, batch: rowByRow},
		{name: "crashed behind every snapshot", restart: -1, crash: true},
		{name: "crashed behind every row", restart: -1, crash: true, batch: rowByRow},
	}
	if c.KeyColumns != nil {
		ws = append(ws,
			way{name: "two subtasks", subs: []int{2}, batch: allAtOnce},
			way{name: "three subtasks", subs: []int{3}, sparse: true},
			way{name: "three subtasks restored behind every step", subs: []int{3}, restart: -1, crash: true},
		)
		if !c.Table { // rows of a table stay with the subtask that showed them
			ws = append(ws,
				way{name: "rescaled 1, 2, 3", subs: []int{1, 2, 3}, restart: -1},
				way{name: "rescaled 3, 1, 2 with crashes", subs: []int{3, 1, 2}, restart: -1, crash: true},
			)
		}
	}
	return ws
}

// moreWays lists ways for every cut, boundary and seed.
func moreWays(c *Case) []way {
	var ws []way
	rows := c.rows()
	for i := 1; i < rows; i += 1 + rows/maxSplits {
		ws = append(ws, way{name: fmt.Sprintf("cut behind row %d", i), batch: cutAt, cut: i})
	}
	for i := 1; i <= len(c.Steps); i += 1 + len(c.Steps)/maxRestarts {
		ws = append(ws, way{name: fmt.Sprintf("restored behind step %d", i), restart: i})
	}
	if c.Interleave || c.takesTables() && len(c.Inputs) == 1 {
		for seed := range uint64(10) {
			ws = append(ws, way{name: fmt.Sprintf("interleaved by seed %d", seed+1), seed: seed + 1})
			if c.takesTables() {
				ws = append(ws, way{
					name: fmt.Sprintf("restored between tables interleaved by seed %d", seed+1),
					seed: seed + 1, restart: -1, crash: seed%2 == 0, sparse: seed%3 == 0,
				})
			}
		}
	}
	return ws
}

// actions turns the steps into what the host does.
func (w way) actions(c *Case) []action {
	steps := w.cutTables(c.Steps)
	if w.seed != 0 {
		steps = interleave(steps, len(c.Inputs), w.seed)
	}
	switch w.batch {
	case rowByRow:
		var out []action
		for _, s := range steps {
			if s.kind != rowsStep {
				out = append(out, action{Step: s})
				continue
			}
			for _, row := range s.rows {
				out = append(out, action{Step: Rows(s.input, row)})
			}
		}
		return out
	case allAtOnce:
		return join(c, steps, -1)
	case cutAt:
		return join(c, steps, w.cut)
	default:
		out := make([]action, len(steps))
		for i, s := range steps {
			out[i] = action{Step: s}
		}
		return out
	}
}

// join makes one batch of consecutive rows of an input; with a single input
// watermarks become marks in it. A batch ends behind the given number of rows.
func join(c *Case, steps []Step, cut int) []action {
	var out []action
	rows := 0
	for _, s := range steps {
		last := len(out) - 1
		open := last >= 0 && out[last].kind == rowsStep && out[last].input == s.input && rows != cut
		switch {
		case s.kind == watermarkStep && len(c.Inputs) == 1 && last >= 0 && out[last].kind == rowsStep:
			out[last].mark(s.wm)
		case s.kind != rowsStep:
			out = append(out, action{Step: s})
			rows += len(s.rows)
		default:
			for _, row := range s.rows {
				if !open {
					out = append(out, action{Step: Step{kind: rowsStep, input: s.input}})
				}
				a := &out[len(out)-1]
				a.rows = append(a.rows, row)
				rows++
				open = rows != cut
			}
		}
	}
	return out
}

// mark adds a watermark behind the rows so far.
func (a *action) mark(wm messages.EventTime) {
	m := messages.Mark{Row: int32(len(a.rows) - 1), At: wm}
	if n := len(a.marks); n > 0 {
		if wm <= a.marks[n-1].At {
			return
		}
		if a.marks[n-1].Row == m.Row {
			a.marks[n-1] = m
			return
		}
	}
	a.marks = append(a.marks, m)
}

// interleave shuffles the steps, keeping the order within each input. Steps
// that belong to no input keep their place.
func interleave(steps []Step, inputs int, seed uint64) []Step {
	r := rand.New(rand.NewPCG(seed, 0))
	var out []Step
	queues := make([][]Step, inputs)
	drain := func() {
		for {
			var ready []int
			for i := range queues {
				if len(queues[i]) > 0 {
					ready = append(ready, i)
				}
			}
			if len(ready) == 0 {
				return
			}
			i := ready[r.IntN(len(ready))]
			out = append(out, queues[i][0])
			queues[i] = queues[i][1:]
		}
	}
	for _, s := range steps {
		if s.kind == rowsStep || s.kind == watermarkStep || s.kind == tableStep {
			queues[s.input] = append(queues[s.input], s)
			continue
		}
		drain()
		out = append(out, s)
	}
	drain()
	return out
}

// runCase runs a case in one way.
func runCase(t reporter, c *Case, w way, newOp func() operator.Operator) {
	h := newHost(t, c, w, newOp)
	generation, frozen := 0, false
	actions := w.actions(c)
	for i, a := range actions {
		if frozen { // the attempt goes on behind its snapshot, and crashes
			now, wms, wm, parts := h.now, slices.Clone(h.wms), h.wm, slices.Clone(h.parts)
			h.trash = true
			h.encode(false)
			h.play(a)
			h.encode(true)
			h.trash = false
			h.now, h.wms, h.wm, h.parts = now, wms, wm, parts
			generation++
			h.restart(w.parallelism(generation))
			frozen = false
		}
		h.play(a)
		if h.fail != nil {
			t.Fatalf("action %d of %d: %v", i+1, len(actions), h.fail)
		}
		if w.restart != -1 && w.restart != i+1 || h.receiving() {
			continue
		}
		h.freeze()
		if w.crash && i+1 < len(actions) {
			frozen = true
			continue
		}
		h.encode(false)
		h.encode(true)
		generation++
		h.restart(w.parallelism(generation))
	}
	h.stop()
	h.check()
}

// checkRows compares the output.
func (h *host) checkRows() {
	if h.c.WantTable != nil && h.c.Want == nil {
		return
	}
	got := h.out
	for _, rows := range h.tables {
		got = append(got, rows...)
	}
	if h.c.Key != nil {
		got = lastByKey(got, h.c.Key)
	}
	h.compare("output", got, h.c.Want)
}

// compare compares rows that came out with what they should be.
func (h *host) compare(what string, got [][]string, rows [][]any) {
	var want [][]string
	if h.schema != nil {
		want = wantTexts(h.schema, rows)
	} else if len(rows) > 0 {
		h.t.Errorf("there was no output, want %d rows", len(rows))
		return
	}
	g, w := lines(got), lines(want)
	if !h.c.Ordered || len(h.subs) > 1 || len(h.w.subs) > 0 {
		slices.Sort(g)
		slices.Sort(w)
	}
	if diff := cmp.Diff(g, w); diff != "" {
		h.t.Errorf("%s (-got +want):\n%s", what, diff)
	}
}

func lastByKey(rows [][]string, key []int) [][]string {
	last := map[string]int{}
	var out [][]string
	for _, row := range rows {
		var k strings.Builder
		for _, c := range key {
			k.WriteString(row[c])
			k.WriteByte(0)
		}
		if i, ok := last[k.String()]; ok {
			out[i] = row
			continue
		}
		last[k.String()] = len(out)
		out = append(out, row)
	}
	return out
}

func lines(rows [][]string) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = strings.Join(row, ", ")
	}
	return out
}
