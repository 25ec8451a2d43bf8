// Package alloctest bounds what decoders allocate. Decoders of stored and received
// bytes are given bytes that nobody has written: a length of 4 GB in an input of
// 20 bytes must be an error, and not 4 GB of memory. Tests of every layer use it;
// nothing else does.
package alloctest

import (
	goruntime "runtime"
	"testing"
)

// slack is what may be allocated besides: by the runtime, and by the goroutines
// of the test.
const slack = 64 << 10

// Within runs f, which decodes an input of size bytes, and fails the test if it
// has allocated more than factor bytes for each of them. Nothing else may run in
// the test meanwhile.
func Within(t testing.TB, factor, size int, f func()) {
	t.Helper()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(factor*size+slack); got > limit {
		t.Errorf("an input of %d bytes made the decoder allocate %d bytes, want at most %d", size, got, limit)
	}
}
