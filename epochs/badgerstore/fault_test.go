//go:build fault

package badgerstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// points are the fault points of the store in the order of an epoch.
var points = []string{"epochs/persist/write", "epochs/persist/synced", "epochs/commit/write", "epochs/commit/synced", "epochs/commit/witnessed"}

// TestKillsAtEveryFaultPoint kills writers exactly between two steps.
func TestKillsAtEveryFaultPoint(t *testing.T) {
	kills.RunAt(t, "TestKilledChild", 3*len(points), func(round int) string {
		return fmt.Sprintf("%s=kill:%d", points[round%len(points)], round+1)
	})
}

// TestAFailedWriteLeavesTheStoreToBeReopened injects an error at every point.
func TestAFailedWriteLeavesTheStoreToBeReopened(t *testing.T) {
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, badgerstore.Options{})
			write := func(s *badgerstore.Store) error {
				if err := s.Put(t.Context(), 1, []epochs.Segment{segment(0, 1, 100), segment(1, 1, 40_000)}); err != nil {
					return err
				}
				return s.Commit(t.Context(), 0, 1, []byte("record"))
			}
			ok(t, fault.Set(point+"=error"))
			defer fault.Reset()
			if got := fault.KindOf(write(s)); got != fault.Restart {
				t.Errorf("error of kind %v, want %v", got, fault.Restart)
			}
			fault.Reset()
			if err := s.Put(t.Context(), 2, []epochs.Segment{segment(0, 2, 100)}); err == nil {
				t.Error("a store that lost a write goes on as if nothing had happened")
			}
			mustClose(t, s)
			s = mustOpen(t, dir, badgerstore.Options{})
			defer mustClose(t, s)
			have := newestRecord(t, s)
			if err := s.Put(t.Context(), 2, []epochs.Segment{segment(0, 2, 100)}); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), have, 2, []byte("record")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestNumbersOfLostEpochsStayUsed: a process that dies while it accepts that epochs are
// lost does not make their numbers free.
func TestNumbersOfLostEpochsStayUsed(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, badgerstore.Options{})
	for e := messages.Epoch(1); e <= 8; e++ {
		ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
	}
	ok(t, s.Commit(t.Context(), 8, 10, []byte("record")))
	witness, err := os.ReadFile(filepath.Join(dir, "EPOCH"))
	ok(t, err)
	ok(t, s.Rewind(t.Context(), 8))
	mustClose(t, s)

	// Of an older copy of the directory, which knows nothing of epoch 10.
	dir = t.TempDir()
	s = mustOpen(t, dir, badgerstore.Options{})
	for e := messages.Epoch(1); e <= 8; e++ {
		ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
	}
	mustClose(t, s)
	ok(t, os.WriteFile(filepath.Join(dir, "EPOCH"), witness, 0o600))
	s = mustOpen(t, dir, badgerstore.Options{AllowLost: true})
	ok(t, fault.Set("epochs/rewind/witnessed=error"))
	defer fault.Reset()
	if err := s.Rewind(t.Context(), 8); err == nil {
		t.Fatal("the fault did not strike")
	}
	fault.Reset()
	mustClose(t, s)
	s = mustOpen(t, dir, badgerstore.Options{AllowLost: true})
	defer mustClose(t, s)
	if _, highest, err := s.Committed(t.Context()); err != nil || highest < 10 {
		t.Errorf("the highest epoch is %d (%v), so that 9 and 10 are used again", highest, err)
	}
}
