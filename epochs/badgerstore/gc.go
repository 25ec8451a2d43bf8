package badgerstore

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// gcFactor is how much larger than what is needed the value log may become,
	// and gcFloor what it may always be, in files.
	gcFactor = 3
	gcFloor  = 2
	// gcLogs is how many files the log may always have: every start makes one.
	gcLogs = 12
	// gcDiscard is the part of a log file that must be garbage for it to be
	// rewritten.
	gcDiscard = 0.3
)

// collector compacts tables, and runs Badger's value log collection when the log
// has grown well beyond what is needed, in one goroutine. Collecting more eagerly
// rewrites live data again and again.
type collector struct {
	signal chan struct{}
	quit   chan struct{}
	done   chan struct{}
	// For the goroutine only: whether the last compaction was put off, and the
	// newest memory table at the end of the last collection.
	putOff bool
	moved  uint64
}

func (c *collector) start(s *Store) {
	c.signal, c.quit, c.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.done)
		due := int64(0) // at once: those before have left something
		for {
			select {
			case <-c.quit:
				return
			case <-c.signal:
			}
			s.compact()
			if written := s.written(); written >= due {
				due = written + s.logSize/2
				s.enlarge()
				c.collect(s)
			}
		}
	}()
}

// wake lets the collector look, without waiting for it.
func (c *collector) wake() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

func (c *collector) stop() {
	close(c.quit)
	<-c.done
}

// collect rewrites log files until the log is small enough or there is nothing
// to gain.
func (c *collector) collect(s *Store) {
	for {
		select {
		case <-c.quit:
			return
		default:
		}
		u, err := diskUsage(s.dbDir)
		if err != nil {
			s.log.Warn("look at the checkpoint's value log", "err", err)
			return
		}
		s.mu.RLock()
		live := s.x.live
		s.mu.RUnlock()
		if u.values <= max(gcFactor*live, gcFloor*s.logSize) && int64(u.logs) <= gcLogs+gcFactor*live/s.logSize {
			return
		}
		if err = s.probe(); err == nil {
			err = errors.Join(s.rewriteLog(), s.noteMoved())
		}
		if errors.Is(err, badger.ErrNoRewrite) {
			err = s.flush()
		} else if err == nil {
			continue
		}
		if err != nil {
			s.log.Warn("collect the checkpoint's value log", "err", err)
		}
		return
	}
}

// probe reports whether there are space and files for a little more. On a full disk a
// write through a memory map would end the process.
func (s *Store) probe() error {
	if err := checkSpace(s.dir, min(s.minFree, openSpace)); err != nil {
		return err
	}
	return probeFiles(s.dbDir, probes)
}

// rewriteLog lets Badger rewrite a log file. When that fails for another reason than
// that there is none, it may be over a write; see load.
func (s *Store) rewriteLog() error {
	if s.broken.Load() {
		return errors.New("a write has failed")
	}
	err := s.runGC()
	if err == nil || errors.Is(err, badger.ErrNoRewrite) {
		return err
	}
	s.write.Lock()
	defer s.write.Unlock()
	return s.fail(fault.Wrap(fault.Restart, err, "collect the value log of the checkpoint in %s", s.dbDir))
}

func (s *Store) runGC() (err error) {
	defer withoutTable(&err)
	return s.db.RunValueLogGC(gcDiscard)
}

// noteMoved notes which memory tables may hold what a collection has moved.
func (s *Store) noteMoved() error {
	tables, err := memTables(s.dbDir)
	for _, n := range tables {
		s.gc.moved = max(s.gc.moved, n)
	}
	return err
}
