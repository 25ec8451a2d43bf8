package epochs

import (
	"fmt"
	"slices"
)

// RowRule says how the rows that leave a node follow from those that enter it.
type RowRule uint8

// The rules.
const (
	// Uncounted: the node does not count its rows; nothing is checked.
	Uncounted RowRule = iota
	// AnyRows: a row may become several, or wait in state, or both.
	AnyRows
	// RowForRow: each row that is not left out leaves as one row, and no other
	// row does.
	RowForRow
	// IntoState: no row leaves as it came; what leaves is made from state.
	IntoState
)

// Accounted is the number of rows that entered and did not leave as rows of
// their own: filtered, late, bad, seen before, or taken into state.
func (c *Counters) Accounted() uint64 {
	return c.Filtered + c.Late + c.Bad + c.Deduplicated + c.Absorbed
}

// Balance checks the row equation
//
//	In = Emitted1 + Filtered + Late + Bad + Deduplicated + Absorbed
//
// where Emitted1 are the rows that left as rows of their own: Out with
// RowForRow, none with IntoState, at most Out with AnyRows. The error names the
// operator and the numbers.
func (c *Counters) Balance() error {
	rest := c.In - c.Accounted()
	want := ""
	switch {
	case c.Rule == Uncounted:
		return nil
	case c.Accounted() > c.In:
		want = "more rows than came in"
	case c.Rule == RowForRow && rest != c.Out:
		want = fmt.Sprintf("%d rows are left, but %d went out", rest, c.Out)
	case c.Rule == IntoState && rest != 0:
		want = fmt.Sprintf("%d rows are unaccounted for", rest)
	case rest > c.Out:
		want = fmt.Sprintf("%d rows are left, but only %d went out", rest, c.Out)
	default:
		return nil
	}
	return fmt.Errorf("operator %q: the rows do not add up: %d in, filtered %d, late %d, bad %d, deduplicated %d, into state %d: %s",
		c.Operator, c.In, int64(c.Filtered), int64(c.Late), int64(c.Bad), int64(c.Deduplicated), int64(c.Absorbed), want)
}

// UnevenEdges compares the rows into every node with those out of its inputs,
// counted from the earlier counters before on, which are of a record of the same
// query that the later one goes on from; nil: from nothing. It returns an error
// per node that disagrees.
func UnevenEdges(before, after []Counters) []error {
	var errs []error
	for i := range after {
		c := &after[i]
		old := countersOf(before, c.Operator)
		if len(c.Inputs) == 0 || c.Rule == Uncounted || old.Operator != "" && !slices.Equal(old.Inputs, c.Inputs) {
			continue // it has other inputs than before, or nobody knows
		}
		sent, counted := uint64(0), true
		for _, name := range c.Inputs {
			in := countersOf(after, name)
			counted = counted && in.Rule != Uncounted
			sent += in.Out - countersOf(before, name).Out
		}
		if got := c.In - old.In; counted && got != sent {
			errs = append(errs, fmt.Errorf("operator %q: %d rows in, but %d rows out of %q", c.Operator, int64(got), int64(sent), c.Inputs))
		}
	}
	return errs
}

// countersOf finds the counters of a node; the zero value if there are none.
func countersOf(list []Counters, name string) Counters {
	if i := slices.IndexFunc(list, func(c Counters) bool { return c.Operator == name }); i >= 0 {
		return list[i]
	}
	return Counters{}
}
