package aggregate

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// collections: collect_list(x), array_agg(x) and collect_set(x) leave NULL out;
// without values the result is an empty array. The order of a set is that of
// the first appearance.
func collections(name string, arg messages.Type) (function, messages.Type, bool) {
	if zeroArg(arg) {
		return nil, messages.Type{}, false
	}
	switch name {
	case "collect_list", "array_agg":
		return list{}, messages.ArrayType(arg), true
	case "collect_set":
		return set{}, messages.ArrayType(arg), true
	}
	return nil, messages.Type{}, false
}

// list keeps the encoded values one behind the other.
type list struct{}

func (list) size() (int, int) { return 0, 1 }

func mustFit(c *cell, e state.Entry, more int) error {
	if len(e.Value(c.value))+more > state.MaxValue {
		return fault.New(fault.BadRow, "%s of a group takes more than %d bytes; collect fewer values per group", c.agg.Func, state.MaxValue)
	}
	return nil
}

func (list) update(c *cell, in *input) error {
	for i, r := range in.rows {
		e := in.entries[i]
		c.buf = encodeValue(c.buf[:0], in.arg, int(r))
		if err := mustFit(c, e, len(c.buf)); err != nil {
			return err
		}
		in.store.AppendValue(e, c.value, c.buf)
	}
	return nil
}

func (list) merge(c *cell, dst, src state.Entry) error {
	v := src.Value(c.value)
	if err := mustFit(c, dst, len(v)); err != nil {
		return err
	}
	c.scrap.AppendValue(dst, c.value, v)
	return nil
}

func (list) result(c *cell, e state.Entry, out *messages.Column) error {
	for b := e.Value(c.value); len(b) > 0; {
		b = decodeValue(b, out.Child(0))
	}
	out.CloseList()
	return nil
}

// set keeps the encoded values one behind the other and, once there are more
// than a few, an open-addressing index of their offsets + 1 in a second value.
type set struct{}

// smallSet is the number of bytes up to which a set is searched from the start.
const smallSet = 256

func (set) size() (int, int) { return 1, 2 } // slot: number of values

func (s set) update(c *cell, in *input) error {
	t := in.arg.Type()
	for i, r := range in.rows {
		c.buf = encodeValue(c.buf[:0], in.arg, int(r))
		if err := s.add(c, in.store, in.entries[i], c.buf, &t); err != nil {
			return err
		}
	}
	return nil
}

func (s set) merge(c *cell, dst, src state.Entry) error {
	t := c.argType
	for b := src.Value(c.value); len(b) > 0; {
		n := valueLen(b, &t)
		if err := s.add(c, c.scrap, dst, b[:n], &t); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (set) result(c *cell, e state.Entry, out *messages.Column) error {
	return list{}.result(c, e, out)
}

// add adds an encoded value that is not there yet.
func (s set) add(c *cell, st *state.Store, e state.Entry, v []byte, t *messages.Type) error {
	all := e.Value(c.value)
	if len(all) <= smallSet {
		for b := all; len(b) > 0; {
			n := valueLen(b, t)
			if bytes.Equal(b[:n], v) {
				return nil
			}
			b = b[n:]
		}
	} else if s.find(c, e, v, t) {
		return nil
	}
	if err := mustFit(c, e, len(v)); err != nil {
		return err
	}
	st.AppendValue(e, c.value, v)
	e.Slots()[c.word]++
	if len(all)+len(v) > smallSet {
		s.index(c, st, e, len(all), t)
	}
	return nil
}

func (set) find(c *cell, e state.Entry, v []byte, t *messages.Type) bool {
	all, idx := e.Value(c.value), e.Value(c.value+1)
	mask := uint64(len(idx)/4 - 1)
	for i := xxh3.Hash(v) & mask; ; i = (i + 1) & mask {
		at := binary.LittleEndian.Uint32(idx[4*i:])
		if at == 0 {
			return false
		}
		if b := all[at-1:]; bytes.Equal(b[:valueLen(b, t)], v) {
			return true
		}
	}
}

// index enters the value at offset into the index, which is rebuilt with twice
// the places when it is more than half full.
func (set) index(c *cell, st *state.Store, e state.Entry, offset int, t *messages.Type) {
	count := int(e.Slots()[c.word])
	idx := st.MutateValue(e, c.value+1)
	if 2*4*count > len(idx) {
		size := 64
		for size < 4*count {
			size *= 2
		}
		st.SetValue(e, c.value+1, make([]byte, 4*size))
		idx = st.MutateValue(e, c.value+1)
		offset = 0 // all of them
	}
	all := e.Value(c.value)
	mask := uint64(len(idx)/4 - 1)
	for offset < len(all) {
		n := valueLen(all[offset:], t)
		i := xxh3.Hash(all[offset:offset+n]) & mask
		for binary.LittleEndian.Uint32(idx[4*i:]) != 0 {
			i = (i + 1) & mask
		}
		binary.LittleEndian.PutUint32(idx[4*i:], uint32(offset+1))
		offset += n
	}
}
