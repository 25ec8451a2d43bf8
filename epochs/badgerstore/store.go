package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// defaultMinFree keeps the rest of the machine working, too.
	defaultMinFree = 256 << 20
	// openSpace is needed to open a database at all: its logs are written
	// through memory maps, and a full disk would kill the process.
	openSpace = 64 << 20
	// memTableSize is small because only keys and pointers pass through it, and
	// because garbage in the value log becomes known only when a table is
	// flushed and compacted. A query with 1,000 keys and 10 epochs a second had a
	// log of up to 77 MB with 256 KiB, of up to 20 MB with 64 KiB and small log
	// files; epochs of 1 M keys take as long with either.
	memTableSize = 64 << 10
	// baseTableSize steers a buffer of twice its size that every flush of a memory
	// table takes and that stays for a while: with 2 MiB it was half of the memory
	// of a process with 100 queries.
	baseTableSize = 256 << 10
	// A log file is mapped into memory as a whole, and what is garbage in it goes
	// with the file or not at all. Small files keep small states small: with 4 MiB a
	// hundred queries of 1,000 keys came to 1 GB. Large ones keep the files of a
	// large state few.
	smallLog = 1 << 20
	largeLog = 4 << 20
	// largeState is from where on a state has large log files, in bytes.
	largeState = 16 << 20
	// valueThreshold is from where on values go to the value log.
	valueThreshold = 1 << 10
	newest         = math.MaxUint64 // read timestamp: everything
)

var errReopen = errors.New("checkpoint must be reopened after a failed write")

// Options configure a Store. The zero value works.
type Options struct {
	// Log gets warnings, and failures that are not returned to anybody. nil:
	// they are dropped.
	Log *slog.Logger
	// MinFree is how many bytes must be free on the disk for an epoch to be
	// started, besides twice the size of the last one; 0 means 256 MiB.
	MinFree int64
	// IgnoreWitness accepts at once that a newer epoch was committed than the store
	// holds. Sinks may have published that epoch: its rows will appear again.
	IgnoreWitness bool
	// AllowLost opens a store although a newer epoch was committed than it holds,
	// or nobody can tell. Committed then returns an epochs.LostError beside the
	// records, and nothing can be written before Rewind has accepted the loss:
	// sinks may have published that epoch.
	AllowLost bool
}

// Store implements epochs.Segments in a directory.
type Store struct {
	dir     string
	dbDir   string // where Badger works
	minFree int64
	log     *slog.Logger
	lock    *os.File
	errors  *errorLog

	// dbMu is held for reading by who reads from db without write, and for writing
	// together with write while enlarge replaces it.
	dbMu sync.RWMutex
	db   *badger.DB
	// logSize is how large a file of the value log becomes. It belongs to Open, then
	// to the collector.
	logSize int64

	// write makes Put, Commit, Rewind and Drop take turns. It guards the fields
	// up to mu.
	write sync.Mutex
	// failed is why the outcome of a write is unknown.
	failed error
	// broken: failed is set; for who does not wait for a write.
	broken atomic.Bool
	closed bool
	// readOnly: the database is a copy of the one in dir.
	readOnly bool
	// numberEpoch and number are for the next blob's key.
	numberEpoch messages.Epoch
	number      uint32

	// mu guards the fields below.
	mu      sync.RWMutex
	x       *index
	witness messages.Epoch
	// lost is why the newest record is not that of the newest epoch, nil: it is.
	lost *epochs.LostError
	// epochBytes were put for epoch numberEpoch, lastBytes for the one before.
	epochBytes, lastBytes int64
	// totalBytes of segments and records were written since Open.
	totalBytes int64

	gc collector
}

// Open opens the store in dir, which is created if it does not exist, readable
// for its owner only. The caller closes it. The error wraps epochs.ErrLocked,
// ErrNewerFormat, ErrDamaged or ErrNoSpace if one of these is the reason.
func Open(ctx context.Context, dir string, opts Options) (*Store, error) {
	s, err := open(ctx, dir, opts)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, epochs.ErrLocked), errors.Is(err, epochs.ErrNewerFormat), errors.Is(err, epochs.ErrDamaged):
		return nil, fault.Wrap(fault.Config, err, "open checkpoint")
	case errors.Is(err, epochs.ErrNoSpace):
		return nil, fault.Wrap(fault.Restart, err, "open checkpoint")
	case errors.Is(err, unix.ENOSPC):
		return nil, fault.Wrap(fault.Restart, fmt.Errorf("%w: %w", epochs.ErrNoSpace, err), "open checkpoint")
	case epochs.AtLimit(err):
		return nil, fault.Wrap(fault.Restart, err, "open checkpoint")
	}
	return nil, fmt.Errorf("open checkpoint: %w", err)
}

func open(ctx context.Context, dir string, opts Options) (*Store, error) {
	s := newStore(dir, opts)
	s.dbDir = filepath.Join(dir, dbName)
	if err := os.MkdirAll(s.dbDir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	if err := s.openDB(ctx, opts); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.gc.start(s)
	return s, nil
}

func newStore(dir string, opts Options) *Store {
	s := &Store{dir: dir, minFree: opts.MinFree, log: opts.Log}
	if s.minFree <= 0 {
		s.minFree = defaultMinFree
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.errors = &errorLog{log: s.log, errors: make(chan string, 1)}
	s.logSize = smallLog
	return s
}

// openDB opens the database and reads the index; the lock is held. When it
// fails, the caller calls release.
func (s *Store) openDB(ctx context.Context, opts Options) error {
	if err := checkFormat(s.dir); err != nil {
		return err
	}
	if err := checkSpace(s.dir, min(s.minFree, openSpace)); err != nil {
		return err
	}
	if err := s.chooseLogSize(); err != nil {
		return err
	}
	bo := s.badgerOptions()
	if err := inspect(s.dbDir, bo, true); err != nil {
		return err
	}
	if err := s.openBadger(bo); err != nil {
		return err
	}
	if err := s.readIndex(ctx); err != nil {
		return err
	}
	if err := s.checkWitness(); err != nil {
		return err
	}
	switch {
	case s.lost == nil || opts.AllowLost:
		return nil
	case !opts.IgnoreWitness:
		return s.lost
	}
	s.log.Warn("opening a checkpoint although newer epochs are missing", "epoch", s.lost.Have, "error", s.lost)
	s.x.highest = max(s.x.highest, usedBy(s.lost, s.x.highest))
	if err := s.keepVersion(s.x.highest); err != nil {
		return err
	}
	s.lost = nil
	return s.setWitness(s.x.newest())
}

func (s *Store) badgerOptions() badger.Options {
	bo := badger.DefaultOptions(s.dbDir).
		WithLogger(s.errors).
		WithSyncWrites(true).
		WithDetectConflicts(false). // it would end the process over an old timestamp
		WithNumVersionsToKeep(1).
		WithMemTableSize(memTableSize).
		WithNumMemtables(2).
		WithBaseTableSize(baseTableSize).
		WithNumLevelZeroTables(1). // above which Flatten merges them
		WithNumLevelZeroTablesStall(neverStall).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(s.logSize).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithNumCompactors(0). // see compact
		WithNumGoroutines(2).
		WithMetricsEnabled(false).
		WithExternalMagic(format)
	bo.TableSizeMultiplier = 1
	return bo
}

// openBadger opens the database. Damage that inspect has not seen may show up as
// a panic, or in the log only.
func (s *Store) openBadger(bo badger.Options) (err error) {
	if bo.MemTableSize, err = memTableSizeOf(bo.Dir); err != nil {
		return err
	}
	if err := s.noteMoved(); err != nil { // the process before may have collected
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("database %s: %v: %w", bo.Dir, r, epochs.ErrDamaged)
		}
	}()
	db, err := badger.OpenManaged(bo)
	if err != nil {
		return fmt.Errorf("database %s: %w", bo.Dir, err)
	}
	s.db = db
	if err := s.errors.take(); err != nil {
		return fmt.Errorf("database %s: %w: %w", bo.Dir, err, epochs.ErrDamaged)
	}
	return nil
}

// release closes what is open.
func (s *Store) release() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	if s.readOnly {
		err = errors.Join(err, os.RemoveAll(s.dbDir))
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// checkWitness compares the newest record with the witness outside the database
// and brings a witness that lags behind up to date.
func (s *Store) checkWitness() error {
	witness, err := readWitness(s.dir)
	have := s.x.newest()
	path := filepath.Join(s.dir, witnessName)
	s.witness = witness
	switch {
	case errors.Is(err, epochs.ErrDamaged):
		s.lost = &epochs.LostError{Have: have, Text: fmt.Sprintf("%v; nobody knows whether the newest record, that of epoch %d, is that of the newest epoch", err, have)}
		return nil
	case err != nil:
		return err
	case witness > have:
		s.lost = &epochs.LostError{Have: have, Lost: witness, Text: fmt.Sprintf("%s: epoch %d was committed, but the newest record in %s is that of epoch %d; sinks may have published what is missing", path, witness, s.dbDir, have)}
		return nil
	case witness == 0 && have > 0 && !s.x.first():
		// Only between the very first record and its witness there is none.
		s.lost = &epochs.LostError{Have: have, Text: fmt.Sprintf("%s is missing; nobody knows whether the newest record, that of epoch %d, is that of the newest epoch", path, have)}
		return nil
	}
	s.witness = have
	if witness == have || s.readOnly {
		return nil
	}
	return writeFile(s.dir, witnessName, witnessContent(have))
}

// usable reports why the store cannot be used for writing. write is held.
func (s *Store) usable(ctx context.Context) error {
	switch {
	case s.closed:
		return errors.New("checkpoint is closed")
	case s.readOnly:
		return errors.New("checkpoint is open for reading only")
	case s.failed != nil:
		return fmt.Errorf("%w: %w", errReopen, s.failed)
	}
	return ctx.Err()
}

// unknownEpochs is how many epoch numbers are skipped when nobody knows which
// have been used: more than the time between a copy of a directory and its use
// could take.
const unknownEpochs = 1 << 20

// usedBy returns an epoch number that no lost epoch is above.
func usedBy(lost *epochs.LostError, highest messages.Epoch) messages.Epoch {
	if lost.Lost == 0 {
		return highest + unknownEpochs
	}
	return lost.Lost
}

// complete reports that nothing may be written since epochs are missing.
func (s *Store) complete() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.lost != nil {
		return s.lost
	}
	return nil
}

// fail notes that the outcome of a write is unknown. write is held.
func (s *Store) fail(err error) error {
	s.failed = err
	s.broken.Store(true)
	return err
}

// Committed implements epochs.Segments.
func (s *Store) Committed(ctx context.Context) ([]epochs.StoredRecord, messages.Epoch, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	s.mu.RLock()
	list, highest, lost := slices.Clone(s.x.records), s.x.highest, s.lost
	s.mu.RUnlock()
	var records []epochs.StoredRecord
	var damaged []error
	if lost != nil {
		damaged = append(damaged, lost)
		highest = max(highest, usedBy(lost, highest))
	}
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if s.db == nil {
		return nil, 0, errReopen
	}
	txn := s.db.NewTransactionAt(newest, false)
	defer txn.Discard()
	for _, r := range slices.Backward(list) {
		data, err := s.readRecord(txn, r.epoch)
		if err != nil {
			damaged = append(damaged, &epochs.RecordError{Epoch: r.epoch, Err: err})
			continue
		}
		records = append(records, epochs.StoredRecord{Epoch: r.epoch, Data: data})
	}
	return records, highest, errors.Join(damaged...)
}

func (s *Store) readRecord(txn *badger.Txn, e messages.Epoch) ([]byte, error) {
	item, err := txn.Get(recordKey(e))
	if err != nil {
		return nil, err
	}
	b, err := item.ValueCopy(nil)
	if err != nil {
		return nil, err
	}
	r, err := parseRecord(e, b)
	if err != nil || !r.apart {
		return r.data, err
	}
	chain, err := s.chain(recordChain, e)
	if err != nil {
		return nil, err
	}
	if n := len(chain); n == 0 || chain[n-1].epoch != e {
		return nil, fmt.Errorf("its parts are missing: %w", epochs.ErrDamaged)
	}
	l := loader{store: s, txn: txn}
	return l.read(chain[len(chain)-1])
}

// Check implements epochs.Segments. Besides the space it looks whether somebody
// else has written to the directory.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	need, witness := s.minFree+2*max(s.epochBytes, s.lastBytes), s.witness
	s.mu.RUnlock()
	if err := checkSpace(s.dir, need); err != nil {
		return err
	}
	return s.checkUnchanged(witness)
}

// checkUnchanged returns ErrConflict if the witness is not the one that this
// store has written: two processes use the directory, on a file system that does
// not know locks.
func (s *Store) checkUnchanged(want messages.Epoch) error {
	got, err := readWitness(s.dir)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s: the witness is epoch %d and not %d: %w", s.dir, got, want, epochs.ErrConflict)
	}
	return nil
}

// written returns the bytes of segments and records written since Open.
func (s *Store) written() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.totalBytes
}

// Size implements epochs.Segments.
func (s *Store) Size() int64 {
	u, err := diskUsage(s.dbDir)
	if err != nil {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.x.live
	}
	return u.tree + u.values
}

// Close implements epochs.Segments. It waits for a running collection of the
// value log.
func (s *Store) Close() error {
	s.write.Lock()
	closed := s.closed
	s.closed = true
	s.write.Unlock() // the collector may want to write
	if closed {
		return nil
	}
	s.gc.stop()
	if err := s.release(); err != nil {
		return fmt.Errorf("close checkpoint: %w", err)
	}
	return nil
}
