package aggregate

import (
	"encoding/binary"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// keyForm is how group keys are kept.
type keyForm uint8

const (
	noKey    keyForm = iota // no columns: one group
	wordKey                 // one column that fits a word
	bytesKey                // one string or binary column
	manyKeys                // encoded values one behind the other
)

// keys finds groups in a store and turns group keys into columns.
type keys struct {
	form    keyForm
	columns []int
	types   []messages.Type
	// A single column needs no room for NULL: NULL is told by its hash, and
	// nullWord is chosen so that the store never confuses it with a value.
	nullHash uint32
	nullWord int64

	hashes []uint64
	buf    []byte
}

func newKeys(columns []int, in *messages.Schema) *keys {
	k := &keys{columns: columns}
	for _, c := range columns {
		k.types = append(k.types, in.Fields[c].Type)
	}
	switch {
	case len(columns) == 0:
		k.form = noKey
	case len(columns) > 1:
		k.form = manyKeys
	case isWord(k.types[0].Kind):
		k.form = wordKey
		k.chooseNull()
	case k.types[0].Kind == messages.String || k.types[0].Kind == messages.Binary:
		k.form = bytesKey
		k.chooseNull()
	default:
		k.form = manyKeys
	}
	return k
}

// ints reports whether the store has integer keys.
func (k *keys) ints() bool { return k.form == noKey || k.form == wordKey }

// chooseNull finds out how NULL hashes and picks the word it is kept under: one
// whose own hash has other tag bits.
func (k *keys) chooseNull() {
	bl := messages.NewBuilder(messages.NewSchema(messages.Field{Name: "k", Type: k.types[0]}))
	bl.Column(0).AppendNull()
	bl.EndRow()
	for w := range 2 {
		if k.form == bytesKey {
			bl.Column(0).AppendBytes(nil)
		} else {
			appendWord(bl.Column(0), uint64(w))
		}
		bl.EndRow()
	}
	b := bl.Finish()
	defer b.Release()
	h := operator.HashKeys(nil, b, []int{0})
	k.nullHash = uint32(h[0])
	const tag = 0xff00_0000
	if k.form == wordKey && uint32(h[1])&tag == k.nullHash&tag {
		k.nullWord = 1
		h[1] = h[2]
	}
	if uint32(h[1])&tag == k.nullHash&tag {
		panic("aggregate: the hash of NULL cannot be told from that of a value")
	}
}

// start computes the hashes of a batch.
func (k *keys) start(b *messages.Batch) { k.hashes = operator.HashKeys(k.hashes, b, k.columns) }

// upsert finds or makes the group of a row.
func (k *keys) upsert(s *state.Store, pane int64, b *messages.Batch, row int) (state.Entry, bool) {
	h := k.hashes[row]
	switch k.form {
	case noKey:
		return s.UpsertInt(h, pane, 0)
	case wordKey:
		c := b.Column(k.columns[0])
		if c.IsNull(row) {
			return s.UpsertInt(h, pane, k.nullWord)
		}
		return s.UpsertInt(h, pane, int64(wordOf(c, row)))
	case bytesKey:
		c := b.Column(k.columns[0])
		if c.IsNull(row) {
			return s.Upsert(h, pane, nil)
		}
		return s.Upsert(h, pane, c.Bytes(row))
	default:
		k.buf = k.buf[:0]
		for _, c := range k.columns {
			k.buf = encodeValue(k.buf, b.Column(c), row)
		}
		return s.Upsert(h, pane, k.buf)
	}
}

// find looks the group of e up in another pane, or another store.
func (k *keys) find(s *state.Store, pane int64, e state.Entry) (state.Entry, bool) {
	if k.ints() {
		return s.FindInt(e.Hash(), pane, e.IntKey())
	}
	return s.Find(e.Hash(), pane, e.Key())
}

// copy finds or makes the group of e in another store.
func (k *keys) copy(s *state.Store, e state.Entry) (state.Entry, bool) {
	if k.ints() {
		return s.UpsertInt(e.Hash(), 0, e.IntKey())
	}
	return s.Upsert(e.Hash(), 0, e.Key())
}

// isNull reports whether the key of a group with a single column is NULL.
func (k *keys) isNull(e state.Entry) bool {
	if uint32(e.Hash()) != k.nullHash {
		return false
	}
	if k.form == wordKey {
		return e.IntKey() == k.nullWord
	}
	return len(e.Key()) == 0
}

// result appends the key of e to the columns of out from the given one on.
func (k *keys) result(e state.Entry, out *messages.Batch, from int) {
	switch k.form {
	case noKey:
	case wordKey, bytesKey:
		c := out.Own(from)
		switch {
		case k.isNull(e):
			c.AppendNull()
		case k.form == wordKey:
			appendWord(c, uint64(e.IntKey()))
		default:
			c.AppendBytes(e.Key())
		}
	default:
		b := e.Key()
		for i := range k.columns {
			b = decodeValue(b, out.Own(from+i))
		}
	}
}

// identity appends bytes that name the group of e the same way in every
// process.
func (k *keys) identity(b []byte, e state.Entry) []byte {
	switch k.form {
	case noKey:
		return b
	case wordKey, bytesKey:
		if k.isNull(e) {
			return append(b, 0)
		}
		b = append(b, 1)
		if k.form == wordKey {
			return binary.LittleEndian.AppendUint64(b, uint64(e.IntKey()))
		}
	case manyKeys: // NULLs are part of the encoding
	}
	return append(b, e.Key()...)
}
