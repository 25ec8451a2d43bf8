package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages"
)

func TestBlockRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := randomSchema(r, 3, r.IntN(5))
		b := randomBatch(r, s, r.IntN(80))
		prefix := []byte("before")
		data := EncodeBatch(prefix, b)
		if !bytes.HasPrefix(data, prefix) {
			t.Fatal("the block does not follow what was there")
		}
		data = data[len(prefix):]
		if size, err := BlockSize(append(data, 1, 2, 3)); err != nil || size != len(data) {
			t.Fatalf("BlockSize() = %d, %v, want %d", size, err, len(data))
		}
		pool := messages.NewPool(s)
		got := mustDecode(t, pool, data)
		if diff := cmp.Diff(text(got), text(b)); diff != "" {
			t.Fatalf("seed %d, %s: -got +want\n%s", seed, s, diff)
		}
		if again := EncodeBatch(nil, got); !bytes.Equal(again, data) {
			t.Fatalf("seed %d, %s: another encoding of the decoded batch", seed, s)
		}
		got.Release()
	}
}

func TestBlockHoldsTheSelectedRows(t *testing.T) {
	var e Encoder
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		s := randomSchema(r, 2, 3)
		b := randomBatch(r, s, r.IntN(60))
		v := messages.NewViewPool().View(b)
		sel := v.SelectBuffer(b.Len())
		for i := range b.Len() {
			if r.IntN(3) == 0 {
				sel = append(sel, int32(i))
			}
		}
		v.Select(sel)
		v.Publish()
		got := mustDecode(t, messages.NewPool(s), e.EncodeBatch(nil, v))
		if diff := cmp.Diff(text(got)[1:], text(v)[1:]); diff != "" {
			t.Fatalf("seed %d: -got +want\n%s", seed, diff)
		}
		if got.Selection() != nil {
			t.Fatal("the decoded batch has a selection")
		}
	}
}

func TestBlockOfListsThatDoNotStartAtZero(t *testing.T) {
	s := messages.NewSchema(
		messages.Field{Name: "a", Type: messages.ArrayType(messages.ArrayType(messages.T(messages.String)))},
		messages.Field{Name: "s", Type: messages.T(messages.String)},
	)
	b := messages.NewPool(s).Get()
	inner := b.Own(0).Child(0)
	for i := range 6 {
		inner.Child(0).AppendString(fmt.Sprint("value ", i))
		inner.CloseList()
	}
	b.Own(0).Resize(2)
	copy(b.Own(0).Offsets(), []int32{2, 3, 5})
	b.Own(1).Resize(2)
	copy(b.Own(1).Offsets(), []int32{1, 2, 4})
	b.Own(1).SetData([]byte("0123456"))
	b.SetLen(2)
	b.Publish()
	got := mustDecode(t, messages.NewPool(s), EncodeBatch(nil, b))
	want := []string{`[["value 2",],] "1" `, `[["value 3",],["value 4",],] "23" `}
	if diff := cmp.Diff(text(got)[1:], want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

// The bytes were laid out by hand from the package comment.
func TestBlockLayout(t *testing.T) {
	s := messages.NewSchema(messages.Field{Name: "i", Type: messages.T(messages.Int)}, messages.Field{Name: "s", Type: messages.T(messages.String)})
	b := messages.NewPool(s).Get()
	b.Own(0).AppendInt32(258)
	b.Own(0).AppendNull()
	b.Own(1).AppendString("ab")
	b.Own(1).AppendString("c")
	b.SetLen(2)
	b.SetWatermark(3)
	b.Publish()
	want := strings.Join([]string{
		"53444342", "01", "00", "00", "00", "02000000", "02000000", "5800000000000000", "0300000000000000",
		"04", "01", "0000", "02000000", "0100000000000000", "0201000000000000",
		"09", "00", "0000", "02000000", "00000000", "02000000", "03000000", "00000000", "6162630000000000",
	}, "")
	if got := hex.EncodeToString(EncodeBatch(nil, b)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeBatchRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := messages.NewSchema(
		messages.Field{Name: "n", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "l", Type: messages.ArrayType(messages.T(messages.String))},
		messages.Field{Name: "v", Type: messages.T(messages.Null)},
	)
	var good []byte
	for len(good) == 0 || good[5] != knownFlags {
		good = EncodeBatch(nil, randomBatch(r, s, 9))
	}
	pool := messages.NewPool(s)
	t.Run("every shortened block", func(t *testing.T) {
		for n := range good {
			cut := append([]byte{}, good[:n]...)
			if n >= headerSize { // so that the size field is not what is noticed
				binary.LittleEndian.PutUint64(cut[16:], uint64(n))
			}
			if _, err := DecodeBatch(pool, cut); err == nil {
				t.Fatalf("no error for the first %d of %d bytes", n, len(good))
			}
		}
	})
	t.Run("a block of another schema", func(t *testing.T) {
		other := messages.NewSchema(s.Fields[0], s.Fields[2], s.Fields[1])
		if _, err := DecodeBatch(messages.NewPool(other), good); err == nil {
			t.Error("no error")
		}
	})
	for name, change := range map[string]func(d []byte){
		"another magic":        func(d []byte) { d[0]++ },
		"another version":      func(d []byte) { d[4]++ },
		"unknown flags":        func(d []byte) { d[5] |= 0x80 },
		"an unknown frame":     func(d []byte) { d[6] = 4 },
		"paths without origin": func(d []byte) { d[5] &^= hasOffsets },
		"too many rows":        func(d []byte) { binary.LittleEndian.PutUint32(d[8:], 1<<31) },
		"more rows":            func(d []byte) { binary.LittleEndian.PutUint32(d[8:], 10) },
		"more columns":         func(d []byte) { d[12]++ },
		"another size":         func(d []byte) { d[16]++ },
	} {
		t.Run(name, func(t *testing.T) {
			d := append([]byte{}, good...)
			change(d)
			if _, err := DecodeBatch(pool, d); err == nil {
				t.Error("no error")
			}
		})
	}
	t.Run("a changed byte, or gives a sound batch", func(t *testing.T) {
		for i := range good {
			for _, x := range []byte{1, 0x80, 0xff} {
				d := append([]byte{}, good...)
				d[i] ^= x
				if b, err := DecodeBatch(pool, d); err == nil {
					_ = text(b) // touches every value
					b.Release()
				}
			}
		}
	})
}

func TestDecodeTakesNoMoreMemoryThanTheInput(t *testing.T) {
	// A block that claims the greatest number of rows and holds nothing.
	for _, typ := range append(append([]messages.Type{}, flatTypes...),
		messages.StructType(), messages.ArrayType(messages.T(messages.Null)), messages.StructType(messages.Field{Name: "x", Type: messages.T(messages.Null)})) {
		s := messages.NewSchema(messages.Field{Name: "x", Type: typ})
		d := EncodeBatch(nil, messages.NewPool(s).Get().Publish())
		binary.LittleEndian.PutUint32(d[8:], maxRows)
		binary.LittleEndian.PutUint32(d[headerSize+4:], maxRows)
		pool := messages.NewPool(s)
		const runs = 20
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		for range runs {
			if _, err := DecodeBatch(pool, d); err == nil {
				t.Errorf("%s: no error", typ)
			}
		}
		goruntime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > 64<<10 {
			t.Errorf("%s: %d bytes allocated for a block of %d", typ, got, len(d))
		}
	}
}

func TestSwapValues(t *testing.T) {
	p := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	for k, want := range map[messages.Kind][]byte{
		messages.SmallInt: {2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15},
		messages.Decimal:  {8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9},
		messages.Interval: {4, 3, 2, 1, 8, 7, 6, 5, 16, 15, 14, 13, 12, 11, 10, 9},
	} {
		got := append([]byte{}, p...)
		swapValues(got, k)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", k, got, want)
		}
	}
}

func benchBatch(n int) (*messages.Schema, *messages.Batch) {
	s := messages.NewSchema(
		messages.Field{Name: "auction", Type: messages.T(messages.BigInt)}, messages.Field{Name: "bidder", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "price", Type: messages.T(messages.BigInt)}, messages.Field{Name: "channel", Type: messages.T(messages.String)},
		messages.Field{Name: "url", Type: messages.T(messages.String)}, messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)},
	)
	bl := messages.NewBuilder(s)
	for i := range int64(n) {
		for _, c := range []int{0, 1, 2, 5} {
			bl.Column(c).AppendInt64(i)
		}
		bl.Column(3).AppendString("channel")
		bl.Column(4).AppendString("https://www.nexmark.com/abcd/efgh/item.htm?q=1")
		bl.EndRow()
	}
	return s, bl.Finish()
}

func BenchmarkBlock(b *testing.B) {
	for _, n := range []int{1, 256, 1024} {
		s, batch := benchBatch(n)
		data := EncodeBatch(nil, batch)
		b.Run(fmt.Sprintf("encode/rows=%d", n), func(b *testing.B) {
			buf := make([]byte, 0, len(data))
			var e Encoder
			b.ReportAllocs()
			for b.Loop() {
				buf = e.EncodeBatch(buf[:0], batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n)/6, "ns/value")
		})
		b.Run(fmt.Sprintf("decode/rows=%d", n), func(b *testing.B) {
			pool := messages.NewPool(s)
			b.ReportAllocs()
			for b.Loop() {
				got, err := DecodeBatch(pool, data)
				if err != nil {
					b.Fatal(err)
				}
				got.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n)/6, "ns/value")
		})
	}
}
