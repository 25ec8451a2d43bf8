package nats

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

func TestTagsTellSinksApart(t *testing.T) {
	if got, want := sinkTag("orders per day", "sink:out", messages.ID128{Hi: 0xab}), "orders%20per%20day/sink:out@00000000000000ab"; got != want {
		t.Errorf("tag %s, want %s: rows that are in streams have it", got, want)
	}
	names := []string{"a", "a/b", "b", "a@b", "a@", "@", "/", "a@00000000000000ab", "a%2Fb", "b/c", "c"}
	seen := map[string][2]string{}
	for _, query := range names {
		for _, sink := range names {
			tag := sinkTag(query, sink, messages.ID128{Hi: 0xab})
			name := tagName(tag)
			if other, twice := seen[name]; twice {
				t.Errorf("%v and %v have the tag %s", other, [2]string{query, sink}, tag)
			}
			seen[name] = [2]string{query, sink}
			if again := tagName(sinkTag(query, sink, messages.ID128{Hi: 0xcd})); again != name {
				t.Errorf("of two incarnations of %s, %s: %s and %s", query, sink, name, again)
			}
		}
	}
}

// TestTablesOfTwoQueriesInOneBucket: neither takes keys of the other for its own.
func TestTablesOfTwoQueriesInOneBucket(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	for i, sink := range []string{"hot", "hot@eu"} {
		for j, query := range []string{"shop", "shop@us"} {
			s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
			if err != nil {
				t.Fatal(err)
			}
			com, err := s.Open(t.Context(), connectors.WriteRequest{
				Query: query, Sink: sink, Incarnation: messages.ID128{Hi: 77}, Attempt: 1, Schema: pairs(), Offer: connectors.Offer{Guarantee: connectors.Converges},
			})
			if err != nil {
				t.Fatal(err)
			}
			o := &kvOutput{t: t, c: com.(*kvCommitter), builder: messages.NewBuilder(pairs())}
			t.Cleanup(o.close)
			o.recover(kvConfig{}).table(set([]string{"a", "b", "c", "d"}[2*i+j], 1))
			o.commit()
		}
	}
	if d := cmp.Diff(map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1}, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}
}
