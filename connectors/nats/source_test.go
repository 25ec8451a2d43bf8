package nats

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

func TestSourceReadsAndResumes(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 5000)
	in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN")
	in.until(func() bool { return len(in.got) >= 5000 && in.caughtUp() })
	if diff := cmp.Diff(sequence(0, 5000), in.got); diff != "" {
		t.Fatal(diff)
	}
	publish(t, js, "in.a", 5000, 5010)
	in.until(in.count(5010))
	again := openInput(t, inputConfig{from: in.next}, "url", b.url(), "stream", "IN")
	publish(t, js, "in.b", 5010, 5020)
	again.until(again.count(10))
	if diff := cmp.Diff(sequence(5010, 5020), again.got); diff != "" {
		t.Fatal(diff)
	}
}
