package nats

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

// TestReadersOfOneStreamAreIndependent: queries that read the same stream or subject
// each get all of it, and one that stops and starts again takes nothing from the
// others, in whatever order they come and go.
func TestReadersOfOneStreamAreIndependent(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		t.Run(fmt.Sprint("stream ", order), func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			s := stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
			kv := []string{"url", b.url(), "stream", "IN"}
			readers, got := make([]*input, 3), make([][]int64, 3)
			for i := range readers {
				readers[i] = openInput(t, inputConfig{}, kv...)
			}
			end := 10
			publish(t, js, "in.a", 0, end)
			for _, i := range order {
				readers[i].until(readers[i].count(end))
				readers[i].close()
				publish(t, js, "in.a", end, end+10)
				end += 10
				for _, k := range order {
					if k != i {
						readers[k].until(readers[k].count(end - len(got[k])))
					}
				}
				got[i] = slices.Clone(readers[i].got)
				readers[i] = openInput(t, inputConfig{from: readers[i].next}, kv...)
			}
			for i, in := range readers {
				in.until(in.count(end - len(got[i])))
				if diff := cmp.Diff(sequence(0, end), append(got[i], in.got...)); diff != "" {
					t.Errorf("reader %d: %s", i, diff)
				}
				in.close()
			}
			info, err := s.Info(t.Context())
			if err != nil || info.State.Consumers != 0 {
				t.Errorf("consumers are left on the server: %+v, %v", info, err)
			}
		})
		t.Run(fmt.Sprint("subject ", order), func(t *testing.T) {
			b := newBroker(t)
			_, nc := b.client()
			readers := make([]*input, 3)
			for i := range readers {
				readers[i] = openInput(t, inputConfig{}, "url", b.url(), "subject", "in.>")
				readers[i].until(readers[i].caughtUp)
			}
			end := 0
			for n, i := range order {
				say(t, nc, "in.a", end, end+10)
				end += 10
				for _, k := range order[n:] { // those that are still open
					readers[k].until(readers[k].count(end))
					if diff := cmp.Diff(sequence(0, end), readers[k].got); diff != "" {
						t.Errorf("reader %d: %s", k, diff)
					}
				}
				readers[i].close()
			}
		})
	}
}
