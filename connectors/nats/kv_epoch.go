package nats

import (
	"context"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// kvEpochCommitter writes the values of an epoch after the epoch has committed.
//
// # Exactly once, per epoch
//
// The rows of epoch e, the last one per key, are part of checkpoint e (package
// held). Commit(e) writes them and then notes e in the marker; after a crash in
// between, the next attempt writes all of them again. They are the same values, so
// that readers see values of committed epochs only, and never one that is older
// than what they have seen: the marker says which epoch is written in full, and
// of the next one no value can have been replaced by a later one. A reader of the
// history may find a value twice. What fences is what fences at once; see
// kvCommitter.
type kvEpochCommitter struct {
	*kvCommitter
	out    *kvWriter
	schema *messages.Schema // that out encodes
}

func newKVEpochCommitter(c *kvCommitter) (connectors.Committer, error) {
	rows, err := held.New(held.Config{Sink: "nats sink", Request: c.req})
	if err != nil {
		return nil, err
	}
	c.rows = rows
	return &kvEpochCommitter{kvCommitter: c}, nil
}

// Recover implements connectors.Committer. It waits for a server as long as it
// takes.
func (c *kvEpochCommitter) Recover(ctx context.Context, epoch messages.Epoch, last connectors.Token) error {
	if c.out == nil {
		if err := c.kvCommitter.Recover(ctx, epoch, last); err != nil {
			return err
		}
		c.out = newKVWriter(c.kvCommitter, nil)
		c.table.add(c.out)
	}
	var wait backoff
	for {
		err := c.publish(ctx, epoch)
		if err == nil || fault.KindOf(err) != fault.Transient || ctx.Err() != nil {
			return err
		}
		if err := sleep(ctx, wait.next()); err != nil {
			return err
		}
	}
}

// publish writes the epochs up to last that are not written, oldest first.
func (c *kvEpochCommitter) publish(ctx context.Context, last messages.Epoch) error {
	for _, e := range c.rows.Pending(last) {
		if err := fault.Inject("kv/publish"); err != nil {
			return err
		}
		if err := c.rows.Replay(ctx, e, func(b *held.Block) error { return c.block(ctx, b.Batch) }); err != nil {
			return err
		}
		flush, err := c.out.Cut(e)
		if err == nil {
			_, err = flush(ctx)
		}
		if err == nil {
			err = fault.Inject("kv/published")
		}
		if err == nil {
			err = c.kvCommitter.Commit(ctx, e, nil)
		}
		if err != nil {
			return err
		}
		c.rows.Confirm(e)
	}
	return nil
}

// block writes rows, which may have been held with another schema than today's.
func (c *kvEpochCommitter) block(ctx context.Context, b *messages.Batch) error {
	if s := b.Schema(); s != c.schema {
		enc, err := c.sink.encoder(s)
		if err != nil {
			return err
		}
		key, err := parseKey(c.sink.key.text, s)
		if err != nil {
			return fault.Wrap(fault.Config, err, "rows that were held before the query was changed have to be published first; start the old query once and stop it in good order")
		}
		c.out.enc, c.out.key, c.schema = enc, key, s
	}
	return c.out.Write(ctx, b, nil)
}

// Writer implements connectors.Committer.
func (c *kvEpochCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	enc, err := c.sink.encoder(c.req.Schema)
	if err != nil {
		return nil, err
	}
	w, err := c.rows.Writer(subtask)
	if err != nil {
		return nil, err
	}
	check := newRowCheck(c.marks, rowEncoder{subject: c.sink.key, enc: enc})
	check.deletes = true
	return &epochWriter{Writer: w, check: check}, nil
}

// Commit implements connectors.Committer.
func (c *kvEpochCommitter) Commit(ctx context.Context, e messages.Epoch, t connectors.Token) error {
	if err := c.publish(ctx, e); err != nil {
		return err
	}
	return c.kvCommitter.Commit(ctx, e, t)
}
