//go:build invariants || race

package messages

func doubleRelease(*Batch) { panic("messages: batch released more often than retained") }

// poison makes use after release visible: the batch is not reused and every
// access to its columns fails. It reports whether the batch must not be pooled.
func poison(b *Batch) bool {
	b.cols, b.sel, b.kinds, b.marks, b.arrivals = nil, nil, nil, nil, nil
	b.lineage = Lineage{}
	b.n = 0
	return true
}
