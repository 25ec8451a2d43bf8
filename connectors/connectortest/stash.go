package connectortest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// Stash is the checkpoint as far as a committer sees it, in memory. It outlives
// attempts: the test tells it which epochs have a commit record. It implements
// connectors.Stash and is safe for concurrent use; the zero value is ready.
type Stash struct {
	mu        sync.Mutex
	epochs    map[messages.Epoch]map[uint16][]byte
	committed messages.Epoch
	used      bool
}

// Put implements connectors.Stash. It refuses what the engine would not take: a
// part twice, an epoch that has committed.
func (s *Stash) Put(ctx context.Context, e messages.Epoch, part uint16, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epochs == nil {
		s.epochs = map[messages.Epoch]map[uint16][]byte{}
	}
	switch _, twice := s.epochs[e][part]; {
	case ctx.Err() != nil:
		return ctx.Err()
	case e <= s.committed:
		return fmt.Errorf("stash: put part %d of epoch %d after the commit record of epoch %d", part, e, s.committed)
	case twice:
		return fmt.Errorf("stash: part %d of epoch %d is put twice", part, e)
	case part >= connectors.MaxStashParts || len(data) == 0:
		return fmt.Errorf("stash: %d bytes as part %d of epoch %d: a part is not empty, the last one is %d", len(data), part, e, connectors.MaxStashParts-1)
	case s.epochs[e] == nil:
		s.epochs[e] = map[uint16][]byte{}
	}
	s.epochs[e][part] = bytes.Clone(data)
	s.used = true
	return nil
}

// Used reports whether anything was ever put.
func (s *Stash) Used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Load implements connectors.Stash.
func (s *Stash) Load(ctx context.Context, e messages.Epoch, f func(part uint16, data []byte) error) error {
	s.mu.Lock()
	parts, committed := maps.Clone(s.epochs[e]), s.committed
	s.mu.Unlock()
	if e > committed {
		return fmt.Errorf("stash: load epoch %d, the last one that has committed is %d", e, committed)
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		data := bytes.Clone(parts[part])
		err := f(part, data)
		clear(data) // it is valid during the call only
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Commit notes that there is a commit record of epoch e. What belongs to epochs
// that never committed is gone, and so is what was put before the two newest
// epochs that did.
func (s *Stash) Commit(e messages.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.committed
	s.committed = e
	for k := range s.epochs {
		if k != e && k != before {
			delete(s.epochs, k)
		}
	}
}

// Crash ends the attempt: what was put for epochs without a commit record is never
// seen again.
func (s *Stash) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.epochs {
		if k > s.committed {
			delete(s.epochs, k)
		}
	}
}
