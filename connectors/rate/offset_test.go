package rate_test

import (
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/fault"
)

// FuzzOffset opens a partition at any bytes, with and without a ramp, and asks for
// its end, which is searched for: they are an offset or an error, and never a
// search without end.
func FuzzOffset(f *testing.F) {
	f.Add([]byte(`{"start":1777636800000000,"partitions":2,"next":10}`))
	f.Add([]byte(`{"start":-9223372036854775808,"partitions":2,"next":18446744073709551615}`))
	f.Add([]byte(`{"start":0,"partitions":2,"next":4611686018427387903}`))
	clock := connectortest.NewClock(start)
	sources := []connectors.Source{
		newSource(f, clock, "rows_per_second", "10", "partitions", "2"),
		newSource(f, clock, "rows_per_second", "10", "partitions", "2", "ramp_up", "10s"),
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range sources {
			var r connectors.Reader
			var err error
			alloctest.Within(t, 64, len(data), func() {
				r, err = s.Open(t.Context(), connectors.ReadRequest{Partition: "1", Bounded: true, From: append([]byte{}, data...)})
			})
			if err == nil {
				err = r.Close()
			}
			if err != nil && fault.KindOf(err) != fault.Config {
				t.Fatalf("got error %v, want one of kind Config", err)
			}
		}
	})
}

func TestAnOffsetBeyondAllTimesIsRefused(t *testing.T) {
	s := newSource(t, connectortest.NewClock(start), "partitions", "2")
	for _, text := range []string{
		`{"start":-1,"partitions":2,"next":0}`, `{"start":9223372036854775807,"partitions":2,"next":0}`, `{"start":0,"partitions":2,"next":18446744073709551615}`,
	} {
		if _, err := s.Open(t.Context(), connectors.ReadRequest{Partition: "1", From: []byte(text)}); fault.KindOf(err) != fault.Config {
			t.Errorf("%s: got error %v, want one of kind Config", text, err)
		}
	}
}
