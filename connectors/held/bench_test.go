package held_test

import (
	"fmt"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
)

// BenchmarkRows holds, stashes and replays epochs of 100 batches.
func BenchmarkRows(b *testing.B) {
	for _, keys := range [][]int{nil, {0}} {
		for _, size := range []int{1, 1024} {
			b.Run(fmt.Sprintf("keys %v, batches of %d", keys, size), func(b *testing.B) {
				stash := &connectortest.Stash{}
				r, err := held.New(held.Config{Request: connectors.WriteRequest{Schema: schema, Stash: stash, KeyColumns: keys}})
				if err != nil {
					b.Fatal(err)
				}
				w, err := r.Writer(0)
				if err != nil {
					b.Fatal(err)
				}
				rows := messages.NewBuilder(schema)
				for i := range size {
					if err := format.AppendRow(rows, []any{fmt.Sprint("key ", i%500), i}); err != nil {
						b.Fatal(err)
					}
				}
				in := rows.Finish()
				b.ReportAllocs()
				for e := messages.Epoch(1); b.Loop(); e++ {
					for range 100 {
						if err := w.Write(b.Context(), in, nil); err != nil {
							b.Fatal(err)
						}
					}
					flush, err := w.Cut(e)
					if err != nil {
						b.Fatal(err)
					}
					token, err := flush(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					if _, err := r.Prepare(e, []connectors.Token{token}); err != nil {
						b.Fatal(err)
					}
					stash.Commit(e)
					if err := r.Replay(b.Context(), e, func(*held.Block) error { return nil }); err != nil {
						b.Fatal(err)
					}
					r.Confirm(e)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100*size), "ns/row")
			})
		}
	}
}
