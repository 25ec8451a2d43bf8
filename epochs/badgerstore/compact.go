package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// neverStall is a number of them at which Badger would hold writes back: a
	// compaction that is put off must not.
	neverStall = 1 << 20
	// probes is how many files beyond the number of tables a compaction may make,
	// and probeSize at least the size of each.
	probes      = 4
	probeSize   = 1 << 20
	probePrefix = "probe-"
)

// compact merges a flushed memory table, if there is one, with the others; only
// that makes garbage in the value log known. Badger's own compactors are not used,
// for two faults of 4.9.6:
//
// A compaction that cannot create one of its tables, as with a limit for the size
// or the number of files, counts as done and gives up the tables it has read. So
// it is tried before whether that many files can be made; if not, the tables stay
// as they are until the next commit. In case files could be made a moment ago and
// cannot now, the tables before are kept until sweep has seen that all is there;
// only a crash just then leaves the loss, which the next start finds.
//
// A collection of the value log writes values again whose deletion is not compacted
// yet. A compaction of the deletion alone, when what was written again is still in
// memory, brings them back. So nothing is compacted before the memory table of
// that time is flushed; what comes back all the same is swept away.
func (s *Store) compact() {
	if s.db == nil { // it could not be opened again
		return
	}
	if levels := s.db.Levels(); levels[0].NumTables == 0 || levels[0].NumTables == len(s.db.Tables()) && levels[0].NumTables == 1 {
		return
	}
	flushed, err := s.flushed(s.gc.moved)
	if err == nil && !flushed {
		return
	}
	if err == nil {
		err = probeFiles(s.dbDir, len(s.db.Tables())+probes)
	}
	if err == nil {
		err = s.merge()
	}
	switch {
	case err == nil:
		s.gc.putOff = false
	case !s.gc.putOff:
		s.gc.putOff = true
		s.log.Warn("tables of the checkpoint are not compacted for now", "dir", s.dbDir, "err", err)
	}
}

// merge compacts all tables and looks whether all is there.
func (s *Store) merge() error {
	before, err := s.keysNow()
	if err != nil {
		return err
	}
	defer before.close()
	return errors.Join(s.db.Flatten(1), s.sweep(before))
}

// probeFiles makes n files like those of a compaction, maps them into memory, and
// removes them.
func probeFiles(dir string, n int) error {
	var undo []func() error
	var err error
	for range n {
		var f *os.File
		if f, err = os.CreateTemp(dir, probePrefix+"*"); err != nil {
			break
		}
		undo = append(undo, f.Close, func() error { return os.Remove(f.Name()) })
		if err = f.Truncate(probeSize); err != nil {
			break
		}
		var mapped []byte
		if mapped, err = unix.Mmap(int(f.Fd()), 0, probeSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			break
		}
		undo = append(undo, func() error { return unix.Munmap(mapped) })
	}
	for _, f := range undo {
		err = errors.Join(err, f())
	}
	return err
}

// memTables returns the numbers of the memory tables that are not flushed; the
// current one has the largest.
func memTables(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".mem")
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(name, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// flushed reports whether the memory tables up to the number are in tables.
func (s *Store) flushed(number uint64) (bool, error) {
	tables, err := memTables(s.dbDir)
	if err != nil {
		return false, err
	}
	for _, n := range tables {
		if n <= number {
			return false, nil
		}
	}
	return true, nil
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
