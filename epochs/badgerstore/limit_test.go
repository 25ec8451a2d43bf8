package badgerstore

import (
	"errors"
	"testing"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// TestAWriteThatCannotMakeAFileFailsAlone: Badger loses its memory table when it cannot
// make the file of the next one, and ends the process over the next write or read.
func TestAWriteThatCannotMakeAFileFailsAlone(t *testing.T) {
	if alone(t) {
		return
	}
	dir := t.TempDir()
	s := reopened(t, dir, 1)
	restore := smallFiles(t, 32<<10)
	var err error
	for e := messages.Epoch(2); err == nil && e < 100; e++ {
		if err = s.Put(t.Context(), e, large(longName, e)); err == nil {
			err = s.Commit(t.Context(), e-1, e, []byte("record"))
		}
	}
	if err == nil || fault.KindOf(err) != fault.Restart {
		t.Errorf("got %v of kind %v, want %v", err, fault.KindOf(err), fault.Restart)
	}
	s.compact()
	s.gc.collect(s)
	restore()
	closed(t, s)
	s, err = Open(t.Context(), dir, Options{MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	last, next := s.x.newest(), s.x.highest+1
	if err := errors.Join(s.Put(t.Context(), next, large(longName, next)), s.Commit(t.Context(), last, next, []byte("record"))); err != nil {
		t.Error(err)
	}
	holds(t, s, last)
	closed(t, s)
}
