//go:build race || invariants

package aggregate

const raceEnabled = true
