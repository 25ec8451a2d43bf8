package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// opened opens a store; collecting says whether it collects by itself.
func opened(t *testing.T, dir string, collecting bool) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{MinFree: 1 << 20, AllowLost: true})
	if err != nil {
		t.Fatal(err)
	}
	if !collecting {
		s.gc.stop()
		s.gc.quit, s.gc.done = make(chan struct{}), make(chan struct{})
		close(s.gc.done)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// write puts segments, commits epoch e and drops what it does not need.
func write(t *testing.T, s *Store, prev, e messages.Epoch, segs []epochs.Segment, record []byte) {
	t.Helper()
	if err := s.Put(t.Context(), e, segs); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), prev, e, record); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(t.Context(), e, e); err != nil {
		t.Fatal(err)
	}
}

// bases are full copies of key groups, each with a key of its own.
func bases(operator string, e messages.Epoch, from, to uint16) []epochs.Segment {
	var segs []epochs.Segment
	for g := from; g < to; g++ {
		segs = append(segs, epochs.Segment{SegmentID: epochs.SegmentID{Operator: operator, Group: g, Epoch: e}, Base: true, Data: noise(packBelow)})
	}
	return segs
}

// eventually waits for what happens in another goroutine.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen", what)
		case <-tick.C:
		}
	}
}

// idle waits until only the current memory table is not flushed.
func idle(t *testing.T, s *Store) {
	t.Helper()
	eventually(t, "the flush of memory tables", func() bool {
		tables, err := memTables(s.dbDir)
		if err != nil {
			t.Fatal(err)
		}
		return len(tables) == 1
	})
}

// strays are the keys in the database that the index does not know.
func strays(t *testing.T, s *Store) int {
	t.Helper()
	keys, err := s.keysNow()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.close()
	found := map[string]bool{}
	if err := keys.each(func(item *badger.Item) error { found[string(item.Key())] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	missing, n := s.x.compare(found, nil, s.x.newest())
	for key := range missing {
		t.Errorf("key %x is missing", key)
	}
	return n
}

// skipCollection leaves tests in which Badger collects beside writes out of short runs,
// as those under the race detector: it reads the largest version of a memory table
// (DB.MaxVersion in 4.9.6) while that is written.
func skipCollection(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("writes tens of MB")
	}
}

// TestRecordsAreCollected: a store that gets commit records only, as the catalog, does
// not grow for ever.
func TestRecordsAreCollected(t *testing.T) {
	skipCollection(t)
	s := opened(t, t.TempDir(), true)
	const each, count, limit = 40 << 10, 600, 16 << 20
	for e := messages.Epoch(1); e <= count; e++ {
		write(t, s, e-1, e, nil, noise(each))
	}
	eventually(t, fmt.Sprintf("the collection of %d MB", count*each>>20), func() bool { return s.Size() < limit })
}

// TestFewLargeSegmentsAreCollected: what is garbage becomes known although its keys do
// not fill a memory table.
func TestFewLargeSegmentsAreCollected(t *testing.T) {
	skipCollection(t)
	s := opened(t, t.TempDir(), true)
	const count, limit = 60, 24 << 20
	for e := messages.Epoch(1); e <= count; e++ {
		seg := epochs.Segment{SegmentID: epochs.SegmentID{Operator: "op", Group: epochs.OperatorGroup, Epoch: e}, Base: true, Data: noise(1 << 20)}
		write(t, s, e-1, e, []epochs.Segment{seg}, []byte("record"))
	}
	// The last ones still fill the table.
	last := messages.Epoch(count)
	eventually(t, fmt.Sprintf("the collection of %d MB", count), func() bool {
		if s.Size() < limit {
			return true
		}
		last++
		write(t, s, last-1, last, nil, noise(64<<10))
		return false
	})
}

// TestWhatWasDeletedStaysDeleted: a collection of the value log moves values whose
// deletion is not compacted yet; they must not come back when it is.
func TestWhatWasDeletedStaysDeleted(t *testing.T) {
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("held back %v", held), func(t *testing.T) {
			s := opened(t, t.TempDir(), false)
			operator := strings.Repeat("o", 1000)
			e := messages.Epoch(0)
			step := func(from, to uint16) {
				e++
				write(t, s, e-1, e, bases(operator, e, from, to), []byte("record"))
			}
			step(0, 240) // fills the first value log
			for range 5 {
				step(0, 150)
				idle(t, s)
				s.compact() // the garbage becomes known
			}
			step(230, 240) // replaces ten groups, whose deletion comes with the next epoch
			step(0, 0)
			step(0, 0)
			collected := 0
			for s.db.RunValueLogGC(gcDiscard) == nil {
				collected++
			}
			if collected == 0 {
				t.Fatal("nothing was collected")
			}
			if held {
				if err := s.noteMoved(); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				s.compact()
				idle(t, s)
			}
			step(0, 0)
			if n := strays(t, s); n > 0 {
				t.Errorf("%d deleted keys are there again", n)
			}
		})
	}
}

// TestNothingIsCompactedBeforeWhatMovedIsFlushed is the rule that keeps deletions and
// what a collection has moved together.
func TestNothingIsCompactedBeforeWhatMovedIsFlushed(t *testing.T) {
	s := opened(t, t.TempDir(), false)
	operator := strings.Repeat("o", 1000)
	e := messages.Epoch(0)
	fill := func() {
		for range 3 {
			e++
			write(t, s, e-1, e, bases(operator, e, 0, 60), []byte("record"))
		}
		idle(t, s)
	}
	fill()
	s.compact()
	if err := s.noteMoved(); err != nil {
		t.Fatal(err)
	}
	moved := s.gc.moved
	s.gc.moved = moved + 1000
	fill()
	before := s.db.Levels()[0].NumTables
	s.compact()
	if after := s.db.Levels()[0].NumTables; before == 0 || after != before {
		t.Errorf("%d of %d tables are left although what has moved is in memory", after, before)
	}
	s.gc.moved = moved
	s.compact()
	if n := s.db.Levels()[0].NumTables; n > 1 {
		t.Errorf("%d tables are left although what has moved is flushed", n)
	}
}

// TestALostKeyStopsTheStore: when a compaction has lost a key of a committed epoch,
// nothing is committed on top of it.
func TestALostKeyStopsTheStore(t *testing.T) {
	s := opened(t, t.TempDir(), false)
	write(t, s, 0, 1, bases("op", 1, 0, 3), []byte("record"))
	if err := s.merge(); err != nil {
		t.Fatal(err)
	}
	txn := s.db.NewTransactionAt(newest, true)
	for _, chain := range s.x.chains {
		if err := txn.Delete([]byte(chain[0].blob.key)); err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := txn.CommitAt(1, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.merge(); err == nil || !strings.Contains(err.Error(), "gone from the database") {
		t.Errorf("merge = %v", err)
	}
	if err := s.Commit(t.Context(), 1, 2, nil); err == nil {
		t.Error("an epoch was committed after that")
	}
}

// TestWhatACompactionHasLostIsWrittenAgain: files can be made when it begins, and then
// no more. It has given up the tables it has read, with a committed epoch and parts of
// the next one.
func TestWhatACompactionHasLostIsWrittenAgain(t *testing.T) {
	if alone(t) {
		return
	}
	dir := t.TempDir()
	const name, last = "an operator with a name of about fifty characters", 3
	for e := messages.Epoch(1); e < last; e++ {
		s := opened(t, dir, false)
		if err := errors.Join(s.Put(t.Context(), e, large(name, e)), s.Commit(t.Context(), e-1, e, []byte("record"))); err != nil {
			t.Fatal(err)
		}
		closed(t, s) // flushes a table
	}
	s := opened(t, dir, false)
	s.logSize = largeLog // with room for what is written again
	if err := errors.Join(s.reopen(), s.Put(t.Context(), last, large(name, last)), s.flush()); err != nil {
		t.Fatal(err)
	}
	idle(t, s)
	before := len(s.db.Tables())
	restore := smallFiles(t, 3<<10) // of the manifest, but not of a table
	err := s.merge()
	restore()
	if err != nil {
		t.Fatal(err)
	}
	if after := len(s.db.Tables()); before < last || after > 0 {
		t.Fatalf("there were %d tables and are %d; the test wants the compaction to lose them", before, after)
	}
	if err := s.Commit(t.Context(), last-1, last, []byte("record")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		found := 0
		if err := s.Load(t.Context(), epochs.LoadRange{Operator: name, To: 1000, UpTo: last}, func(epochs.Segment) error { found++; return nil }); err != nil {
			t.Fatal(err)
		}
		records, _, err := s.Committed(t.Context())
		if err != nil || found != each*last || len(records) != last {
			t.Errorf("%d segments and %d records are left: %v", found, len(records), err)
		}
		closed(t, s)
		s = opened(t, dir, false)
	}
}

// large are segments of an epoch that have keys of their own.
func large(operator string, e messages.Epoch) []epochs.Segment {
	segs := make([]epochs.Segment, each)
	for i := range segs {
		segs[i] = epochs.Segment{
			SegmentID: epochs.SegmentID{Operator: operator, Group: uint16(int(e)*each + i), Epoch: e}, Base: true,
			Data: bytes.Repeat([]byte{byte(e)}, packBelow),
		}
	}
	return segs
}

// TestInodesRunOutInACompaction: a compaction for which the file system has too few
// files left is put off.
func TestInodesRunOutInACompaction(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=300m,nr_inodes=300"); err != nil {
		t.Skipf("SKIPPED: mount needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := reopened(t, filepath.Join(dir, "state"), 1)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	const first, last = 40, 46
	for e := messages.Epoch(2); e <= last; e++ {
		put(t, s, e)
		if e == first {
			idle(t, s)
			s.compact()
		}
	}
	idle(t, s)
	fillers := filepath.Join(dir, "fill")
	if err := os.Mkdir(fillers, 0o700); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	for i := 0; ; i++ {
		if err := unix.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		if st.Ffree <= probes+1 {
			break
		}
		if err := os.WriteFile(filepath.Join(fillers, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.compact()
	if !s.gc.putOff {
		t.Errorf("%d tables were compacted with %d files left", len(s.db.Tables()), st.Ffree)
	}
	if err := os.RemoveAll(fillers); err != nil {
		t.Fatal(err)
	}
	holds(t, s, last)
	s.compact()
	if s.gc.putOff {
		t.Error("the compaction is still put off")
	}
	holds(t, s, last)
}

// TestRemainsBesideADamagedRecord: what a failed attempt has left is not taken for a part
// of an older epoch because the newest record cannot be read.
func TestRemainsBesideADamagedRecord(t *testing.T) {
	dir, record := t.TempDir(), noise(2000)
	func() {
		s, err := Open(t.Context(), dir, Options{MinFree: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		deltas := func(e messages.Epoch) []epochs.Segment {
			segs := bases("op", e, 0, 100)
			for i := range segs {
				segs[i].Base = e == 5
			}
			return segs
		}
		prev := messages.Epoch(0)
		for _, e := range []messages.Epoch{5, 6, 7, 8} {
			if err := s.Put(t.Context(), e, deltas(e)); err != nil {
				t.Fatal(err)
			}
			if e == 6 {
				continue // of an attempt that failed
			}
			if err := s.Commit(t.Context(), prev, e, append([]byte{byte(e)}, record...)); err != nil {
				t.Fatal(err)
			}
			prev = e
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	damage(t, dir, append([]byte{8}, record...))
	s := opened(t, dir, false)
	for range 2 {
		found := 0
		if err := s.Load(t.Context(), epochs.LoadRange{Operator: "op", To: 256, UpTo: 7}, func(epochs.Segment) error { found++; return nil }); err != nil {
			t.Fatal(err)
		}
		if found != 200 {
			t.Errorf("%d segments restore epoch 7, want 200", found)
		}
		if err := s.Rewind(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
	}
}

// damage changes a byte in the middle of a value.
func damage(t *testing.T, dir string, value []byte) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, dbName, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(b, value); i >= 0 {
			b[i+len(value)/2] ^= 0xff
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the value is in no log")
}

// TestSweepBesideCommits: what is being written while the keys are looked at is not taken
// for something that has come back.
func TestSweepBesideCommits(t *testing.T) {
	s := opened(t, t.TempDir(), false)
	const count = 150
	done := make(chan error, 1)
	go func() {
		for e := messages.Epoch(1); e <= count; e++ {
			if err := s.Put(t.Context(), e, bases("op", e, uint16(e%200), uint16(e%200)+2)); err != nil {
				done <- err
				return
			}
			if err := s.Commit(t.Context(), e-1, e, []byte("record")); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for sweeping := true; sweeping; {
		before, err := s.keysNow()
		if err != nil {
			t.Fatal(err)
		}
		err = s.sweep(before)
		before.close()
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			sweeping = false
		default:
		}
	}
	if len(s.x.dead) > 0 || len(s.x.deadRecords) > 0 {
		t.Errorf("%d parts and %d records are to be deleted, none was dropped", len(s.x.dead), len(s.x.deadRecords))
	}
	records, _, err := s.Committed(t.Context())
	if err != nil || len(records) != count {
		t.Errorf("%d records are left of %d: %v", len(records), count, err)
	}
}
