package nats

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// quiet opens a transactional sink that has published rows 0 to 9 in epoch 1, and
// looks at its marker only when the test says so.
func quiet(t *testing.T, b *broker, js jetstream.JetStream) (*output, *transactionCommitter, jetstream.Stream) {
	t.Helper()
	s := atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
	c := o.com.(*transactionCommitter)
	stopLooking(o)
	o.write(0, 0, 10)
	o.commit()
	return o, c, s
}

// stopLooking makes the look that is due later find that there is nothing to do.
func stopLooking(o *output) {
	c := o.com.(*transactionCommitter)
	c.maxAge.Store(0)
	c.cancel()
	<-c.kept
}

func purge(t *testing.T, s jetstream.Stream) {
	t.Helper()
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestTransactionMarkerIsRemovedByLimits: a query that was quiet for longer than its
// stream keeps messages goes on, and starts again, if nothing can have been
// published unseen.
func TestTransactionMarkerIsRemovedByLimits(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	remove := func(t *testing.T) {
		if err := js.DeleteStream(t.Context(), "OUT"); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("while it runs", func(t *testing.T) {
		defer remove(t)
		o, _, s := quiet(t, b, js)
		purge(t, s)
		o.write(0, 10, 20)
		o.commit()
		wantOnce(t, stored(t, js, "OUT"), 10, 20)
	})
	t.Run("before a connect", func(t *testing.T) {
		defer remove(t)
		o, c, s := quiet(t, b, js)
		purge(t, s)
		c.link.close()
		o.write(0, 10, 20)
		o.commit()
		wantOnce(t, stored(t, js, "OUT"), 10, 20)
	})
	t.Run("before a restart", func(t *testing.T) {
		defer remove(t)
		o, _, s := quiet(t, b, js)
		o.write(0, 10, 20)
		o.record() // and the process dies
		o.close()
		purge(t, s)
		publish(t, js, "out.foreign", 1000, 1001)
		p := o.next(outputConfig{attempt: 2, offer: transactional}, outOptions(b)...)
		p.write(0, 20, 30)
		p.commit()
		wantOnce(t, stored(t, js, "OUT")[1:], 10, 30)
	})
	t.Run("and others publish", func(t *testing.T) {
		defer remove(t)
		o, c, s := quiet(t, b, js)
		publish(t, js, "out.foreign", 1000, 1100)
		c.looked = c.marker
		if err := c.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.write(0, 10, 20)
		o.record()
		purge(t, s)
		o.close()
		p := o.next(outputConfig{attempt: 2, offer: transactional}, outOptions(b)...)
		p.commit()
		wantOnce(t, stored(t, js, "OUT"), 10, 20)
	})
}

// TestTransactionMarkerIsLost: nothing tells what was published behind its back.
func TestTransactionMarkerIsLost(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	o, c, s := quiet(t, b, js)
	o.write(0, 10, 20)
	o.record()
	publish(t, js, "out.foreign", 1000, 1001)
	purge(t, s)
	wantFault(t, o.com.Commit(t.Context(), o.epoch, o.last), fault.Config, classTrimmed, "from sequence 13 on", "another attempt")
	next := tryOutput(t, outputConfig{attempt: 2, offer: transactional, stash: o.stash}, outOptions(b)...)
	wantFault(t, next.com.Recover(t.Context(), o.epoch, o.last), fault.Config, classTrimmed, "streamd.transactions.q.out", "begins with 14", "epoch 2")
	if c.err == nil {
		t.Error("the sink goes on")
	}
}

// TestTransactionMarkerIsPutBackByOne: an attempt that was replaced does not put its
// marker where that of its successor was, nor where it is again.
func TestTransactionMarkerIsPutBackByOne(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	zombie, c, s := quiet(t, b, js)
	o := openOutput(t, outputConfig{attempt: 2, offer: transactional, stash: zombie.stash, epoch: 1, last: zombie.last}, outOptions(b)...)
	stopLooking(o)
	purge(t, s)
	if _, _, err := c.putBack(t.Context(), c.link, 0); fault.ClassOf(err) != classTrimmed {
		t.Errorf("its successor's marker was removed, too: %v", err)
	}
	c.seen = o.c.marker // as if its successor had come behind this look at the stream
	o.write(0, 10, 20)
	o.commit()
	if _, _, err := c.putBack(t.Context(), c.link, 0); !isWrongLast(err) || fault.KindOf(err) != fault.Transient {
		t.Errorf("there is a marker: %v", err)
	}
	if _, err := c.reread(t.Context(), c.link, 0); fault.ClassOf(err) != classFenced {
		t.Errorf("it does not know: %v", err)
	}
	wantOnce(t, stored(t, js, "OUT"), 10, 20)
}

// TestTransactionLooksAtItsMarker: a sink without rows puts the marker back by
// itself, also on a new connection.
func TestTransactionLooksAtItsMarker(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
	for at := uint64(1); at < 3; at++ {
		purge(t, s)
		o.c.mu.Lock()
		l := o.c.link
		o.c.mu.Unlock()
		if at == 2 {
			l.nc.Close()
		}
		for end := time.Now().Add(20 * time.Second); ; {
			m, err := s.GetLastMsgForSubject(t.Context(), "streamd.transactions.q.out")
			if err == nil && m.Sequence == at+1 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("marker %d was not put back: %v", at, err)
			}
		}
	}
	o.write(0, 0, 10)
	o.commit()
}
