package catalogstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// markName is the name of the mark.
const markName = "LOST"

// markText is for people who find it.
const markText = "Entries of this catalog are lost. Every query in it is to be told; this file goes when that is on record.\n"

// mark is a file beside the store below. That its newest entries are lost is known
// to that store until it is rewound, and to the log from the next entry on; the
// file says so in between, when the process may die.
type mark struct {
	dir string // "": there is none
}

func (m mark) path() string { return filepath.Join(m.dir, markName) }

// isSet reports whether the mark is there, whatever it holds.
func (m mark) isSet() (bool, error) {
	if m.dir == "" {
		return false, nil
	}
	_, err := os.Lstat(m.path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// set makes the mark durably.
func (m mark) set() error {
	if m.dir == "" {
		return nil
	}
	f, err := os.OpenFile(m.path(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(markText)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return m.syncDir()
}

// clear removes the mark durably: later it would make queries suspect again that
// have been settled.
func (m mark) clear() error {
	if m.dir == "" {
		return nil
	}
	if err := os.Remove(m.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return m.syncDir()
}

func (m mark) syncDir() error {
	d, err := os.Open(m.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
