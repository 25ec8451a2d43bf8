package badgerstore

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// logFiles returns the number of value logs and the size of the largest.
func logFiles(t *testing.T, s *Store) (n int, largest int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.dbDir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	return len(paths), largest
}

// content is the data of a key group's base in a state of size bytes.
func content(group, size int) []byte { return contents()[group : group+size/256] }

var contents = sync.OnceValue(func() []byte { return noise(1 << 20) })

// state writes size bytes as the base of epoch e, which replaces the one before.
func state(t *testing.T, s *Store, e messages.Epoch, size int) {
	t.Helper()
	segs := make([]epochs.Segment, 256)
	for g := range segs {
		segs[g] = epochs.Segment{SegmentID: epochs.SegmentID{Operator: "op", Group: uint16(g), Epoch: e}, Base: true, Data: content(g, size)}
	}
	write(t, s, e-1, e, segs, []byte("record"))
}

// readBack checks that the newest state can be loaded.
func readBack(t *testing.T, s *Store, e messages.Epoch, size int) {
	t.Helper()
	n := 0
	err := s.Load(t.Context(), epochs.LoadRange{Operator: "op", To: 256, UpTo: e}, func(seg epochs.Segment) error {
		if seg.Epoch == e && bytes.Equal(seg.Data, content(int(seg.Group), size)) {
			n++
		}
		return nil
	})
	if err != nil || n != 256 {
		t.Errorf("%d of 256 segments of epoch %d are there: %v", n, e, err)
	}
}

// TestASmallStateTakesLittleDisk: its log is kept short, in small files.
func TestASmallStateTakesLittleDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 20 MB")
	}
	s := opened(t, t.TempDir(), true)
	const size, last, limit = 100 << 10, 200, 6 << 20
	largest := int64(0)
	for e := messages.Epoch(1); e <= last; e++ {
		state(t, s, e, size)
		if e > 60 {
			largest = max(largest, s.Size())
		}
	}
	n, file := logFiles(t, s)
	t.Logf("%d MB written, at most %d KB on disk, %d log files, the largest of %d KB", last*size>>20, largest>>10, n, file>>10)
	if largest > limit || file > 2*smallLog {
		t.Errorf("a state of %d KB took %d KB of the disk, a log file %d KB", size>>10, largest>>10, file>>10)
	}
	readBack(t, s, last, size)
}

// TestALargeStateGetsLargeLogFiles: the store goes on with another database beneath,
// in the same process and in the next ones.
func TestALargeStateGetsLargeLogFiles(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, false)
	const small, big = 100 << 10, 20 << 20
	state(t, s, 1, small)
	s.enlarge()
	if s.logSize != smallLog {
		t.Fatal("a small state has large log files")
	}
	state(t, s, 2, big)
	s.dbMu.RLock() // somebody reads
	s.enlarge()
	s.dbMu.RUnlock()
	if s.logSize != smallLog {
		t.Fatal("the database was replaced under a reader")
	}
	s.enlarge()
	if s.logSize != largeLog {
		t.Fatal("a large state has small log files")
	}
	readBack(t, s, 2, big)
	for e := messages.Epoch(3); e < 5; e++ {
		state(t, s, e, big)
	}
	readBack(t, s, 4, big)
	if _, largest := logFiles(t, s); largest <= 2*smallLog {
		t.Errorf("the largest log file has %d bytes", largest)
	}
	records, highest, err := s.Committed(t.Context())
	if err != nil || highest != 4 || len(records) == 0 || records[0].Epoch != 4 {
		t.Errorf("committed: %d records, highest %d, %v", len(records), highest, err)
	}
	closed(t, s)
	s = opened(t, dir, false)
	if s.logSize != largeLog {
		t.Error("the next start takes small log files")
	}
	readBack(t, s, 4, big)
}

// TestADatabaseThatCannotBeOpenedAgain: the store says that it must be reopened, to
// writers and to readers.
func TestADatabaseThatCannotBeOpenedAgain(t *testing.T) {
	s := opened(t, t.TempDir(), false)
	state(t, s, 1, 20<<20)
	manifest := filepath.Join(s.dbDir, "MANIFEST")
	if err := os.Rename(manifest, manifest+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(manifest, 0o700); err != nil {
		t.Fatal(err)
	}
	s.enlarge()
	s.compact()
	if _, _, err := s.Committed(t.Context()); err == nil {
		t.Error("committed: no error")
	}
	if err := s.Load(t.Context(), epochs.LoadRange{Operator: "op", To: 256, UpTo: 1}, func(epochs.Segment) error { return nil }); err == nil {
		t.Error("load: no error")
	}
	if err := s.Commit(t.Context(), 1, 2, nil); err == nil {
		t.Error("commit: no error")
	}
}
