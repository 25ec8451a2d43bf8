package badgerstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/storetest"
	"github.com/streamd-io/streamd/messages"
)

func BenchmarkEpoch(b *testing.B) {
	start := time.Now()
	storetest.Benchmark(b, func(b *testing.B) epochs.Segments {
		store, err := opener(b.TempDir())(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return store
	}, func() time.Duration { return time.Since(start) })
}

// BenchmarkRestore opens a store and loads all of an operator: a base of 24 MB
// and 50 epochs of small deltas in every key group.
func BenchmarkRestore(b *testing.B) {
	dir := b.TempDir()
	open := func() epochs.Segments {
		store, err := opener(dir)(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return store
	}
	store := open()
	const last = 51
	for e := messages.Epoch(1); e <= last; e++ {
		segs := make([]epochs.Segment, epochs.KeyGroups)
		for g := range segs {
			n := 500
			if e == 1 {
				n = 96 << 10
			}
			segs[g] = epochs.Segment{SegmentID: epochs.SegmentID{Operator: "a", Group: uint16(g), Epoch: e}, Base: e == 1, Data: make([]byte, n)}
		}
		if err := errors.Join(store.Put(b.Context(), e, segs), store.Commit(b.Context(), e-1, e, nil)); err != nil {
			b.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		store, segments := open(), 0
		err := store.Load(b.Context(), epochs.LoadRange{Operator: "a", To: epochs.KeyGroups, UpTo: last}, func(epochs.Segment) error {
			segments++
			return nil
		})
		if err = errors.Join(err, store.Close()); err != nil || segments != last*epochs.KeyGroups {
			b.Fatal(segments, err)
		}
	}
}
