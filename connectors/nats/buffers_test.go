package nats

import (
	"context"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// TestBuffersOfRowsAreBounded: whatever sizes rows have had, no more than a few times
// max_pending_bytes is kept.
func TestBuffersOfRowsAreBounded(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	schema := messages.NewSchema(messages.Field{Name: "s", Type: messages.T(messages.String)})
	s, err := newTestSinkOf(t, schema, "url", b.url(), "stream", "OUT", "subject", "out.x", "max_pending_bytes", "256KiB")
	if err != nil {
		t.Fatal(err)
	}
	com, err := s.Open(t.Context(), connectors.WriteRequest{Query: "q", Sink: "out", Attempt: 1, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := com.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := com.Recover(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := com.Writer(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := conn.(*writer)
	builder := messages.NewBuilder(schema)
	large := strings.Repeat("x", 30_000)
	for i := range 1500 { // large rows come to lie in other slots each time
		text := "small"
		if i%3 == 0 {
			text = large
		}
		builder.Column(0).AppendString(text)
		builder.EndRow()
		if i%100 == 99 {
			rows := builder.Finish()
			if err := w.Write(t.Context(), rows, nil); err != nil {
				t.Fatal(err)
			}
			rows.Release()
		}
	}
	flush, err := w.Cut(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	kept := w.buffers.bytes
	for i := range w.ring {
		kept += int64(cap(w.ring[i].data))
	}
	if kept > 1<<20 {
		t.Errorf("%d KiB are kept with nothing in flight and max_pending_bytes = 256 KiB", kept>>10)
	}
}

func TestBuffersAreUsedAgain(t *testing.T) {
	b := buffers{limit: 1 << 20}
	sizes := []int{0, 1, 64, 65, 100, 1000, 1024, 1025, 60_000, 1 << largestBuffer}
	use := func() {
		for _, n := range sizes {
			if buf := b.get(n); len(buf) != 0 || cap(buf) < n || cap(buf) > max(2*n, 1<<smallestBuffer) {
				t.Errorf("a buffer of %d bytes with %d in it for %d", cap(buf), len(buf), n)
			} else {
				b.put(buf)
			}
		}
	}
	use()
	if n := testing.AllocsPerRun(10, use); n > 0 {
		t.Errorf("%v allocations for %d buffers", n, len(sizes))
	}
	b.put(make([]byte, 0, 2<<largestBuffer)) // neither is kept
	b.put(nil)
	for range 100 {
		b.put(make([]byte, 0, 1<<largestBuffer))
	}
	if b.bytes > b.limit {
		t.Errorf("%d bytes are kept, the limit is %d", b.bytes, b.limit)
	}
}
