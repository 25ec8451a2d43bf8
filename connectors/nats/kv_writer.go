package nats

import (
	"context"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// kvWriter writes the rows of one subtask. Values of one key may come from
// several subtasks; the table they share keeps their order.
type kvWriter struct {
	c      *kvCommitter
	t      *kvTable
	key    *template
	enc    format.Encoder
	space  chan struct{} // Write looks again whether it may go on
	closed chan struct{}

	// For Write only.
	subject, data []byte
	frame         uint64 // number of the complete table being written
	inFrame       bool
	// keep, if not nil, says which of the rows are written. It may look at subject.
	keep func(row int) bool

	// The fields below are guarded by t.mu.
	over    bool   // closed is
	gen     uint64 // cuts so far
	values  int    // on their way or waiting
	bytes   int64  // of these
	open    []kvGen
	flushes []kvFlush
}

// kvGen counts the rows before cut number gen that are not written.
type kvGen struct {
	gen  uint64
	rows int
}

// kvFlush waits until all rows up to cut number gen are written.
type kvFlush struct {
	gen  uint64
	done chan struct{}
}

func newKVWriter(c *kvCommitter, enc format.Encoder) *kvWriter {
	return &kvWriter{c: c, t: c.table, key: c.sink.key, enc: enc, space: make(chan struct{}, 1), closed: make(chan struct{}), subject: []byte(c.sink.prefix)}
}

// Write implements connectors.Writer.
func (w *kvWriter) Write(ctx context.Context, b *messages.Batch, _ []messages.ID128) error {
	if b.Frame()&messages.FrameStart != 0 {
		if err := w.beginTable(ctx); err != nil {
			return err
		}
	}
	kinds := b.Kinds()
	for i := range b.Rows() {
		row := b.Row(i)
		deleted := false
		if kinds != nil {
			if kinds[row] == messages.UpdateBefore {
				continue // the new value follows
			}
			deleted = kinds[row] == messages.Delete
		}
		if err := w.locate(b, row); err != nil {
			return err
		}
		if w.keep != nil && !w.keep(row) {
			continue
		}
		w.data = w.data[:0]
		if !deleted {
			var err error
			if w.data, err = w.enc.Encode(w.data, b, row); err != nil {
				return err
			}
		}
		if err := w.put(ctx, deleted); err != nil {
			return err
		}
	}
	if b.Frame()&messages.FrameEnd != 0 {
		return w.endTable(ctx)
	}
	return nil
}

// locate makes the subject of a row, which stands for its key.
func (w *kvWriter) locate(b *messages.Batch, row int) error {
	var err error
	w.subject, err = w.key.append(w.subject[:len(w.c.sink.prefix)], b, row)
	return err
}

// put gives the value in w.data to the table, waiting until there is room.
func (w *kvWriter) put(ctx context.Context, deleted bool) error {
	t := w.t
	t.mu.Lock()
	for {
		if err := w.failureLocked(); err != nil {
			t.mu.Unlock()
			return err
		}
		e := t.keys[string(w.subject)]
		if e != nil && e.next.set || w.room() {
			break
		}
		t.mu.Unlock()
		select {
		case <-w.space:
		case <-w.closed:
		case <-ctx.Done():
			return ctx.Err()
		}
		t.mu.Lock()
	}
	defer t.mu.Unlock()
	if size := int64(len(w.data) + headerBytes + len(w.c.marks.tag)); t.limit > 0 && size > t.limit {
		return fault.New(fault.BadRow, "value of %d bytes for key %s of bucket %s is larger than the server takes (max_payload %d)",
			len(w.data), w.subject[len(w.c.sink.prefix):], w.c.sink.bucket.name, t.limit)
	}
	e := t.entry(w.subject)
	if w.inFrame && !deleted {
		e.frame = w.frame
		if t.skip && t.holds(e, w.data) {
			return nil // a flush waits for what is on its way
		}
	}
	t.store(e, w, w.data, deleted)
	return nil
}

// room reports whether another value may be on its way. t.mu is held.
func (w *kvWriter) room() bool {
	return w.values == 0 || w.values < w.c.sink.maxPending && w.bytes < w.c.sink.maxBytes
}

// beginTable starts a complete table. Before the first one it is found out which
// keys earlier attempts have left.
func (w *kvWriter) beginTable(ctx context.Context) error {
	w.inFrame = true
	w.t.mu.Lock()
	w.t.frames++
	w.frame = w.t.frames
	tracking := w.t.tracking
	w.t.mu.Unlock()
	if tracking {
		return nil
	}
	return w.c.track(ctx, w.closed)
}

// endTable deletes the keys that are not in the table.
func (w *kvWriter) endTable(ctx context.Context) error {
	w.inFrame = false
	w.t.mu.Lock()
	var gone []string
	for subject, e := range w.t.keys {
		if e.live && e.frame != w.frame {
			gone = append(gone, subject)
		}
	}
	w.t.mu.Unlock()
	for _, subject := range gone {
		w.subject, w.data = append(w.subject[:0], subject...), w.data[:0]
		if err := w.put(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

// count notes n more rows before cut number gen that are not written, and ends
// the flushes that have waited for them. t.mu is held.
func (w *kvWriter) count(gen uint64, n int) {
	at := -1
	for i := range w.open {
		if w.open[i].gen == gen {
			at = i
		}
	}
	if at < 0 {
		at = len(w.open)
		w.open = append(w.open, kvGen{gen: gen})
	}
	if w.open[at].rows += n; w.open[at].rows > 0 {
		return
	}
	w.open = append(w.open[:at], w.open[at+1:]...)
	keep := w.flushes[:0]
	for _, f := range w.flushes {
		if w.written(f.gen) {
			close(f.done)
		} else {
			keep = append(keep, f)
		}
	}
	w.flushes = keep
}

// written reports whether all rows up to cut number gen are. t.mu is held.
func (w *kvWriter) written(gen uint64) bool {
	for _, g := range w.open {
		if g.gen <= gen {
			return false
		}
	}
	return true
}

// wake lets Write look again.
func (w *kvWriter) wake() {
	select {
	case w.space <- struct{}{}:
	default:
	}
}

// Cut implements connectors.Writer.
func (w *kvWriter) Cut(messages.Epoch) (connectors.Flush, error) {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	gen := w.gen
	w.gen++
	return func(ctx context.Context) (connectors.Token, error) { return nil, w.await(ctx, gen) }, nil
}

// await waits until all rows up to cut number gen are written.
func (w *kvWriter) await(ctx context.Context, gen uint64) error {
	w.t.mu.Lock()
	if err := w.failureLocked(); err != nil || w.written(gen) {
		w.t.mu.Unlock()
		return err
	}
	f := kvFlush{gen: gen, done: make(chan struct{})}
	w.flushes = append(w.flushes, f)
	w.t.mu.Unlock()
	select {
	case <-f.done:
		return nil
	case <-w.closed:
		w.t.mu.Lock()
		defer w.t.mu.Unlock()
		return w.failureLocked()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failureLocked says why nothing more is written. t.mu is held.
func (w *kvWriter) failureLocked() error {
	if w.t.err == nil && w.over {
		return fault.New(fault.Restart, "nats sink was closed")
	}
	return w.t.err
}

// failed wakes whoever waits. t.mu is held.
func (w *kvWriter) failed() {
	if !w.over {
		w.over = true
		close(w.closed)
	}
}

// Close implements connectors.Writer.
func (w *kvWriter) Close() error {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.failed()
	return nil
}
