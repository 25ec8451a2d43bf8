package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Benchmark measures how long an epoch takes from its marker until it is
// durable, for two kinds of epochs. It reports the median beside the mean.
// clock returns the time since an arbitrary moment.
func Benchmark(b *testing.B, open func(b *testing.B) epochs.Segments, clock func() time.Duration) {
	b.Run("4MB in 256 segments", func(b *testing.B) { benchmarkEpochs(b, open(b), clock, 256, 16<<10) })
	b.Run("100 segments of 50 bytes", func(b *testing.B) { benchmarkEpochs(b, open(b), clock, 100, 50) })
}

// benchmarkEpochs writes epochs of segments of n bytes each. A group gets a base
// in one of 16 epochs, in turn, so that old segments can be dropped.
func benchmarkEpochs(b *testing.B, store epochs.Segments, clock func() time.Duration, segments, n int) {
	ctx := context.Background()
	segs := make([]epochs.Segment, segments)
	for i := range segs {
		id := epochs.SegmentID{Operator: "hot_items/aggregate", Group: uint16(i)}
		segs[i] = epochs.Segment{SegmentID: id, Data: content(1, id, n)}
	}
	_, highest, err := store.Committed(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	prev, e := messages.Epoch(0), highest
	b.SetBytes(int64(segments * n))
	for b.Loop() {
		e++
		for i := range segs {
			segs[i].Epoch = e
			segs[i].Base = (int(e)+i)%16 == 0 || prev == 0
		}
		start := clock()
		err := store.Put(ctx, e, segs)
		if err == nil {
			err = store.Commit(ctx, prev, e, make([]byte, 4000))
		}
		took = append(took, clock()-start)
		if err == nil {
			err = store.Drop(ctx, max(e, epochs.Retain)-epochs.Retain, e)
		}
		if err != nil {
			b.Fatal(err)
		}
		prev = e
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(store.Size())/(1<<20), "disk-MB")
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}
