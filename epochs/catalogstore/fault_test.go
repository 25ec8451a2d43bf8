//go:build fault

package catalogstore_test

import (
	"fmt"
	"testing"
)

// TestKillsAtEveryFaultPoint kills writers exactly between two steps of the store
// below.
func TestKillsAtEveryFaultPoint(t *testing.T) {
	points := []string{"epochs/commit/write", "epochs/commit/synced", "epochs/commit/witnessed"}
	kills.RunAt(t, "TestKilledChild", 3*len(points), func(round int) string {
		return fmt.Sprintf("%s=kill:%d", points[round%len(points)], 3*round+2)
	})
}
