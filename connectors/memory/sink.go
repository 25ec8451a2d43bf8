package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Sink keeps the result of one query. In append mode it collects the rows, in
// update mode the last row per key, in complete mode the last table. It is safe
// for concurrent use.
type Sink struct {
	// mu guards the fields below.
	mu      sync.Mutex
	schema  *messages.Schema
	keys    []int
	attempt uint64
	// maxRows bounds rows and log, oldest first; 0 means no bound.
	maxRows int
	rows    [][]any
	byKey   map[string]int // update mode: index into rows
	log     [][]any
	frames  int
	table   [][]any // the frame being received
	ids     map[messages.ID128]struct{}
	// prepared holds the rows of epochs that are not visible yet.
	prepared map[messages.Epoch][]change
	epoch    messages.Epoch
	changed  chan struct{}
}

// change is one row as it was written, or the boundary of a frame.
type change struct {
	values []any
	kind   messages.RowKind
	frame  messages.Frame
	id     messages.ID128
	hasID  bool
}

// NewSink returns an empty sink.
func NewSink() *Sink {
	return &Sink{
		byKey: map[string]int{}, ids: map[messages.ID128]struct{}{},
		prepared: map[messages.Epoch][]change{}, changed: make(chan struct{}),
	}
}

// Rows returns the visible result: all rows in append mode, in update mode one
// per key in the order in which keys appeared, in complete mode the last whole
// table. Values are as format.ValueAt gives them.
func (s *Sink) Rows() [][]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.rows), func(r []any) bool { return r == nil })
}

// Log returns every visible row in the order in which it was written: in update
// mode all versions, in complete mode the rows of all tables.
func (s *Sink) Log() [][]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Frames is how many whole tables complete mode has delivered.
func (s *Sink) Frames() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames
}

// Epoch is the last epoch committed to the sink.
func (s *Sink) Epoch() messages.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// Schema is the schema of the rows, nil before a query has opened the sink.
func (s *Sink) Schema() *messages.Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.schema
}

// Wait returns when done reports true. It is called at once and after every
// change, with the sink itself.
func (s *Sink) Wait(ctx context.Context, done func(*Sink) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if done(s) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (s *Sink) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Traits implements connectors.Sink.
func (s *Sink) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{
		Append: true, Update: true, Complete: true,
		Guarantees: []connectors.Offer{
			{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce},
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.AtOnce},
			{Guarantee: connectors.Converges, Visibility: connectors.AtOnce},
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
			{Guarantee: connectors.Transactional, Visibility: connectors.PerEpoch},
		},
	}
}

// Open implements connectors.Sink.
func (s *Sink) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Attempt < s.attempt {
		return nil, s.fenced(q.Attempt)
	}
	s.attempt = q.Attempt
	s.schema = q.Schema
	s.keys = q.KeyColumns
	return &committer{sink: s, attempt: q.Attempt, perEpoch: q.Offer.Visibility == connectors.PerEpoch}, nil
}

func (s *Sink) fenced(attempt uint64) error {
	return fault.New(fault.Restart, "memory sink: attempt %d was replaced by attempt %d", attempt, s.attempt)
}

// apply makes changes visible. The caller holds mu.
func (s *Sink) apply(changes []change) {
	for _, c := range changes {
		if c.hasID {
			if _, seen := s.ids[c.id]; seen {
				continue
			}
			s.ids[c.id] = struct{}{}
		}
		s.applyOne(c)
	}
	if s.maxRows > 0 {
		s.log = tail(s.log, s.maxRows)
		if s.keys == nil {
			s.rows = tail(s.rows, s.maxRows)
		}
	}
	s.wake()
}

func tail(rows [][]any, n int) [][]any {
	if len(rows) <= n {
		return rows
	}
	rest := copy(rows, rows[len(rows)-n:])
	clear(rows[rest:])
	return rows[:rest]
}

func (s *Sink) applyOne(c change) {
	if c.frame&messages.FrameStart != 0 {
		s.table = [][]any{}
	}
	switch {
	case c.values == nil:
	case s.table != nil:
		s.table = append(s.table, c.values)
		s.log = append(s.log, c.values)
	case s.keys != nil:
		s.upsert(c)
	default:
		s.rows = append(s.rows, c.values)
		s.log = append(s.log, c.values)
	}
	if c.frame&messages.FrameEnd != 0 {
		s.rows, s.table = s.table, nil
		s.frames++
	}
}

func (s *Sink) upsert(c change) {
	if c.kind == messages.UpdateBefore {
		return // the row that follows replaces it
	}
	key := ""
	for _, k := range s.keys {
		key += fmt.Sprintf("%T:%v|", c.values[k], c.values[k])
	}
	i, known := s.byKey[key]
	if c.kind == messages.Delete {
		if known {
			s.rows[i] = nil
			delete(s.byKey, key)
		}
		return
	}
	s.log = append(s.log, c.values)
	if known {
		s.rows[i] = c.values
		return
	}
	s.byKey[key] = len(s.rows)
	s.rows = append(s.rows, c.values)
}

// committer implements connectors.Committer.
type committer struct {
	sink     *Sink
	attempt  uint64
	perEpoch bool
	// mu guards writers: subtasks open theirs at the same time.
	mu      sync.Mutex
	writers []*writer
}

// Recover publishes the epochs that have committed and forgets later ones.
func (c *committer) Recover(_ context.Context, epoch messages.Epoch, _ connectors.Token) error {
	s := c.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.attempt < s.attempt {
		return s.fenced(c.attempt)
	}
	s.table = nil // a frame cut short by the end of the last attempt
	for _, e := range slices.Sorted(maps.Keys(s.prepared)) {
		if e <= epoch {
			s.apply(s.prepared[e])
		}
	}
	clear(s.prepared)
	s.epoch = max(s.epoch, epoch)
	return nil
}

func (c *committer) Writer(context.Context, int, int) (connectors.Writer, error) {
	w := &writer{c: c, sealed: map[messages.Epoch][]change{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writers = append(c.writers, w)
	return w, nil
}

func (c *committer) Begin(messages.Epoch) {}

func (c *committer) Prepare(_ context.Context, e messages.Epoch, _ []connectors.Token) (connectors.Token, error) {
	c.mu.Lock()
	writers := slices.Clone(c.writers)
	c.mu.Unlock()
	var all []change
	for _, w := range writers {
		all = append(all, w.take(e)...)
	}
	s := c.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.attempt < s.attempt {
		return nil, s.fenced(c.attempt)
	}
	if len(all) > 0 {
		s.prepared[e] = all
	}
	return nil, nil
}

func (c *committer) Commit(_ context.Context, e messages.Epoch, _ connectors.Token) error {
	s := c.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.attempt < s.attempt {
		return s.fenced(c.attempt)
	}
	changes := s.prepared[e]
	delete(s.prepared, e)
	s.epoch = max(s.epoch, e)
	s.apply(changes)
	return nil
}

func (c *committer) Close() error { return nil }

// writer implements connectors.Writer.
type writer struct {
	c *committer
	// mu guards the fields below: Cut and Prepare are called while Write goes on.
	mu      sync.Mutex
	pending []change
	sealed  map[messages.Epoch][]change
}

func (w *writer) Write(_ context.Context, b *messages.Batch, ids []messages.ID128) error {
	changes := make([]change, 0, b.Rows()+2)
	if f := b.Frame() & messages.FrameStart; f != 0 {
		changes = append(changes, change{frame: f})
	}
	for i := range b.Rows() {
		c := change{values: format.RowAt(b, b.Row(i))}
		if k := b.Kinds(); k != nil {
			c.kind = k[b.Row(i)]
		}
		if ids != nil {
			c.id, c.hasID = ids[i], true
		}
		changes = append(changes, c)
	}
	if f := b.Frame() & messages.FrameEnd; f != 0 {
		changes = append(changes, change{frame: f})
	}
	if w.c.perEpoch {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pending = append(w.pending, changes...)
		return nil
	}
	s := w.c.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.c.attempt < s.attempt {
		return s.fenced(w.c.attempt)
	}
	s.apply(changes)
	return nil
}

func (w *writer) Cut(e messages.Epoch) (connectors.Flush, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		w.sealed[e] = w.pending
		w.pending = nil
	}
	return func(context.Context) (connectors.Token, error) { return nil, nil }, nil
}

// take hands over the rows of epoch e.
func (w *writer) take(e messages.Epoch) []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := w.sealed[e]
	delete(w.sealed, e)
	return rows
}

func (w *writer) Close() error { return nil }
