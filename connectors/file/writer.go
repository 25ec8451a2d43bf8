package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
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

// maxOpen is how many parts one writer keeps open for partition_by; beyond it
// the oldest one is rolled.
const maxOpen = 256

// writer implements connectors.Writer: it fills one part after another, one at a
// time for each directory of partition_by.
type writer struct {
	c    *committer
	enc  format.Encoder
	pool *messages.Pool // of the columns in the files; nil when that is all
	stem string         // name of parts without number and extension

	// mu guards the fields below: Cut and flushes come while Write goes on.
	mu     sync.Mutex
	number int
	open   map[string]*openPart   // by directory, "" without partition_by
	rolled []*openPart            // since the last Cut
	files  map[*openPart]struct{} // whose file is open
	made   map[string]bool        // directories that exist
	path   []byte                 // directory of a row
	text   []byte                 // a value for it
	closed bool
	left   []part // what was open when the writer was closed
}

// openPart is a part that is being written.
type openPart struct {
	part
	dir    string // in the directory of the sink
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
	s := w.c.sink
	content := b
	if w.pool != nil {
		content = w.pool.Get()
		for i, c := range s.columns {
			content.Share(i, b.Column(c), b)
		}
		content.SetLen(b.Len())
		content.Publish()
		defer content.Release()
	}
	for i := range b.Rows() {
		row := b.Row(i)
		dir, err := w.directory(b, row)
		if err != nil {
			return err
		}
		p := w.open[string(dir)]
		if p == nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			if p, err = w.start(string(dir)); err != nil {
				return err
			}
		}
		if err := w.add(p, content, row); err != nil {
			return err
		}
	}
	return nil
}

// add writes one row.
func (w *writer) add(p *openPart, b *messages.Batch, row int) error {
	before := len(p.buf)
	buf, err := w.enc.Encode(p.buf, b, row)
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
		w.roll(p)
	}
	return nil
}

// start opens the next part of a directory.
func (w *writer) start(dir string) (*openPart, error) {
	s := w.c.sink
	if len(w.open) >= maxOpen {
		oldest := slices.MinFunc(slices.Collect(maps.Values(w.open)), func(a, b *openPart) int { return cmp.Compare(a.opened, b.opened) })
		w.roll(oldest)
	}
	if err := w.makeDirs(dir); err != nil {
		return nil, err
	}
	w.number++
	p := &openPart{part: part{Name: path.Join(dir, fmt.Sprintf("%s-%06d%s", w.stem, w.number, s.ext))}, dir: dir, opened: s.clock.Mono()}
	var err error
	if p.file, err = s.fs.Create(s.hidden(p.Name)); err != nil {
		return nil, s.ioError(err, "create "+p.Name)
	}
	w.files[p] = struct{}{}
	p.buf = append(p.buf, s.header...)
	p.Size = int64(len(s.header))
	w.open[dir] = p
	return p, nil
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

func (w *writer) roll(p *openPart) {
	w.rolled = append(w.rolled, p)
	delete(w.open, p.dir)
}

// due reports whether some part is to be published. A writer that is busy has
// rows, and with them epochs.
func (w *writer) due() bool {
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	if len(w.rolled) > 0 {
		return true
	}
	for _, p := range w.open {
		if w.aged(p) {
			return true
		}
	}
	return false
}

func (w *writer) aged(p *openPart) bool {
	return w.c.sink.clock.Mono()-p.opened >= w.c.sink.rollAfter
}

// valid is a part that goes on, and what of it belongs to an epoch.
type valid struct {
	p *openPart
	part
}

// Cut implements connectors.Writer.
func (w *writer) Cut(messages.Epoch) (connectors.Flush, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []valid
	for _, dir := range slices.Sorted(maps.Keys(w.open)) {
		if p := w.open[dir]; w.aged(p) {
			w.roll(p)
		} else {
			open = append(open, valid{p, p.part})
		}
	}
	rolled := w.rolled
	w.rolled = nil
	return func(ctx context.Context) (connectors.Token, error) { return w.flush(ctx, rolled, open) }, nil
}

// flush makes the parts of an epoch durable.
func (w *writer) flush(ctx context.Context, rolled []*openPart, open []valid) (connectors.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var t token
	var created []part
	for _, p := range rolled {
		if p.synced == 0 {
			created = append(created, p.part)
		}
		if err := w.sync(p, p.Size); err != nil {
			return nil, err
		}
		if err := w.closePart(p); err != nil {
			return nil, err
		}
		t.Rolled = append(t.Rolled, p.part)
	}
	for _, v := range open {
		if v.p.synced == 0 {
			created = append(created, v.part)
		}
		if err := w.sync(v.p, v.Size); err != nil {
			return nil, err
		}
		t.Open = append(t.Open, v.part)
	}
	if err := w.c.sink.syncDirs(created); err != nil { // the names of new parts must survive as well
		return nil, err
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

// current returns the parts that are open.
func (w *writer) current() []part {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parts()
}

// parts lists the parts that are not rolled, or were not when the writer was
// closed. The caller holds mu.
func (w *writer) parts() []part {
	parts := slices.Clone(w.left)
	for _, p := range w.open {
		parts = append(parts, p.part)
	}
	return parts
}

// Close implements connectors.Writer. What is not flushed is dropped.
func (w *writer) Close() error {
	w.mu.Lock()
	parts := slices.Collect(maps.Keys(w.files))
	w.left = w.parts() // the committer shows them, and is closed after its writers
	w.open, w.rolled, w.closed = nil, nil, true
	w.mu.Unlock()
	var errs []error
	for _, p := range parts {
		errs = append(errs, w.closePart(p))
	}
	return errors.Join(errs...)
}
