package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// flushSize is how many bytes are collected before they are written.
const flushSize = 64 << 10

// writer implements connectors.Writer: it fills one part after another.
type writer struct {
	c    *committer
	enc  format.Encoder
	stem string // name of parts without number and extension

	// mu guards the fields below: Cut and flushes come while Write goes on.
	mu     sync.Mutex
	number int
	cur    *openPart
	rolled []*openPart            // since the last Cut
	files  map[*openPart]struct{} // whose file is open
	closed bool
}

// openPart is a part that is being written.
type openPart struct {
	part
	file   writeFile
	buf    []byte // the end of the part that is not written yet
	opened time.Duration
	synced int64 // how much is known to be durable
}

// Write implements connectors.Writer.
func (w *writer) Write(ctx context.Context, b *messages.Batch, _ []messages.ID128) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fault.New(fault.Internal, "file sink: Write after Close")
	}
	for i := range b.Rows() {
		if w.cur == nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.start(); err != nil {
				return err
			}
		}
		p := w.cur
		before := len(p.buf)
		buf, err := w.enc.Encode(p.buf, b, b.Row(i))
		if err != nil {
			return err
		}
		p.buf = append(buf, '\n')
		p.Size += int64(len(p.buf) - before)
		p.Rows++
		if len(p.buf) >= flushSize {
			if err := w.write(p); err != nil {
				return err
			}
		}
		if p.Size >= w.c.sink.rollSize {
			w.roll()
		}
	}
	return nil
}

// start opens the next part.
func (w *writer) start() error {
	s := w.c.sink
	w.number++
	p := &openPart{part: part{Name: fmt.Sprintf("%s-%06d%s", w.stem, w.number, s.ext)}, opened: s.clock.Mono()}
	var err error
	if p.file, err = s.fs.Create(filepath.Join(s.dir, s.hiddenName(p.Name))); err != nil {
		return s.ioError(err, "create "+s.hiddenName(p.Name))
	}
	w.files[p] = struct{}{}
	p.buf = append(p.buf, s.header...)
	p.Size = int64(len(s.header))
	w.cur = p
	return nil
}

// write writes what has been collected.
func (w *writer) write(p *openPart) error {
	if len(p.buf) == 0 {
		return nil
	}
	if _, err := p.file.Write(p.buf); err != nil {
		return w.c.sink.ioError(err, "write "+p.Name)
	}
	p.buf = p.buf[:0]
	return nil
}

func (w *writer) roll() {
	w.rolled = append(w.rolled, w.cur)
	w.cur = nil
}

// due reports whether the current part, or one before it, is to be published.
// A writer that is busy has rows, and with them epochs.
func (w *writer) due() bool {
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	return len(w.rolled) > 0 || w.aged()
}

func (w *writer) aged() bool {
	return w.cur != nil && w.c.sink.clock.Mono()-w.cur.opened >= w.c.sink.rollAfter
}

// Cut implements connectors.Writer.
func (w *writer) Cut(messages.Epoch) (connectors.Flush, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aged() {
		w.roll()
	}
	rolled, cur := w.rolled, w.cur
	w.rolled = nil
	var valid part
	if cur != nil {
		valid = cur.part
	}
	return func(ctx context.Context) (connectors.Token, error) { return w.flush(ctx, rolled, cur, valid) }, nil
}

// flush makes the parts of an epoch durable.
func (w *writer) flush(ctx context.Context, rolled []*openPart, cur *openPart, valid part) (connectors.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var t token
	created := false
	for _, p := range rolled {
		created = created || p.synced == 0
		if err := w.sync(p, p.Size); err != nil {
			return nil, err
		}
		if err := w.closePart(p); err != nil {
			return nil, err
		}
		t.Rolled = append(t.Rolled, p.part)
	}
	if cur != nil {
		created = created || cur.synced == 0
		if err := w.sync(cur, valid.Size); err != nil {
			return nil, err
		}
		t.Open = append(t.Open, valid)
	}
	if created { // the names of new parts must survive as well
		if err := w.c.sink.syncDir(); err != nil {
			return nil, err
		}
	}
	return t.encode()
}

// sync makes the first size bytes of a part durable.
func (w *writer) sync(p *openPart, size int64) error {
	if p.synced >= size {
		return nil
	}
	w.mu.Lock()
	f := p.file
	var err error
	if f == nil {
		err = fault.New(fault.Internal, "file sink: %s was closed before its epoch was flushed", p.Name)
	} else {
		err = w.write(p)
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return w.c.sink.ioError(err, "sync "+p.Name)
	}
	p.synced = size
	return nil
}

func (w *writer) closePart(p *openPart) error {
	w.mu.Lock()
	f := p.file
	p.file = nil
	delete(w.files, p)
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	if err := f.Close(); err != nil {
		return w.c.sink.ioError(err, "close "+p.Name)
	}
	return nil
}

// last returns the part that is open.
func (w *writer) last() (part, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur == nil {
		return part{}, false
	}
	return w.cur.part, true
}

// Close implements connectors.Writer. What is not flushed is dropped.
func (w *writer) Close() error {
	w.mu.Lock()
	parts := slices.Collect(maps.Keys(w.files))
	w.cur, w.rolled, w.closed = nil, nil, true
	w.mu.Unlock()
	var errs []error
	for _, p := range parts {
		errs = append(errs, w.closePart(p))
	}
	return errors.Join(errs...)
}
