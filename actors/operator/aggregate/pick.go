package aggregate

import (
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// picks: first(x), last(x) and any_value(x) take NULL like any other value,
// first_ignore_nulls(x) and last_ignore_nulls(x) do not; in which order rows of
// several partitions arrive is not defined.
func picks(name string, arg messages.Type) (function, messages.Type, bool) {
	if zeroArg(arg) {
		return nil, messages.Type{}, false
	}
	switch name {
	case "first", "first_value", "any_value":
		return pickAny{}, arg, true
	case "last", "last_value":
		return pickAny{pick{last: true}}, arg, true
	case "first_ignore_nulls":
		return pick{}, arg, true
	case "last_ignore_nulls":
		return pick{last: true}, arg, true
	}
	return nil, messages.Type{}, false
}

// pick keeps the encoded value, of any type.
type pick struct{ last bool }

// pickAny is a pick that may be NULL.
type pickAny struct{ pick }

func (pickAny) takesNulls() {}

func (pick) size() (int, int) { return 0, 1 }

func (p pick) update(c *cell, in *input) error {
	for i, r := range in.rows {
		e := in.entries[i]
		if slots := e.Slots(); p.last || !c.has(slots) {
			c.mark(slots)
			c.buf = encodeValue(c.buf[:0], in.arg, int(r))
			in.store.SetValue(e, c.value, c.buf)
		}
	}
	return nil
}

// merge relies on slices being merged in order of time.
func (p pick) merge(c *cell, dst, src state.Entry) error {
	if to := dst.Slots(); c.has(src.Slots()) && (p.last || !c.has(to)) {
		c.mark(to)
		c.scrap.SetValue(dst, c.value, src.Value(c.value))
	}
	return nil
}

func (pick) result(c *cell, e state.Entry, out *messages.Column) error {
	if !c.has(e.Slots()) {
		out.AppendNull()
		return nil
	}
	decodeValue(e.Value(c.value), out)
	return nil
}
