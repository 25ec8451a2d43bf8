package nats

import (
	"slices"
	"testing"

	"github.com/streamd-io/streamd/messages/fault"
)

// TestFrozenBeforeItSendsAgain: a process that was frozen between its look at the
// marker and the rows that it sends again looks once more before it sends them.
func TestFrozenBeforeItSendsAgain(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	zombie := openOutput(t, outputConfig{attempt: 1}, outOptions(b)...)
	w := zombie.writers[0].(*writer)
	waiting := func(n int64) { // a row that was not sent
		w.open.Store(false)
		w.mu.Lock()
		defer w.mu.Unlock()
		row := w.tail.Load()
		s := &w.ring[row%uint64(len(w.ring))]
		s.id, s.hasID, s.subject, s.data, s.state = rowID(n), true, []byte("out.1"), []byte(`{"n":1}`), slotWaiting
		w.tail.Store(row + 1)
	}
	waiting(1)
	zombie.c.lease.until.Store(0) // frozen, but nobody has taken over
	if err := w.resend(t.Context(), zombie.c.link); err != nil {
		t.Fatal(err)
	}
	if err := w.await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	openOutput(t, outputConfig{attempt: 2}, outOptions(b)...)
	waiting(2)
	zombie.c.lease.until.Store(0)
	err := w.resend(t.Context(), zombie.c.link)
	if err == nil { // the keeper has found it out before
		err = w.failure()
	}
	wantFault(t, err, fault.Config, classFenced, "attempt 2")
	if got := stored(t, js, "OUT"); !slices.Equal(got, []int64{1}) {
		t.Errorf("the stream has %v, want the row from before the other attempt", got)
	}
}
