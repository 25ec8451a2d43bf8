package badgerstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/internal/cursor"
	"github.com/streamd-io/streamd/messages"
)

// A pack is the value that holds small segments:
//
//	crc32c of the directory/4 | length of the directory/4 | directory | data of all members
//
// The directory, integers as varints:
//
//	operators | for each: length, name
//	members   | for each: operator, group, base (0 or 1), size, crc32c of the data/4
//
// The data of the members follow each other in the order of the directory.
const packHeader = 8

// packBuilder collects the members of one pack.
type packBuilder struct {
	names     map[string]uint64
	operators []byte
	members   []byte
	data      []byte
	segments  []epochs.Segment // without Data
	sizes     []uint32
	crcs      []uint32
}

func (p *packBuilder) size() int {
	return packHeader + 2*binary.MaxVarintLen32 + len(p.operators) + len(p.members) + len(p.data)
}

func (p *packBuilder) add(s epochs.Segment) {
	if p.names == nil {
		p.names = map[string]uint64{}
	}
	op, known := p.names[s.Operator]
	if !known {
		op = uint64(len(p.names))
		p.names[s.Operator] = op
		p.operators = binary.AppendUvarint(p.operators, uint64(len(s.Operator)))
		p.operators = append(p.operators, s.Operator...)
	}
	crc := checksum(s.Data)
	p.members = binary.AppendUvarint(p.members, op)
	p.members = binary.AppendUvarint(p.members, uint64(s.Group))
	p.members = append(p.members, flag(s.Base))
	p.members = binary.AppendUvarint(p.members, uint64(len(s.Data)))
	p.members = binary.BigEndian.AppendUint32(p.members, crc)
	p.data = append(p.data, s.Data...)
	p.segments = append(p.segments, epochs.Segment{SegmentID: s.SegmentID, Base: s.Base})
	p.sizes = append(p.sizes, uint32(len(s.Data)))
	p.crcs = append(p.crcs, crc)
}

// encode returns the value of the pack.
func (p *packBuilder) encode() []byte {
	b := make([]byte, packHeader, p.size())
	b = binary.AppendUvarint(b, uint64(len(p.names)))
	b = append(b, p.operators...)
	b = binary.AppendUvarint(b, uint64(len(p.segments)))
	b = append(b, p.members...)
	dir := b[packHeader:]
	binary.BigEndian.PutUint32(b, checksum(dir))
	binary.BigEndian.PutUint32(b[4:], uint32(len(dir)))
	return append(b, p.data...)
}

// packMember is an entry of a pack's directory.
type packMember struct {
	id             epochs.SegmentID
	base           bool
	off, size, crc uint32
}

// parsePack reads the directory of a pack.
func parsePack(e messages.Epoch, b []byte) ([]packMember, error) {
	damaged := func(what string) error {
		return fmt.Errorf("pack of epoch %d: %s: %w", e, what, epochs.ErrDamaged)
	}
	if len(b) < packHeader {
		return nil, damaged("too short")
	}
	n := binary.BigEndian.Uint32(b[4:])
	if uint64(n) > uint64(len(b)-packHeader) {
		return nil, damaged("directory beyond the end")
	}
	dir := b[packHeader : packHeader+int(n)]
	if checksum(dir) != binary.BigEndian.Uint32(b) {
		return nil, damaged("checksum of the directory")
	}
	d := cursor.New(dir)
	operators := make([]string, d.Count())
	for i := range operators {
		operators[i] = string(d.Bytes())
	}
	members := make([]packMember, d.Count())
	off := uint64(packHeader) + uint64(n)
	for i := range members {
		op, group := d.Uvarint(), d.Uvarint()
		base, size, crc := d.Byte(), d.Uvarint(), d.Uint32()
		if d.Failed() || op >= uint64(len(operators)) || group > 0xffff || size > uint64(len(b))-off {
			return nil, damaged("directory")
		}
		members[i] = packMember{
			id:   epochs.SegmentID{Operator: operators[op], Group: uint16(group), Epoch: e},
			base: base != 0,
			off:  uint32(off), size: uint32(size), crc: crc,
		}
		off += size
	}
	if d.Failed() || len(d.Rest()) > 0 || off != uint64(len(b)) {
		return nil, damaged("directory")
	}
	return members, nil
}

// span is a range of epochs, both ends included, none of which was committed.
type span struct{ from, to messages.Epoch }

// storedRecord is the value of a record key:
//
//	crc32c of all behind it/4 | prev/8 | spans | for each: from, to | record
//
// with the spans of epochs that were never committed and may have left segments. A
// record that is larger than a value should be is stored like a segment before; the
// highest bit of prev says so.
type storedRecord struct {
	prev  messages.Epoch
	apart bool // data is a segment
	gaps  []span
	data  []byte
}

// apartBit is above all epochs that ever are.
const apartBit = 1 << 63

// recordChain is where records are that are stored apart: in a group that no
// operator has, and that no LoadRange can reach.
var recordChain = chainID{group: math.MaxUint16}

func recordSegment(e messages.Epoch, data []byte) epochs.Segment {
	return epochs.Segment{SegmentID: epochs.SegmentID{Group: recordChain.group, Epoch: e}, Base: true, Data: data}
}

func (r storedRecord) encode() []byte {
	b := make([]byte, 4, 32+20*len(r.gaps)+len(r.data))
	prev := uint64(r.prev)
	if r.apart {
		prev |= apartBit
	}
	b = binary.BigEndian.AppendUint64(b, prev)
	b = binary.AppendUvarint(b, uint64(len(r.gaps)))
	for _, g := range r.gaps {
		b = binary.AppendUvarint(b, uint64(g.from))
		b = binary.AppendUvarint(b, uint64(g.to))
	}
	b = append(b, r.data...)
	binary.BigEndian.PutUint32(b, checksum(b[4:]))
	return b
}

// parseRecord reads the value of a record key; the result shares b.
func parseRecord(e messages.Epoch, b []byte) (storedRecord, error) {
	if len(b) < 13 || checksum(b[4:]) != binary.BigEndian.Uint32(b) {
		return storedRecord{}, fmt.Errorf("commit record of epoch %d: %w", e, epochs.ErrDamaged)
	}
	prev := binary.BigEndian.Uint64(b[4:])
	r := storedRecord{prev: messages.Epoch(prev &^ apartBit), apart: prev&apartBit != 0}
	d := cursor.New(b[12:])
	for range d.Count() {
		r.gaps = append(r.gaps, span{messages.Epoch(d.Uvarint()), messages.Epoch(d.Uvarint())})
	}
	if d.Failed() {
		return storedRecord{}, fmt.Errorf("commit record of epoch %d: %w", e, epochs.ErrDamaged)
	}
	r.data = d.Rest()
	return r, nil
}
