//go:build !race

package state

// raceEnabled says that pools forget some of what they are given, so that
// allocations cannot be counted.
const raceEnabled = false
