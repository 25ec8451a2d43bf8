package operatortest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// part is what an input has brought of complete tables.
type part struct {
	latest [][]any // nil: none yet
	coming [][]any
	open   bool // coming has begun
}

// tables reports whether the output is complete tables.
func (c *Case) tables() bool { return c.Table || c.WantTable != nil }

// takesTables reports whether complete tables go in.
func (c *Case) takesTables() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.kind == tableStep })
}

// cutTables turns tables into the batches they travel as.
func (w way) cutTables(steps []Step) []Step {
	var out []Step
	r := rand.New(rand.NewPCG(w.seed, 1))
	before := 0 // rows of the steps before
	for _, s := range steps {
		if s.kind != tableStep {
			out = append(out, s)
			before += len(s.rows)
			continue
		}
		n, from := len(s.rows), 0
		cuts := w.cuts(n, before, r)
		for i, to := range append(cuts, n) {
			p := s
			p.rows, p.frame = s.rows[from:to], 0
			if i == 0 {
				p.frame |= messages.FrameStart
			}
			if i == len(cuts) {
				p.frame |= messages.FrameEnd
			}
			out = append(out, p)
			from = to
		}
		before += n
	}
	return out
}

// cuts returns where a table of n rows is cut, ascending. Cuts at its ends and
// double ones make batches without rows.
func (w way) cuts(n, before int, r *rand.Rand) []int {
	var cuts []int
	switch {
	case w.seed != 0:
		for range r.IntN(4) {
			cuts = append(cuts, r.IntN(n+1))
		}
		slices.Sort(cuts)
	case w.batch == rowByRow:
		for i := 1; i < n; i++ {
			cuts = append(cuts, i)
		}
	case w.batch == cutAt && before <= w.cut && w.cut <= before+n:
		cuts = append(cuts, w.cut-before)
	}
	return cuts
}

// receiving reports whether a table is on its way. A marker travels behind a
// table or before it, never in it, so there is no snapshot then.
func (h *host) receiving() bool {
	return slices.ContainsFunc(h.parts, func(p part) bool { return p.open })
}

// deliverTable sends a batch of a table and checks what its end brings out.
func (h *host) deliverTable(s Step) {
	if len(h.subs) > 1 {
		h.t.Fatalf("a case with tables cannot run as %d subtasks: leave KeyColumns out", len(h.subs))
	}
	p := &h.parts[s.input]
	if s.frame&messages.FrameStart != 0 {
		p.coming, p.open = [][]any{}, true
	}
	p.coming = append(p.coming, s.rows...)
	end := s.frame&messages.FrameEnd != 0
	if end {
		p.latest, p.coming, p.open = p.coming, nil, false
	}
	b := build(h.c.Inputs[s.input], s, nil, h.w.sparse)
	h.batches = append(h.batches, b)
	sub := h.subs[0]
	sub.chain.Deliver(s.input, b)
	sub.run()
	if h.trash || h.fail != nil {
		return
	}
	h.fed += uint64(len(s.rows))
	if h.c.WantTable == nil {
		return
	}
	if end {
		h.want++
	}
	if h.ended != h.want {
		h.t.Errorf("%d tables have come out, want %d", h.ended, h.want)
		h.ended = h.want
		return
	}
	if end {
		var latest [][][]any
		for _, p := range h.parts {
			latest = append(latest, p.latest)
		}
		h.compare(fmt.Sprintf("table %d", h.want), h.tables[0], h.c.WantTable(latest))
	}
}

// checkTables checks in the end that tables are complete and not too many.
func (h *host) checkTables() {
	for i, open := range h.open {
		if open {
			h.t.Errorf("the last table of subtask %d has not ended", i)
		}
	}
	if h.c.WantTable != nil && h.ended != h.want {
		h.t.Errorf("%d tables have come out, want %d", h.ended, h.want)
	}
}

// restart replaces the subtasks by n new ones with the state that was saved.
func (h *host) restart(n int) {
	h.stop()
	h.start(n, h.stored)
	if h.c.Resend {
		h.resend()
	}
}

// resend delivers the latest table of every input again. The counters go on
// where the snapshot left them; those of the tables sent again must be right by
// themselves.
func (h *host) resend() {
	counters := &h.subs[0].counters
	saved, fed, emitted, before := *counters, h.fed, h.emitted, h.parts
	*counters, h.fed, h.emitted, h.parts = epochs.Counters{}, 0, 0, make([]part, len(before))
	for i, p := range before {
		if p.latest != nil {
			h.deliverTable(Step{kind: tableStep, input: i, rows: p.latest, frame: messages.FrameStart | messages.FrameEnd})
		}
	}
	if counters.In != h.fed || counters.Out != h.emitted {
		h.t.Errorf("of tables sent again %d rows were counted in and %d out, want %d and %d", counters.In, counters.Out, h.fed, h.emitted)
	}
	*counters, h.fed, h.emitted = saved, fed, emitted
}
