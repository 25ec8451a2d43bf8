//go:build fault

package catalogstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/streamd-io/streamd/epochs/storetest"
)

// TestKillsAtEveryFaultPoint kills writers exactly between two steps of the store
// below.
func TestKillsAtEveryFaultPoint(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	points := []string{"epochs/commit/write", "epochs/commit/synced", "epochs/commit/witnessed"}
	dir := t.TempDir()
	round := 0
	storetest.RunKills(t, storetest.KillConfig{
		Open:     onBadger(dir),
		Seed:     killSeed,
		Rounds:   3 * len(points),
		SelfKill: true,
		Child: func(ctx context.Context) *exec.Cmd {
			rule := fmt.Sprintf("%s=kill:%d", points[round%len(points)], 3*round+2)
			round++
			cmd := exec.CommandContext(ctx, self, "-test.run=^TestKilledChild$")
			cmd.Env = append(os.Environ(), childDir+"="+dir, "STREAMD_FAULTS="+rule)
			return cmd
		},
	})
}
