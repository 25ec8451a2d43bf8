package nats

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
)

func TestBucketConformance(t *testing.T) {
	for _, o := range []connectors.Offer{
		{Guarantee: connectors.Converges, Visibility: connectors.AtOnce},
		{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
	} {
		t.Run(o.Guarantee.String(), func(t *testing.T) {
			b := newChild(t)
			js, _ := b.client()
			c := connectortest.SinkCase{Offer: o}
			run := 0
			var kv jetstream.KeyValue
			c.Reset = func(t testing.TB) {
				run++
				kv = bucket(t, js, jetstream.KeyValueConfig{Bucket: fmt.Sprintf("B%d", run)})
				s, err := js.Stream(t.Context(), markerStream)
				if err == nil {
					err = s.Purge(t.Context())
				}
				if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
					t.Fatal(err)
				}
			}
			c.New = func(t testing.TB) connectors.Sink {
				s, err := newKVTestSink(t, c.Schema(), nil, "url", b.url(), "bucket", fmt.Sprintf("B%d", max(run, 1)), "key", "{n}.{s}")
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			c.Visible = func(t testing.TB) [][]any {
				var rows [][]any
				lister, err := kv.ListKeys(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for k := range lister.Keys() {
					e, err := kv.Get(t.Context(), k)
					if err != nil {
						t.Fatal(err)
					}
					var r struct {
						N int64
						S string
					}
					if err := stdjson.Unmarshal(e.Value(), &r); err != nil {
						t.Fatal(err)
					}
					rows = append(rows, []any{r.N, r.S})
				}
				return rows
			}
			connectortest.Sink(t, c)
		})
	}
}
