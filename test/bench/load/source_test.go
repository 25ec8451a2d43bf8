package load_test

import (
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/test/bench/load"
)

// TestContract holds the load to the contract of sources: it can be read again
// from every offset and then makes the same rows.
func TestContract(t *testing.T) {
	schema := messages.NewSchema(
		messages.Field{Name: "n", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "due", Type: messages.T(messages.BigInt)},
	)
	connectortest.Source(t, connectortest.SourceCase{
		New: func(testing.TB) connectors.Source {
			g := load.NewGate()
			g.Begin(load.Run{FlatOut: true, Count: 4, Schedule: load.Schedule{Start: 5_000_000, Rate: 1000}})
			return load.NewSource(load.SourceConfig{Schema: schema, Gate: g, Prefill: 2, Fill: func(b *messages.Builder, i uint64, due int64) {
				b.Column(0).AppendInt64(int64(i))
				b.Column(1).AppendInt64(due)
			}})
		},
		Want: map[string][][]any{"0": {
			{int64(0), int64(1)}, {int64(1), int64(1)}, // before the gate
			{int64(2), int64(5_000_000)}, {int64(3), int64(5_001_000)}, {int64(4), int64(5_002_000)}, {int64(5), int64(5_003_000)},
		}},
	})
}
