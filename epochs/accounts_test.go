package epochs_test

import (
	"testing"

	"github.com/streamd-io/streamd/epochs"
)

func TestTheRowEquationHoldsByRule(t *testing.T) {
	for what, c := range map[string]struct {
		c  epochs.Counters
		ok bool
	}{
		"every row out":                {epochs.Counters{Rule: epochs.RowForRow, In: 5, Out: 5}, true},
		"some left out":                {epochs.Counters{Rule: epochs.RowForRow, In: 15, Out: 5, Filtered: 1, Late: 2, Bad: 3, Deduplicated: 4}, true},
		"one lost":                     {epochs.Counters{Rule: epochs.RowForRow, In: 6, Out: 5}, false},
		"one made":                     {epochs.Counters{Rule: epochs.RowForRow, In: 5, Out: 6}, false},
		"one counted twice":            {epochs.Counters{Rule: epochs.RowForRow, In: 5, Out: 5, Late: 1}, false},
		"all in state":                 {epochs.Counters{Rule: epochs.IntoState, In: 5, Out: 50, Absorbed: 5}, true},
		"one neither in state nor out": {epochs.Counters{Rule: epochs.IntoState, In: 6, Out: 50, Absorbed: 5}, false},
		"a row made into several":      {epochs.Counters{Rule: epochs.AnyRows, In: 6, Out: 50, Filtered: 5}, true},
		"a row that made none":         {epochs.Counters{Rule: epochs.AnyRows, In: 6, Out: 0, Filtered: 5}, false},
		"a negative counter":           {epochs.Counters{Rule: epochs.AnyRows, In: 6, Out: 9, Filtered: ^uint64(0)}, false},
		"nobody counts":                {epochs.Counters{In: 6}, true},
	} {
		if err := c.c.Balance(); (err == nil) != c.ok {
			t.Errorf("%s: got error %v", what, err)
		}
	}
}

func TestRowsOnEdgesAreComparedSinceTheRecordBefore(t *testing.T) {
	node := func(name string, in, out uint64, inputs ...string) epochs.Counters {
		return epochs.Counters{Operator: name, Rule: epochs.AnyRows, In: in, Out: out, Inputs: inputs}
	}
	for what, c := range map[string]struct {
		before, after []epochs.Counters
		want          int
	}{
		"from the start": {nil, []epochs.Counters{node("s", 5, 5), node("f", 5, 2, "s"), node("k", 7, 7, "f", "s")}, 0},
		"one lost":       {nil, []epochs.Counters{node("s", 5, 5), node("f", 4, 2, "s")}, 1},
		"an operator that was added": {
			[]epochs.Counters{node("s", 5, 5), node("k", 5, 5, "s")},
			[]epochs.Counters{node("s", 8, 8), node("f", 3, 1, "s"), node("k", 6, 6, "f")},
			0,
		},
		"an operator that was added and loses a row": {
			[]epochs.Counters{node("s", 5, 5), node("k", 5, 5, "s")},
			[]epochs.Counters{node("s", 8, 8), node("f", 2, 1, "s"), node("k", 6, 6, "f")},
			1,
		},
		"an input that does not count": {nil, []epochs.Counters{{Operator: "s"}, node("f", 5, 2, "s")}, 0},
	} {
		if got := epochs.UnevenEdges(c.before, c.after); len(got) != c.want {
			t.Errorf("%s: got %v, want %d", what, got, c.want)
		}
	}
}
