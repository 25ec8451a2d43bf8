package badgerstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func opener(dir string) storetest.Opener {
	return func(ctx context.Context) (epochs.Segments, error) {
		return badgerstore.Open(ctx, dir, badgerstore.Options{MinFree: 1 << 20})
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener { return opener(t.TempDir()) })
}

// childDir tells a child of TestKills where its store is.
const childDir = "STREAMD_BADGERSTORE_CHILD"

const killSeed = 4711

// TestKills kills a writer at random moments. STREAMD_STORE_KILLS is the number
// of kills if it should be another.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	storetest.RunKills(t, storetest.KillConfig{
		Open:   opener(dir),
		Seed:   killSeed,
		Rounds: storetest.Rounds(t, "STREAMD_STORE_KILLS", 25),
		Child: func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, "-test.run=^TestKilledChild$")
			cmd.Env = append(os.Environ(), childDir+"="+dir)
			return cmd
		},
	})
}

// TestKilledChild is the process that TestKills kills.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("not a child")
	}
	if err := storetest.WriteUntilKilled(t.Context(), opener(dir), killSeed, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
