package nats

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/messages"
)

func TestSourceConformance(t *testing.T) {
	b := newChild(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 5)
	publish(t, js, "in.b", 100, 107)
	publish(t, js, "in.a", 5, 9)
	publish(t, js, "in.c", 0, 3)
	rowsOf := func(ns ...int64) [][]any {
		var rows [][]any
		for _, n := range ns {
			rows = append(rows, []any{n})
		}
		return rows
	}
	connectortest.Source(t, connectortest.SourceCase{
		New: func(t testing.TB) connectors.Source {
			s, err := newSource(connectors.SourceConfig{
				Options: connectortest.Options(t, Connector().SourceOptions, "url", b.url(), "stream", "IN", "filters", "in.a,in.b,in.d"), Schema: numbers(),
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Decoder: func(t testing.TB) format.Decoder {
			d, err := json.Format().Decoder(format.Config{Schema: numbers(), Options: connectortest.Options(t, json.Format().Options)})
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		Want: map[string][][]any{"in.a": rowsOf(sequence(0, 9)...), "in.b": rowsOf(sequence(100, 107)...), "in.d": nil},
	})
}

func TestSinkConformance(t *testing.T) {
	type sinkCase struct {
		offer connectors.Offer
		more  []string
	}
	var cases []sinkCase
	for _, offer := range (&sink{}).Traits().Guarantees {
		cases = append(cases, sinkCase{offer: offer})
		if offer.Guarantee == connectors.ExactlyOnce {
			cases = append(cases, sinkCase{offer, []string{"exclusive", "true"}})
		}
	}
	for _, k := range cases {
		offer := k.offer
		t.Run(strings.Join(append([]string{offer.Guarantee.String(), offer.Visibility.String()}, k.more...), " "), func(t *testing.T) {
			b := newChild(t)
			js, _ := b.client()
			c := connectortest.SinkCase{Offer: offer}
			run, name := 0, ""
			// A new stream for each run: the server remembers ids of purged messages,
			// and a file stream that is created right after it was deleted can come
			// back with its old messages (nats-server 2.15.3).
			c.Reset = func(t testing.TB) {
				run++
				if name != "" { // its subjects are taken
					if err := js.DeleteStream(t.Context(), name); err != nil {
						t.Fatal(err)
					}
				}
				name = fmt.Sprintf("OUT%d", run)
				atomicStream(t, js, name, name+".>")
				s, err := js.Stream(t.Context(), markerStream)
				if err == nil {
					err = s.Purge(t.Context())
				}
				if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
					t.Fatal(err)
				}
			}
			c.New = func(t testing.TB) connectors.Sink {
				f := json.Format()
				s, err := newSink(connectors.SinkConfig{
					Options: connectortest.Options(t, Connector().SinkOptions, append(k.more, "url", b.url(), "stream", name, "subject", name+".{n}.{s}")...), Schema: c.Schema(), Format: f,
					Encoder: func(s *messages.Schema) (format.Encoder, error) {
						return f.Encoder(format.Config{Schema: s, Options: connectortest.Options(t, f.Options)})
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			c.Visible = func(t testing.TB) [][]any {
				var rows [][]any
				for _, data := range payloads(t, js, name) {
					var r struct {
						N int64
						S string
					}
					if err := stdjson.Unmarshal(data, &r); err != nil {
						t.Fatal(fmt.Errorf("%q: %w", data, err))
					}
					rows = append(rows, []any{r.N, r.S})
				}
				return rows
			}
			connectortest.Sink(t, c)
		})
	}
}
