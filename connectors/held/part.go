package held

import (
	"encoding/binary"
	"fmt"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/wire"
)

// A part is what one writer holds of one epoch, as it is stashed:
//
//	0   4  magic "SDHR"
//	4   1  format version (1)
//	5   1  flags: 1 rows have identities
//	6   2  0
//	8   4  size of the schema
//	12     the schema (wire.EncodeSchema), padded with zeros to a multiple of 8
//	       from the start
//	then blocks (wire.EncodeBatch), each followed by the identities of its rows (16
//	bytes each), if they have any
//
// Numbers are little endian. The checksum is the checkpoint's business.
const (
	partMagic   = "SDHR"
	partVersion = 1
	partHeader  = 12
	hasIDs      = 1
)

// appendPart begins a part.
func appendPart(dst, schema []byte, ids bool) []byte {
	flags := byte(0)
	if ids {
		flags |= hasIDs
	}
	dst = append(dst, partMagic...)
	dst = append(dst, partVersion, flags, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(schema)))
	dst = append(dst, schema...)
	var zeros [8]byte
	return append(dst, zeros[:-len(dst)&7]...)
}

func appendIDs(dst []byte, ids []messages.ID128) []byte {
	for _, id := range ids {
		dst = binary.LittleEndian.AppendUint64(dst, id.Hi)
		dst = binary.LittleEndian.AppendUint64(dst, id.Lo)
	}
	return dst
}

// decoder reads parts, one at a time. It keeps the pool of the last schema it met.
type decoder struct{ pool *messages.Pool }

// blocks are those of a part that have not been read.
type blocks struct {
	pool *messages.Pool
	data []byte
	ids  bool
}

// open checks the head of a part.
func (d *decoder) open(data []byte) (blocks, error) {
	if len(data) < partHeader || string(data[:4]) != partMagic {
		return blocks{}, fmt.Errorf("%d bytes that are not rows held for an epoch", len(data))
	}
	if v := data[4]; v != partVersion {
		return blocks{}, fmt.Errorf("rows held in format version %d, this program reads %d", v, partVersion)
	}
	if data[5]&^hasIDs != 0 || data[6] != 0 || data[7] != 0 {
		return blocks{}, fmt.Errorf("unknown flags %x", data[5:8])
	}
	end := partHeader + uint64(binary.LittleEndian.Uint32(data[8:]))
	if end+(-end&7) > uint64(len(data)) {
		return blocks{}, fmt.Errorf("a schema of %d bytes in %d bytes", end-partHeader, len(data))
	}
	schema, err := wire.DecodeSchema(data[partHeader:end])
	if err != nil {
		return blocks{}, err
	}
	if !schema.Equal(d.pool.Schema()) {
		d.pool = messages.NewPool(schema)
	}
	return blocks{pool: d.pool, data: data[end+(-end&7):], ids: data[5]&hasIDs != 0}, nil
}

func (b *blocks) end() bool { return len(b.data) == 0 }

// next reads a block. The caller releases the batch.
func (b *blocks) next() (*messages.Batch, []messages.ID128, error) {
	n, err := wire.BlockSize(b.data)
	if err != nil {
		return nil, nil, err
	}
	batch, err := wire.DecodeBatch(b.pool, b.data[:n])
	if err != nil {
		return nil, nil, err
	}
	b.data = b.data[n:]
	if !b.ids {
		return batch, nil, nil
	}
	if len(b.data)/16 < batch.Rows() {
		batch.Release()
		return nil, nil, fmt.Errorf("identities of %d rows in %d bytes", batch.Rows(), len(b.data))
	}
	ids := make([]messages.ID128, batch.Rows())
	for i := range ids {
		ids[i].Hi = binary.LittleEndian.Uint64(b.data[16*i:])
		ids[i].Lo = binary.LittleEndian.Uint64(b.data[16*i+8:])
	}
	b.data = b.data[16*len(ids):]
	return batch, ids, nil
}
