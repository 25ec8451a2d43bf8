package nats

import (
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// rowCheck refuses rows that could not be published, before they become part of a
// checkpoint: behind that there would be no way to get rid of them.
type rowCheck struct {
	c   *committer
	enc rowEncoder
	// subjects can be too long, or wrong, since values of any size are in them.
	subjects bool
	// fixed is a bound for the size of a row less its strings and what is nested.
	fixed   int
	strings []int // columns
	nested  []int // columns of arrays, maps and structs
	deletes bool  // rows may take others back
	buf     []byte
}

// A value of a fixed size takes less than fixedSize bytes in any format, and so does
// what is around a value; a byte of a string or of a name takes at most expansion.
const (
	fixedSize = 64
	expansion = 6
)

func newRowCheck(c *committer, enc rowEncoder) rowCheck {
	r := rowCheck{c: c, enc: enc, subjects: !enc.subject.bounded(c.req.Schema)}
	for i, f := range c.req.Schema.Fields {
		r.fixed += fixedSize + expansion*len(f.Name)
		switch f.Type.Kind {
		case messages.String, messages.Binary:
			r.strings = append(r.strings, i)
		case messages.Array, messages.Map, messages.Struct:
			r.nested = append(r.nested, i)
		}
	}
	return r
}

// batch checks the selected rows of b.
func (r *rowCheck) batch(b *messages.Batch) error {
	kinds := b.Kinds()
	limit := int(r.c.maxRow.Load())
	for i := range b.Rows() {
		row := b.Row(i)
		if kinds != nil && kinds[row] == messages.UpdateBefore {
			continue
		}
		if kinds != nil && kinds[row] == messages.Delete && !r.deletes {
			return r.c.deletion()
		}
		if r.subjects {
			var err error
			if r.buf, err = r.enc.subject.append(r.buf[:0], b, row); err != nil {
				return err
			}
		}
		if r.bound(b, row) <= limit {
			continue
		}
		var err error
		if r.buf, err = r.enc.enc.Encode(r.buf[:0], b, row); err != nil {
			return err
		}
		if len(r.buf) > limit {
			return fault.New(fault.BadRow, "row of %d bytes is larger than stream %s takes (%d without headers)", len(r.buf), r.c.sink.stream.name, limit)
		}
	}
	return nil
}

// bound returns how many bytes a row takes at most.
func (r *rowCheck) bound(b *messages.Batch, row int) int {
	size := r.fixed
	for _, col := range r.strings {
		size += expansion * len(b.Column(col).Bytes(row))
	}
	for _, col := range r.nested {
		size += boundOf(b.Column(col), row, row+1)
	}
	return size
}

// boundOf returns how many bytes the values [from, to) of a column take at most. The
// names of the fields of a struct are there once for each.
func boundOf(c *messages.Column, from, to int) int {
	if from == to {
		return 0 // a column without values may have no offsets
	}
	size := fixedSize * (to - from)
	switch t := c.Type(); t.Kind {
	case messages.String, messages.Binary:
		size += expansion * int(c.Offsets()[to]-c.Offsets()[from])
	case messages.Array, messages.Map:
		size += boundOf(c.Child(0), int(c.Offsets()[from]), int(c.Offsets()[to]))
	case messages.Struct:
		for i, f := range t.Fields {
			size += expansion*len(f.Name)*(to-from) + boundOf(c.Child(i), from, to)
		}
	}
	return size
}

// deletion is the error for a row that takes another one back.
func (c *committer) deletion() error {
	return fault.New(fault.Config, "nats sink of stream %s got a deletion; a stream of rows cannot take it back", c.sink.stream.name)
}
