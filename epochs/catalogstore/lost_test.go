package catalogstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/catalogstore"
	"github.com/streamd-io/streamd/messages"
)

// lose fills a catalog in a directory, and makes it one that has lost entries.
func lose(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	fill(t, badgerAt(dir))
	witness(t, dir)
	return dir
}

// witness makes it seem that an entry 9 was committed.
func witness(t *testing.T, dir string) {
	t.Helper()
	witnessOf(t, dir, 9)
}

// witnessOf makes it seem that an entry was committed.
func witnessOf(t *testing.T, dir string, entry messages.Epoch) {
	t.Helper()
	number := fmt.Append(nil, entry)
	sum := crc32.Checksum(number, crc32.MakeTable(crc32.Castagnoli))
	ok(t, os.WriteFile(filepath.Join(dir, "EPOCH"), fmt.Appendf(nil, "%s %08x\n", number, sum), 0o600))
}

// lostAt opens such a store as one does who goes back.
func lostAt(dir string) func(ctx context.Context) (epochs.Segments, error) {
	return func(ctx context.Context) (epochs.Segments, error) {
		return badgerstore.Open(ctx, dir, badgerstore.Options{MinFree: 1 << 20, AllowLost: true})
	}
}

var errDied = errors.New("died")

// dying is a store whose process dies at a step.
type dying struct {
	epochs.Segments
	at string
}

func (d dying) Rewind(ctx context.Context, to messages.Epoch) error {
	if d.at == "before the rewind" {
		return errDied
	}
	return d.Segments.Rewind(ctx, to)
}

func (d dying) Commit(ctx context.Context, prev, e messages.Epoch, data []byte) error {
	if d.at == "before the entry" {
		return errDied
	}
	return errors.Join(d.Segments.Commit(ctx, prev, e, data), errDied)
}

// TestALostEntryIsNotForgottenWhoeverDies: whatever a process gets done that accepts
// that entries are lost, the next one tells every query, though it was asked for
// nothing.
func TestALostEntryIsNotForgottenWhoeverDies(t *testing.T) {
	for _, at := range []string{"before the rewind", "before the entry", "behind the entry"} {
		t.Run(at, func(t *testing.T) {
			dir := lose(t)
			c := catalogstore.NewIn(dir, func(ctx context.Context) (epochs.Segments, error) {
				base, err := lostAt(dir)(ctx)
				return dying{base, at}, err
			})
			if _, err := c.Open(t.Context(), "a"); !errors.Is(err, errDied) {
				t.Fatalf("got %v", err)
			}
			next := badgerAt(dir)
			c = catalogstore.NewIn(dir, next)
			if at == "before the rewind" {
				if _, err := c.Open(t.Context(), "a"); !errors.Is(err, epochs.ErrDamaged) {
					t.Fatalf("got %v, want ErrDamaged", err)
				}
				c = catalogstore.NewIn(dir, lostAt(dir))
			}
			for range 2 {
				for _, name := range []string{"a", "b", "unknown"} {
					if _, _, err := open(t, c, name).Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
						t.Errorf("%s: got %v, want ErrDamaged", name, err)
					}
				}
				ok(t, c.Close())
				c = catalogstore.NewIn(dir, next)
			}
			ok(t, open(t, c, "b").Rewind(t.Context(), 2))
			ok(t, c.Close())
			c = catalogstore.NewIn(dir, next)
			q := open(t, c, "b")
			if _, highest, err := q.Committed(t.Context()); highest < 2+5 || err != nil {
				t.Errorf("the highest epoch of b is %d (%v): 5 more may have been in the entries that are lost, and their numbers are used again", highest, err)
			}
			if got := records(t, q); !slices.Equal(got, []messages.Epoch{2, 1}) {
				t.Errorf("b went back to epoch 2 and has %v", got)
			}
			ok(t, c.Close())
			if _, err := os.Lstat(filepath.Join(dir, "LOST")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the mark is left (%v)", err)
			}
		})
	}
}

// TestALostEntryBesideADamagedOneIsAccepted: the record before the lost one cannot
// be read.
func TestALostEntryBesideADamagedOneIsAccepted(t *testing.T) {
	dir := lose(t)
	c := catalogstore.NewIn(dir, func(ctx context.Context) (epochs.Segments, error) {
		base, err := lostAt(dir)(ctx)
		return lossy{base, 4}, err
	})
	q := open(t, c, "a")
	if _, _, err := q.Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	ok(t, q.Rewind(t.Context(), 2))
	ok(t, c.Close())
}

// TestACatalogThatHasLostEverythingSaysWhatToDo: there is no entry to go back to.
func TestACatalogThatHasLostEverythingSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	base, err := badgerAt(dir)(t.Context())
	ok(t, err)
	ok(t, base.Close())
	witness(t, dir)
	_, err = catalogstore.NewIn(dir, lostAt(dir)).Open(t.Context(), "q")
	if !errors.Is(err, epochs.ErrDamaged) || !strings.Contains(err.Error(), "EPOCH: epoch 9 was committed") || !strings.Contains(err.Error(), "move "+dir+" away") {
		t.Errorf("got %v, want ErrDamaged and what to do", err)
	}
}

// TestReadingOnlyTellsAndChangesNothing: to look at a catalog settles nothing.
func TestReadingOnlyTellsAndChangesNothing(t *testing.T) {
	dir := lose(t)
	look := func() {
		t.Helper()
		c := catalogstore.NewReadOnly(dir, func(ctx context.Context) (epochs.Segments, error) {
			return badgerstore.OpenReadOnly(ctx, dir, badgerstore.Options{})
		})
		list, _, err := open(t, c, "a").Committed(t.Context())
		if len(list) != 2 || !errors.Is(err, epochs.ErrDamaged) {
			t.Errorf("%d records and error %v, want 2 and ErrDamaged", len(list), err)
		}
		ok(t, c.Close())
	}
	look()
	if _, err := catalogstore.NewIn(dir, badgerAt(dir)).Open(t.Context(), "a"); !errors.Is(err, epochs.ErrDamaged) || !strings.Contains(err.Error(), "EPOCH") {
		t.Errorf("after a look: got %v, want ErrDamaged of EPOCH", err)
	}
	c := catalogstore.NewIn(dir, func(ctx context.Context) (epochs.Segments, error) {
		base, err := lostAt(dir)(ctx)
		return dying{base, "before the entry"}, err
	})
	if _, err := c.Open(t.Context(), "a"); !errors.Is(err, errDied) {
		t.Fatalf("got %v", err)
	}
	look()
	if _, err := os.Lstat(filepath.Join(dir, "LOST")); err != nil {
		t.Error(err)
	}
}
