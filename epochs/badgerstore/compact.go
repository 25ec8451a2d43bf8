package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
)

const (
	// neverStall is a number of them at which Badger would hold writes back: a
	// compaction that is put off must not.
	neverStall = 1 << 20
	// probes is how many files a compaction makes at a time, and probeSize at least
	// the size of each.
	probes      = 4
	probeSize   = 1 << 20
	probePrefix = "probe-"
)

// compact merges a flushed memory table, if there is one, with the others; only
// that makes garbage in the value log known. Badger's own compactors are not used:
// in 4.9.6 a compaction that cannot create its table, as with a limit for the size
// of files, counts as done and gives up the tables it has read. So it is tried
// before whether files can be made; if not, the tables stay as they are until the
// next commit.
func (s *Store) compact() {
	if levels := s.db.Levels(); levels[0].NumTables == 0 || levels[0].NumTables == len(s.db.Tables()) && levels[0].NumTables == 1 {
		return
	}
	err := probeFiles(s.dbDir)
	if err == nil {
		err = s.db.Flatten(1)
	}
	switch {
	case err == nil:
		s.gc.putOff = false
	case !s.gc.putOff:
		s.gc.putOff = true
		s.log.Warn("tables of the checkpoint are not compacted for now", "dir", s.dbDir, "err", err)
	}
}

// probeFiles makes files like those of a compaction, and removes them.
func probeFiles(dir string) error {
	var files []*os.File
	var err error
	for range probes {
		var f *os.File
		if f, err = os.CreateTemp(dir, probePrefix+"*"); err != nil {
			break
		}
		files = append(files, f)
		if err = f.Truncate(probeSize); err != nil {
			break
		}
	}
	for _, f := range files {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return err
}

// memTableSizeOf returns the size of memory table that the logs in a directory fit
// into: a process with a larger one may have left them.
func memTableSizeOf(dir string) (int64, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return 0, err
	}
	size := int64(memTableSize)
	for _, path := range logs {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		size = max(size, info.Size()/2) // Badger makes a log twice as large as the table
	}
	return size, nil
}
