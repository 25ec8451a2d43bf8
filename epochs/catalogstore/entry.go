package catalogstore

import (
	"encoding/binary"
	"fmt"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/internal/cursor"
	"github.com/streamd-io/streamd/messages"
)

// format is the version of the entries' encoding.
const format = 1

// kind says what a change is about.
type kind byte

const (
	recordKind  kind = iota + 1 // a commit record
	segmentKind                 // a segment
	highestKind                 // the highest epoch of a query that nothing else tells of
	damageKind                  // of the whole catalog: entries up to this one could not be read; the data say why, if it is known
	resetKind                   // deletes everything of a query, and settles it; carried it has data and only settles
	deleteMark  kind = 1 << 7   // on a record or segment: it is deleted
)

// value is something alive in the log.
type value struct {
	kind  kind
	query string
	chain chainID // of a segment
	epoch messages.Epoch
	base  bool // of a segment
	data  []byte
	// in is the newest log entry that holds the value; nil: it is dead.
	in *logEntry
}

type chainID struct {
	operator string
	group    uint16
}

// change sets a value, or deletes it.
type change struct {
	v      *value
	delete bool
}

// valueOverhead is about what a value takes in the log besides names and data.
const valueOverhead = 16

func (v *value) size() int64 {
	return int64(valueOverhead + len(v.query) + len(v.chain.operator) + len(v.data))
}

// carried is what is written when a value is carried into a new entry. What a reset
// has deleted is gone by then, and what has followed it may be in entries before
// that one.
func (v *value) carried() *value {
	if v.kind != resetKind || v.isCarried() {
		return v
	}
	c := *v
	c.data = []byte{1}
	return &c
}

// isCarried reports whether a reset has been read back from where it was carried to.
func (v *value) isCarried() bool { return len(v.data) > 0 }

// appendEntry encodes a log entry, integers as varints:
//
//	format | previous entry | oldest entry needed | changes
//	change: kind | query | of a segment: operator, group, base | epoch | data, unless deleted
//
// Names and data follow their length.
func appendEntry(b []byte, prev, oldest messages.Epoch, changes []change) []byte {
	b = append(b, format)
	b = binary.AppendUvarint(b, uint64(prev))
	b = binary.AppendUvarint(b, uint64(oldest))
	for _, c := range changes {
		v := c.v
		k := v.kind
		if c.delete {
			k |= deleteMark
		}
		b = append(b, byte(k))
		b = appendBytes(b, []byte(v.query))
		if v.kind == segmentKind {
			b = appendBytes(b, []byte(v.chain.operator))
			b = binary.AppendUvarint(b, uint64(v.chain.group))
			flag := byte(0)
			if v.base {
				flag = 1
			}
			b = append(b, flag)
		}
		b = binary.AppendUvarint(b, uint64(v.epoch))
		if !c.delete {
			b = appendBytes(b, v.data)
		}
	}
	return b
}

func appendBytes(b, data []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

// entry is a log entry read back.
type entry struct {
	prev, oldest messages.Epoch
	changes      []change
}

// parseEntry decodes what appendEntry has made. The data of values share b.
func parseEntry(number messages.Epoch, b []byte) (entry, error) {
	damaged := func(what string) (entry, error) {
		return entry{}, fmt.Errorf("catalog entry %d: %s: %w", number, what, epochs.ErrDamaged)
	}
	if len(b) == 0 {
		return damaged("empty")
	}
	if b[0] == 0 {
		return damaged("format 0 never existed")
	}
	if b[0] > format {
		return entry{}, fmt.Errorf("catalog entry %d has format %d, this program reads up to %d; use a newer streamd: %w", number, b[0], format, epochs.ErrNewerFormat)
	}
	d := cursor.New(b[1:])
	e := entry{prev: messages.Epoch(d.Uvarint()), oldest: messages.Epoch(d.Uvarint())}
	for len(d.Rest()) > 0 {
		k := kind(d.Byte())
		v := &value{kind: k &^ deleteMark, query: string(d.Bytes())}
		if v.kind < recordKind || v.kind > resetKind {
			return damaged(fmt.Sprintf("change of kind %d", k))
		}
		if v.kind == segmentKind {
			v.chain.operator = string(d.Bytes())
			group := d.Uvarint()
			if group > 0xffff {
				return damaged("key group")
			}
			v.chain.group = uint16(group)
			v.base = d.Byte() != 0
		}
		v.epoch = messages.Epoch(d.Uvarint())
		deleted := k&deleteMark != 0
		if !deleted {
			v.data = d.Bytes()
		}
		e.changes = append(e.changes, change{v, deleted})
	}
	if d.Failed() {
		return damaged("it ends in the middle")
	}
	return e, nil
}
