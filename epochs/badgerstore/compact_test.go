package badgerstore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// reopened opens the store in dir and commits epoch e with one segment.
func reopened(t *testing.T, dir string, e messages.Epoch) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.gc.stop() // the test compacts
	s.gc.quit, s.gc.done = make(chan struct{}), make(chan struct{})
	close(s.gc.done)
	put(t, s, e)
	return s
}

// each is the number of segments of an epoch.
const each = 20

var longName = strings.Repeat("a", 2000)

func put(t *testing.T, s *Store, e messages.Epoch) {
	t.Helper()
	if err := s.Put(t.Context(), e, large(longName, e)); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), e-1, e, fmt.Appendf(nil, "record %d", e)); err != nil {
		t.Fatal(err)
	}
}

// holds checks that the segments of all epochs up to last are there.
func holds(t *testing.T, s *Store, last messages.Epoch) {
	t.Helper()
	found := 0
	if err := s.Load(t.Context(), epochs.LoadRange{Operator: longName, To: 1000, UpTo: last}, func(epochs.Segment) error { found++; return nil }); err != nil {
		t.Fatal(err)
	}
	if want := each * int(last); found != want {
		t.Errorf("%d of %d segments are left", found, want)
	}
}

func closed(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestACompactionThatCannotMakeItsTableIsPutOff: Badger would give up the tables it cannot
// merge into a new one.
func TestACompactionThatCannotMakeItsTableIsPutOff(t *testing.T) {
	if alone(t) {
		return
	}
	dir := t.TempDir()
	const last = 4
	for e := range messages.Epoch(last - 1) {
		closed(t, reopened(t, dir, e+1)) // flushes a table
	}
	s := reopened(t, dir, last)
	before := s.db.Levels()[0].NumTables
	restore := smallFiles(t, 32<<10) // of the manifest, but not of a table
	s.compact()
	restore()
	if got := s.db.Levels()[0].NumTables; got != before || before < 2 {
		t.Errorf("there were %d tables and are %d", before, got)
	}
	if !s.gc.putOff {
		t.Error("the compaction was not put off")
	}
	holds(t, s, last)
	s.compact()
	if got := s.db.Levels()[0].NumTables; got != 0 || s.gc.putOff {
		t.Errorf("%d tables are left when there are files again", got)
	}
	holds(t, s, last)
	closed(t, s)
	s = reopened(t, dir, last+1)
	defer closed(t, s)
	holds(t, s, last+1)
	if left, err := filepath.Glob(filepath.Join(dir, dbName, probePrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestAStoreThatCannotMakeItsFilesIsTriedAgain: the limit may be lifted, so it is no
// reason to give a query up.
func TestAStoreThatCannotMakeItsFilesIsTriedAgain(t *testing.T) {
	if alone(t) {
		return
	}
	dir := t.TempDir()
	closed(t, reopened(t, dir, 1))
	restore := smallFiles(t, 32<<10)
	s, err := Open(t.Context(), dir, Options{MinFree: 1 << 20})
	restore()
	if err == nil {
		closed(t, s)
	}
	if err == nil || fault.KindOf(err) != fault.Restart {
		t.Errorf("Open = %v of kind %v, want %v", err, fault.KindOf(err), fault.Restart)
	}
	s = reopened(t, dir, 2)
	defer closed(t, s)
	holds(t, s, 2)
}

// alone runs the test in a process of its own and reports whether it has: a limit for
// the size of files would meet the log that go test lets a test write, too.
func alone(t *testing.T) bool {
	t.Helper()
	const env = "STREAMD_TEST_ALONE"
	if os.Getenv(env) != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// smallFiles bounds the size of the files of this process, which must be alone, until
// the function it returns is called.
func smallFiles(t *testing.T, size uint64) func() {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: soft, Max: limit.Max}); err != nil {
			t.Error(err)
		}
	}
	signal.Ignore(unix.SIGXFSZ)
	set(size)
	return func() {
		set(limit.Cur)
		signal.Reset(unix.SIGXFSZ)
	}
}

// TestLogsOfALargerMemoryTableAreRead: a process of another build was killed.
func TestLogsOfALargerMemoryTableAreRead(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	closed(t, reopened(t, dir, 1))
	s, err := Open(t.Context(), dir, Options{MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	bo := s.badgerOptions().WithMemTableSize(8 * memTableSize).WithSyncWrites(false)
	closed(t, s)
	db, err := badger.OpenManaged(bo)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 { // more than fits into a memory table of this build
		txn := db.NewTransactionAt(newest, true)
		if err := txn.Set(fmt.Appendf(nil, "z%d", i), bytes.Repeat([]byte{1}, 30)); err != nil {
			t.Fatal(err)
		}
		if err := txn.CommitAt(1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopened(t, killed, 2)
	holds(t, s, 2)
	closed(t, s)
	s = reopened(t, killed, 3)
	defer closed(t, s)
	holds(t, s, 3)
}
