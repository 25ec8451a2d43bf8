package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

func randomKeys(n int) ([]int64, []uint64) {
	r := rand.New(rand.NewPCG(5, 6))
	keys, hashes := make([]int64, 1<<16), make([]uint64, 1<<16)
	for i := range keys {
		keys[i] = r.Int64N(int64(n))
		hashes[i] = intHash(keys[i])
	}
	return keys, hashes
}

func filled(tb testing.TB, keys int) *Store {
	s := newStore(tb, Config{IntKeys: true, Words: 2})
	for i := range int64(keys) {
		s.UpsertInt(intHash(i), 0, i)
	}
	return s
}

func BenchmarkUpsertInt(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s := filled(b, n)
			keys, hashes := randomKeys(n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := i & (len(keys) - 1)
				e, _ := s.UpsertInt(hashes[k], 0, keys[k])
				s.Mutate(e)[0]++
			}
			b.ReportMetric(float64(s.Bytes())/float64(n), "B/key")
		})
	}
}

func BenchmarkUpsertBytes(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s := newStore(b, Config{Words: 2})
			keys := make([][]byte, n)
			hashes := make([]uint64, n)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "customer-%011d", i)
				hashes[i] = xxh3.Hash(keys[i])
				s.Upsert(hashes[i], 0, keys[i])
			}
			r := rand.New(rand.NewPCG(7, 8))
			order := r.Perm(n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := order[i%n]
				e, _ := s.Upsert(hashes[k], 0, keys[k])
				s.Mutate(e)[0]++
			}
			b.ReportMetric(float64(s.Bytes())/float64(n), "B/key")
		})
	}
}

func BenchmarkFreezeAndEncode(b *testing.B) {
	s := filled(b, 1_000_000)
	keys, hashes := randomKeys(1_000_000)
	segments, bytes := 0, 0
	discard := func(seg epochs.Segment) error {
		segments++
		bytes += len(seg.Data)
		s.Release(seg.Data)
		return nil
	}
	epoch := messages.Epoch(1)
	s.Freeze(epoch)
	if _, err := s.Encode(nil, discard); err != nil {
		b.Fatal(err)
	}
	segments, bytes = 0, 0
	var freeze, encode time.Duration
	b.ReportAllocs()
	for b.Loop() {
		for k := range keys {
			e, _ := s.UpsertInt(hashes[k], 0, keys[k])
			s.Mutate(e)[0]++
		}
		epoch++
		t0 := time.Now()
		s.Freeze(epoch)
		t1 := time.Now()
		if _, err := s.Encode(nil, discard); err != nil {
			b.Fatal(err)
		}
		freeze += t1.Sub(t0)
		encode += time.Since(t1)
	}
	b.ReportMetric(float64(freeze.Microseconds())/float64(b.N), "µs-freeze")
	b.ReportMetric(float64(encode.Microseconds())/float64(b.N), "µs-encode")
	b.ReportMetric(float64(bytes)/float64(b.N)/float64(len(keys)), "B/update")
}

func BenchmarkRestore(b *testing.B) {
	segs := encodeAll(b, filled(b, 1_000_000), 1)
	b.ReportAllocs()
	for b.Loop() {
		s := newStore(b, Config{IntKeys: true, Words: 2})
		for _, seg := range segs {
			if err := s.Restore(seg); err != nil {
				b.Fatal(err)
			}
		}
		if s.Rows() != 1_000_000 {
			b.Fatal("rows are missing")
		}
	}
}

func BenchmarkTimers(b *testing.B) {
	s := newStore(b, Config{IntKeys: true, Timers: true})
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		e, _ := s.UpsertInt(intHash(i), 0, i)
		s.SetTimer(e, messages.EventTime(i+100_000))
		for e, _, ok := s.Due(messages.EventTime(i)); ok; e, _, ok = s.Due(messages.EventTime(i)) {
			s.Delete(e)
		}
	}
}

func TestNothingIsAllocatedPerRowOnceTablesHaveGrown(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	s := newStore(t, Config{UID: "op", IntKeys: true, Words: 2, Values: 1, Timers: true})
	value := []byte("some value of a usual length")
	pane, epoch := int64(0), messages.Epoch(0)
	discard := func(seg epochs.Segment) error { s.Release(seg.Data); return nil }
	window := func() {
		for i := range int64(5000) {
			e, _ := s.UpsertInt(intHash(i), pane, i)
			s.Mutate(e)[0]++
			s.SetValue(e, 0, value)
			s.SetTimer(e, messages.EventTime(i))
		}
		s.DropPane(pane - 1)
		pane++
		epoch++
		s.Freeze(epoch)
		if _, err := s.Encode(nil, discard); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		window()
	}
	// Two allocations per key group and window would be 512.
	if got := testing.AllocsPerRun(20, window); got > 50 {
		t.Errorf("%v allocations per window of 5,000 rows, want almost none", got)
	}
}
