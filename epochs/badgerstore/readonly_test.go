package badgerstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/messages"
)

// contents reads all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	ok(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(b)
		return err
	}))
	return out
}

func TestReadingOnlyChangesNothing(t *testing.T) {
	for what, damage := range map[string]func(t *testing.T, dir string){
		"a whole store":           func(*testing.T, string) {},
		"a value log that is cut": func(t *testing.T, dir string) { cutNewestLog(t, dir) },
		"empty logs": func(t *testing.T, dir string) {
			ok(t, os.WriteFile(filepath.Join(dir, "db", "000001.vlog"), nil, 0o600))
		},
		"logs without values": func(t *testing.T, dir string) {
			for range 3 {
				mustClose(t, mustOpen(t, dir, badgerstore.Options{}))
			}
		},
		"a witness of an older epoch": func(t *testing.T, dir string) { ok(t, os.Remove(filepath.Join(dir, "EPOCH"))) },
		"no lock file":                func(t *testing.T, dir string) { ok(t, os.Remove(filepath.Join(dir, "lock"))) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := filled(t)
			damage(t, dir)
			before := contents(t, dir)
			s, err := badgerstore.OpenReadOnly(t.Context(), dir, badgerstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			records, _, _ := s.Committed(t.Context()) // damage is not the subject
			if len(records) == 0 {
				t.Error("no records")
			}
			if err := s.Commit(t.Context(), 3, 4, nil); err == nil {
				t.Error("commit: no error")
			}
			if err := s.Rewind(t.Context(), 1); err == nil {
				t.Error("rewind: no error")
			}
			mustClose(t, s)
			if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
				t.Errorf("files have changed (-before +after):\n%.2000s", diff)
			}
		})
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "streamd-checkpoint-*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v (%v)", left, err)
	}
}

func cutNewestLog(t *testing.T, dir string) {
	t.Helper()
	logs := files(t, dir, ".vlog")
	name := logs[len(logs)-1]
	ok(t, os.Truncate(name, size(t, name)-1))
}

func TestWhatIsReadOnlyIsWhatIsThere(t *testing.T) {
	dir := filled(t)
	want := map[epochs.SegmentID]string{}
	read := func(s *badgerstore.Store, f func(epochs.Segment)) {
		t.Helper()
		ok(t, s.Load(t.Context(), epochs.LoadRange{Operator: "a", To: 256, UpTo: 3}, func(seg epochs.Segment) error { f(seg); return nil }))
		mustClose(t, s)
	}
	read(mustOpen(t, dir, badgerstore.Options{}), func(s epochs.Segment) { want[s.SegmentID] = string(s.Data) })
	s, err := badgerstore.OpenReadOnly(t.Context(), dir, badgerstore.Options{})
	ok(t, err)
	got := map[epochs.SegmentID]string{}
	read(s, func(s epochs.Segment) { got[s.SegmentID] = string(s.Data) })
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("%d segments (-want +got):\n%s", len(want), diff)
	}
}

func TestAStoreInUseOrNoStoreIsNotReadOnlyOpened(t *testing.T) {
	dir := filled(t)
	s := mustOpen(t, dir, badgerstore.Options{})
	_, err := badgerstore.OpenReadOnly(t.Context(), dir, badgerstore.Options{})
	if !errors.Is(err, epochs.ErrLocked) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("got error %v, want ErrLocked with the process", err)
	}
	mustClose(t, s)
	empty := t.TempDir()
	if _, err := badgerstore.OpenReadOnly(t.Context(), empty, badgerstore.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want ErrNotExist", err)
	}
	if left := contents(t, empty); len(left) > 0 {
		t.Errorf("files were made: %v", left)
	}
}

func TestDamagedLogHeadsAreRefusedByName(t *testing.T) {
	for what, damage := range map[string]func(t *testing.T, name string){
		"the number of a key": func(t *testing.T, name string) { flip(t, name, 7) },
		"a cut head":          func(t *testing.T, name string) { ok(t, os.Truncate(name, 19)) },
	} {
		dir := filled(t)
		name := files(t, dir, ".vlog")[0]
		damage(t, name)
		if got := wantOpenError(t, dir, epochs.ErrDamaged); !strings.Contains(got, name) {
			t.Errorf("%s: error %q does not name the file", what, got)
		}
		_, err := badgerstore.OpenReadOnly(t.Context(), dir, badgerstore.Options{})
		if !errors.Is(err, epochs.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v, want ErrDamaged with the file", what, err)
		}
	}
}

func TestFilesThatHoldNothingAreMadeAnew(t *testing.T) {
	for _, name := range []string{"KEYREGISTRY", "DISCARD"} {
		for what, damage := range map[string]func(t *testing.T, name string){
			"a flipped bit": func(t *testing.T, name string) { flip(t, name, size(t, name)-1) },
			"cut":           func(t *testing.T, name string) { ok(t, os.Truncate(name, 9)) },
			"empty":         func(t *testing.T, name string) { ok(t, os.Truncate(name, 0)) },
			"missing":       func(t *testing.T, name string) { ok(t, os.Remove(name)) },
		} {
			dir := filled(t)
			damage(t, filepath.Join(dir, "db", name))
			if !intact(t, dir) {
				t.Errorf("%s, %s: something is lost", name, what)
			}
		}
	}
}

// TestADamagedOlderRecordIsToldFromTheNewest looks at what the start decides by.
func TestADamagedOlderRecordIsToldFromTheNewest(t *testing.T) {
	old := &epochs.RecordError{Epoch: 3, Err: errors.New("x")}
	if err := epochs.NewestDamage(errors.Join(old), 4); err != nil {
		t.Errorf("got %v for an older record", err)
	}
	for _, err := range []error{errors.Join(old, &epochs.RecordError{Epoch: 5, Err: old}), &epochs.LostError{Have: 4}, errors.New("y")} {
		if epochs.NewestDamage(err, messages.Epoch(4)) == nil {
			t.Errorf("%v is not taken for damage of a newer epoch", err)
		}
	}
	lost := fmt.Errorf("open: %w", &epochs.LostError{Have: 4, Text: "epoch 5 was committed"})
	if got := epochs.NewestDamage(errors.Join(old, lost), 4); got == nil || got.Error() != lost.Error() {
		t.Errorf("got %v, want %v", got, lost)
	}
}
