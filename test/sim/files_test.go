package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// files is a sink that shows rows only when their epoch has committed: each
// writer of each attempt has a file, of which a prefix is valid. From time to time
// it goes on with another file, and the one before is renamed by the commit of the
// epoch in which it ends. Rows that were not flushed are lost in a crash; what is
// not committed is cut off at recovery.
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
	ended   messages.Epoch // the epoch whose token says that the file is complete
	renamed bool
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
// position in the directory, and which are to be renamed. It covers the epochs
// before it in the same attempt.
type filesToken struct {
	Length   map[int]int
	Complete []int
}

type filesCommitter struct {
	k        *files
	attempt  uint64
	complete []int // and not renamed
	closed   bool
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
	for i, f := range k.all {
		if f.renamed && len(f.content) != f.visible {
			k.r.fail("sink %s: the renamed file %d has %d rows, %d are valid", k.name, i, len(f.content), f.visible)
		}
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
		n := t.Length[i]
		if n > f.synced {
			c.k.r.fail("sink %s: file %d has %d durable rows, the token says %d", c.k.name, i, f.synced, n)
			n = f.synced
		}
		if n > f.visible {
			f.visible, changed = n, true
		}
	}
	for _, i := range t.Complete {
		f := c.k.all[i]
		if f.visible != len(f.content) {
			c.k.r.fail("sink %s: file %d is renamed with %d rows, %d are valid", c.k.name, i, len(f.content), f.visible)
		}
		f.renamed = true
	}
	return changed, nil
}

// finalFiles verifies that each file that is complete in a committed epoch has been
// renamed, and no other.
func (k *files) finalFiles() {
	for i, f := range k.all {
		done := slices.ContainsFunc(k.r.records, func(rec *epochs.Record) bool {
			return rec.Epoch == f.ended && rec.Attempt == f.attempt // the number of an epoch of which nothing was stored comes again
		})
		if done {
			k.r.count("file renamed")
		}
		if done != f.renamed {
			k.r.fail("sink %s: file %d, complete in epoch %d: renamed=%v", k.name, i, f.ended, f.renamed)
		}
	}
}

func (c *filesCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	if err := c.k.r.point("sink/writer"); err != nil {
		return nil, err
	}
	c.k.r.opened++
	w := &fileWriter{c: c}
	w.create()
	return w, nil
}

func (w *fileWriter) create() {
	k := w.c.k
	w.number, w.f = len(k.all), &file{attempt: w.c.attempt}
	k.all = append(k.all, w.f)
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

func (c *filesCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	if err := c.k.r.point("sink/prepare"); err != nil {
		return nil, err
	}
	all := filesToken{Length: map[int]int{}}
	for _, t := range tokens {
		var one filesToken
		if err := json.Unmarshal(t, &one); err != nil {
			return nil, err
		}
		for i, n := range one.Length {
			all.Length[i] = n
		}
		for _, i := range one.Complete {
			c.k.all[i].ended = e
			c.complete = append(c.complete, i)
		}
	}
	all.Complete = append(all.Complete, c.complete...)
	for _, i := range c.complete {
		all.Length[i] = len(c.k.all[i].content) // also that of an epoch before, if it is not confirmed
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
	c.complete = slices.DeleteFunc(c.complete, func(i int) bool { return c.k.all[i].renamed })
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
	f, t := w.f, filesToken{Length: map[int]int{w.number: len(w.f.content)}}
	n := len(f.content)
	if n > 0 && k.r.rng.IntN(2) == 0 {
		t.Complete = []int{w.number}
		w.create()
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
		f.synced = max(f.synced, n)
		data, err := json.Marshal(t)
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
