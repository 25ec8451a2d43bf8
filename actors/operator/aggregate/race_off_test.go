//go:build !race && !invariants

package aggregate

// raceEnabled says that batches are not recycled, so that allocations cannot be
// counted.
const raceEnabled = false
