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
// The rows of epoch e are part of checkpoint e (package held). Commit(e) writes the
// last one of each key and then notes e in the marker; after a crash in between, the
// next attempt writes all of them again. They are the same values, so that readers
// see values of committed epochs only, and never one that is older than what they
// have seen: the marker says which epoch is written in full, and of the next one no
// value can have been replaced by a later one. A reader of the history may find a
// value twice. What fences is what fences at once; see kvCommitter.
type kvEpochCommitter struct {
	*kvCommitter
	held *kvPublisher // nil until the bucket is ours
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
	if c.held == nil {
		if err := c.kvCommitter.Recover(ctx, epoch, last); err != nil {
			return err
		}
		c.held = newKVPublisher(c.kvCommitter)
	}
	return retry(ctx, func() error { return c.held.publish(ctx, epoch) })
}

// kvPublisher writes what is held for epochs that have committed.
type kvPublisher struct {
	c      *kvCommitter
	out    *kvWriter
	schema *messages.Schema // that out encodes
	// last has the number of the last row of each key of the epoch that is being
	// written, by the key's hash.
	last map[[2]uint64]int64
}

func newKVPublisher(c *kvCommitter) *kvPublisher {
	p := &kvPublisher{c: c, out: newKVWriter(c, nil), last: map[[2]uint64]int64{}}
	c.table.add(p.out)
	return p
}

// publish writes the epochs up to last that are not written, oldest first.
func (p *kvPublisher) publish(ctx context.Context, last messages.Epoch) error {
	for _, e := range p.c.rows.Pending(last) {
		if err := fault.Inject("kv/publish"); err != nil {
			return err
		}
		if err := p.epoch(ctx, e); err != nil {
			return err
		}
		flush, err := p.out.Cut(e)
		if err == nil {
			_, err = flush(ctx)
		}
		if err == nil {
			err = fault.Inject("kv/published")
		}
		if err == nil {
			err = p.c.Commit(ctx, e, nil)
		}
		if err != nil {
			return err
		}
		p.c.rows.Confirm(e)
	}
	return nil
}

// keptKeys is how many keys the map of an epoch may have to be used for the next one.
const keptKeys = 1 << 14

// epoch writes the last row of each key. Others are not: written again after a
// crash, they would show readers an older value behind the last one. What is held
// is the last row of the columns that the query groups by, if it does, and of
// those several may have one key.
func (p *kvPublisher) epoch(ctx context.Context, e messages.Epoch) error {
	if len(p.last) > keptKeys {
		p.last = map[[2]uint64]int64{}
	}
	clear(p.last)
	if err := p.c.rows.Replay(ctx, e, p.fold); err != nil {
		return err
	}
	return p.c.rows.Replay(ctx, e, func(b *held.Block) error { return p.block(ctx, b) })
}

// fold notes which rows of a block are the last of their key so far.
func (p *kvPublisher) fold(b *held.Block) error {
	if err := p.use(b.Batch.Schema()); err != nil {
		return err
	}
	kinds := b.Batch.Kinds()
	for i := range b.Batch.Rows() {
		if kinds != nil && kinds[i] == messages.UpdateBefore {
			continue
		}
		if err := p.out.locate(b.Batch, i); err != nil {
			return err
		}
		p.last[p.c.table.hash(p.out.subject)] = b.First + int64(i)
	}
	return nil
}

// block writes the rows of a block that are the last of their key.
func (p *kvPublisher) block(ctx context.Context, b *held.Block) error {
	if err := p.use(b.Batch.Schema()); err != nil {
		return err
	}
	p.out.keep = func(row int) bool { return p.last[p.c.table.hash(p.out.subject)] == b.First+int64(row) }
	return p.out.Write(ctx, b.Batch, nil)
}

// use makes out encode rows of schema s: they may have been held with another one
// than today's.
func (p *kvPublisher) use(s *messages.Schema) error {
	if s == p.schema {
		return nil
	}
	enc, err := p.c.sink.encoder(s)
	if err != nil {
		return err
	}
	key, err := parseKey(p.c.sink.key.text, s)
	if err != nil {
		return fault.Wrap(fault.Config, err, "rows that were held before the query was changed have to be published first; start the old query once and stop it in good order")
	}
	p.out.enc, p.out.key, p.schema = enc, key, s
	return nil
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
	if err := c.held.publish(ctx, e); err != nil {
		return err
	}
	return c.kvCommitter.Commit(ctx, e, t)
}
