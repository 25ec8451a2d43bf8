package badgerstore

import (
	"errors"

	"github.com/streamd-io/streamd/messages/fault"
)

// chooseLogSize takes large log files where there is much in them already.
func (s *Store) chooseLogSize() error {
	u, err := diskUsage(s.dbDir)
	if err == nil && u.values > gcFactor*largeState {
		s.logSize = largeLog
	}
	return err
}

// enlarge opens the database again with large log files when the state has become
// large: Badger takes the size when it opens. It is called by the collector, and lets
// writes wait. Who reads at the moment puts it off.
func (s *Store) enlarge() {
	s.mu.RLock()
	live := s.x.live
	s.mu.RUnlock()
	if s.logSize == largeLog || live < largeState {
		return
	}
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed || s.failed != nil || !s.dbMu.TryLock() {
		return
	}
	defer s.dbMu.Unlock()
	// A database that cannot write its memory table does not close.
	if err := s.probe(); err != nil {
		s.log.Warn("the checkpoint keeps small log files for now", "dir", s.dbDir, "err", err)
		return
	}
	s.logSize = largeLog
	if err := s.reopen(); err != nil {
		err = s.fail(fault.Wrap(fault.Restart, err, "open the checkpoint in %s again", s.dbDir))
		s.log.Error("the checkpoint is to be opened again", "err", err)
	}
}

// reopen closes the database and opens it again; write and dbMu are held. When it
// fails there is no database any more.
func (s *Store) reopen() error {
	err := errors.Join(s.db.Close(), s.errors.take())
	s.db = nil
	if err != nil {
		return err
	}
	if err := s.openBadger(s.badgerOptions()); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.db.SetDiscardTs(uint64(s.x.newest()))
	return nil
}
