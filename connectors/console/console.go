// Package console is a sink that prints result rows as tables, for looking at a
// query while it runs. It is meant for small results.
//
// Rows are collected for a moment and printed as one table, under the number of
// the epoch they belong to: the first row after a quiet time almost at once, those
// of a busy query twice a second and at the end of each epoch. In update mode a
// table shows each group once, with its latest values. In complete mode each table
// is the whole result.
package console

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Connector returns the record of the connector.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "console",
		Doc:  "Prints result rows to standard output as tables: those of a moment in one, in update mode each group once. A restart may print rows again.",
		SinkOptions: []option.Option{
			{Name: "num_rows", Kind: option.Int, Default: "20", Min: 1, Max: 1_000_000, Doc: "Rows printed per table; of the others only the number is shown (default 20)."},
			{Name: "truncate", Kind: option.Bool, Default: "true", Doc: "Whether values longer than 20 characters are cut (default true)."},
		},
		Sink: newSink,
	}
}

// gather is how long the first row waits for others, pause the least time between
// two tables of one epoch.
const (
	gather = 50 * time.Millisecond
	pause  = 500 * time.Millisecond
)

// cutAt is the length at which truncate cuts values, in characters.
const cutAt = 20

type sink struct {
	out     io.Writer
	clock   connectors.Clock
	numRows int
	cut     int // 0: not at all
}

func newSink(_ context.Context, c connectors.SinkConfig) (connectors.Sink, error) {
	if c.Env.Stdout == nil {
		return nil, fault.New(fault.Config, "console sink: this session has no standard output; use another sink")
	}
	s := &sink{out: c.Env.Stdout, clock: c.Env.Clock, numRows: int(c.Options.Int("num_rows"))}
	if c.Options.Bool("truncate") {
		s.cut = cutAt
	}
	return s, nil
}

func (s *sink) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{
		Append: true, Update: true, Complete: true, SingleWriter: true,
		Guarantees: []connectors.Offer{{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce}},
	}
}

func (s *sink) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	return &committer{sink: s, query: q.Query, schema: q.Schema, keys: q.KeyColumns}, nil
}

type committer struct {
	sink   *sink
	query  string
	schema *messages.Schema
	keys   []int          // in update mode
	first  messages.Epoch // of this attempt
}

func (c *committer) Recover(_ context.Context, e messages.Epoch, _ connectors.Token) error {
	c.first = e + 1
	return nil
}

func (c *committer) Writer(_ context.Context, _, parallelism int) (connectors.Writer, error) {
	if parallelism > 1 {
		return nil, fault.New(fault.Internal, "console sink: %d writers were asked for, but it takes one", parallelism)
	}
	return &writer{c: c, epoch: c.first, printed: c.sink.clock.Mono() - pause}, nil
}

func (c *committer) Begin(messages.Epoch) {}

func (c *committer) Prepare(context.Context, messages.Epoch, []connectors.Token) (connectors.Token, error) {
	return nil, nil
}

func (c *committer) Commit(context.Context, messages.Epoch, connectors.Token) error { return nil }

func (c *committer) Close() error { return nil }

type writer struct {
	c *committer

	// mu guards the fields below, since a timer prints, too.
	mu      sync.Mutex
	epoch   messages.Epoch // that rows belong to now
	table   *table         // what is not printed yet, nil: nothing
	inFrame bool           // in complete mode: the end of the table has not come yet
	text    []byte
	printed time.Duration // when the last table was
	stop    func() bool   // stops the timer, nil: none runs
	err     error         // of a table that the timer has printed
	closed  bool
}

// Write implements connectors.Writer.
func (w *writer) Write(_ context.Context, b *messages.Batch, _ []messages.ID128) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	s := w.c.sink
	if starts := b.Frame()&messages.FrameStart != 0; starts || w.inFrame {
		if starts {
			w.table, w.inFrame = newTable(w.c.schema, s.numRows, s.cut), true
		}
		w.table.add(b)
		if b.Frame()&messages.FrameEnd == 0 {
			return nil
		}
		w.inFrame = false
		return w.print()
	}
	if w.table == nil {
		w.table = newTable(w.c.schema, s.numRows, s.cut)
		w.table.latestBy(w.c.keys)
	}
	w.table.add(b)
	if w.table.total > 0 && w.stop == nil {
		w.stop = s.clock.AfterFunc(max(gather, w.printed+pause-s.clock.Mono()), w.tick)
	}
	return nil
}

// tick prints what has been collected; an error is for the next call.
func (w *writer) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop = nil
	if !w.closed && !w.inFrame && w.err == nil {
		w.err = w.print()
	}
}

// print prints the table, if there is one. The caller holds mu.
func (w *writer) print() error {
	t := w.table
	w.table = nil
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	if t == nil || t.total == 0 && !t.whole {
		return nil
	}
	s := w.c.sink
	w.printed = s.clock.Mono()
	w.text = t.append(w.text[:0], w.c.query, w.epoch)
	_, err := s.out.Write(w.text)
	if errors.Is(err, syscall.EPIPE) { // and will be at the next attempt
		return fault.New(fault.Config, "console sink: nobody reads standard output any more (broken pipe); the rows that are not in an epoch are printed at the next start")
	}
	return fault.Wrap(fault.Restart, err, "console sink: write to standard output")
}

// Cut implements connectors.Writer: the rows of an epoch are printed before it
// commits.
func (w *writer) Cut(e messages.Epoch) (connectors.Flush, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.err
	if err == nil && !w.inFrame {
		err = w.print()
	}
	if err != nil {
		return nil, err
	}
	w.epoch = e + 1
	return func(context.Context) (connectors.Token, error) { return nil, nil }, nil
}

// Close implements connectors.Writer. Rows that are not printed come again.
func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	return nil
}
