package state_test

import (
	"fmt"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// silence is an operator written by hand: it reports devices that have sent
// nothing for ten seconds of event time, and how many readings they had sent.
type silence struct {
	store  *state.Store
	alerts *messages.Builder
	hashes []uint64
	task   *operator.Task
	upTo   messages.EventTime
}

// The input: which device, and when.
const (
	deviceColumn = 0
	timeColumn   = 1
)

func (o *silence) Open(t *operator.Task) (err error) {
	o.task = t
	o.alerts = messages.NewBuilder(messages.NewSchema(
		messages.Field{Name: "device", Type: messages.T(messages.String)},
		messages.Field{Name: "readings", Type: messages.T(messages.BigInt)}))
	o.store, err = state.New(state.Config{
		UID: t.UID, From: t.From, To: t.To, Kind: "silence", Schema: "device string -> count",
		Words:  1, // the number of readings
		Timers: true,
	})
	return err
}

// Snapshots makes the state part of every checkpoint.
func (o *silence) Snapshots() operator.Snapshotter { return o.store }

func (o *silence) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	o.hashes = operator.HashKeys(o.hashes, b, []int{deviceColumn})
	for i := range b.Rows() {
		row := b.Row(i)
		e, _ := o.store.Upsert(o.hashes[row], 0, b.Column(deviceColumn).Bytes(row))
		o.store.Mutate(e)[0]++
		heard := messages.EventTime(b.Column(timeColumn).Int64s()[row])
		o.store.SetTimer(e, max(e.Timer(), heard+messages.EventTime(10*time.Second/time.Microsecond)))
	}
	o.task.Counters.In += uint64(b.Rows())
	o.task.Counters.Absorbed += uint64(b.Rows())
	return false, nil
}

func (o *silence) Watermark(wm messages.EventTime, out operator.Output) (bool, error) {
	o.upTo = wm
	return o.Resume(out)
}

// Resume emits alerts, a bounded number per call.
func (o *silence) Resume(out operator.Output) (more bool, err error) {
	for o.alerts.Rows() < operator.MaxEmit {
		e, _, ok := o.store.Due(o.upTo)
		if !ok {
			break
		}
		o.alerts.Column(0).AppendBytes(e.Key())
		o.alerts.Column(1).AppendInt64(int64(e.Slots()[0]))
		o.alerts.EndRow()
		o.store.Delete(e)
	}
	n := o.alerts.Rows()
	if n == 0 {
		return false, nil
	}
	o.task.Counters.Out += uint64(n)
	out.Emit(o.alerts.Finish())
	return n == operator.MaxEmit, nil
}

func (o *silence) Close() error { return nil }

// printer is an output for the example.
type printer struct{}

func (printer) Emit(b *messages.Batch) {
	for i := range b.Rows() {
		fmt.Println(b.Column(0).Str(b.Row(i)), "is silent after", b.Column(1).Int64s()[b.Row(i)], "readings")
	}
	b.Release()
}

// An operator with keyed state and an event-time timer, written by hand.
func Example() {
	op := &silence{}
	if err := op.Open(&operator.Task{UID: "silence", To: epochs.KeyGroups, Counters: &epochs.Counters{}}); err != nil {
		fmt.Println(err)
		return
	}
	in := messages.NewBuilder(messages.NewSchema(
		messages.Field{Name: "device", Type: messages.T(messages.String)},
		messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)}))
	for _, r := range []struct {
		device  string
		seconds int64
	}{{"pump", 1}, {"valve", 2}, {"pump", 4}, {"valve", 13}} {
		in.Column(0).AppendString(r.device)
		in.Column(1).AppendInt64(r.seconds * 1_000_000)
		in.EndRow()
	}
	b := in.Finish()
	defer b.Release()
	if _, err := op.Process(0, b, printer{}); err != nil {
		fmt.Println(err)
	}
	if _, err := op.Watermark(15_000_000, printer{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(op.store.Rows(), "device left")
	// Output:
	// pump is silent after 2 readings
	// 1 device left
}
