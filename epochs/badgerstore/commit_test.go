package badgerstore_test

import (
	"strings"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/messages"
)

// TestCommitsTakeTheDeletionsThatWait: a transaction of the database has limits for
// the number of its keys and for their bytes; what does not fit waits.
func TestCommitsTakeTheDeletionsThatWait(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, badgerstore.Options{})
	const groups = 200
	put := func(e messages.Epoch, n int) {
		segs := make([]epochs.Segment, groups)
		for i := range segs {
			segs[i] = segment(uint16(i), e, n)
			segs[i].Operator = strings.Repeat("a long name ", 20)
		}
		ok(t, s.Put(t.Context(), e, segs))
		ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
	}
	put(1, 20<<10) // each has a key of its own
	put(2, 100)
	ok(t, s.Drop(t.Context(), 2, 2))
	e := messages.Epoch(2)
	for range groups {
		e++
		ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
	}
	mustClose(t, s)
	s = mustOpen(t, dir, badgerstore.Options{})
	defer mustClose(t, s)
	found := 0
	ok(t, s.Load(t.Context(), epochs.LoadRange{Operator: strings.Repeat("a long name ", 20), To: groups, UpTo: e}, func(seg epochs.Segment) error {
		if seg.Epoch != 2 {
			t.Errorf("a segment of epoch %d is still there", seg.Epoch)
		}
		found++
		return nil
	}))
	if found != groups {
		t.Errorf("got %d segments, want %d", found, groups)
	}
}
