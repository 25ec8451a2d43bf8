package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
)

// SinkConfig says what to measure. The zero value counts rows.
type SinkConfig struct {
	// Gate says which events are measured; nil: none.
	Gate *Gate
	// Due returns when physical row i was due, in microseconds since the Unix
	// epoch; a negative number is not measured. Nil measures nothing.
	Due func(b *messages.Batch, i int, r *Run) int64
	// Observe, if not nil, is given every batch, by one goroutine at a time per
	// writer.
	Observe func(b *messages.Batch) error
	// Encoder, if not nil, makes the encoder with which every row is turned into
	// bytes, which are dropped.
	Encoder func(s *messages.Schema) (format.Encoder, error)
	// StallEvery and StallFor make the sink block.
	StallEvery, StallFor time.Duration
}

// Sink measures what arrives and keeps nothing. Safe for concurrent use.
type Sink struct {
	cfg  SinkConfig
	rows atomic.Uint64
	// mu guards writers: subtasks open theirs at the same time.
	mu      sync.Mutex
	writers []*writer
}

// NewSink returns a sink.
func NewSink(c SinkConfig) *Sink { return &Sink{cfg: c} }

// Rows is how many rows have arrived.
func (s *Sink) Rows() uint64 { return s.rows.Load() }

// Result merges what all writers have measured. No query may be running.
func (s *Sink) Result() (*Recorder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := NewRecorder(0)
	for _, w := range s.writers {
		if w.rec == nil {
			continue
		}
		if err := all.Merge(w.rec); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Traits implements connectors.Sink.
func (s *Sink) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{
		Append: true, Update: true, Complete: true,
		Guarantees: []connectors.Offer{
			{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce},
			{Guarantee: connectors.Converges, Visibility: connectors.AtOnce},
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
		},
	}
}

// Open implements connectors.Sink.
func (s *Sink) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	return &committer{sink: s, schema: q.Schema, perEpoch: q.Offer.Visibility == connectors.PerEpoch}, nil
}

// committer measures rows when they are written, or, per epoch, when their epoch
// has committed.
type committer struct {
	sink     *Sink
	schema   *messages.Schema
	perEpoch bool
	// mu guards writers: subtasks open theirs at the same time.
	mu      sync.Mutex
	writers []*writer
}

func (c *committer) Recover(context.Context, messages.Epoch, connectors.Token) error { return nil }

func (c *committer) Writer(context.Context, int, int) (connectors.Writer, error) {
	w := &writer{sink: c.sink, perEpoch: c.perEpoch, sealed: map[messages.Epoch][]int64{}, free: time.Now()}
	if c.sink.cfg.Encoder != nil {
		e, err := c.sink.cfg.Encoder(c.schema)
		if err != nil {
			return nil, err
		}
		w.encoder = e
	}
	c.mu.Lock()
	c.writers = append(c.writers, w)
	c.mu.Unlock()
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	c.sink.writers = append(c.sink.writers, w)
	return w, nil
}

func (c *committer) Begin(messages.Epoch) {}

func (c *committer) Prepare(context.Context, messages.Epoch, []connectors.Token) (connectors.Token, error) {
	return nil, nil
}

func (c *committer) Commit(_ context.Context, e messages.Epoch, _ connectors.Token) error {
	now := time.Now().UnixMicro()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.writers {
		w.commit(e, now)
	}
	return nil
}

func (c *committer) Close() error { return nil }

type writer struct {
	sink *Sink
	rec  *Recorder // nil before the first row that is measured
	free time.Time // end of the last stall
	// encoder and buf are nil without a format.
	encoder format.Encoder
	buf     []byte

	perEpoch bool
	// mu guards the fields below, and rec: epochs commit while Write goes on.
	mu     sync.Mutex
	open   []int64                    // due times of the rows of the open epoch
	sealed map[messages.Epoch][]int64 // those of epochs that have not committed
	spare  []int64
}

// Write implements connectors.Writer.
func (w *writer) Write(ctx context.Context, b *messages.Batch, _ []messages.ID128) error {
	cfg := &w.sink.cfg
	if cfg.StallFor > 0 {
		if err := w.stall(ctx); err != nil {
			return err
		}
	}
	for i := 0; w.encoder != nil && i < b.Rows(); i++ {
		var err error
		if w.buf, err = w.encoder.Encode(w.buf[:0], b, b.Row(i)); err != nil {
			return err
		}
	}
	if cfg.Due != nil {
		w.measure(b)
	}
	w.sink.rows.Add(uint64(b.Rows()))
	if cfg.Observe != nil {
		return cfg.Observe(b)
	}
	return nil
}

func (w *writer) measure(b *messages.Batch) {
	run := w.sink.cfg.Gate.run.Load()
	if run == nil {
		return
	}
	now := time.Now().UnixMicro()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec == nil {
		w.rec = NewRecorder(run.From)
	}
	for i := range b.Rows() {
		due := w.sink.cfg.Due(b, b.Row(i), run)
		switch {
		case due < run.From || due >= run.Until:
		case w.perEpoch:
			w.open = append(w.open, due)
		default:
			w.rec.Record(due, now)
		}
	}
}

// commit measures the rows of an epoch and all before.
func (w *writer) commit(e messages.Epoch, now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for old, dues := range w.sealed {
		if old > e {
			continue
		}
		for _, due := range dues {
			w.rec.Record(due, now)
		}
		w.spare = dues[:0]
		delete(w.sealed, old)
	}
}

// stall blocks when it is time to.
func (w *writer) stall(ctx context.Context) error {
	if time.Since(w.free) < w.sink.cfg.StallEvery {
		return nil
	}
	t := time.NewTimer(w.sink.cfg.StallFor)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
	}
	w.free = time.Now()
	return nil
}

func (w *writer) Cut(e messages.Epoch) (connectors.Flush, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) > 0 {
		w.sealed[e] = w.open
		w.open, w.spare = w.spare, nil
	}
	return func(context.Context) (connectors.Token, error) { return nil, nil }, nil
}

func (w *writer) Close() error { return nil }
