package nats

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// TestOutputStreamsThatAreRefused: the promise is not given for a stream that
// cannot keep it, and the error says what to change.
func TestOutputStreamsThatAreRefused(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "ORIGIN", Subjects: []string{"origin"}})
	tests := []struct {
		name   string
		cfg    jetstream.StreamConfig
		class  string
		words  string
		always bool // also with at_least_once
	}{
		{"retention", jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}, classRetention, "limits retention", true},
		{"no acknowledgements", jetstream.StreamConfig{NoAck: true}, classUnsuitable, "no_ack", true},
		{"discard per subject", jetstream.StreamConfig{Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 3}, classUnsuitable, "--no-discard-per-subject", true},
		{"mirror", jetstream.StreamConfig{Mirror: &jetstream.StreamSource{Name: "ORIGIN"}}, classUnsuitable, "mirrors stream ORIGIN", true},
		{"last per subject", jetstream.StreamConfig{MaxMsgsPerSubject: 1}, classUnsuitable, "keeps 1 messages per subject", false},
		{"asynchronous", jetstream.StreamConfig{PersistMode: jetstream.AsyncPersistMode}, classUnsuitable, "persist_mode async", true},
		{"counters", jetstream.StreamConfig{AllowMsgCounter: true}, classUnsuitable, "counters", true},
		{"too few", jetstream.StreamConfig{MaxMsgs: 100}, classUnsuitable, "max_pending", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := tt.cfg
			if cfg.Name = "OUT"; cfg.Mirror == nil {
				cfg.Subjects = []string{"out.>"}
			}
			stream(t, js, cfg)
			defer func() {
				if err := js.DeleteStream(t.Context(), "OUT"); err != nil {
					t.Fatal(err)
				}
			}()
			exact := tryOutput(t, outputConfig{}, outOptions(b)...)
			wantFault(t, exact.c.Recover(t.Context(), 0, nil), fault.Config, tt.class, tt.words)
			loose := tryOutput(t, outputConfig{atLeastOnce: true}, outOptions(b)...)
			err := loose.c.Recover(t.Context(), 0, nil)
			if tt.always {
				wantFault(t, err, fault.Config, tt.class, tt.words)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOutputStreamIsLookedAtAgain: what is changed while the query runs is noticed when it
// connects again.
func TestOutputStreamIsLookedAtAgain(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := outStream(t, js)
	reconnect := func(o *output) error {
		o.c.link.nc.Close()
		var err error
		for n := 1000; err == nil; n++ {
			err = o.try(0, n, n+1)
		}
		return err
	}
	t.Run("trimmed behind the last epoch", func(t *testing.T) {
		o := openOutput(t, outputConfig{attempt: 1}, outOptions(b)...)
		o.write(0, 0, 10)
		o.commit()
		o.write(0, 10, 20)
		o.prepare() // waits for the rows; the epoch has no commit record
		if err := s.Purge(t.Context(), jetstream.WithPurgeKeep(1)); err != nil {
			t.Fatal(err)
		}
		wantFault(t, reconnect(o), fault.Config, classTrimmed, "exactly_once", "at_least_once")
	})
	t.Run("trimmed when nothing is to be found", func(t *testing.T) {
		o := openOutput(t, outputConfig{attempt: 2, incarnation: 2}, outOptions(b)...)
		publish(t, js, "out.foreign", 0, 10)
		if err := s.Purge(t.Context(), jetstream.WithPurgeKeep(1)); err != nil {
			t.Fatal(err)
		}
		if err := o.c.verify(t.Context(), o.c.link); err != nil {
			t.Fatal(err)
		}
		o.write(0, 100, 110)
		last := o.prepare()
		o.close()
		openOutput(t, outputConfig{attempt: 3, incarnation: 2, epoch: 1, last: last}, outOptions(b)...)
	})
	t.Run("edited", func(t *testing.T) {
		o := openOutput(t, outputConfig{attempt: 3, incarnation: 3}, outOptions(b)...)
		cfg := s.CachedInfo().Config
		cfg.MaxMsgsPerSubject = 5
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		wantFault(t, reconnect(o), fault.Config, classUnsuitable, "per subject")
	})
}

// TestOutputStreamsThatCannotHoldMarkers: a transform would store the marker, or the
// fence, under another subject than the one it is looked for.
func TestOutputStreamsThatCannotHoldMarkers(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{
		Name: "OUT", Subjects: []string{"out.>", "streamd.transactions.>", "streamd.fences.>"}, AllowAtomicPublish: true,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: ">", Destination: "moved.>"},
	})
	for name, c := range map[string]struct {
		cfg outputConfig
		kv  []string
	}{
		"transactional": {cfg: outputConfig{offer: transactional}},
		"exclusive":     {kv: []string{"exclusive", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := tryOutput(t, c.cfg, append(outOptions(b), c.kv...)...)
			wantFault(t, o.com.Recover(t.Context(), 0, nil), fault.Config, classUnsuitable, "transform")
		})
	}
	o := openOutput(t, outputConfig{}, outOptions(b)...) // rows are told by their headers
	o.write(0, 0, 10)
	o.commit()
}
