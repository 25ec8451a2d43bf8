package nats

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

func outOptions(b *broker) []string {
	return []string{"url", b.url(), "stream", "OUT", "subject", "out.{n}"}
}

func TestOldAttemptIsFenced(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	t.Run("when it commits", func(t *testing.T) {
		zombie := openOutput(t, outputConfig{attempt: 1}, outOptions(b)...)
		zombie.write(0, 0, 10)
		openOutput(t, outputConfig{attempt: 2}, outOptions(b)...)
		tok := zombie.prepare()
		wantFault(t, zombie.com.Commit(t.Context(), 1, tok), fault.Config, classFenced, "attempt 2")
		wantFault(t, zombie.try(0, 10, 20), fault.Config, classFenced)
	})
	t.Run("when it connects again", func(t *testing.T) {
		zombie := openOutput(t, outputConfig{attempt: 3}, outOptions(b)...)
		openOutput(t, outputConfig{attempt: 4}, outOptions(b)...)
		zombie.c.link.nc.Close()
		var err error
		for err == nil {
			err = zombie.try(0, 100, 101)
		}
		wantFault(t, err, fault.Config, classFenced, "attempt 4")
		if slices.Contains(stored(t, js, "OUT"), 100) {
			t.Error("a row of the fenced attempt was published")
		}
	})
	t.Run("when it wakes up", func(t *testing.T) {
		zombie := openOutput(t, outputConfig{attempt: 4}, outOptions(b)...)
		zombie.write(0, 110, 120)
		zombie.c.lease.until.Store(0) // it has been frozen for some seconds
		zombie.write(0, 120, 130)     // but nobody has taken over
		openOutput(t, outputConfig{attempt: 5}, outOptions(b)...)
		zombie.c.lease.until.Store(0)
		wantFault(t, zombie.try(0, 200, 201), fault.Config, classFenced, "attempt 5")
		if slices.Contains(stored(t, js, "OUT"), 200) {
			t.Error("a row of the fenced attempt was published")
		}
	})
	t.Run("when it starts", func(t *testing.T) {
		late := tryOutput(t, outputConfig{attempt: 2}, outOptions(b)...)
		wantFault(t, late.com.Recover(t.Context(), 0, nil), fault.Config, classFenced, "attempt 5")
	})
	t.Run("a new incarnation takes over whatever its number", func(t *testing.T) {
		fresh := openOutput(t, outputConfig{attempt: 1, incarnation: 5}, outOptions(b)...)
		fresh.commit()
	})
}

// TestCrashBeforeTheFirstCommit: there is no token yet, the marker says where to
// look.
func TestCrashBeforeTheFirstCommit(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	publish(t, js, "out.foreign", 1000, 1010)
	o := openOutput(t, outputConfig{attempt: 1}, outOptions(b)...)
	o.write(0, 0, 50)
	o.close()
	o = openOutput(t, outputConfig{attempt: 2}, outOptions(b)...)
	o.write(0, 0, 20)
	o.write(0, 50, 60)
	o.close()
	o = openOutput(t, outputConfig{attempt: 3}, outOptions(b)...)
	o.write(0, 0, 70)
	o.commit()
	got := stored(t, js, "OUT")
	wantOnce(t, got[10:], 0, 70)
}

func TestCommitIsIdempotent(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{}, outOptions(b)...)
	o.commit()
	o.c.marker, o.c.committed = o.c.marker-1, 0 // as if the answer of the first try had been lost
	if err := o.com.Commit(t.Context(), o.epoch, o.last); err != nil {
		t.Fatal(err)
	}
	o.commit()
}

// TestRowsInFlightAtBegin: rows of the epoch that were acknowledged after Begin
// are not taken for rows of a later epoch.
func TestRowsInFlightAtBegin(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{subtasks: 2}, outOptions(b)...)
	o.write(0, 0, 10)
	o.epoch++
	o.com.Begin(1)
	o.write(0, 10, 20) // epoch 1: the marker has not come yet
	first, err := o.writers[0].Cut(1)
	if err != nil {
		t.Fatal(err)
	}
	o.write(0, 20, 30) // epoch 2, already
	o.write(1, 30, 40) // epoch 1: this subtask lags
	second, err := o.writers[1].Cut(1)
	if err != nil {
		t.Fatal(err)
	}
	tok := o.finish([]connectors.Flush{first, second})
	if err := o.com.Commit(t.Context(), 1, tok); err != nil {
		t.Fatal(err)
	}
	o.write(1, 40, 50) // epoch 2
	o.close()
	o = openOutput(t, outputConfig{attempt: 2, epoch: 1, last: tok, subtasks: 2}, outOptions(b)...)
	var found []int64
	for id := range o.c.adoption {
		found = append(found, int64(id.Lo))
	}
	slices.Sort(found)
	if diff := cmp.Diff(append(sequence(20, 30), sequence(40, 50)...), found); diff != "" {
		t.Error(diff)
	}
}

// TestSeldomRowsDoNotHoldOnToTheStream: others publish a lot between two rows of
// the query, and the stream forgets it.
func TestSeldomRowsDoNotHoldOnToTheStream(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{}, outOptions(b)...)
	o.c.sink.readEndEvery = 0
	o.write(0, 0, 1)
	o.commit()
	publish(t, js, "out.foreign", 1000, 1100)
	o.commit()
	o.commit() // nothing to write, but the epoch goes on
	s, err := js.Stream(t.Context(), "OUT")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeKeep(1)); err != nil {
		t.Fatal(err)
	}
	o.write(0, 1, 2) // behind the commit: to be found again
	last, epoch := o.last, o.epoch
	o.close()
	o = openOutput(t, outputConfig{attempt: 2, epoch: epoch, last: last}, outOptions(b)...)
	o.write(0, 1, 3)
	o.commit()
	wantOnce(t, stored(t, js, "OUT")[1:], 1, 3)
}

func TestGuaranteeIsRefused(t *testing.T) {
	setup := func(t *testing.T) (*broker, jetstream.JetStream, jetstream.Stream, outputConfig) {
		b := newBroker(t)
		js, _ := b.client()
		s := outStream(t, js)
		o := openOutput(t, outputConfig{attempt: 1}, outOptions(b)...)
		o.write(0, 0, 50)
		o.commit()
		o.write(0, 50, 60)
		o.close()
		return b, js, s, outputConfig{attempt: 2, epoch: 1, last: o.last}
	}
	refused := func(t *testing.T, b *broker, c outputConfig, class string, words ...string) {
		t.Helper()
		o := tryOutput(t, c, outOptions(b)...)
		wantFault(t, o.com.Recover(t.Context(), c.epoch, c.last), fault.Config, class, words...)
	}
	t.Run("when the end of the stream was trimmed", func(t *testing.T) {
		b, _, s, c := setup(t)
		if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(55)); err != nil {
			t.Fatal(err)
		}
		refused(t, b, c, classTrimmed, "trimmed to sequence 55", "at_least_once")
		c.atLeastOnce = true
		openOutput(t, c, outOptions(b)...)
	})
	t.Run("but not when only committed rows were", func(t *testing.T) {
		b, _, s, c := setup(t)
		tok, err := decodeToken(c.last)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(tok.ScanFrom)); err != nil {
			t.Fatal(err)
		}
		openOutput(t, c, outOptions(b)...)
	})
	t.Run("nor when those were that came behind the marker's injection", func(t *testing.T) {
		for _, late := range []int{0, 10} { // rows of the next epoch
			b := newBroker(t)
			js, _ := b.client()
			s := outStream(t, js)
			o := openOutput(t, outputConfig{}, outOptions(b)...)
			o.write(0, 0, 50)
			o.epoch++
			o.com.Begin(o.epoch)
			o.write(0, 50, 80)
			if err := o.writers[0].(*writer).await(t.Context(), 80); err != nil {
				t.Fatal(err)
			}
			publish(t, js, "out.foreign", 1000, 1001)
			o.write(0, 80, 100)
			flushes := o.cut(o.epoch)
			o.write(0, 100, 100+late)
			tok := o.finish(flushes)
			if err := o.com.Commit(t.Context(), 1, tok); err != nil {
				t.Fatal(err)
			}
			o.close()
			gone := uint64(102) // everything up to the commit
			if late > 0 {
				gone = 81 // rows up to the message of somebody else
			}
			if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(gone)); err != nil {
				t.Fatal(err)
			}
			o = openOutput(t, outputConfig{attempt: 2, epoch: 1, last: tok}, outOptions(b)...)
			if n := o.c.unmet.Load(); n != int64(late) {
				t.Errorf("%d rows of the next epoch are found, want %d", n, late)
			}
			o.close()
		}
	})
	t.Run("when the stream was re-created", func(t *testing.T) {
		b, js, _, c := setup(t)
		if err := js.DeleteStream(t.Context(), "OUT"); err != nil {
			t.Fatal(err)
		}
		outStream(t, js)
		refused(t, b, c, classRecreated, "re-created")
	})
	t.Run("when the stream does not keep what is delivered", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, Retention: jetstream.WorkQueuePolicy})
		refused(t, b, outputConfig{}, classRetention, "limits retention")
	})
	t.Run("when the stream does not take the subjects", func(t *testing.T) {
		b := newBroker(t)
		js, _ := b.client()
		stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.1"}})
		refused(t, b, outputConfig{}, classSubject, "nats stream edit OUT")
	})
	t.Run("when the stream is missing", func(t *testing.T) {
		b := newBroker(t)
		refused(t, b, outputConfig{}, classMissing, "nats stream add OUT --subjects 'out.*'")
		o := openOutput(t, outputConfig{}, append(outOptions(b), "create", "true")...)
		o.write(0, 0, 5)
		o.commit()
	})
}

// TestStreamChangesWhileWriting: the writer notices when it connects again.
func TestStreamChangesWhileWriting(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{}, outOptions(b)...)
	o.write(0, 0, 10)
	if err := js.DeleteStream(t.Context(), "OUT"); err != nil {
		t.Fatal(err)
	}
	err := o.try(0, 10, 11) // nobody listens to the subject
	if err == nil {
		o.epoch++
		o.com.Begin(1)
		_, err = o.tryFinish(o.cut(1))
	}
	wantFault(t, err, fault.Config, classMissing, "nats stream add OUT")
}

// TestFullStreamHoldsBack: rows are not lost, and not errors.
func TestFullStreamHoldsBack(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, MaxMsgs: 50, Discard: jetstream.DiscardNew, Duplicates: noWindow})
	warned := make(chan struct{})
	var log onceLog
	log.first = warned
	o := openOutput(t, outputConfig{log: slog.New(slog.NewTextHandler(&log, nil))}, append(outOptions(b), "max_pending", "64")...)
	o.write(0, 0, 100)
	<-warned
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = 1000
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 100)
	if !strings.Contains(log.String(), "maximum messages exceeded") {
		t.Errorf("the log does not say why: %s", log.String())
	}
}

// onceLog closes first at the first write.
type onceLog struct {
	bytes.Buffer
	first chan struct{}
}

func (l *onceLog) Write(p []byte) (int, error) {
	if l.first != nil {
		close(l.first)
		l.first = nil
	}
	return l.Buffer.Write(p)
}

func TestRowsThatCannotBePublished(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, MaxMsgSize: 60})
	t.Run("too large for the stream", func(t *testing.T) {
		o := openOutput(t, outputConfig{}, outOptions(b)...)
		o.write(0, 0, 1) // headers alone are larger
		o.epoch++
		o.com.Begin(1)
		_, err := o.tryFinish(o.cut(1))
		wantFault(t, err, fault.BadRow, "", "out.0", "larger than the stream allows")
	})
	t.Run("subject too long", func(t *testing.T) {
		o := openOutput(t, outputConfig{}, "url", b.url(), "stream", "OUT", "subject", "out."+strings.Repeat("x", 249)+"{n}")
		wantFault(t, o.try(0, 100, 101), fault.BadRow, "", "longer than 255")
	})
}

func TestSinkWaitsForTheServer(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	b.stop()
	var log onceLog
	warned := make(chan struct{})
	log.first = warned
	o := tryOutput(t, outputConfig{log: slog.New(slog.NewTextHandler(&log, nil))}, outOptions(b)...)
	done := make(chan error, 1)
	go func() { done <- o.com.Recover(t.Context(), 0, nil) }()
	<-warned
	b.start()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := tryOutput(t, outputConfig{attempt: 2}, outOptions(b)...)
	if err := late.com.Recover(ctx, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Recover = %v, want canceled", err)
	}
}
