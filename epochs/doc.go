// Package epochs holds the checkpoint protocol: which epoch is open, what has
// been acknowledged, when a commit record may be written, and what recovery may
// trust. The Coordinator and the Aligner are pure state machines: they are given
// the time and an event and answer with actions; goroutines, storage and clocks
// are their host's business.
//
// The order of an epoch's end is fixed: state of epoch e durable, then commit
// record e durable, then sink commit e, then source acknowledgement e. An
// injected epoch commits or the attempt fails; there is no abort, and an epoch
// number is never used twice.
//
// Storage is behind the Segments contract; badgerstore and memstore implement
// it and storetest holds both to it.
package epochs
