package badgerstore_test

import (
	"testing"
	"time"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/storetest"
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
