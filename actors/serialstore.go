package actors

import (
	"context"
	"errors"
	"sync"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// serialStore makes the changing calls of a store one at a time: the workers of
// all subtasks store segments, and the contract asks for one writer.
type serialStore struct {
	epochs.Segments
	mu sync.Mutex
}

func (s *serialStore) Put(ctx context.Context, e messages.Epoch, segs []epochs.Segment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Segments.Put(ctx, e, segs)
}

func (s *serialStore) Commit(ctx context.Context, prev, e messages.Epoch, record []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Segments.Commit(ctx, prev, e, record)
}

func (s *serialStore) Drop(ctx context.Context, keep, committed messages.Epoch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Segments.Drop(ctx, keep, committed)
}

// storeFault is the kind of a store's error. Another attempt does not help when
// the checkpoint is damaged or somebody else writes to it.
func storeFault(err error) fault.Kind {
	if errors.Is(err, epochs.ErrConflict) || errors.Is(err, epochs.ErrDamaged) || errors.Is(err, epochs.ErrNewerFormat) {
		return fault.Config
	}
	return fault.Restart
}
