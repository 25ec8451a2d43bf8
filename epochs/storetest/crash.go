package storetest

import (
	"errors"
	"testing"

	"github.com/streamd-io/streamd/messages"
)

// errPowerCut is what a disk answers when it crashes in the middle of a write.
var errPowerCut = errors.New("power cut")

// Disk is a store with crashes that are played in the process.
type Disk struct {
	Open Opener
	// Crash cuts the power: the open store fails from then on, and what was not
	// durable may be lost.
	Crash func()
	// OnFault sets what is called at every step of a write; the write stops
	// when it returns an error.
	OnFault func(func(op string) error)
}

// RunCrashes writes epochs, crashes at a random step, checks that every
// acknowledged epoch is there byte for byte and goes on, for the given number of
// rounds.
func RunCrashes(t *testing.T, seed uint64, rounds int, disk Disk) {
	t.Helper()
	w, rng := Workload{Seed: seed, Groups: 12}, random(seed)
	var acknowledged messages.Epoch
	unacknowledged := 0
	for round := range rounds {
		disk.OnFault(nil)
		store, err := disk.Open(t.Context())
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		writer, err := w.NewWriter(t.Context(), store)
		if err != nil {
			t.Fatalf("seed %d, round %d: after epoch %d was acknowledged: %v", seed, round, acknowledged, err)
		}
		last := newest(writer.committed)
		if last < acknowledged {
			t.Fatalf("seed %d, round %d: epoch %d was acknowledged, the newest record is that of %d", seed, round, acknowledged, last)
		}
		if last > acknowledged {
			unacknowledged++
		}
		acknowledged = last
		steps := rng.IntN(60)
		disk.OnFault(func(string) error {
			if steps--; steps >= 0 {
				return nil
			}
			disk.Crash()
			return errPowerCut
		})
		for err == nil {
			var e messages.Epoch
			if e, err = writer.Step(t.Context()); err == nil {
				acknowledged = e
			}
			// The record is written before Drop fails.
			if !errors.Is(err, errPowerCut) && err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
		}
	}
	t.Logf("seed %d: epoch %d after %d crashes, %d of them with a record that was not acknowledged", seed, acknowledged, rounds, unacknowledged)
}
