package main

import (
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// alertSchema is what silence emits.
var alertSchema = messages.NewSchema(
	messages.Field{Name: "device", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "last_seen", Type: messages.T(messages.Timestamp)},
)

// silence is a keyed operator with an event-time timer: it emits a row for every
// device (column 0) that has not reported (column 1) for the timeout, by event
// time. Its state is the time of the last report of each device, and the timer
// that waits for the next one.
type silence struct {
	timeout time.Duration
	store   *state.Store
	out     *messages.Builder
	hashes  []uint64
	now     messages.EventTime // of the latest Watermark call
}

func (o *silence) Open(t *operator.Task) (err error) {
	o.out = messages.NewBuilder(alertSchema)
	o.store, err = state.New(state.Config{
		UID: t.UID, From: t.From, To: t.To, Kind: "silence", Schema: "device bigint -> last_seen timestamp", Format: 1,
		IntKeys: true, Words: 1, Timers: true,
	})
	return err
}

// Snapshots lets the engine save and restore the state.
func (o *silence) Snapshots() operator.Snapshotter { return o.store }

func (o *silence) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	o.hashes = operator.HashKeys(o.hashes, b, []int{0})
	devices, times := b.Column(0).Int64s(), b.Column(1).Int64s()
	for i := range b.Rows() {
		r := b.Row(i)
		e, created := o.store.UpsertInt(o.hashes[r], 0, devices[r])
		slots := o.store.Mutate(e)
		if created || int64(slots[0]) < times[r] {
			slots[0] = uint64(times[r])
			o.store.SetTimer(e, messages.EventTime(times[r]+o.timeout.Microseconds()))
		}
	}
	return false, nil
}

// Whole reports whether a batch may be processed at once although the watermark
// advances to wm inside it: only if no timer of the state or of the batch is due.
func (o *silence) Whole(_ int, b *messages.Batch, wm messages.EventTime) bool {
	if wm >= o.store.NextTimer() {
		return false
	}
	times := b.Column(1).Int64s()
	for i := range b.Rows() {
		if wm >= messages.EventTime(times[b.Row(i)]+o.timeout.Microseconds()) {
			return false
		}
	}
	return true
}

func (o *silence) Watermark(wm messages.EventTime, out operator.Output) (bool, error) {
	o.now = wm
	return o.Resume(out)
}

// Resume emits what is due, a limited number of rows per call.
func (o *silence) Resume(out operator.Output) (bool, error) {
	for o.out.Rows() < operator.MaxEmit {
		e, _, ok := o.store.Due(o.now)
		if !ok {
			break
		}
		o.out.Column(0).AppendInt64(e.IntKey())
		o.out.Column(1).AppendInt64(int64(e.Slots()[0]))
		o.out.EndRow()
		o.store.Delete(e)
	}
	if o.out.Empty() {
		return false, nil
	}
	more := o.out.Rows() == operator.MaxEmit
	out.Emit(o.out.Finish())
	return more, nil
}

func (o *silence) Close() error { return nil }
