package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// readSize is how much is read from a file at a time.
const readSize = 64 << 10

type reader struct {
	s        *source
	progress *progress
	queue    []found // files to read, in order
	bounded  bool
	maxRows  int
	reported bool      // that it is caught up
	listed   time.Time // modification time of the directory when it was listed
	// tidied are the finished files that clean_source has dealt with. Only
	// Committed uses it after Open.
	tidied map[identity]bool

	// The file being read.
	file    *os.File
	found   found
	origin  messages.ID128
	current []byte // JSON text of its identity
	header  []byte // its first line
	// buf holds the bytes of the file from progress.At on, as far as they are read.
	buf  []byte
	from int // consumed part of buf
	eof  bool
	meta connectors.Meta
}

// Open implements connectors.Source.
func (s *source) Open(_ context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	if q.Partition != partitionName {
		return nil, fault.New(fault.Config, "file source: there is no partition %q", q.Partition)
	}
	own := *s // locate writes to it
	if err := own.locate(); err != nil {
		return nil, err
	}
	p, err := newProgress(q.From)
	if err != nil {
		return nil, err
	}
	r := &reader{s: &own, progress: p, bounded: q.Bounded, maxRows: max(q.MaxRows, 1)}
	files, err := own.list()
	if err != nil {
		return nil, err
	}
	if r.queue, err = p.pending(files, own.maxAge); err != nil {
		return nil, err
	}
	if p.Current != nil {
		if err := r.resume(files); err != nil {
			return nil, err
		}
	}
	r.tidy(p.Done) // what an earlier attempt did not get to
	return r, nil
}

// resume opens the file that the offset is in.
func (r *reader) resume(files []found) error {
	for _, f := range files {
		if f.Name != r.progress.Current.Name {
			continue
		}
		if f.identity != *r.progress.Current {
			return changed(*r.progress.Current, f.identity, "a part of it has been read")
		}
		return r.open(f, r.progress.At)
	}
	return fault.New(fault.Config, "file source: %s is gone, but only %d of its %d bytes have been read; put it back", r.progress.Current.Name, r.progress.At, r.progress.Current.Size)
}

// open starts reading f at a position.
func (r *reader) open(f found, at int64) error {
	path := filepath.Join(r.s.base, filepath.FromSlash(f.Name))
	if err := r.checkColumns(f); err != nil {
		return err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Restart, "file source: %s vanished before it was read", path)
	}
	if err != nil {
		return accessError(path, err)
	}
	r.file, r.found, r.origin = file, f, f.id(r.s.path)
	r.progress.Current, r.progress.At = &r.found.identity, 0
	r.buf, r.from, r.eof = r.buf[:0], 0, false
	if r.current, err = json.Marshal(f.identity); err != nil {
		return fault.Wrap(fault.Internal, err, "file source: encode the offset")
	}
	if err := r.check(); err != nil {
		return err
	}
	line, _, err := r.line(false)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errTooLong) {
		return err
	}
	r.header = append(r.header[:0], line...)
	r.buf, r.from, r.eof = r.buf[:0], 0, false
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return accessError(path, err)
	}
	r.progress.At = at
	return nil
}

// checkColumns makes sure that the values in the path fit their columns.
func (r *reader) checkColumns(f found) error {
	for _, p := range f.columns {
		field := r.s.schema.Fields[p.column]
		var c messages.Column
		c.Reset(field.Type)
		if !p.null && !format.AppendText(&c, []byte(p.text)) {
			return fault.New(fault.Config, "file source: %s: %q is not a %s; rename the directory, or declare column %s with another type", f.Name, p.text, field.Type, field.Name)
		}
	}
	return nil
}

// check makes sure that the open file is still the one that was listed.
func (r *reader) check() error {
	info, err := r.file.Stat()
	if err != nil {
		return accessError(r.found.Name, err)
	}
	is := identity{r.found.Name, info.Size(), info.ModTime().UnixNano()}
	if is != r.found.identity {
		return changed(r.found.identity, is, "it was found")
	}
	return nil
}

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.file == nil && len(r.queue) > 0 {
			f := r.queue[0]
			r.queue = r.queue[1:]
			if err := r.open(f, 0); err != nil {
				return err
			}
		}
		if r.file == nil {
			if done, err := r.idle(ctx, dst); done {
				return err
			}
			continue
		}
		r.reported = false
		if err := r.records(dst); err != nil {
			return err
		}
		if dst.Payloads == 0 {
			continue // an empty file
		}
		dst.Next = r.progress.append(dst.Next[:0], r.current)
		dst.Status = connectors.Status{State: connectors.Reading, Lag: -1}
		return nil
	}
}

// idle is Read when there is no file to read. done tells that Read returns.
func (r *reader) idle(ctx context.Context, dst *connectors.Rows) (done bool, err error) {
	dst.Next = r.progress.append(dst.Next[:0], nil)
	dst.Status = connectors.Status{State: connectors.CaughtUp}
	if r.bounded {
		return true, io.EOF
	}
	if err := r.look(); err != nil || len(r.queue) > 0 {
		return err != nil, err
	}
	if !r.reported {
		r.reported = true
		return true, nil
	}
	ready := make(chan struct{})
	stop := r.s.clock.AfterFunc(r.s.poll, func() { close(ready) })
	defer stop()
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-ready:
		return false, nil
	}
}

// settled is how long after its last change a directory is still listed at
// every look: its modification time is only so exact.
const settled = 2 * time.Second

// look queues new files. A plain directory is only listed when it has changed.
func (r *reader) look() error {
	var modified time.Time
	if r.s.pattern == "" && !r.s.nested {
		info, err := os.Stat(r.s.base)
		if err != nil {
			return accessError(r.s.base, err)
		}
		modified = info.ModTime()
		if modified.Equal(r.listed) && r.s.clock.Now().Sub(modified) > settled {
			return nil
		}
	}
	files, err := r.s.list()
	if err != nil {
		return err
	}
	r.listed = modified
	r.queue, err = r.progress.pending(files, r.s.maxAge)
	return err
}

// records reads records of the current file into dst, and closes the file at
// its end.
func (r *reader) records(dst *connectors.Rows) error {
	dst.SetOrigin(r.origin)
	isHeader, err := dst.Header(r.header)
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "file source: %s", r.found.Name)
	}
	for !dst.Full(r.maxRows) {
		start := r.progress.At
		rec, size, err := r.record(dst)
		if errors.Is(err, io.EOF) {
			return r.finish()
		}
		tooLong := errors.Is(err, errTooLong)
		if err != nil && !tooLong {
			return err
		}
		if start == 0 && isHeader || !tooLong && len(bytes.TrimSpace(rec)) == 0 && dst.SkipsBlank() {
			r.progress.At += size
			continue
		}
		r.describe(start)
		if tooLong {
			cause := fault.New(fault.BadRow, "the record is longer than max_record_size (%d bytes)", r.s.maxRecord)
			err = dst.Refuse(rec, cause, &r.meta)
		} else {
			err = dst.Record(rec, &r.meta)
		}
		if err != nil {
			return err
		}
		r.progress.At += size
	}
	return nil
}

// describe sets meta for the record at a position.
func (r *reader) describe(start int64) {
	r.meta.Offset = uint64(start)
	r.meta.Arrival = r.found.modified()
	if r.meta.Origin == nil {
		r.meta.Origin = func() string { return fmt.Sprintf("file %s byte %d", r.found.Name, r.meta.Offset) }
	}
	if r.meta.Fill == nil && (len(r.s.metadata) > 0 || len(r.found.columns) > 0) {
		r.meta.Fill = r.fill
	}
}

// fill sets the metadata columns and those that come from the path.
func (r *reader) fill(b *messages.Builder) {
	for i, name := range r.s.metadata {
		switch name {
		case "path":
			b.Column(i).AppendString(r.found.Name)
		case "modified":
			b.Column(i).AppendInt64(int64(r.found.modified()))
		case "offset":
			b.Column(i).AppendInt64(int64(r.meta.Offset))
		}
	}
	for _, p := range r.found.columns {
		c := b.Column(p.column)
		c.Truncate(b.Rows()) // the path wins over a field of the same name
		if p.null || !format.AppendText(c, []byte(p.text)) {
			c.AppendNull()
		}
	}
}

// finish closes the current file.
func (r *reader) finish() error {
	if err := r.check(); err != nil {
		return err
	}
	if err := r.closeFile(); err != nil {
		return err
	}
	return r.progress.finish(r.s.maxAge)
}

func (r *reader) closeFile() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	if err != nil {
		return fault.Wrap(fault.Restart, err, "file source: close %s", r.found.Name)
	}
	return nil
}

// Close implements connectors.Reader.
func (r *reader) Close() error { return r.closeFile() }
