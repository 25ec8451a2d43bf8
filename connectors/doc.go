// Package connectors defines how a query meets the outside world: the contracts
// of sources and sinks, the record by which a connector announces itself and
// its options, and the registry in which a session finds it.
//
// A connector is one folder below this one that exports a function returning
// its Connector record. Its code knows messages, formats and its own client
// library, and nothing of actors, epochs or SQL. There is no registration by
// import: records are passed in the session's configuration.
//
// Calls on a Reader, a Writer and a Committer come from goroutines that the
// engine owns for blocking work, never two at a time on the same value unless a
// method says so. Every blocking call takes a context that ends with the
// attempt.
package connectors
