package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Names in the store's directory.
const (
	lockName    = "lock"
	formatName  = "FORMAT"
	witnessName = "EPOCH"
	dbName      = "db"
)

// format is the version of everything below the directory.
const (
	format       = 1
	formatPrefix = "streamd checkpoint "
)

// lockDir takes the lock of a directory. The lock goes with the process, so that
// one left by a dead process is none.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	if err := flock(f, dir); err != nil {
		return nil, err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil && !errors.Is(err, unix.ENOSPC) { // the number is for people
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// writeFile replaces a file so that a crash leaves the old or the new content.
func writeFile(dir, name, content string) error {
	tmp := filepath.Join(dir, name+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// checkFormat reads the format version, or writes it in a new directory.
func checkFormat(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, formatName))
	if errors.Is(err, fs.ErrNotExist) {
		files, err := os.ReadDir(filepath.Join(dir, dbName))
		if err != nil {
			return err
		}
		if len(files) > 0 {
			return fmt.Errorf("%s holds a database but no %s file; it was not made by streamd or is incomplete: %w", dir, formatName, epochs.ErrDamaged)
		}
		return writeFile(dir, formatName, formatPrefix+strconv.Itoa(format)+"\n")
	}
	if err != nil {
		return err
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(b)), formatPrefix)
	version, err := strconv.Atoi(number)
	if !ok || err != nil || version < 1 {
		return fmt.Errorf("%s is not a format version: %q: %w", filepath.Join(dir, formatName), b, epochs.ErrDamaged)
	}
	if version > format {
		return fmt.Errorf("%s has format version %d, this program reads up to %d; use a newer streamd: %w", dir, version, format, epochs.ErrNewerFormat)
	}
	return nil
}

// The witness is the epoch in decimal and a checksum, so that a damaged witness
// is not taken for another epoch.
func witnessContent(e messages.Epoch) string {
	number := strconv.FormatUint(uint64(e), 10)
	return fmt.Sprintf("%s %08x\n", number, checksum([]byte(number)))
}

// readWitness returns the witnessed epoch; 0 if there is no witness yet.
func readWitness(dir string) (messages.Epoch, error) {
	name := filepath.Join(dir, witnessName)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(string(b), " ")
	e, err := strconv.ParseUint(number, 10, 64)
	if err != nil || witnessContent(messages.Epoch(e)) != string(b) {
		return 0, fmt.Errorf("%s: %q is not an epoch witness: %w", name, b, epochs.ErrDamaged)
	}
	return messages.Epoch(e), nil
}

// checkSpace returns an error that wraps ErrNoSpace if fewer than need bytes are
// free for this process.
func checkSpace(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("ask for free space of %s: %w", dir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < need { //nolint:unconvert // Bsize has 32 bits on some platforms
		return fmt.Errorf("%s: %d MB free, %d MB needed: %w", dir, free>>20, (need+1<<20-1)>>20, epochs.ErrNoSpace)
	}
	return nil
}

// usage is what a database takes of the disk.
type usage struct {
	tree, values int64 // bytes
	logs         int   // files of the value log
}

// diskUsage looks at the files of a database. Files that vanish meanwhile do not
// count.
func diskUsage(db string) (usage, error) {
	var u usage
	files, err := os.ReadDir(db)
	if err != nil {
		return u, err
	}
	for _, f := range files {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(db, f.Name()), &st); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return u, err
		}
		used := st.Blocks * 512 // sparse files count by what is there
		if strings.HasSuffix(f.Name(), ".vlog") {
			u.values += used
			u.logs++
		} else {
			u.tree += used
		}
	}
	return u, nil
}
