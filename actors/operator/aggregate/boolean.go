package aggregate

import (
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// booleans: bool_and (every) and bool_or (some, any). Without values the result
// is NULL.
func booleans(name string, arg messages.Type) (function, messages.Type, bool) {
	if arg.Kind != messages.Boolean {
		return nil, messages.Type{}, false
	}
	switch name {
	case "bool_and", "every":
		return anyEqual{want: false}, arg, true
	case "bool_or", "some", "any":
		return anyEqual{want: true}, arg, true
	}
	return nil, messages.Type{}, false
}

// anyEqual notes whether a value equal to want was met: the result is want if
// so, the opposite otherwise.
type anyEqual struct{ want bool }

func (anyEqual) size() (int, int) { return 1, 0 }

func (a anyEqual) update(c *cell, in *input) error {
	for i, r := range in.rows {
		slots := in.entries[i].Slots()
		c.mark(slots)
		if in.arg.Bool(int(r)) == a.want {
			slots[c.word] = 1
		}
	}
	return nil
}

func (anyEqual) merge(c *cell, dst, src state.Entry) error {
	from, to := src.Slots(), dst.Slots()
	if c.has(from) {
		c.mark(to)
		to[c.word] |= from[c.word]
	}
	return nil
}

func (a anyEqual) result(c *cell, e state.Entry, out *messages.Column) error {
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	out.AppendBool((slots[c.word] != 0) == a.want)
	return nil
}
