// Package deploy keeps one query running: it opens the query's checkpoint
// store, picks the epoch to go on from, starts attempts, and decides by the kind
// of a failure whether and when the next attempt follows.
//
// A Runner owns one goroutine. What it knows of the outside is injected: how to
// open the store, how to make the graph, the clock.
package deploy
