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
	// fixed is a bound for the size of a row less its strings, 0 when only encoding
	// tells.
	fixed   int
	strings []int // columns
	deletes bool  // rows may take others back
	buf     []byte
}

// A value of a fixed size takes less than fixedSize bytes in any format, a byte
// of a string at most expansion.
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
			r.fixed = 0
			return r
		}
	}
	return r
}

// batch checks the selected rows of b.
func (r *rowCheck) batch(b *messages.Batch) error {
	kinds := b.Kinds()
	limit := int(r.c.maxRow.Load())
	encode := r.fixed == 0 && expansion*b.Size()+fixedSize*b.Columns() > limit || r.fixed > limit
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
		size := r.fixed
		for _, col := range r.strings {
			size += expansion * len(b.Column(col).Bytes(row))
		}
		if !encode && size <= limit {
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

// deletion is the error for a row that takes another one back.
func (c *committer) deletion() error {
	return fault.New(fault.Config, "nats sink of stream %s got a deletion; a stream of rows cannot take it back", c.sink.stream.name)
}
