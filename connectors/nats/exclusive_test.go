package nats

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

func exclusiveOptions(b interface{ url() string }) []string {
	return []string{"url", b.url(), "stream", "OUT", "subject", "out.{n}", "exclusive", "true"}
}

// exclusiveStream has room for the fences, too.
func exclusiveStream(t testing.TB, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	return stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>", fenceSubjects + ">"}, Duplicates: noWindow})
}

// untilError writes rows from a number on until the sink notices, and returns
// the first row that it did not take.
func (o *output) untilError(from int) (int, error) {
	o.t.Helper()
	for n := from; n < from+100_000; n++ {
		if err := o.try(n%len(o.writers), n, n+1); err != nil {
			return n, err
		}
	}
	o.t.Fatal("no error")
	return 0, nil
}

func TestExclusive(t *testing.T) {
	t.Run("rows of several subtasks", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		exclusiveStream(t, js)
		o := openOutput(t, outputConfig{subtasks: 3}, exclusiveOptions(b)...)
		for i := range 30 {
			o.write(i%3, i*100, i*100+100)
		}
		o.commit()
		wantOnce(t, stored(t, js, "OUT"), 0, 3000)
		s, err := js.Stream(t.Context(), "OUT")
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(t.Context(), 17)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"Nats-Expected-Last-Sequence": "16", "Nats-Expected-Last-Subject-Sequence": "1", "Nats-Expected-Last-Subject-Sequence-Subject": "streamd.fences.q.out"}
		for name, v := range want {
			if got := m.Header.Get(name); got != v {
				t.Errorf("row at 17 has %s %q, want %q", name, got, v)
			}
		}
	})
	t.Run("a message of somebody else", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		exclusiveStream(t, js)
		publish(t, js, "out.before", 0, 3) // was there before
		o := openOutput(t, outputConfig{subtasks: 2}, exclusiveOptions(b)...)
		o.write(0, 0, 10)
		o.commit()
		publish(t, js, "out.foreign", 0, 1)
		_, err := o.untilError(10)
		wantFault(t, err, fault.Config, classExclusive, "message 15", "out.foreign")
	})
	t.Run("a message of somebody else while the query is quiet", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		exclusiveStream(t, js)
		o := openOutput(t, outputConfig{}, exclusiveOptions(b)...)
		o.c.sink.readEndEvery = 0
		o.commit()
		publish(t, js, "out.foreign", 0, 1)
		o.commit()
		o.commit()
		_, err := o.untilError(0)
		wantFault(t, err, fault.Config, classExclusive, "message 2 ", "out.foreign")
	})
	t.Run("a late row of an earlier attempt", func(t *testing.T) {
		b := newBroker(t)
		js, nc := b.client()
		exclusiveStream(t, js)
		o := openOutput(t, outputConfig{}, exclusiveOptions(b)...)
		o.write(0, 0, 10)
		o.commit()
		late := nats.NewMsg("out.10") // what a frozen process had in its socket
		late.Data = []byte(`{"n":10}`)
		late.Header.Set(headerID, idOf(10))
		late.Header.Set(headerSink, o.c.tag)
		late.Header.Set(headerExpected, "11")
		if _, err := nc.RequestMsg(late, dialTimeout); err != nil {
			t.Fatal(err)
		}
		end, err := o.untilError(11)
		wantFault(t, err, fault.Restart, classExclusive, idOf(10))
		last := o.last
		o.close()
		o = openOutput(t, outputConfig{attempt: 2, epoch: 1, last: last}, exclusiveOptions(b)...)
		o.write(0, 10, end)
		o.commit()
		wantOnce(t, stored(t, js, "OUT"), 0, end)
	})
	t.Run("a late row that this attempt sends, too", func(t *testing.T) {
		b := newBroker(t)
		js, nc := b.client()
		exclusiveStream(t, js)
		o := openOutput(t, outputConfig{}, exclusiveOptions(b)...)
		late := nats.NewMsg("out.3")
		late.Data = []byte(`{"n":3}`)
		late.Header.Set(headerID, idOf(3))
		late.Header.Set(headerSink, o.c.tag)
		if _, err := nc.RequestMsg(late, dialTimeout); err != nil {
			t.Fatal(err)
		}
		o.write(0, 0, 10) // row 3 is among those that wait
		o.commit()
		wantOnce(t, stored(t, js, "OUT"), 0, 10)
		o.c.duplicates.Store(0) // the window may answer first
	})
}

// TestExclusiveIsHeldBack: rows that the server cannot take are sent again in
// order, and nobody is accused.
func TestExclusiveIsHeldBack(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>", fenceSubjects + ">"}, MaxMsgs: 51, Discard: jetstream.DiscardNew, Duplicates: noWindow})
	told := make(chan string, 1000)
	o := tryOutput(t, outputConfig{subtasks: 2}, exclusiveOptions(b)...)
	o.c.req.OnRetrying = func(reason string) { told <- reason }
	o.recover(outputConfig{subtasks: 2})
	for i := range 10 {
		o.write(i%2, i*10, i*10+10)
	}
	if reason := <-told; !strings.Contains(reason, "maximum messages exceeded") {
		t.Errorf("the sink waits because of %q", reason)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = 1000
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 100)
}

func TestExclusiveSurvivesServerRestarts(t *testing.T) {
	c := newChild(t)
	js, _ := c.client()
	exclusiveStream(t, js)
	o := openOutput(t, outputConfig{subtasks: 2}, exclusiveOptions(c)...)
	const rounds, step = 3, 1000
	for i := range rounds {
		o.write(i%2, i*step, i*step+step)
		c.kill()
		c.start()
	}
	o.last = o.prepare()
	js, _ = c.client()
	wantOnce(t, stored(t, js, "OUT"), 0, rounds*step)
}

func TestExclusiveNeedsIdentities(t *testing.T) {
	s, err := newTestSink(t, nil, exclusiveOptions(&broker{})...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Open(t.Context(), connectors.WriteRequest{})
	wantFault(t, err, fault.Config, "", "exclusive", "exactly_once")
}
