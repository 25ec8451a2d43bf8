package file

import (
	"os"
	"path/filepath"
)

// fileSystem is what the sink needs of a file system, so that tests can take
// away what a power cut would: data that was not synced, and names in a
// directory that was not synced.
type fileSystem interface {
	// MkdirAll makes a directory and its parents.
	MkdirAll(dir string) error
	// Create makes a file that must not exist and opens it for appending.
	Create(name string) (writeFile, error)
	// Truncate cuts a file to size and syncs it.
	Truncate(name string, size int64) error
	// Size returns the size of a file; ok is false when there is none.
	Size(name string) (size int64, ok bool, err error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Names lists the names in a directory.
	Names(dir string) ([]string, error)
}

// writeFile is an open file. Sync may be called while Write goes on.
type writeFile interface {
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// osFS is the file system of the machine.
type osFS struct{}

func (osFS) MkdirAll(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil { // the umask decides
		return err
	}
	return osFS{}.SyncDir(filepath.Dir(dir))
}

func (osFS) Create(name string) (writeFile, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666) // the umask decides
}

func (osFS) Truncate(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (osFS) Size(name string) (int64, bool, error) {
	info, err := os.Stat(name)
	if os.IsNotExist(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return info.Size(), true, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (osFS) Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
