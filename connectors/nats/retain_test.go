package nats

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
)

func TestAStreamSaysWhetherItStillHoldsAnOffset(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	in := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 100)
	rec := Connector()
	src, err := rec.Source(t.Context(), connectors.SourceConfig{
		Options: values(t, "nats source", rec.SourceOptions, []string{"url", b.url(), "stream", "IN", "on_data_loss", "warn"}), Schema: numbers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	keeper, ok := src.(connectors.Retainer)
	if !ok {
		t.Fatal("the source is no Retainer")
	}
	retains := func(from connectors.Offset, want string) {
		t.Helper()
		err := keeper.Retains(t.Context(), ">", from)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("offset %s: got error %v, want %q", from, err, want)
		}
	}
	read := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	read.until(read.count(50))
	retains(nil, "")
	retains(read.next, "")
	if err := in.Purge(t.Context(), jetstream.WithPurgeSequence(101)); err != nil {
		t.Fatal(err)
	}
	retains(nil, "no longer holds its first messages")
	if err := js.DeleteStream(t.Context(), "IN"); err != nil {
		t.Fatal(err)
	}
	retains(read.next, "does not exist")
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	retains(read.next, "re-created")
	if err := js.DeleteStream(t.Context(), "IN"); err != nil {
		t.Fatal(err)
	}
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, Retention: jetstream.WorkQueuePolicy})
	retains(nil, "forgets what has been acknowledged")
}
