package badgerstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/messages"
)

func mustOpen(t *testing.T, dir string, opts badgerstore.Options) *badgerstore.Store {
	t.Helper()
	if opts.MinFree == 0 {
		opts.MinFree = 1 << 20
	}
	s, err := badgerstore.Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t *testing.T, s *badgerstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantOpenError opens a directory that must be refused and returns the text.
func wantOpenError(t *testing.T, dir string, want error) string {
	t.Helper()
	s, err := badgerstore.Open(t.Context(), dir, badgerstore.Options{MinFree: 1 << 20})
	if err == nil {
		mustClose(t, s)
		t.Fatalf("opened, want error %q", want)
	}
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want one that wraps %q", err, want)
	}
	return err.Error()
}

func segment(group uint16, e messages.Epoch, n int) epochs.Segment {
	return epochs.Segment{
		SegmentID: epochs.SegmentID{Operator: "a", Group: group, Epoch: e}, Base: true,
		Data: bytes.Repeat([]byte{byte(group), byte(e)}, n/2),
	}
}

// filled returns the directory of a closed store with three committed epochs,
// with small and large segments in each.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, dir, badgerstore.Options{})
	for e := messages.Epoch(1); e <= 3; e++ {
		if err := s.Put(t.Context(), e, []epochs.Segment{segment(0, e, 3000), segment(1, e, 5000), segment(2, e, 40_000)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), e-1, e, []byte("record")); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	return dir
}

// newestRecord returns the epoch of the newest record.
func newestRecord(t *testing.T, s *badgerstore.Store) messages.Epoch {
	t.Helper()
	records, _, err := s.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) == 0 {
		return 0
	}
	return records[0].Epoch
}

// files returns the database files with a suffix.
func files(t *testing.T, dir, suffix string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "db", "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("no %s file", suffix)
	}
	return names
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestASecondOpenerIsToldTheProcess(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, badgerstore.Options{})
	if got, want := wantOpenError(t, dir, epochs.ErrLocked), fmt.Sprintf("process %d;", os.Getpid()); !strings.Contains(got, want) {
		t.Errorf("error %q does not say %q", got, want)
	}
	mustClose(t, s)
	mustClose(t, mustOpen(t, dir, badgerstore.Options{}))
}

func TestTheLockOfADeadProcessIsNoObstacle(t *testing.T) {
	dir := filled(t)
	ok(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("999999\n"), 0o600))
	mustClose(t, mustOpen(t, dir, badgerstore.Options{}))
}

func TestTheDirectoryIsForItsOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := mustOpen(t, dir, badgerstore.Options{})
	defer mustClose(t, s)
	for _, d := range []string{dir, filepath.Join(dir, "db")} {
		info, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("%s has mode %o, want 700", d, got)
		}
	}
}

func TestLogFilesOfZeroLengthAreRemoved(t *testing.T) {
	dir := filled(t)
	for _, name := range []string{"00077.mem", "000077.vlog"} {
		ok(t, os.WriteFile(filepath.Join(dir, "db", name), nil, 0o600))
	}
	s := mustOpen(t, dir, badgerstore.Options{})
	if got := newestRecord(t, s); got != 3 {
		t.Errorf("newest record is that of epoch %d, want 3", got)
	}
	mustClose(t, s)
}

func TestAMissingManifestIsRefusedAndNothingIsDeleted(t *testing.T) {
	dir := filled(t)
	ok(t, os.Remove(filepath.Join(dir, "db", "MANIFEST")))
	before := len(files(t, dir, ".sst"))
	if got := wantOpenError(t, dir, epochs.ErrDamaged); !strings.Contains(got, "MANIFEST") {
		t.Errorf("error %q does not name the file", got)
	}
	if got := len(files(t, dir, ".sst")); got != before {
		t.Errorf("%d tables are left of %d", got, before)
	}
}

func TestADamagedManifestIsRefused(t *testing.T) {
	dir := filled(t)
	name := filepath.Join(dir, "db", "MANIFEST")
	b, err := os.ReadFile(name)
	ok(t, err)
	b[len(b)/2] ^= 1
	ok(t, os.WriteFile(name, b, 0o600))
	wantOpenError(t, dir, epochs.ErrDamaged)
}

func TestAManifestOfAnotherVersionIsRefusedInOneLine(t *testing.T) {
	dir := filled(t)
	name := filepath.Join(dir, "db", "MANIFEST")
	b, err := os.ReadFile(name)
	ok(t, err)
	b[7] ^= 0x40 // its version, behind four bytes of magic and two of another one
	ok(t, os.WriteFile(name, b, 0o600))
	if got := wantOpenError(t, dir, epochs.ErrDamaged); strings.Contains(got, "\n") || strings.Contains(got, "://") || !strings.Contains(got, "MANIFEST") {
		t.Errorf("got %q, want one line in our words that names the file", got)
	}
}

func TestDamagedTablesAreRefused(t *testing.T) {
	damages := map[string]func(t *testing.T, name string){
		"a missing table":                  func(t *testing.T, name string) { ok(t, os.Remove(name)) },
		"an empty table":                   func(t *testing.T, name string) { ok(t, os.Truncate(name, 0)) },
		"a table of three bytes":           func(t *testing.T, name string) { ok(t, os.Truncate(name, 3)) },
		"a table cut in the middle":        func(t *testing.T, name string) { ok(t, os.Truncate(name, size(t, name)/2)) },
		"a table without its last byte":    func(t *testing.T, name string) { ok(t, os.Truncate(name, size(t, name)-1)) },
		"a table that ends in zeros":       func(t *testing.T, name string) { zeroTail(t, name, 16) },
		"a table whose end was never sent": func(t *testing.T, name string) { zeroTail(t, name, size(t, name)/2) },
		"a table with a flipped index bit": func(t *testing.T, name string) { flip(t, name, size(t, name)-40) },
		"a longer table":                   func(t *testing.T, name string) { ok(t, os.Truncate(name, size(t, name)+4096)) },
	}
	for what, damage := range damages {
		t.Run(what, func(t *testing.T) {
			dir := filled(t)
			name := files(t, dir, ".sst")[0]
			damage(t, name)
			if got := wantOpenError(t, dir, epochs.ErrDamaged); !strings.Contains(got, filepath.Base(name)) {
				t.Errorf("error %q does not name %s", got, name)
			}
		})
	}
}

func zeroTail(t *testing.T, name string, n int64) {
	t.Helper()
	before := size(t, name)
	ok(t, os.Truncate(name, before-n))
	ok(t, os.Truncate(name, before))
}

func flip(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	ok(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	ok(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b, at)
	ok(t, err)
	ok(t, f.Close())
}

func TestANewerFormatIsRefused(t *testing.T) {
	dir := filled(t)
	ok(t, os.WriteFile(filepath.Join(dir, "FORMAT"), []byte("streamd checkpoint 2\n"), 0o600))
	wantOpenError(t, dir, epochs.ErrNewerFormat)
	ok(t, os.WriteFile(filepath.Join(dir, "FORMAT"), []byte("something\n"), 0o600))
	wantOpenError(t, dir, epochs.ErrDamaged)
	ok(t, os.Remove(filepath.Join(dir, "FORMAT")))
	wantOpenError(t, dir, epochs.ErrDamaged)
}

func TestALostEpochIsNoticedByItsWitness(t *testing.T) {
	dir := filled(t)
	// The store of before, with the witness of a fourth epoch.
	s := mustOpen(t, dir, badgerstore.Options{})
	copied := filepath.Join(t.TempDir(), "copy")
	mustClose(t, s)
	ok(t, os.CopyFS(copied, os.DirFS(dir)))
	s = mustOpen(t, dir, badgerstore.Options{})
	ok(t, s.Commit(t.Context(), 3, 4, []byte("record")))
	mustClose(t, s)
	witness, err := os.ReadFile(filepath.Join(dir, "EPOCH"))
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(copied, "EPOCH"), witness, 0o600))

	if got := wantOpenError(t, copied, epochs.ErrDamaged); !strings.Contains(got, "epoch 4 was committed") {
		t.Errorf("error %q does not name the epoch", got)
	}
	s = mustOpen(t, copied, badgerstore.Options{AllowLost: true})
	records, highest, err := s.Committed(t.Context())
	if lost, ok := errors.AsType[*epochs.LostError](err); !ok || lost.Have != 3 || lost.Lost != 4 {
		t.Errorf("got error %v, want that epoch 4 is lost", err)
	}
	if len(records) != 3 || highest != 4 {
		t.Errorf("got %d records, highest epoch %d, want 3 and 4", len(records), highest)
	}
	if err := s.Put(t.Context(), 5, []epochs.Segment{segment(0, 5, 10)}); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("put: got error %v, want ErrDamaged", err)
	}
	if err := s.Commit(t.Context(), 3, 5, nil); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("commit: got error %v, want ErrDamaged", err)
	}
	mustClose(t, s)
	wantOpenError(t, copied, epochs.ErrDamaged) // nobody has accepted the loss
	s = mustOpen(t, copied, badgerstore.Options{AllowLost: true})
	ok(t, s.Rewind(t.Context(), 3))
	mustClose(t, s)
	s = mustOpen(t, copied, badgerstore.Options{})
	if _, highest, err := s.Committed(t.Context()); err != nil || highest < 4 {
		t.Errorf("highest epoch %d, error %v: the number of the lost epoch is free", highest, err)
	}
	mustClose(t, s)
}

func TestADamagedOrMissingWitnessIsRefused(t *testing.T) {
	for what, damage := range map[string]func(name string) error{
		"damaged": func(name string) error { return os.WriteFile(name, []byte("2 00000000\n"), 0o600) },
		"empty":   func(name string) error { return os.WriteFile(name, nil, 0o600) },
		"missing": os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			dir := filled(t)
			ok(t, damage(filepath.Join(dir, "EPOCH")))
			if got := wantOpenError(t, dir, epochs.ErrDamaged); !strings.Contains(got, filepath.Join(dir, "EPOCH")) {
				t.Errorf("error %q does not name the file", got)
			}
			s := mustOpen(t, dir, badgerstore.Options{AllowLost: true})
			ok(t, s.Rewind(t.Context(), 3))
			mustClose(t, s)
			s = mustOpen(t, dir, badgerstore.Options{})
			if _, highest, err := s.Committed(t.Context()); err != nil || highest < 1000 {
				t.Errorf("highest epoch %d, error %v: numbers that nobody remembers are free", highest, err)
			}
			mustClose(t, s)
		})
	}
}

func TestAWitnessThatLagsBehindIsBroughtUpToDate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "EPOCH")
	var before []byte
	for e := messages.Epoch(1); e <= 2; e++ {
		s := mustOpen(t, dir, badgerstore.Options{})
		ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
		mustClose(t, s)
		want, err := os.ReadFile(name)
		ok(t, err)
		if before == nil {
			ok(t, os.Remove(name)) // as after a crash behind the very first record
		} else {
			ok(t, os.WriteFile(name, before, 0o600))
		}
		mustClose(t, mustOpen(t, dir, badgerstore.Options{}))
		got, err := os.ReadFile(name)
		ok(t, err)
		if string(got) != string(want) {
			t.Errorf("epoch %d: witness is %q, want %q", e, got, want)
		}
		before = want
	}
}

func TestASecondWriterBehindTheLockIsAConflict(t *testing.T) {
	dir := filled(t)
	s := mustOpen(t, dir, badgerstore.Options{})
	defer mustClose(t, s)
	other := filled(t)
	o := mustOpen(t, other, badgerstore.Options{})
	ok(t, o.Commit(t.Context(), 3, 5, []byte("record")))
	mustClose(t, o)
	witness, err := os.ReadFile(filepath.Join(other, "EPOCH"))
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(dir, "EPOCH"), witness, 0o600))
	if err := s.Check(t.Context()); !errors.Is(err, epochs.ErrConflict) {
		t.Errorf("check: got error %v, want ErrConflict", err)
	}
	if err := s.Commit(t.Context(), 3, 4, []byte("record")); !errors.Is(err, epochs.ErrConflict) {
		t.Errorf("commit: got error %v, want ErrConflict", err)
	}
}

func TestTooLittleSpaceIsToldWithNumbers(t *testing.T) {
	s := mustOpen(t, t.TempDir(), badgerstore.Options{MinFree: 1 << 50})
	defer mustClose(t, s)
	err := s.Check(t.Context())
	if !errors.Is(err, epochs.ErrNoSpace) {
		t.Fatalf("got error %v, want ErrNoSpace", err)
	}
	if got, want := err.Error(), "1073741824 MB needed"; !strings.Contains(got, want) {
		t.Errorf("error %q does not say %q", got, want)
	}
}

// TestDamagedValuesAreNoticed flips bits and cuts the end of value logs. The
// store may refuse to open, or fail to load, but it may not load other bytes
// than were put, nor end the process.
func TestDamagedValuesAreNoticed(t *testing.T) {
	for i := range 60 {
		dir := filled(t)
		var name string
		for _, f := range files(t, dir, ".vlog") {
			if name == "" || size(t, f) > size(t, name) {
				name = f
			}
		}
		if n := size(t, name); i%3 == 0 {
			ok(t, os.Truncate(name, n*int64(i)/60))
		} else {
			flip(t, name, n*int64(i)/60)
		}
		if !intact(t, dir) {
			continue
		}
		if i%3 == 0 {
			t.Errorf("cut to %d/60: everything loads", i)
		}
	}
}

// intact opens a store and loads what filled has put. Whatever loads must be
// right.
func intact(t *testing.T, dir string) bool {
	t.Helper()
	s, err := badgerstore.Open(t.Context(), dir, badgerstore.Options{MinFree: 1 << 20})
	if err != nil {
		if !errors.Is(err, epochs.ErrDamaged) {
			t.Errorf("open: got error %v, want ErrDamaged", err)
		}
		return false
	}
	defer mustClose(t, s)
	loaded := 0
	for e := messages.Epoch(1); e <= 3; e++ {
		err := s.Load(t.Context(), epochs.LoadRange{Operator: "a", To: 256, UpTo: e}, func(got epochs.Segment) error {
			n := map[uint16]int{0: 3000, 1: 5000, 2: 40_000}[got.Group]
			if want := segment(got.Group, got.Epoch, n); !bytes.Equal(got.Data, want.Data) {
				t.Errorf("segment %v has other bytes than were put", got.SegmentID)
			}
			loaded++
			return nil
		})
		if err != nil && !errors.Is(err, epochs.ErrDamaged) {
			t.Errorf("load: got error %v, want ErrDamaged", err)
		}
	}
	_, _, err = s.Committed(t.Context())
	return err == nil && loaded == 9
}

func TestFlippedBitsInTablesAreRefused(t *testing.T) {
	const places = 40
	dir := filled(t)
	name := files(t, dir, ".sst")[0]
	for i := range places {
		at := size(t, name) * int64(i) / places
		flip(t, name, at)
		wantOpenError(t, dir, epochs.ErrDamaged)
		flip(t, name, at) // and back
	}
	mustClose(t, mustOpen(t, dir, badgerstore.Options{}))
}

func TestTheLogGetsWhatIsDamaged(t *testing.T) {
	dir := filled(t)
	for _, f := range files(t, dir, ".vlog") {
		for at := int64(100); at < size(t, f); at += 20 {
			flip(t, f, at)
		}
	}
	var out bytes.Buffer
	s, err := badgerstore.Open(t.Context(), dir, badgerstore.Options{MinFree: 1 << 20, Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		if !errors.Is(err, epochs.ErrDamaged) {
			t.Fatal(err)
		}
		return
	}
	mustClose(t, s)
	if !strings.Contains(out.String(), "cannot be read") {
		t.Errorf("nothing in the log about the damage: %q", out.String())
	}
}

func TestAStoreIsUnusableAfterClose(t *testing.T) {
	s := mustOpen(t, t.TempDir(), badgerstore.Options{})
	mustClose(t, s)
	mustClose(t, s) // again is fine
	if err := s.Put(t.Context(), 1, []epochs.Segment{segment(0, 1, 10)}); err == nil {
		t.Error("put after close: no error")
	}
	if err := s.Commit(t.Context(), 0, 1, nil); err == nil {
		t.Error("commit after close: no error")
	}
}

func TestAFileInTheWayIsAnError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(name, nil, 0o600))
	if _, err := badgerstore.Open(t.Context(), name, badgerstore.Options{}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v", err)
	}
}

// damagePack flips a bit in the directory of the pack of an epoch in the store
// that filled has made.
func damagePack(t *testing.T, dir string, e messages.Epoch) {
	t.Helper()
	start := segment(0, e, 64).Data // how the data of the first member begins
	for _, name := range files(t, dir, ".vlog") {
		b, err := os.ReadFile(name)
		ok(t, err)
		if at := bytes.Index(b, start); at >= 0 {
			flip(t, name, int64(at)-2)
			return
		}
	}
	t.Fatalf("the pack of epoch %d was not found", e)
}

func TestAPackThatCannotBeReadIsNotForgotten(t *testing.T) {
	dir := filled(t)
	// Badger cuts its newest log file at the first damage; make it another one.
	mustClose(t, mustOpen(t, dir, badgerstore.Options{}))
	damagePack(t, dir, 2)
	s := mustOpen(t, dir, badgerstore.Options{})
	load := func(upTo messages.Epoch) (int, error) {
		n := 0
		err := s.Load(t.Context(), epochs.LoadRange{Operator: "a", To: 3, UpTo: upTo}, func(epochs.Segment) error { n++; return nil })
		return n, err
	}
	want := func(upTo messages.Epoch, damaged bool) {
		t.Helper()
		n, err := load(upTo)
		switch {
		case damaged && !errors.Is(err, epochs.ErrDamaged):
			t.Errorf("epoch %d: loaded %d segments with error %v, want ErrDamaged", upTo, n, err)
		case !damaged && (err != nil || n != 3):
			t.Errorf("epoch %d: loaded %d segments with error %v, want 3", upTo, n, err)
		}
	}
	want(3, false) // its bases are newer
	want(2, true)
	want(1, false)
	// After a fall-back to the epoch before, the damage is history.
	ok(t, s.Rewind(t.Context(), 1))
	want(9, false)
	mustClose(t, s)
	s = mustOpen(t, dir, badgerstore.Options{})
	defer mustClose(t, s)
	if got := newestRecord(t, s); got != 1 {
		t.Errorf("newest record is that of epoch %d, want 1", got)
	}
	want(1, false)
	_, highest, err := s.Committed(t.Context())
	ok(t, err)
	ok(t, s.Put(t.Context(), highest+1, []epochs.Segment{segment(0, highest+1, 100)}))
	ok(t, s.Commit(t.Context(), 1, highest+1, []byte("record")))
	want(highest+1, false)
}

func TestADamagedRecordIsReportedBesideTheOthers(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, badgerstore.Options{})
	record := func(e messages.Epoch) []byte { return bytes.Repeat([]byte{'r', byte(e)}, 2000) }
	for e := messages.Epoch(1); e <= 3; e++ {
		ok(t, s.Commit(t.Context(), e-1, e, record(e)))
	}
	mustClose(t, s)
	damaged := false
	for _, name := range files(t, dir, ".vlog") {
		b, err := os.ReadFile(name)
		ok(t, err)
		if at := bytes.Index(b, record(3)); at >= 0 {
			flip(t, name, int64(at)+1000)
			damaged = true
		}
	}
	if !damaged {
		t.Fatal("the record was not found")
	}
	s = mustOpen(t, dir, badgerstore.Options{})
	defer mustClose(t, s)
	records, highest, err := s.Committed(t.Context())
	if !errors.Is(err, epochs.ErrDamaged) || !strings.Contains(fmt.Sprint(err), "epoch 3") {
		t.Errorf("got error %v, want ErrDamaged for epoch 3", err)
	}
	if len(records) != 2 || records[0].Epoch != 2 || !bytes.Equal(records[1].Data, record(1)) || highest != 3 {
		t.Errorf("got %d records, highest epoch %d", len(records), highest)
	}
}

func TestReadingAfterCloseIsAnError(t *testing.T) {
	dir := filled(t)
	s := mustOpen(t, dir, badgerstore.Options{})
	mustClose(t, s)
	if _, _, err := s.Committed(t.Context()); err == nil {
		t.Error("committed: no error")
	}
	if err := s.Load(t.Context(), epochs.LoadRange{Operator: "a", To: 3, UpTo: 3}, func(epochs.Segment) error { return nil }); err == nil {
		t.Error("load: no error")
	}
}

// TestTheValueLogIsCollected writes many times what is needed and looks at the
// disk. Without collection it would hold everything.
func TestTheValueLogIsCollected(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 250 MB")
	}
	s := mustOpen(t, t.TempDir(), badgerstore.Options{})
	defer mustClose(t, s)
	const each, count, limit = 1 << 20, 250, 120 << 20
	largest := int64(0)
	for e := messages.Epoch(1); e <= count; e++ {
		segs := make([]epochs.Segment, 64)
		for i := range segs {
			segs[i] = segment(uint16(i), e, each/len(segs))
		}
		ok(t, s.Put(t.Context(), e, segs))
		ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
		ok(t, s.Drop(t.Context(), max(e, 3)-2, e))
		largest = max(largest, s.Size())
	}
	t.Logf("%d MB written, 3 MB needed, at most %d MB on disk", count*each>>20, largest>>20)
	if largest > limit {
		t.Errorf("the store grew to %d MB, want at most %d", largest>>20, limit>>20)
	}
}

// TestTheValueLogIsCollectedOverManyStarts: a process that does not live long
// enough to write much collects what those before it have left.
func TestTheValueLogIsCollectedOverManyStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 50 MB")
	}
	const each, starts, limit = 64 << 10, 40, 30 << 20
	dir, e := t.TempDir(), messages.Epoch(0)
	for range starts {
		s := mustOpen(t, dir, badgerstore.Options{})
		for range 20 {
			e++
			segs := make([]epochs.Segment, 16)
			for i := range segs {
				segs[i] = segment(uint16(i), e, each/len(segs))
			}
			ok(t, s.Put(t.Context(), e, segs))
			ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
			ok(t, s.Drop(t.Context(), max(e, 3)-2, e))
		}
		mustClose(t, s)
	}
	s := mustOpen(t, dir, badgerstore.Options{})
	defer mustClose(t, s)
	t.Logf("%d MB written, %d MB on disk", each*e>>20, s.Size()>>20)
	if s.Size() > limit {
		t.Errorf("the store grew to %d MB, want at most %d", s.Size()>>20, limit>>20)
	}
}

// TestLogFilesAreCollectedOverManyStarts: every start makes a file, however little is
// written to it.
func TestLogFilesAreCollectedOverManyStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("Badger collects beside writes")
	}
	dir, e := t.TempDir(), messages.Epoch(0)
	for range 60 {
		s := mustOpen(t, dir, badgerstore.Options{})
		for range 3 {
			e++
			ok(t, s.Put(t.Context(), e, []epochs.Segment{segment(0, e, 20_000)}))
			ok(t, s.Commit(t.Context(), e-1, e, []byte("record")))
			ok(t, s.Drop(t.Context(), max(e, 3)-2, e))
		}
		mustClose(t, s)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "db", "*.vlog"))
	ok(t, err)
	if len(logs) > 30 {
		t.Errorf("%d log files are left behind 60 starts", len(logs))
	}
}

func TestALockFileThatIsALinkIsNotFollowed(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(target, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	s, err := badgerstore.Open(t.Context(), dir, badgerstore.Options{MinFree: 1 << 20})
	if err == nil {
		_ = s.Close() // it should not have opened
		t.Error("the store opened through a link")
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "content" {
		t.Errorf("the target of the link holds %q (%v)", got, err)
	}
}
