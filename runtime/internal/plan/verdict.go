package plan

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/runtime/internal/expr"
)

// Replay is what a replay after a failure makes of rows that were already
// published.
type Replay uint8

// The verdicts, from strong to weak.
const (
	// Total: the same rows with the same ids.
	Total Replay = iota
	// IDStable: the same ids; the content is one legal outcome, and what was
	// published first wins.
	IDStable
	// NotRepeatable: rows may differ.
	NotRepeatable
)

// String returns the letter used in the documentation.
func (r Replay) String() string { return [...]string{"T", "I", "N"}[r] }

// Verdict is the replay verdict of a plan.
type Verdict struct {
	Replay Replay
	// Operator is the step that decides it; "" where none is to blame.
	Operator string
	// Reason says why, in one sentence without a full stop.
	Reason string
	// Replayable is false if a source cannot be read again.
	Replayable bool
	// lost names the source that cannot be read again.
	lost string
}

// String writes the verdict for EXPLAIN.
func (v Verdict) String() string {
	word := [...]string{"T (total)", "I (id-stable)", "N (not repeatable)"}[v.Replay]
	if v.Operator != "" {
		return word + ": " + v.Operator + ": " + v.Reason
	}
	return word + ": " + v.Reason
}

// verdictOf derives the verdict of an optimized plan.
func verdictOf(n Node, cfg *CompileConfig) Verdict {
	v := &judge{mode: cfg.Mode, v: Verdict{Reason: "a replay makes the same rows with the same ids", Replayable: true}}
	if v.node(n) && cfg.MaxWatermark {
		v.lower(NotRepeatable, "watermark", "with the policy max it depends on the interleaving of inputs which rows are late")
	}
	return v.v
}

// judge walks a plan from the sources up. The first step that gives the weakest
// verdict decides.
type judge struct {
	mode Mode
	v    Verdict
}

func (j *judge) lower(r Replay, op, reason string) {
	if r > j.v.Replay {
		j.v.Replay, j.v.Operator, j.v.Reason = r, op, reason
	}
}

// node judges a plan and reports whether a stateful operator is in it.
func (j *judge) node(n Node) (above bool) {
	for _, in := range n.Inputs() {
		above = j.node(in) || above
	}
	switch n := n.(type) {
	case *Scan:
		if h := n.Table.Handle; h != nil && !h.Source().Traits().Replayable {
			j.v.Replayable, j.v.lost = false, "source "+n.Table.Name
			j.lower(NotRepeatable, "source "+n.Table.Name, "it cannot be read again")
		}
	case *Aggregate:
		j.expressions(n, above)
		switch {
		case above && j.mode == Append:
			j.lower(NotRepeatable, "aggregate", "it stands above another stateful operator, whose rows may come out differently")
		case j.mode != Append:
			j.lower(NotRepeatable, "aggregate", "in "+j.mode.String()+" mode intermediate results depend on when they are emitted")
		default:
			j.lower(IDStable, "aggregate", "final windows have stable ids; in which order rows of several partitions arrive may decide what is late")
		}
		return true
	case *Limit:
		if j.mode != Complete || !above {
			j.lower(NotRepeatable, "limit", "which rows come first depends on how partitions interleave")
		}
		return true
	default:
	}
	j.expressions(n, above)
	return above
}

// expressions looks for clocks and chance.
func (j *judge) expressions(n Node, above bool) {
	nodes := expressions(n)
	if clock := clocks(nodes); clock != nil {
		step := strings.ToLower(strings.SplitN(describe(n), ":", 2)[0])
		switch src := arrivalClock(n); {
		case above:
			j.lower(NotRepeatable, step, clock.String()+" above an aggregation is the time of emission")
		case src != "":
			j.lower(NotRepeatable, step, clock.String()+" is the arrival time, as source "+src+" has no time of its own")
		}
	}
	if above {
		for _, e := range nodes {
			if !expr.Deterministic(e) && clocks([]expr.Node{e}) == nil {
				j.lower(NotRepeatable, strings.ToLower(strings.SplitN(describe(n), ":", 2)[0]), e.String()+" has no fixed seed above an aggregation")
			}
		}
	}
}

// arrivalClock names a source below n whose rows carry no time of the outside
// system, "" if there is none.
func arrivalClock(n Node) string {
	name := ""
	Walk(n, func(n Node) {
		if s, ok := n.(*Scan); ok && s.Table.Handle != nil && !s.Table.Handle.Source().Traits().BrokerTime {
			name = s.Table.Name
		}
	})
	return name
}

// fingerprint identifies a plan, for information.
func fingerprint(n Node, mode Mode) string {
	h := operator.HashID([]byte(mode.String()), []byte(Format(n)))
	return fmt.Sprintf("%016x%016x", h.Hi, h.Lo)
}

// updateKey returns the result's columns that identify a row in update mode; see
// Compiled.UpdateKey.
func updateKey(n Node, mode Mode) []int {
	if mode != Update {
		return nil
	}
	if agg, all := groupsOf(n, mode); agg != nil {
		return keyColumns(agg, all)
	}
	return nil
}

// keyColumns finds each group among expressions over the aggregation's columns. A
// window is known by its start or its end.
func keyColumns(n *Aggregate, result []expr.Node) []int {
	out := []int{}
	for g := range n.Groups {
		at := -1
		for i, e := range result {
			c, ok := e.(*expr.Column)
			if !ok && isWindow(n.cols[g].Type) {
				if f, isField := e.(*expr.Field); isField {
					c, ok = f.X.(*expr.Column)
				}
			}
			if ok && c.Index == g && at < 0 {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		out = append(out, at)
	}
	return out
}
