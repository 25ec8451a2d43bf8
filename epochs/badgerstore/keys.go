package badgerstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// The first byte of a key.
const (
	fillerPrefix  = 'f' // never there
	packPrefix    = 'p'
	recordPrefix  = 'r'
	segmentPrefix = 's'
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// epochOf returns the epoch in a key of any kind, 0 if it is too short for one.
func epochOf(key string) messages.Epoch {
	if len(key) < 9 {
		return 0
	}
	return messages.Epoch(binary.BigEndian.Uint64([]byte(key[1:9])))
}

func recordKey(e messages.Epoch) []byte {
	return binary.BigEndian.AppendUint64([]byte{recordPrefix}, uint64(e))
}

func parseRecordKey(k []byte) (messages.Epoch, bool) {
	if len(k) != 9 || k[0] != recordPrefix {
		return 0, false
	}
	return messages.Epoch(binary.BigEndian.Uint64(k[1:])), true
}

func packKey(e messages.Epoch, number uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{packPrefix}, uint64(e)), number)
}

func parsePackKey(k []byte) (e messages.Epoch, number uint32, ok bool) {
	if len(k) != 13 || k[0] != packPrefix {
		return 0, 0, false
	}
	return messages.Epoch(binary.BigEndian.Uint64(k[1:])), binary.BigEndian.Uint32(k[9:]), true
}

// segmentKey is the key of one part of a large segment. It says all there is to
// say about the segment, so that opening the store need not touch its value.
//
//	s epoch/8 number/4 part/2 parts/2 group/2 base/1 size/4 crc32c of the data/4 operator... crc32c of the key/4
type segmentKey struct {
	id          epochs.SegmentID
	number      uint32
	part, parts uint16
	base        bool
	size, crc   uint32 // of the whole segment
}

const segmentKeyFixed = 1 + 8 + 4 + 2 + 2 + 2 + 1 + 4 + 4

func (k segmentKey) encode() []byte {
	b := make([]byte, 0, segmentKeyFixed+len(k.id.Operator)+4)
	b = append(b, segmentPrefix)
	b = binary.BigEndian.AppendUint64(b, uint64(k.id.Epoch))
	b = binary.BigEndian.AppendUint32(b, k.number)
	b = binary.BigEndian.AppendUint16(b, k.part)
	b = binary.BigEndian.AppendUint16(b, k.parts)
	b = binary.BigEndian.AppendUint16(b, k.id.Group)
	b = append(b, flag(k.base))
	b = binary.BigEndian.AppendUint32(b, k.size)
	b = binary.BigEndian.AppendUint32(b, k.crc)
	b = append(b, k.id.Operator...)
	return binary.BigEndian.AppendUint32(b, checksum(b))
}

func parseSegmentKey(b []byte) (segmentKey, error) {
	n := len(b) - 4
	if n < segmentKeyFixed || b[0] != segmentPrefix || checksum(b[:n]) != binary.BigEndian.Uint32(b[n:]) {
		return segmentKey{}, fmt.Errorf("key %x of a segment: %w", b, epochs.ErrDamaged)
	}
	k := segmentKey{
		id:     epochs.SegmentID{Epoch: messages.Epoch(binary.BigEndian.Uint64(b[1:])), Group: binary.BigEndian.Uint16(b[17:]), Operator: string(b[segmentKeyFixed:n])},
		number: binary.BigEndian.Uint32(b[9:]),
		part:   binary.BigEndian.Uint16(b[13:]),
		parts:  binary.BigEndian.Uint16(b[15:]),
		base:   b[19] != 0,
		size:   binary.BigEndian.Uint32(b[20:]),
		crc:    binary.BigEndian.Uint32(b[24:]),
	}
	if k.part >= k.parts {
		return segmentKey{}, fmt.Errorf("key %x of a segment: part %d of %d: %w", b, k.part, k.parts, epochs.ErrDamaged)
	}
	return k, nil
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
