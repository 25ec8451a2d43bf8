package sim

import (
	"context"
	"fmt"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// board shows the latest complete table. A table is shown as a whole; it travels
// for a while.
type board struct {
	r     *run
	name  string
	fence uint64
	sent  []sheet
	shown []row
}

// sheet is a table on its way.
type sheet struct {
	attempt uint64
	rows    []row
}

func (k *board) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{Complete: true, SingleWriter: true}
}

func (k *board) lineage() bool { return false }
func (k *board) check()        {}
func (k *board) rows() []row   { return k.shown }
func (k *board) lose()         { k.sent = k.sent[:k.r.rng.IntN(len(k.sent)+1)] }

func (k *board) tick() {
	if len(k.sent) > 0 {
		k.land(1)
	}
}

func (k *board) land(n int) {
	for _, s := range k.sent[:n] {
		if s.attempt >= k.fence {
			k.shown = s.rows
			k.r.count("table shown")
		}
	}
	k.sent = k.sent[n:]
}

func (k *board) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	if err := k.r.point("sink/open"); err != nil {
		return nil, err
	}
	k.r.opened++
	return &boardCommitter{k: k, attempt: q.Attempt}, nil
}

type boardCommitter struct {
	k       *board
	attempt uint64
}

func (c *boardCommitter) Recover(context.Context, messages.Epoch, connectors.Token) error {
	if err := c.k.r.point("sink/recover"); err != nil {
		return err
	}
	c.k.fence = c.attempt
	return c.k.r.point("sink/recover/done")
}

func (c *boardCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	if err := c.k.r.point("sink/writer"); err != nil {
		return nil, err
	}
	c.k.r.opened++
	return &boardWriter{c: c}, nil
}

func (c *boardCommitter) Begin(messages.Epoch) {}

func (c *boardCommitter) Prepare(context.Context, messages.Epoch, []connectors.Token) (connectors.Token, error) {
	if err := c.k.r.point("sink/prepare"); err != nil {
		return nil, err
	}
	return nil, c.k.r.point("sink/prepare/done")
}

func (c *boardCommitter) Commit(_ context.Context, e messages.Epoch, _ connectors.Token) error {
	if err := c.k.r.point("sink/commit"); err != nil {
		return err
	}
	c.k.r.sinkCommitted(c.k, c.k.name, e)
	return c.k.r.point("sink/commit/done")
}

func (c *boardCommitter) Close() error {
	c.k.r.opened--
	return nil
}

type boardWriter struct {
	c       *boardCommitter
	table   []row
	started bool
}

func (w *boardWriter) Write(ctx context.Context, b *messages.Batch, _ []messages.ID128) error {
	k := w.c.k
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.r.point("sink/write"); err != nil {
		return err
	}
	if b.Frame()&messages.FrameStart != 0 {
		w.table, w.started = nil, true
	}
	if !w.started {
		k.r.fail("sink %s: rows of a table that has not started", k.name)
	}
	for i := range b.Rows() {
		w.table = append(w.table, rowOf(b, i))
	}
	if b.Frame()&messages.FrameEnd != 0 {
		k.sent = append(k.sent, sheet{w.c.attempt, w.table})
		w.table, w.started = nil, false
	}
	return k.r.point("sink/write/done")
}

func (w *boardWriter) Cut(messages.Epoch) (connectors.Flush, error) {
	k := w.c.k
	if err := k.r.point("sink/cut"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (connectors.Token, error) {
		if err := k.r.point("sink/flush"); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if k.fence > w.c.attempt {
			return nil, fmt.Errorf("fenced")
		}
		k.land(len(k.sent))
		return nil, k.r.point("sink/flush/done")
	}, nil
}

func (w *boardWriter) Close() error {
	w.c.k.r.opened--
	return nil
}
