// Package console is a sink that prints result rows as tables, for looking at a
// query while it runs. It is meant for small results.
//
// Rows are printed as they come, one table for what arrives together, under the
// number of the epoch they belong to. In complete mode each table is the whole
// result.
package console

import (
	"context"
	"io"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Connector returns the record of the connector.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "console",
		Doc:  "Prints result rows to standard output as tables. A restart may print rows again.",
		SinkOptions: []option.Option{
			{Name: "num_rows", Kind: option.Int, Default: "20", Min: 1, Max: 1_000_000, Doc: "Rows printed per table; of the others only the number is shown (default 20)."},
			{Name: "truncate", Kind: option.Bool, Default: "true", Doc: "Whether values longer than 20 characters are cut (default true)."},
		},
		Sink: newSink,
	}
}

// cutAt is the length at which truncate cuts values, in characters.
const cutAt = 20

type sink struct {
	out     io.Writer
	numRows int
	cut     int // 0: not at all
}

func newSink(_ context.Context, c connectors.SinkConfig) (connectors.Sink, error) {
	if c.Env.Stdout == nil {
		return nil, fault.New(fault.Config, "console sink: this session has no standard output; use another sink")
	}
	s := &sink{out: c.Env.Stdout, numRows: int(c.Options.Int("num_rows"))}
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
	return &committer{sink: s, query: q.Query, schema: q.Schema}, nil
}

type committer struct {
	sink   *sink
	query  string
	schema *messages.Schema
	// mu guards epoch, which Cut moves while Write goes on.
	mu    sync.Mutex
	epoch messages.Epoch
}

func (c *committer) Recover(_ context.Context, e messages.Epoch, _ connectors.Token) error {
	c.epoch = e + 1
	return nil
}

func (c *committer) Writer(_ context.Context, _, parallelism int) (connectors.Writer, error) {
	if parallelism > 1 {
		return nil, fault.New(fault.Internal, "console sink: %d writers were asked for, but it takes one", parallelism)
	}
	return &writer{c: c}, nil
}

func (c *committer) Begin(messages.Epoch) {}

func (c *committer) Prepare(context.Context, messages.Epoch, []connectors.Token) (connectors.Token, error) {
	return nil, nil
}

func (c *committer) Commit(context.Context, messages.Epoch, connectors.Token) error { return nil }

func (c *committer) Close() error { return nil }

type writer struct {
	c       *committer
	table   *table // in complete mode: the table whose end has not come yet
	text    []byte
	inFrame bool
}

// Write implements connectors.Writer.
func (w *writer) Write(_ context.Context, b *messages.Batch, _ []messages.ID128) error {
	if !w.inFrame || b.Frame()&messages.FrameStart != 0 {
		w.table = newTable(w.c.schema, w.c.sink.numRows, w.c.sink.cut)
	}
	w.inFrame = w.inFrame || b.Frame()&messages.FrameStart != 0
	w.table.add(b)
	if w.inFrame {
		if b.Frame()&messages.FrameEnd == 0 {
			return nil
		}
		w.inFrame = false
	} else if w.table.total == 0 {
		return nil
	}
	w.c.mu.Lock()
	epoch := w.c.epoch
	w.c.mu.Unlock()
	w.text = w.table.append(w.text[:0], w.c.query, epoch)
	if _, err := w.c.sink.out.Write(w.text); err != nil {
		return fault.Wrap(fault.Restart, err, "console sink: write to standard output")
	}
	return nil
}

// Cut implements connectors.Writer. Write has printed everything already.
func (w *writer) Cut(e messages.Epoch) (connectors.Flush, error) {
	w.c.mu.Lock()
	w.c.epoch = e + 1
	w.c.mu.Unlock()
	return func(context.Context) (connectors.Token, error) { return nil, nil }, nil
}

func (w *writer) Close() error { return nil }
