// Package load offers rows to a query at a fixed rate and measures how late its
// results are.
//
// The load is open-loop: event i is due at start + i/rate, whatever the query
// does, and every latency counts from that due time to the arrival in the sink.
// A source or a query that falls behind keeps its debt, so a stall shows up in
// the latency of all rows that were due during it instead of being left out.
//
// Source and Sink are ordinary connectors of a Go program; nothing here knows
// how the engine runs them.
package load
