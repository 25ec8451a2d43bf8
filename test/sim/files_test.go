package sim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// files is a sink that shows rows only when their epoch has committed: each
// writer of each attempt has a file, of which a prefix is visible. Rows that
// were not flushed are lost in a crash; what is not committed is cut off at
// recovery.
type files struct {
	r      *run
	name   string
	all    []*file
	fence  uint64
	redone int // commits that recovery had to finish
}

type file struct {
	attempt uint64
	content []row
	synced  int
	visible int
}

func (k *files) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{Append: true, Update: true, SingleWriter: k.r.single}
}

func (k *files) lineage() bool { return false }
func (k *files) tick()         {}
func (k *files) check()        {}

func (k *files) rows() []row {
	var out []row
	for _, f := range k.all {
		out = append(out, f.content[:f.visible]...)
	}
	return out
}

func (k *files) lose() {
	for _, f := range k.all {
		f.content = f.content[:f.synced+k.r.rng.IntN(len(f.content)-f.synced+1)]
		f.synced = len(f.content)
	}
}

func (k *files) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	if err := k.r.point("sink/open"); err != nil {
		return nil, err
	}
	k.r.opened++
	return &filesCommitter{k: k, attempt: q.Attempt}, nil
}

// filesToken says how long the files of one attempt are at an epoch's end, by
// position in the directory. It covers the epochs before it in the same attempt.
type filesToken map[int]int

type filesCommitter struct {
	k       *files
	attempt uint64
	closed  bool
}

func (c *filesCommitter) Recover(_ context.Context, _ messages.Epoch, last connectors.Token) error {
	k := c.k
	if err := k.r.point("sink/recover"); err != nil {
		return err
	}
	if k.fence > c.attempt {
		return fmt.Errorf("attempt %d is fenced by %d", c.attempt, k.fence)
	}
	k.fence = c.attempt
	if last != nil {
		changed, err := c.apply(last)
		if err != nil {
			return err
		}
		if changed {
			k.redone++
		}
	}
	if err := k.r.point("sink/recover"); err != nil {
		return err
	}
	for _, f := range k.all {
		f.content, f.synced = f.content[:f.visible], f.visible
	}
	return k.r.point("sink/recover/done")
}

// apply makes visible what a token covers.
func (c *filesCommitter) apply(data connectors.Token) (changed bool, err error) {
	var t filesToken
	if err := json.Unmarshal(data, &t); err != nil {
		return false, err
	}
	for i, f := range c.k.all {
		n := t[i]
		if n > f.synced {
			c.k.r.fail("sink %s: file %d has %d durable rows, the token says %d", c.k.name, i, f.synced, n)
			n = f.synced
		}
		if n > f.visible {
			f.visible, changed = n, true
		}
	}
	return changed, nil
}

func (c *filesCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	if err := c.k.r.point("sink/writer"); err != nil {
		return nil, err
	}
	c.k.all = append(c.k.all, &file{attempt: c.attempt})
	c.k.r.opened++
	return &fileWriter{c: c, f: c.k.all[len(c.k.all)-1], number: len(c.k.all) - 1}, nil
}

func (c *filesCommitter) Begin(messages.Epoch) {}

// WantsEpoch asks for epochs as long as there are rows that readers do not see.
func (c *filesCommitter) WantsEpoch() bool {
	for _, f := range c.k.all {
		if f.attempt == c.attempt && len(f.content) > f.visible {
			c.k.r.count("epoch wanted by a sink")
			return true
		}
	}
	return false
}

func (c *filesCommitter) Prepare(_ context.Context, _ messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	if err := c.k.r.point("sink/prepare"); err != nil {
		return nil, err
	}
	all := filesToken{}
	for _, t := range tokens {
		var one filesToken
		if err := json.Unmarshal(t, &one); err != nil {
			return nil, err
		}
		for i, n := range one {
			all[i] = n
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return data, c.k.r.point("sink/prepare/done")
}

func (c *filesCommitter) Commit(_ context.Context, e messages.Epoch, t connectors.Token) error {
	if err := c.k.r.point("sink/commit"); err != nil {
		return err
	}
	if c.k.fence > c.attempt {
		return fmt.Errorf("fenced")
	}
	if _, err := c.apply(t); err != nil {
		return err
	}
	c.k.r.sinkCommitted(c.k, c.k.name, e)
	return c.k.r.point("sink/commit/done")
}

func (c *filesCommitter) Close() error {
	if c.closed {
		c.k.r.fail("committer of %s closed twice", c.k.name)
	}
	c.closed = true
	c.k.r.opened--
	return nil
}

type fileWriter struct {
	c      *filesCommitter
	f      *file
	number int
	failed bool // a write has
	closed bool
}

func (w *fileWriter) Write(ctx context.Context, b *messages.Batch, _ []messages.ID128) error {
	k := w.c.k
	if w.failed {
		k.r.fail("write behind a failed write to %s", k.name)
	}
	w.failed = true
	if w.closed {
		k.r.fail("write to the closed writer of %s", k.name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.r.point("sink/write"); err != nil {
		return err
	}
	if k.fence > w.c.attempt {
		return fmt.Errorf("fenced")
	}
	for i := range b.Rows() {
		w.f.content = append(w.f.content, rowOf(b, i))
	}
	err := k.r.point("sink/write/done")
	w.failed = err != nil
	return err
}

func (w *fileWriter) Cut(messages.Epoch) (connectors.Flush, error) {
	k := w.c.k
	if w.failed {
		k.r.fail("cut behind a failed write to %s", k.name)
	}
	if err := k.r.point("sink/cut"); err != nil {
		return nil, err
	}
	n := len(w.f.content)
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
		w.f.synced = max(w.f.synced, n)
		data, err := json.Marshal(filesToken{w.number: n})
		if err != nil {
			return nil, err
		}
		return data, k.r.point("sink/flush/done")
	}, nil
}

func (w *fileWriter) Close() error {
	w.closed = true
	w.c.k.r.opened--
	return nil
}
