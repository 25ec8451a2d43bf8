package sim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
)

// ledger is a system that gets the rows of an epoch after its commit, from the
// checkpoint (package held). Row by row, it recognizes by their identities the rows
// that it has; in transactions, it takes an epoch and its number at once.
type ledger struct {
	r      *run
	name   string
	whole  bool  // epochs are taken as a whole
	limit  int64 // bytes that a writer holds before it waits
	fence  uint64
	marker messages.Epoch // the last epoch that was ended
	log    []page
	have   map[messages.ID128]bool
	table  []row // being replaced
	again  int   // rows that were there
}

// page is a row in the ledger.
type page struct {
	row  row
	part uint16
}

func (k *ledger) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{Append: true, Update: true, Complete: true, SingleWriter: k.r.single}
}

func (k *ledger) lineage() bool { return false }
func (k *ledger) tick()         {}
func (k *ledger) lose()         { k.table = nil }
func (k *ledger) check()        {}

func (k *ledger) rows() []row {
	var out []row
	for _, p := range k.log {
		out = append(out, p.row)
	}
	return out
}

func (k *ledger) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	if err := k.r.point("sink/open"); err != nil {
		return nil, err
	}
	ask := q.AskEpoch
	q.AskEpoch = func() {
		k.r.count("epoch asked for by a sink")
		ask()
	}
	rows, err := held.New(held.Config{Sink: "ledger", Request: q, Limit: k.limit})
	if err != nil {
		return nil, err
	}
	k.r.opened++
	return &ledgerCommitter{k: k, attempt: q.Attempt, held: rows}, nil
}

type ledgerToken struct{ Rows held.Unconfirmed }

type ledgerCommitter struct {
	k         *ledger
	attempt   uint64
	held      *held.Rows
	confirmed int // how many epochs have been
}

func (c *ledgerCommitter) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
	if err := c.k.r.point("sink/recover"); err != nil {
		return err
	}
	c.k.fence = c.attempt
	var t ledgerToken
	if last != nil {
		if err := json.Unmarshal(last, &t); err != nil {
			return err
		}
	}
	c.held.Recover(t.Rows)
	if len(c.held.Pending(e)) > 0 {
		c.k.r.count("rows of the checkpoint published after a restart")
	}
	if err := c.publish(ctx, e); err != nil {
		return err
	}
	return c.k.r.point("sink/recover/done")
}

func (c *ledgerCommitter) publish(ctx context.Context, last messages.Epoch) error {
	k := c.k
	for _, e := range c.held.Pending(last) {
		if e > k.marker {
			if err := c.replay(ctx, e); err != nil {
				return err
			}
			k.marker = e
			if err := k.r.point("sink/publish/done"); err != nil {
				return err
			}
		} else {
			k.r.count("epoch published before")
		}
		c.held.Confirm(e)
		c.confirmed++
	}
	return nil
}

// replay publishes the rows of one epoch.
func (c *ledgerCommitter) replay(ctx context.Context, e messages.Epoch) error {
	k := c.k
	var all []page
	err := c.held.Replay(ctx, e, func(b *held.Block) error {
		if k.fence > c.attempt {
			return fmt.Errorf("fenced")
		}
		if k.r.plan.grouped == tables {
			return c.frame(b)
		}
		for i := range b.Batch.Rows() {
			p := page{rowOf(b.Batch, i), b.Part}
			if k.whole {
				all = append(all, p)
				continue
			}
			if err := k.r.point("sink/publish"); err != nil {
				return err
			}
			id := c.held.RowID(e, b.First+int64(i))
			if k.have[id] {
				k.again++
				continue
			}
			k.have[id] = true
			k.log = append(k.log, p)
			k.r.w.note(id.Lo)
		}
		return nil
	})
	if err != nil || !k.whole {
		return err
	}
	if err := k.r.point("sink/publish"); err != nil {
		return err
	}
	k.log = append(k.log, all...)
	return nil
}

// frame takes a part of a complete table, which replaces the one before when it
// ends.
func (c *ledgerCommitter) frame(b *held.Block) error {
	k := c.k
	if err := k.r.point("sink/publish"); err != nil {
		return err
	}
	if b.Batch.Frame()&messages.FrameStart != 0 {
		k.table = nil
	}
	for i := range b.Batch.Rows() {
		k.table = append(k.table, rowOf(b.Batch, i))
	}
	if b.Batch.Frame()&messages.FrameEnd != 0 {
		k.log = k.log[:0]
		for _, x := range k.table {
			k.log = append(k.log, page{row: x})
		}
	}
	return nil
}

func (c *ledgerCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	if err := c.k.r.point("sink/writer"); err != nil {
		return nil, err
	}
	w, err := c.held.Writer(subtask)
	if err != nil {
		return nil, err
	}
	c.k.r.opened++
	return &ledgerWriter{c: c, Writer: w}, nil
}

func (c *ledgerCommitter) Begin(messages.Epoch) {}

func (c *ledgerCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	if err := c.k.r.point("sink/prepare"); err != nil {
		return nil, err
	}
	u, err := c.held.Prepare(e, tokens)
	if err != nil {
		return nil, err
	}
	if len(u) > 2 {
		c.k.r.fail("sink %s: %d epochs wait to be published", c.k.name, len(u))
	}
	data, err := json.Marshal(ledgerToken{u})
	if err != nil {
		return nil, err
	}
	return data, c.k.r.point("sink/prepare/done")
}

func (c *ledgerCommitter) Commit(ctx context.Context, e messages.Epoch, _ connectors.Token) error {
	if err := c.k.r.point("sink/commit"); err != nil {
		return err
	}
	if err := c.publish(ctx, e); err != nil {
		return err
	}
	c.k.r.sinkCommitted(c.k, c.k.name, e)
	return c.k.r.point("sink/commit/done")
}

func (c *ledgerCommitter) Close() error {
	c.k.r.opened--
	return nil
}

// ledgerWriter is a writer of package held with fault points.
type ledgerWriter struct {
	connectors.Writer
	c *ledgerCommitter
}

func (w *ledgerWriter) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	r := w.c.k.r
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.point("sink/write"); err != nil {
		return err
	}
	if err := w.Writer.Write(&patient{Context: ctx, c: w.c, at: w.c.confirmed}, b, ids); err != nil {
		return err
	}
	return r.point("sink/write/done")
}

func (w *ledgerWriter) Cut(e messages.Epoch) (connectors.Flush, error) {
	r := w.c.k.r
	if err := r.point("sink/cut"); err != nil {
		return nil, err
	}
	flush, err := w.Writer.Cut(e)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (connectors.Token, error) {
		if err := r.point("sink/flush"); err != nil {
			return nil, err
		}
		t, err := flush(ctx)
		if err != nil {
			return nil, err
		}
		return t, r.point("sink/flush/done")
	}, nil
}

func (w *ledgerWriter) Close() error {
	w.c.k.r.opened--
	return w.Writer.Close()
}

// patient is the context of a Write that may have to wait for a confirmation: who
// asks for Done is about to wait, and the world goes on meanwhile.
type patient struct {
	context.Context
	c    *ledgerCommitter
	at   int
	dead bool
}

func (p *patient) Done() <-chan struct{} {
	r := p.c.k.r
	r.count("write waited for a confirmation")
	alive := r.w.wait(never, func() bool { return p.c.confirmed > p.at || p.Context.Err() != nil }, false)
	p.at = p.c.confirmed
	if alive {
		return p.Context.Done()
	}
	p.dead = true
	done := make(chan struct{})
	close(done)
	return done
}

func (p *patient) Err() error {
	if p.dead {
		return errCrashed
	}
	return p.Context.Err()
}
