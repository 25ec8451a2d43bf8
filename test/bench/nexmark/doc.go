// Package nexmark makes the events of the Nexmark benchmark, an online auction,
// and has its queries in SQL.
//
// The rules of the events are those of Apache Beam's generator: proportions, hot
// keys, sizes and disorder. Every event comes from a random number generator
// seeded with its number, so any event can be made alone, again and again.
// Channel and URL of a bid, which Beam does not have, follow Flink's version.
// The code is our own.
package nexmark
