//go:build invariants || race

package messages

// invariants says whether costly assertions are compiled in.
const invariants = true

func doubleRelease(*Batch) { panic("messages: batch released more often than retained") }

// poison makes use after release visible: the batch is not reused, access to
// its columns fails also for those who kept a column, and the side information
// it owned is overwritten. It reports whether the batch must not be pooled.
func poison(b *Batch) bool {
	for i := range b.own {
		b.own[i] = Column{frozen: true}
	}
	b.cols, b.sel, b.kinds, b.marks, b.arrivals = nil, nil, nil, nil, nil
	b.lineage = Lineage{}
	b.n = 0
	b.side.poison()
	return true
}

func (s *side) poison() {
	const junk = 0xdeadbeef
	spoil(s.sel, -1)
	spoil(s.a, junk)
	spoil(s.b, junk)
	spoil(s.arrivals, junk)
	spoil(s.marks, Mark{Row: -junk & 0x7fffffff, At: junk})
	spoil(s.kinds, RowKind(0xff))
	*s = side{}
}

func spoil[T any](s []T, with T) {
	s = s[:cap(s)]
	for i := range s {
		s[i] = with
	}
}
