package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages/fault"
)

// OpenReadOnly opens the store in dir to look at it: nothing in dir is changed,
// damage stays as it is, and Put, Commit, Rewind and Drop fail. A lost newest
// epoch does not stop it; Committed tells. It needs room for the newest log files
// in the directory for temporary files, since Badger cannot read a database that
// was not closed without writing to it. The errors are those of Open; in addition
// fs.ErrNotExist if there is no store in dir.
func OpenReadOnly(ctx context.Context, dir string, opts Options) (*Store, error) {
	s, err := openReadOnly(ctx, dir, opts)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, epochs.ErrLocked), errors.Is(err, epochs.ErrNewerFormat), errors.Is(err, epochs.ErrDamaged), errors.Is(err, fs.ErrNotExist):
		return nil, fault.Wrap(fault.Config, err, "open checkpoint")
	}
	return nil, fmt.Errorf("open checkpoint: %w", err)
}

func openReadOnly(ctx context.Context, dir string, opts Options) (*Store, error) {
	s := newStore(dir, opts)
	s.readOnly = true
	original := filepath.Join(dir, dbName)
	if _, err := os.Stat(original); err != nil {
		return nil, err
	}
	var err error
	if s.lock, err = lockForReading(dir); err != nil {
		return nil, err
	}
	if s.dbDir, err = os.MkdirTemp("", "streamd-checkpoint-*"); err != nil {
		return nil, errors.Join(err, s.closeLock())
	}
	if err := s.openCopy(ctx, original); err != nil {
		err = &relabelled{err: err, from: s.dbDir, to: original}
		return nil, errors.Join(err, s.release())
	}
	s.gc.start(s)
	return s, nil
}

func (s *Store) closeLock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// openCopy opens a copy of the database original.
func (s *Store) openCopy(ctx context.Context, original string) error {
	if err := readFormat(s.dir); err != nil {
		return err
	}
	bo := s.badgerOptions()
	if err := inspect(original, bo, false); err != nil {
		return err
	}
	if err := copyDatabase(original, s.dbDir); err != nil {
		return err
	}
	if err := inspect(s.dbDir, bo, true); err != nil {
		return err
	}
	if err := s.openBadger(bo); err != nil {
		return err
	}
	if err := s.readIndex(ctx); err != nil {
		return err
	}
	return s.checkWitness()
}

// readFormat is checkFormat for a directory that must not be changed.
func readFormat(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, formatName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: %w", filepath.Join(dir, formatName), epochs.ErrDamaged)
	}
	return checkFormat(dir)
}

// lockForReading takes the lock of a directory without writing to it; nil if
// there is no lock file and so no user.
func lockForReading(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no file, no error
	}
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	return f, flock(f, dir)
}

// flock locks an open lock file; when it fails the file is closed.
func flock(f *os.File, dir string) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	owner, err := os.ReadFile(f.Name())
	if err != nil || len(owner) == 0 {
		owner = []byte("unknown")
	}
	return fmt.Errorf("%s is used by process %s; stop that one or choose another directory: %w", dir, strings.TrimSpace(string(owner)), epochs.ErrLocked)
}

// emptyLog is the size of a value log without values, which Badger cuts and
// deletes when it opens the database.
const emptyLog = 20

// copyDatabase makes a database in the directory to that Badger may change
// without changing the original: tables and all but the newest value log, which
// are never written again unless they are empty, are linked; the rest is small and
// copied.
func copyDatabase(from, to string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	newest := uint64(0)
	for _, f := range files {
		if n, ok := logNumber(f.Name()); ok {
			newest = max(newest, n)
		}
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return err
		}
		useless, err := superfluous(from, info)
		if err != nil {
			return err
		}
		if useless || !info.Mode().IsRegular() {
			continue
		}
		n, isLog := logNumber(f.Name())
		src, dst := filepath.Join(from, f.Name()), filepath.Join(to, f.Name())
		if filepath.Ext(f.Name()) == ".sst" || isLog && n < newest && info.Size() > emptyLog {
			err = os.Symlink(src, dst)
		} else {
			err = copyFile(src, dst)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func logNumber(name string) (uint64, bool) {
	number, ok := strings.CutSuffix(name, ".vlog")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(number, 10, 32)
	return n, err == nil
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// relabelled is an error about the copy that names the original.
type relabelled struct {
	err      error
	from, to string
}

// Error replaces the directory.
func (e *relabelled) Error() string { return strings.ReplaceAll(e.err.Error(), e.from, e.to) }

// Unwrap returns the error about the copy.
func (e *relabelled) Unwrap() error { return e.err }
