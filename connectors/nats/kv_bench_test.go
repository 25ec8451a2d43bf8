package nats

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// BenchmarkUpsert writes rows to a bucket of a server in another process, in
// batches of 500 with an epoch each 100,000 rows, and reports how many of them
// were values that the server has stored: newer ones replace what waits.
func BenchmarkUpsert(b *testing.B) {
	for _, g := range []connectors.Guarantee{connectors.Converges, connectors.AtLeastOnce} {
		for _, keys := range []int{1, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d keys", g, keys), func(b *testing.B) {
				c := newChild(b)
				js, _ := c.client()
				bucket(b, js, jetstream.KeyValueConfig{})
				s, err := newKVTestSink(b, pairs(), nil, kvOptions(c)...)
				if err != nil {
					b.Fatal(err)
				}
				o := openKVSink(b, s, kvConfig{guarantee: g}).recover(kvConfig{})
				var names []string
				for i := range keys {
					names = append(names, fmt.Sprintf("auction-%d", i))
				}
				builder := messages.NewBuilder(pairs())
				used := cpu(b)
				b.ResetTimer()
				for n := 0; n < b.N; {
					for range min(500, b.N-n) {
						builder.Column(0).AppendString(names[n%keys])
						builder.Column(1).AppendInt64(int64(n))
						builder.EndRow()
						n++
					}
					batch := builder.Finish()
					if err := o.writers[0].Write(b.Context(), batch, nil); err != nil {
						b.Fatal(err)
					}
					batch.Release()
					if n%100_000 == 0 || n == b.N {
						if err := o.prepare(); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.StopTimer()
				seconds := b.Elapsed().Seconds()
				b.ReportMetric(float64(b.N)/seconds, "rows/s")
				b.ReportMetric(float64(o.c.progress.Load())/seconds, "writes/s")
				b.ReportMetric(float64(b.N)/(cpu(b)-used).Seconds(), "rows/cpu-s")
			})
		}
	}
}
