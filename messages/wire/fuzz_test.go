package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
)

// FuzzDecodeBatch: what is accepted can be read, is written and read again as the
// same, and takes as much memory as the input pays for.
func FuzzDecodeBatch(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := randomSchema(r, 2, 1+r.IntN(3))
		f.Add(EncodeSchema(nil, s), EncodeBatch(nil, randomBatch(r, s, r.IntN(6))))
	}
	f.Fuzz(func(t *testing.T, schema, block []byte) {
		s, err := DecodeSchema(schema)
		if err != nil {
			return
		}
		pool := messages.NewPool(s)
		var b *messages.Batch
		alloctest.Within(t, 64, len(schema)+len(block), func() { b, err = DecodeBatch(pool, block) })
		if err != nil {
			return
		}
		if len(block) < 1<<12 { // what is accepted can be read
			for i := range b.Columns() {
				if err := b.Column(i).Check(); err != nil {
					t.Fatalf("accepted a broken column: %v", err)
				}
			}
		}
		clean := EncodeBatch(nil, b)
		again := mustDecode(t, pool, clean)
		if b.Rows() < 1<<10 {
			if diff := cmp.Diff(text(again), text(b)); diff != "" {
				t.Fatalf("-second +first\n%s", diff)
			}
		}
		if !bytes.Equal(EncodeBatch(nil, again), clean) {
			t.Fatal("encoding is not stable")
		}
	})
}

// FuzzDecodeSchema: there is one way to write a schema.
func FuzzDecodeSchema(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(EncodeSchema(nil, randomSchema(rand.New(rand.NewPCG(seed, 7)), 3, 3)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s *messages.Schema
		var err error
		alloctest.Within(t, 256, len(data), func() { s, err = DecodeSchema(data) })
		if err != nil {
			return
		}
		if again := EncodeSchema(nil, s); !bytes.Equal(again, data) {
			t.Errorf("%x reads as %s, which is written as %x", data, s, again)
		}
	})
}
