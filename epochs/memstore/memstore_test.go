package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/epochs/storetest"
	"github.com/streamd-io/streamd/messages"
)

func opener(d *memstore.Disk) storetest.Opener {
	return func(context.Context) (epochs.Segments, error) { return d.Open() }
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener { return opener(memstore.New(memstore.Options{})) })
}

func TestCrashesLoseNothingThatWasAcknowledged(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		var hook func(string) error
		disk := memstore.New(memstore.Options{
			Seed:         seed,
			KeepUnsynced: int(seed) * 50 % 101,
			Fault: func(op string) error {
				if hook == nil {
					return nil
				}
				return hook(op)
			},
		})
		storetest.RunCrashes(t, seed, 60, storetest.Disk{
			Open:    opener(disk),
			Crash:   disk.Crash,
			OnFault: func(f func(string) error) { hook = f },
		})
	}
}

func mustOpen(t *testing.T, d *memstore.Disk) epochs.Segments {
	t.Helper()
	s, err := d.Open()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func segment(group uint16, e messages.Epoch, data string) epochs.Segment {
	return epochs.Segment{SegmentID: epochs.SegmentID{Operator: "a", Group: group, Epoch: e}, Base: true, Data: []byte(data)}
}

func TestAStoreFailsAfterACrash(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	store := mustOpen(t, disk)
	disk.Crash()
	if err := store.Put(t.Context(), 1, []epochs.Segment{segment(0, 1, "x")}); !errors.Is(err, memstore.ErrCrashed) {
		t.Errorf("put: got error %v, want ErrCrashed", err)
	}
	if err := store.Commit(t.Context(), 0, 1, nil); !errors.Is(err, memstore.ErrCrashed) {
		t.Errorf("commit: got error %v, want ErrCrashed", err)
	}
	if _, _, err := store.Committed(t.Context()); !errors.Is(err, memstore.ErrCrashed) {
		t.Errorf("committed: got error %v, want ErrCrashed", err)
	}
	next := mustOpen(t, disk)
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	// Closing the crashed store must not unlock the disk under the new one.
	if _, err := disk.Open(); !errors.Is(err, epochs.ErrLocked) {
		t.Errorf("got error %v, want ErrLocked", err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// unsynced leaves a put of ten segments and a record unsynced on the disk.
func unsynced(t *testing.T, keep int) *memstore.Disk {
	t.Helper()
	failAt := ""
	stop := errors.New("stop")
	disk := memstore.New(memstore.Options{Seed: 3, KeepUnsynced: keep, Fault: func(op string) error {
		if op == failAt {
			return stop
		}
		return nil
	}})
	store := mustOpen(t, disk)
	failAt = memstore.OpPutSync
	var segs []epochs.Segment
	for g := range uint16(10) {
		segs = append(segs, segment(g, 1, "x"))
	}
	if err := store.Put(t.Context(), 1, segs); !errors.Is(err, stop) {
		t.Fatalf("got error %v", err)
	}
	if err := store.Commit(t.Context(), 0, 1, nil); err == nil {
		t.Error("a store that lost a write goes on as if nothing had happened")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return disk
}

func count(t *testing.T, store epochs.Segments) int {
	t.Helper()
	n := 0
	if err := store.Load(t.Context(), epochs.LoadRange{Operator: "a", To: 256, UpTo: 9}, func(epochs.Segment) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestACrashKeepsTheAskedPartOfWhatWasNotSynced(t *testing.T) {
	for _, tt := range []struct{ keep, min, max int }{{0, 0, 0}, {50, 1, 9}, {100, 10, 10}} {
		disk := unsynced(t, tt.keep)
		disk.Crash()
		if got := count(t, mustOpen(t, disk)); got < tt.min || got > tt.max {
			t.Errorf("keep %d%%: %d of 10 segments survived, want %d to %d", tt.keep, got, tt.min, tt.max)
		}
	}
}

func TestWithoutACrashTheNextOpenFindsWhatWasWritten(t *testing.T) {
	disk := unsynced(t, 0)
	if got := count(t, mustOpen(t, disk)); got != 10 {
		t.Errorf("got %d segments, want 10", got)
	}
	disk.Crash() // they are durable by now
	if got := count(t, mustOpen(t, disk)); got != 10 {
		t.Errorf("after a crash: got %d segments, want 10", got)
	}
}

func TestAFullDiskIsToldBeforeAndAtPut(t *testing.T) {
	disk := memstore.New(memstore.Options{Quota: 100})
	store := mustOpen(t, disk)
	if err := store.Put(t.Context(), 1, []epochs.Segment{segment(0, 1, string(make([]byte, 60)))}); err != nil {
		t.Fatal(err)
	}
	if err := store.Check(t.Context()); !errors.Is(err, epochs.ErrNoSpace) {
		t.Errorf("check: got error %v, want ErrNoSpace", err)
	}
	if err := store.Put(t.Context(), 1, []epochs.Segment{segment(1, 1, string(make([]byte, 60)))}); !errors.Is(err, epochs.ErrNoSpace) {
		t.Errorf("put: got error %v, want ErrNoSpace", err)
	}
	disk.SetQuota(1000)
	if err := store.Check(t.Context()); err != nil {
		t.Errorf("check with space: %v", err)
	}
}

func TestDamageChangesWhatIsLoaded(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	store := mustOpen(t, disk)
	want := segment(0, 1, "content")
	if err := store.Put(t.Context(), 1, []epochs.Segment{want}); err != nil {
		t.Fatal(err)
	}
	if !disk.Damage(want.SegmentID) {
		t.Fatal("there is no such segment")
	}
	if err := store.Load(t.Context(), epochs.LoadRange{Operator: "a", To: 1, UpTo: 1}, func(got epochs.Segment) error {
		if string(got.Data) == string(want.Data) {
			t.Error("the data is undamaged")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
