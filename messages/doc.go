// Package messages holds what travels through a query: types, schemas,
// columnar batches and the control elements between them (markers, watermarks,
// idle and end notices).
//
// A Batch is a small set of rows in typed columns whose buffers are laid out
// byte for byte like Apache Arrow's. It is built once by one goroutine,
// published, and from then on immutable and shared by reference count. A
// physical batch has no meaning: no result may depend on where one batch ends
// and the next begins.
//
// The package knows nothing of actors, connectors or storage and imports only
// the standard library. Nothing in it is safe for concurrent use unless its
// comment says so; a published Batch may be read by any number of goroutines.
package messages
