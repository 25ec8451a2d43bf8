package socket

import (
	"testing"

	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/fault"
)

// FuzzOffset: what is read as an offset is, byte for byte, what is written for it.
func FuzzOffset(f *testing.F) {
	f.Add([]byte(appendOffset(nil, 5)))
	f.Add([]byte(`{"line":-5} `))
	f.Fuzz(func(t *testing.T, data []byte) {
		var count uint64
		var err error
		alloctest.Within(t, 64, len(data), func() { count, err = parseOffset(data) })
		if err != nil {
			if fault.KindOf(err) != fault.Config {
				t.Fatalf("got error %v, want one of kind Config", err)
			}
			return
		}
		again, err := parseOffset(appendOffset(nil, count))
		if err != nil || again != count {
			t.Fatalf("%q is line %d, and written again line %d, %v", data, count, again, err)
		}
	})
}
