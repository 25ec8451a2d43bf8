package nats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

// noWindow is a duplicate window that no restart fits into, so that nothing can
// rest on it.
const noWindow = 100 * time.Millisecond

func outStream(t testing.TB, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	return stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, Duplicates: noWindow})
}

func TestSinkPublishesRows(t *testing.T) {
	for _, atLeastOnce := range []bool{true, false} {
		b := newBroker(t)
		js, _ := b.client()
		s := outStream(t, js)
		o := openOutput(t, outputConfig{atLeastOnce: atLeastOnce, subtasks: 2}, "url", b.url(), "stream", "OUT", "subject", "out.{n}")
		o.write(0, 0, 3000)
		o.write(1, 3000, 5000)
		o.commit()
		wantOnce(t, stored(t, js, "OUT"), 0, 5000)
		m, err := s.GetLastMsgForSubject(t.Context(), "out.17")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(`{"n":17}`, string(m.Data)); diff != "" {
			t.Error(diff)
		}
		if got := m.Header.Get("Nats-Msg-Id"); got != idOf(17) {
			t.Errorf("id = %s, want %s", got, idOf(17))
		}
	}
}

// TestAdoption: rows that an attempt has published and not committed are found,
// also after a second crash in the middle of the replay.
func TestAdoption(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	kv := []string{"url", b.url(), "stream", "OUT", "subject", "out.{n}"}
	o := openOutput(t, outputConfig{attempt: 1, subtasks: 2}, kv...)
	o.write(0, 0, 100)
	o.commit()
	o.write(0, 100, 150)
	o.write(1, 150, 200)
	o.prepare() // the commit record is not written
	epoch, last := o.epoch-1, o.last
	o.close()
	publish(t, js, "out.foreign", 1000, 1050) // somebody else

	o = openOutput(t, outputConfig{attempt: 2, epoch: epoch, last: last, subtasks: 2}, kv...)
	if n := o.c.unmet.Load(); n != 100 {
		t.Errorf("%d rows to adopt, want 100", n)
	}
	o.write(1, 100, 120) // other subtasks than before
	o.write(0, 200, 210) // and rows that were not published yet
	o.commit()
	epoch, last = o.epoch, o.last
	o.write(0, 120, 130) // met again, but not committed
	o.write(1, 210, 220)
	o.close()

	o = openOutput(t, outputConfig{attempt: 3, epoch: epoch, last: last, subtasks: 2}, kv...)
	if n := o.c.unmet.Load(); n != 90 {
		t.Errorf("%d rows to adopt after the second crash, want 90", n)
	}
	o.write(0, 120, 200)
	o.write(0, 210, 250)
	o.commit()
	if n := len(o.c.adoption); n != 0 {
		t.Errorf("%d adopted rows are still carried", n)
	}
	var ours []int64
	for _, n := range stored(t, js, "OUT") {
		if n < 1000 {
			ours = append(ours, n)
		}
	}
	wantOnce(t, ours, 0, 250)
}

func TestSinkSurvivesServerRestarts(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{subtasks: 2}, "url", b.url(), "stream", "OUT", "subject", "out.{n}")
	next := 0
	for range 4 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.stop()
			b.start()
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			o.write(next/500%2, next, next+500)
			next += 500
		}
		o.write(0, next, next+500)
		next += 500
		o.last = o.prepare()
	}
	wantOnce(t, stored(t, js, "OUT"), 0, next)
	t.Logf("%d rows", next)
}
