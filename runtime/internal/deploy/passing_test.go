package deploy

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// errPassing is what a store says that has to be reopened.
var errPassing = fault.New(fault.Restart, "checkpoint must be reopened after a failed write")

// passing is a store whose calls of one kind fail as long as left is positive.
type passing struct {
	epochs.Segments
	call string
	left *atomic.Int32
}

func (p passing) fails(call string) bool { return p.call == call && p.left.Add(-1) >= 0 }

func (p passing) Committed(ctx context.Context) ([]epochs.StoredRecord, messages.Epoch, error) {
	if p.fails("Committed") {
		return nil, 0, errPassing
	}
	return p.Segments.Committed(ctx)
}

func (p passing) Load(ctx context.Context, r epochs.LoadRange, f func(epochs.Segment) error) error {
	if p.fails("Load") {
		return errPassing
	}
	return p.Segments.Load(ctx, r, f)
}

func (p passing) Rewind(ctx context.Context, to messages.Epoch) error {
	if p.fails("Rewind") {
		return errPassing
	}
	return p.Segments.Rewind(ctx, to)
}

// TestAStoreThatHasToBeReopenedIsReopened: a store that several queries share fails
// under one that is being started when the write of another fails, and a disk may be
// full just while a query goes back.
func TestAStoreThatHasToBeReopenedIsReopened(t *testing.T) {
	for _, call := range []string{"Committed", "Rewind"} {
		t.Run(call, func(t *testing.T) {
			w, whole := damagedWorld(t)
			damage, left := w.wrap, &atomic.Int32{}
			left.Store(1)
			w.wrap = func(s epochs.Segments) epochs.Segments { return passing{damage(s), call, left} }
			r := w.start(t, 3)
			done := make(chan error, 1)
			r.RequestEpoch(func(err error) { done <- err })
			if err := <-done; err != nil || r.From() != whole {
				t.Errorf("went on from epoch %d with %v, want %d", r.From(), err, whole)
			}
			if left.Load() >= 1 {
				t.Error("nothing failed")
			}
			r.Stop()
			over(t, r)
		})
	}
}

// TestALookAtTheStateThatDoesNotGetThroughIsTakenAgain: the same for what is read
// to find an epoch that is whole.
func TestALookAtTheStateThatDoesNotGetThroughIsTakenAgain(t *testing.T) {
	w := newWorld(t, 0, nil)
	commitTwo(t, w)
	store, err := w.disk.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // only read
	left := &atomic.Int32{}
	left.Store(1)
	stored, _, err := store.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := read(stored[1:], nil)
	if err != nil {
		t.Fatal(err)
	}
	r := New(t.Context(), w.config())
	if _, err = r.newestWhole(t.Context(), passing{store, "Load", left}, c); err == nil || fault.KindOf(err) != fault.Restart {
		t.Errorf("got %v of kind %v, want %v", err, fault.KindOf(err), fault.Restart)
	}
}

// TestWhatIsWrongWithACheckpointForGoodIsNotTriedAgain is the counterpart.
func TestWhatIsWrongWithACheckpointForGoodIsNotTriedAgain(t *testing.T) {
	for _, err := range []error{epochs.ErrNewerFormat, errors.New("no kind"), fault.Wrap(fault.Config, errPassing, "")} {
		if kind := epochs.OpenKind(err); kind != fault.Config {
			t.Errorf("%v is of kind %v", err, kind)
		}
	}
}
