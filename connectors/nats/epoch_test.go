package nats

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var perEpoch = connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}

// record makes the commit record of an epoch, without the sink's commit.
func (o *output) record() {
	o.t.Helper()
	o.last = o.prepare()
	o.stash.Commit(o.epoch)
}

// next opens the attempt behind a crash.
func (o *output) next(c outputConfig, kv ...string) *output {
	o.t.Helper()
	o.close()
	o.stash.Crash()
	c.epoch, c.last, c.stash = o.epoch, o.last, o.stash
	return openOutput(o.t, c, kv...)
}

func TestPerEpochPublishesWhatHasCommitted(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{offer: perEpoch, subtasks: 2}, outOptions(b)...)
	o.write(0, 0, 1500)
	o.write(1, 1500, 3000)
	if got := stored(t, js, "OUT"); len(got) > 0 {
		t.Errorf("%d rows are visible before their epoch has ended", len(got))
	}
	o.record()
	first, token := o.epoch, o.last
	if got := stored(t, js, "OUT"); len(got) > 0 {
		t.Errorf("%d rows are visible before their epoch has committed", len(got))
	}
	o.write(0, 3000, 3100)
	o.record() // the epoch behind it
	if err := o.com.Commit(t.Context(), first, token); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sequence(0, 3000), stored(t, js, "OUT")); diff != "" {
		t.Error(diff)
	}
	if err := o.com.Commit(t.Context(), o.epoch, o.last); err != nil {
		t.Fatal(err)
	}
	o.commit() // without rows
	if diff := cmp.Diff(sequence(0, 3100), stored(t, js, "OUT")); diff != "" {
		t.Error(diff)
	}
	m := o.marker()
	if m.Epoch != 2 || m.Publishing != 0 || m.ScanFrom != 3101 {
		t.Errorf("marker %+v, want epoch 2 done and the scan from 3101", m)
	}
}

// marker reads the marker of the sink.
func (o *output) marker() *marker {
	o.t.Helper()
	m, _, err := o.c.link.readMarker(o.t.Context(), o.c.markerPlace())
	if err != nil || m == nil {
		o.t.Fatal(m, err)
	}
	return m
}

// TestPerEpochCrashInsidePublication: the stream takes only a part of an epoch,
// the attempt ends, and so does the next one, further on.
func TestPerEpochCrashInsidePublication(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("the marker is lost %v", lost), func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			s := stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, Discard: jetstream.DiscardNew, Duplicates: noWindow})
			room := func(n int64) {
				t.Helper()
				cfg := s.CachedInfo().Config
				cfg.MaxMsgs = n
				if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
			}
			c := outputConfig{attempt: 1, offer: perEpoch, subtasks: 2}
			o := openOutput(t, c, outOptions(b)...)
			o.write(0, 0, 100)
			o.commit()
			publish(t, js, "out.foreign", 1000, 1020)
			room(150) // 30 rows of the next epoch
			o.write(0, 100, 200)
			o.record()
			o.interrupted(t, 130)
			for i, n := range []int64{200, 500} {
				o.close()
				b.settled(t, js, 1)
				room(n)
				if lost {
					markers, err := js.Stream(t.Context(), markerStream)
					if err == nil {
						err = markers.Purge(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				o.stash.Crash()
				c = outputConfig{attempt: uint64(i + 2), offer: perEpoch, epoch: o.epoch, last: o.last, stash: o.stash}
				if n == 200 {
					o = tryOutput(t, c, outOptions(b)...)
					o.interrupted(t, 180)
				} else {
					o = openOutput(t, c, outOptions(b)...)
				}
			}
			o.write(0, 200, 250)
			o.commit()
			got := stored(t, js, "OUT")
			wantOnce(t, append(got[:100:100], got[120:]...), 0, 250)
			if lost {
				return
			}
			if diff := cmp.Diff(sequence(100, 250), got[120:]); diff != "" {
				t.Errorf("order: %s", diff)
			}
		})
	}
}

// settled waits until only the given number of clients are connected, and the server has
// judged all that the others have sent to OUT, which is full: what is on its way behind a
// crash would be stored once there is room.
func (b *broker) settled(t *testing.T, js jetstream.JetStream, clients int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for b.srv.NumClients() > clients {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
	if _, err := js.Publish(t.Context(), "out.foreign", nil, jetstream.WithRetryAttempts(0)); err == nil {
		t.Fatal("the stream is not full")
	}
}

// interrupted publishes the last epoch until the sink has stored n rows in all, and
// stops there as a crash does.
func (o *output) interrupted(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	full := make(chan struct{}, 1)
	o.c.req.OnRetrying = func(reason string) {
		if reason != "" {
			select {
			case full <- struct{}{}:
			default:
			}
		}
	}
	done := make(chan error, 1)
	go func() {
		if o.c.kept == nil {
			done <- o.com.Recover(ctx, o.epoch, o.last)
		} else {
			done <- o.com.Commit(ctx, o.epoch, o.last)
		}
	}()
	select {
	case <-full: // the stream takes no more
	case err := <-done:
		t.Fatalf("the epoch was published: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the stream takes everything")
	}
	cancel()
	if err := <-done; err == nil {
		t.Fatal("the epoch was published")
	}
}

func TestPerEpochUpdateAndComplete(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	batch := func(frame messages.Frame, kinds []messages.RowKind, ns ...int64) *messages.Batch {
		p := messages.NewPool(numbers()).Get()
		for _, n := range ns {
			p.Own(0).AppendInt64(n)
		}
		p.SetLen(len(ns))
		p.SetKinds(kinds)
		p.SetFrame(frame)
		return p.Publish()
	}
	write := func(o *output, b *messages.Batch) {
		t.Helper()
		defer b.Release()
		if err := o.writers[0].Write(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
	update := openOutput(t, outputConfig{offer: perEpoch, keys: []int{0}}, outOptions(b)...)
	write(update, batch(0, nil, 1, 2, 3))
	write(update, batch(0, []messages.RowKind{messages.UpdateBefore, messages.UpdateAfter}, 2, 2))
	write(update, batch(0, nil, 1))
	update.commit()
	if diff := cmp.Diff([]int64{3, 2, 1}, stored(t, js, "OUT")); diff != "" {
		t.Errorf("update mode: %s", diff)
	}
	complete := openOutput(t, outputConfig{offer: perEpoch, incarnation: 2}, outOptions(b)...)
	write(complete, batch(messages.FrameStart|messages.FrameEnd, nil, 10, 11))
	write(complete, batch(messages.FrameStart, nil, 20))
	write(complete, batch(messages.FrameEnd, nil, 21, 22))
	complete.commit()
	if diff := cmp.Diff([]int64{3, 2, 1, 20, 21, 22}, stored(t, js, "OUT")); diff != "" {
		t.Errorf("complete mode: %s", diff)
	}
	gone := batch(0, []messages.RowKind{messages.Delete}, 1)
	defer gone.Release()
	wantFault(t, update.writers[0].Write(t.Context(), gone, nil), fault.Config, "", "deletion")
}

// TestPerEpochRefusesRowsInTime: a row that the stream cannot take never becomes
// part of a checkpoint.
func TestPerEpochRefusesRowsInTime(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, MaxMsgSize: 1000})
	schema := messages.NewSchema(messages.Field{Name: "s", Type: messages.T(messages.String)})
	write := func(subject, value string) error {
		t.Helper()
		s, err := newTestSinkOf(t, schema, "url", b.url(), "stream", "OUT", "subject", subject)
		if err != nil {
			t.Fatal(err)
		}
		com, err := s.Open(t.Context(), connectors.WriteRequest{Query: "q", Sink: "out", Attempt: 1, Schema: schema, Offer: perEpoch, Stash: noStash{}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := com.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := com.Recover(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
		w, err := com.Writer(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		builder := messages.NewBuilder(schema)
		if err := format.AppendRow(builder, []any{value}); err != nil {
			t.Fatal(err)
		}
		row := builder.Finish()
		defer row.Release()
		return w.Write(t.Context(), row, nil)
	}
	for _, tt := range []struct {
		subject, value, want string
	}{
		{"out.{s}", strings.Repeat(" ", 80), ""}, // each becomes %20
		{"out.{s}", strings.Repeat(" ", 90), "longer than 255"},
		{"out.all", strings.Repeat("x", 700), ""},
		{"out.all", strings.Repeat("x", 900), "larger than stream OUT takes"},
	} {
		if err := write(tt.subject, tt.value); tt.want != "" {
			wantFault(t, err, fault.BadRow, "", tt.want)
		} else if err != nil {
			t.Errorf("%s with %d bytes: %v", tt.subject, len(tt.value), err)
		}
	}
}

type noStash struct{}

func (noStash) Put(context.Context, messages.Epoch, uint16, []byte) error { return nil }
func (noStash) Load(context.Context, messages.Epoch, func(uint16, []byte) error) error {
	return nil
}

func TestPerEpochZombie(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	zombie := openOutput(t, outputConfig{attempt: 1, offer: perEpoch}, outOptions(b)...)
	zombie.write(0, 0, 50)
	zombie.record()
	c := outputConfig{attempt: 2, offer: perEpoch, epoch: 1, last: zombie.last, stash: zombie.stash}
	o := openOutput(t, c, outOptions(b)...)
	wantFault(t, zombie.com.Commit(t.Context(), 1, zombie.last), fault.Config, classFenced, "attempt 2")
	o.write(0, 50, 60)
	o.commit()
	if diff := cmp.Diff(sequence(0, 60), stored(t, js, "OUT")); diff != "" {
		t.Error(diff)
	}
	// A copy of the directory that does not know of the last epoch.
	old := tryOutput(t, outputConfig{attempt: 3, offer: perEpoch, epoch: 1, last: c.last, stash: c.stash}, outOptions(b)...)
	wantFault(t, old.com.Recover(t.Context(), 1, c.last), fault.Config, classAhead, "starts from epoch 1", "published epoch 2", "--accept-duplicates")
}

// TestVisibilityIsChanged: behind a good end the other way of publishing goes on,
// in the middle of an epoch it does not.
func TestVisibilityIsChanged(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{attempt: 1}, outOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	o = o.next(outputConfig{attempt: 2, offer: perEpoch}, outOptions(b)...)
	o.write(0, 10, 20)
	o.commit()
	o = o.next(outputConfig{attempt: 3}, outOptions(b)...)
	o.write(0, 20, 30)
	o = o.next(outputConfig{attempt: 4}, outOptions(b)...)
	o.write(0, 20, 40)
	o.commit()
	o.write(0, 40, 50)
	o.close()
	late := tryOutput(t, outputConfig{attempt: 5, offer: perEpoch, stash: o.stash}, outOptions(b)...)
	wantFault(t, late.com.Recover(t.Context(), o.epoch, o.last), fault.Config, classAhead, "10 rows", "visibility = 'at_once'")
	wantOnce(t, stored(t, js, "OUT"), 0, 50)
}

func TestPerEpochMessages(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := outStream(t, js)
	o := openOutput(t, outputConfig{offer: perEpoch}, outOptions(b)...)
	o.write(0, 7, 8)
	o.commit()
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var row struct{ N int }
	if err := stdjson.Unmarshal(m.Data, &row); err != nil || row.N != 7 || m.Subject != "out.7" || len(m.Header.Get(headerID)) != 32 || m.Header.Get(headerSink) != o.c.tag {
		t.Errorf("message %s %v %s: %v", m.Subject, m.Header, m.Data, err)
	}
}

// TestVisibilityIsChangedBehindATrimmedStream: rows of an interrupted epoch that have
// disappeared cannot be found, so that nothing tells whether there were any.
func TestVisibilityIsChangedBehindATrimmedStream(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	interrupted := func() *output {
		o := openOutput(t, outputConfig{attempt: 1}, outOptions(b)...)
		o.write(0, 0, 10)
		o.commit()
		o.write(0, 10, 20)
		o.close()
		return o
	}
	s := outStream(t, js)
	o := interrupted()
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := tryOutput(t, outputConfig{attempt: 2, offer: perEpoch, stash: o.stash}, outOptions(b)...)
	wantFault(t, late.com.Recover(t.Context(), o.epoch, o.last), fault.Config, classTrimmed, "was trimmed")
	late.close()
	if err := js.DeleteStream(t.Context(), "OUT"); err != nil {
		t.Fatal(err)
	}
	outStream(t, js)
	late = tryOutput(t, outputConfig{attempt: 3, offer: perEpoch, stash: o.stash}, outOptions(b)...)
	wantFault(t, late.com.Recover(t.Context(), o.epoch, o.last), fault.Config, classRecreated, "re-created")
}
