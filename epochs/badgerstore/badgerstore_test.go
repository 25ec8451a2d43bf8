package badgerstore_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/storetest"
)

// TestMain lets pass what Badger leaves behind when it cannot open a database; a
// store that is not closed leaves more than these.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"),
	)
}

func opener(dir string) storetest.Opener {
	return func(ctx context.Context) (epochs.Segments, error) {
		return badgerstore.Open(ctx, dir, badgerstore.Options{MinFree: 1 << 20})
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener { return opener(t.TempDir()) })
}

var kills = storetest.KillTest{Env: "STREAMD_BADGERSTORE_CHILD", Seed: 4711, Rounds: 25, Open: opener}

// TestKills kills a writer at random moments. STREAMD_STORE_KILLS is the number
// of kills if it should be another.
func TestKills(t *testing.T) { kills.Run(t, "TestKilledChild") }

// TestKilledChild is the process that TestKills kills.
func TestKilledChild(t *testing.T) { kills.Child(t) }
