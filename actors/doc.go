// Package actors runs graphs of sources, operators and sinks as actors.
//
// A Graph is cut into stages: runs of nodes that forward rows one to one are
// fused into one stage and call each other directly. Each stage runs as one or
// more subtasks, each an actor with one mailbox. Between subtasks lie edges with
// credit: every (producer, consumer) pair has one pending queue and one window,
// so a slow consumer slows its producers and nothing grows without bound.
//
// An Attempt is one run of a graph from a committed epoch until it ends, is
// drained or fails. A failure anywhere ends the attempt; starting the next one,
// from the last committed epoch, is the caller's business. Everything an
// attempt sends carries its number, and the next attempt starts only when all
// goroutines of this one have returned.
//
// This is the only package that knows the actor library. Blocking work (reads,
// writes, storage) happens in workers: goroutines that belong to an actor and
// talk to it by messages.
package actors
