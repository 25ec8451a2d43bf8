package nats

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages/fault"
)

var transactional = connectors.Offer{Guarantee: connectors.Transactional, Visibility: connectors.PerEpoch}

// atomicStream creates a stream for any guarantee.
func atomicStream(t testing.TB, js jetstream.JetStream, name, subjects string) jetstream.Stream {
	t.Helper()
	return stream(t, js, jetstream.StreamConfig{Name: name, Subjects: []string{subjects, transactionSubjects + ">", fenceSubjects + ">"}, AllowAtomicPublish: true, Duplicates: noWindow})
}

// TestTransactions: readers see whole epochs only, each ended by a marker.
func TestTransactions(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional, subtasks: 2}, outOptions(b)...)
	const epochs, rows = 20, 150
	seen := make(chan error, 1)
	go func() { // the last message is a marker, whenever one looks
		for {
			m, err := s.GetLastMsgForSubject(t.Context(), ">")
			if err == nil && m.Header.Get("Nats-Batch-Commit") == "" && m.Sequence > 1 {
				err = fmt.Errorf("message %d for %s is visible, and what follows is not", m.Sequence, m.Subject)
			}
			if err != nil || m.Sequence == 1+epochs*(rows+1) {
				seen <- err
				return
			}
		}
	}()
	for i := range epochs {
		o.write(0, i*rows, i*rows+100)
		o.write(1, i*rows+100, (i+1)*rows)
		o.commit()
	}
	if err := <-seen; err != nil {
		t.Error(err)
	}
	o.commit() // without rows
	if diff := cmp.Diff(sequence(0, epochs*rows), stored(t, js, "OUT")); diff != "" {
		t.Error(diff)
	}
	m, err := s.GetMsg(t.Context(), 1+rows+1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "streamd.transactions.q.out" || m.Header.Get("Nats-Batch-Commit") != "1" {
		t.Errorf("the epoch ends with %s %v", m.Subject, m.Header)
	}
}

func TestTransactionLimit(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	s, err := newTestSink(t, nil, outOptions(b)...)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	com, err := s.Open(t.Context(), connectors.WriteRequest{
		Query: "q", Sink: "out", Attempt: 1, Schema: numbers(), Offer: transactional, Stash: &connectortest.Stash{}, AskEpoch: func() { asked++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	o := tryOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
	o.com, o.c = com, com.(*transactionCommitter).committer
	o.recover(outputConfig{})
	o.write(0, 0, 400)
	if asked != 0 {
		t.Error("an early epoch was asked for at 400 rows")
	}
	o.write(0, 400, 999)
	if asked != 1 {
		t.Errorf("an early epoch was asked for %d times", asked)
	}
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 999)
	o.write(0, 999, 1999)
	o.epoch++
	_, err = o.tryFinish(o.cut(o.epoch))
	wantFault(t, err, fault.Config, classTooLarge, "1000 rows", "max_batch_size", "epoch_interval")
}

// TestTransactionLimitOfTheServer: the option says more than the server takes.
func TestTransactionLimitOfTheServer(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional}, append(outOptions(b), "max_batch_size", "5000")...)
	o.write(0, 0, 1500)
	o.record()
	wantFault(t, o.com.Commit(t.Context(), o.epoch, o.last), fault.Config, classTooLarge, "too large: 1000", "max_batch_size")
	if got := stored(t, js, "OUT"); len(got) > 0 {
		t.Errorf("%d rows are visible", len(got))
	}
}

func TestTransactionsAreRefused(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	refused := func(t *testing.T, class string, words ...string) {
		t.Helper()
		o := tryOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
		wantFault(t, o.com.Recover(t.Context(), 0, nil), fault.Config, class, words...)
	}
	t.Run("stream without atomic batches", func(t *testing.T) { refused(t, classAtomic, "--allow-batch") })
	s, err := js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, AllowAtomicPublish: true, Duplicates: noWindow})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("stream without the marker's subject", func(t *testing.T) {
		refused(t, classSubject, "nats stream edit OUT --subjects 'out.>,streamd.transactions.q.out'")
	})
	t.Run("old server", func(t *testing.T) {
		o := tryOutput(t, outputConfig{}, outOptions(b)...)
		l, err := o.c.sink.conn.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		wantFault(t, l.atLeast("99.1.0", "time travel"), fault.Config, classVersion, "time travel needs 99.1.0")
		if err := l.atLeast(atomicVersion, ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("created as needed", func(t *testing.T) {
		if err := js.DeleteStream(t.Context(), s.CachedInfo().Config.Name); err != nil {
			t.Fatal(err)
		}
		o := openOutput(t, outputConfig{offer: transactional}, append(outOptions(b), "create", "true")...)
		o.write(0, 0, 5)
		o.commit()
	})
}

func TestTransactionZombie(t *testing.T) {
	b := newBroker(t)
	js, nc := b.client()
	s := atomicStream(t, js, "OUT", "out.>")
	zombie := openOutput(t, outputConfig{attempt: 1, offer: transactional}, outOptions(b)...)
	zombie.write(0, 0, 50)
	zombie.record()
	at := zombie.c.marker
	c := outputConfig{attempt: 2, offer: transactional, epoch: 1, last: zombie.last, stash: zombie.stash}
	o := openOutput(t, c, outOptions(b)...) // publishes epoch 1
	wantFault(t, zombie.com.Commit(t.Context(), 1, zombie.last), fault.Config, classFenced, "attempt 2")
	late := nats.NewMsg(zombie.c.markerPlace().subject) // what was in its socket
	for k, v := range map[string]string{headerBatch: "late", headerBatchSeq: "1", headerBatchCommit: "1", nats.ExpectedLastSubjSeqHdr: fmt.Sprint(at)} {
		late.Header.Set(k, v)
	}
	m, err := nc.RequestMsg(late, dialTimeout)
	if err != nil {
		t.Fatal(err)
	}
	var a ack
	if parseAck(m, &a); !isWrongLast(a.err) {
		t.Errorf("a late batch was answered by %q", m.Data)
	}
	o.write(0, 50, 60)
	o.commit()
	if diff := cmp.Diff(sequence(0, 60), stored(t, js, "OUT")); diff != "" {
		t.Error(diff)
	}
	old := tryOutput(t, outputConfig{attempt: 3, offer: transactional, stash: c.stash}, outOptions(b)...)
	wantFault(t, old.com.Recover(t.Context(), 1, c.last), fault.Config, classAhead, "starts from epoch 1", "published epoch 2", "--accept-duplicates")
	t.Run("the marker is gone", func(t *testing.T) {
		if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(transactionSubjects+">")); err != nil {
			t.Fatal(err)
		}
		old := tryOutput(t, outputConfig{attempt: 4, offer: transactional, stash: c.stash}, outOptions(b)...)
		wantFault(t, old.com.Recover(t.Context(), 1, c.last), fault.Config, classTrimmed, "epoch 1")
	})
}

// TestTransactionAnswerIsLost: the batch was stored, the sink does not know.
func TestTransactionAnswerIsLost(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
	o.write(0, 0, 10)
	o.record()
	tc := o.com.(*transactionCommitter)
	if _, err := tc.batch(t.Context(), o.c.link, 1, o.c.marker); err != nil {
		t.Fatal(err)
	}
	if err := o.com.Commit(t.Context(), 1, o.last); err != nil {
		t.Fatal(err)
	}
	o.write(0, 10, 20)
	o.record()
	if _, err := tc.batch(t.Context(), o.c.link, 2, o.c.marker); err != nil {
		t.Fatal(err)
	}
	o.c.link.nc.Close() // and then the connection is lost
	if err := o.com.Commit(t.Context(), 2, o.last); err != nil {
		t.Fatal(err)
	}
	wantOnce(t, stored(t, js, "OUT"), 0, 20)
}

func TestTransactionExclusive(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional}, exclusiveOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	o.write(0, 10, 20)
	o.commit()
	publish(t, js, "out.foreign", 0, 1)
	o.write(0, 20, 30)
	o.record()
	wantFault(t, o.com.Commit(t.Context(), o.epoch, o.last), fault.Config, classExclusive, "message 24", "out.foreign")
}

func TestGuaranteeIsChanged(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	for _, offer := range []connectors.Offer{perEpoch, {Guarantee: connectors.ExactlyOnce}} {
		late := tryOutput(t, outputConfig{attempt: 2, offer: offer, stash: o.stash}, outOptions(b)...)
		wantFault(t, late.com.Recover(t.Context(), o.epoch, o.last), fault.Config, classAhead, "changed from 'transactional'")
	}
	o.commit() // nothing is left
	p := o.next(outputConfig{attempt: 2, offer: perEpoch}, outOptions(b)...)
	p.write(0, 10, 20)
	p.commit()
	p.commit()
	o = p.next(outputConfig{attempt: 3, offer: transactional}, outOptions(b)...)
	o.write(0, 20, 30)
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 30)
}

// TestLargeTransaction: more is on its way than the server would queue.
func TestLargeTransaction(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	o := openOutput(t, outputConfig{offer: transactional}, "url", b.url(), "stream", "OUT", "subject", "out.{n}")
	bt := newBatch(o.c.link, o.c.tag)
	data := make([]byte, 256<<10)
	for range 800 { // 200 MiB
		if err := bt.add(t.Context(), []byte("out.large"), data); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	end, err := bt.commit(t.Context(), "out.large", data)
	if err != nil || end != 802 {
		t.Errorf("sequence %d after %v: %v", end, time.Since(start), err)
	}
}
