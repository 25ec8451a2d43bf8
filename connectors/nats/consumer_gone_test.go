package nats

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestAConsumerThatWasDeletedIsNoErrorOfTheCommit: whoever reads makes another one, or
// says what is gone.
func TestAConsumerThatWasDeletedIsNoErrorOfTheCommit(t *testing.T) {
	q := newQueue(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, "subject", "in.a")
	publish(t, q.js, "in.a", 0, 10)
	in := q.open(inputConfig{})
	in.until(in.count(10))
	r := in.reader.(*reader)
	r.receipts.mu.Lock()
	r.receipts.markedAt = r.receipts.markedAt.Add(-2 * markInterval)
	r.receipts.mu.Unlock()
	for _, c := range q.consumers() {
		if err := q.s.DeleteConsumer(t.Context(), c.Name); err != nil {
			t.Fatal(err)
		}
	}
	in.commit(in.next)
	publish(t, q.js, "in.a", 10, 20)
	in.until(in.count(20))
	wantOnce(t, in.got, 0, 20)
	in.commit(in.next)
	if n := q.left(); n != 0 {
		t.Errorf("%d messages left, want none", n)
	}
}
