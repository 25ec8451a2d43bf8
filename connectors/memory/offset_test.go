package memory

import (
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/fault"
)

// FuzzOffset opens a partition at any bytes: they are a position within what is
// held, or an error.
func FuzzOffset(f *testing.F) {
	f.Add([]byte(`{"next":2}`))
	f.Add([]byte(`{"next":4}`))
	s := NewSource(messages.NewSchema(messages.Field{Name: "v", Type: messages.T(messages.BigInt)}))
	for i := range 3 {
		if err := s.Add([]any{int64(i)}); err != nil {
			f.Fatal(err)
		}
	}
	s.End()
	f.Fuzz(func(t *testing.T, data []byte) {
		var opened connectors.Reader
		var err error
		alloctest.Within(t, 64, len(data), func() {
			opened, err = s.Open(t.Context(), connectors.ReadRequest{Partition: "0", From: append([]byte{}, data...)})
		})
		if err != nil {
			if fault.KindOf(err) != fault.Config {
				t.Fatalf("got error %v, want one of kind Config", err)
			}
			return
		}
		if r, ok := opened.(*reader); !ok || r.next > 3 {
			t.Errorf("%q is position %d of 3", data, r.next)
		}
		if s.Reached(data, []byte(`{"next":3}`)) != (opened.(*reader).next == 3) {
			t.Errorf("%q: Reached and Open disagree", data)
		}
	})
}
