package aggregate

import (
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// counts: count(*), count(x) counts rows where x is not NULL, count_if(b) rows
// where b is true.
func counts(name string, arg messages.Type) (function, messages.Type, bool) {
	switch {
	case name == "count":
		return count{}, messages.T(messages.BigInt), true
	case name == "count_if" && arg.Kind == messages.Boolean:
		return countIf{}, messages.T(messages.BigInt), true
	}
	return nil, messages.Type{}, false
}

type count struct{}

func (count) size() (int, int) { return 1, 0 }

func (count) update(c *cell, in *input) error {
	for _, e := range in.entries {
		e.Slots()[c.word]++
	}
	return nil
}

func (count) merge(c *cell, dst, src state.Entry) error {
	dst.Slots()[c.word] += src.Slots()[c.word]
	return nil
}

func (count) result(c *cell, e state.Entry, out *messages.Column) error {
	out.AppendInt64(int64(e.Slots()[c.word]))
	return nil
}

type countIf struct{ count }

func (countIf) update(c *cell, in *input) error {
	for i, r := range in.rows {
		if in.arg.Bool(int(r)) {
			in.entries[i].Slots()[c.word]++
		}
	}
	return nil
}
