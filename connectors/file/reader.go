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
	// listedAt is when that was and listCost how long it took, on the monotonic clock.
	listedAt, listCost time.Duration
	// tidied are the finished files that clean_source has dealt with. Only
	// Committed uses it after Open.
	tidied map[identity]bool

	// The file being read.
	file    *os.File
	found   found
	origin  messages.ID128
	begun   bool   // header and origin are set
	current []byte // JSON text of its identity
	header  []byte // its first line
	warned  bool   // that it grows
	// changedAt is when it was last seen to change, on the monotonic clock.
	changedAt time.Duration
	// buf holds the bytes of the file from progress.At on, as far as they are read.
	buf  []byte
	from int    // consumed part of buf
	pos  int64  // where the file is: behind buf
	sum  uint32 // checksum of what is consumed
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
	if err := own.checkBase(p); err != nil {
		return nil, err
	}
	p.Base = own.base
	if err := p.encode(); err != nil {
		return nil, err
	}
	r := &reader{s: &own, progress: p, bounded: q.Bounded, maxRows: max(q.MaxRows, 1)}
	files, err := own.list()
	if err != nil {
		return nil, err
	}
	if r.queue, err = r.pending(files, true); err != nil {
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
	p := r.progress
	for _, f := range files {
		if f.Name != p.Current.Name {
			continue
		}
		f.at, f.sum, f.gen = p.At, p.Sum, p.Gen
		if f.identity != *p.Current {
			same := f.Size > p.Current.Size
			if same {
				var err error
				if same, err = r.s.begins(f.Name, p.At, p.Sum); err != nil {
					return err
				}
			}
			if !same {
				return changed(*p.Current, f.identity, "a part of it has been read")
			}
			r.s.log.Warn("a file has grown since a part of it was read; it should be moved into place whole", "file", f.Name, "size", f.Size, "before", p.Current.Size)
		}
		return r.open(f)
	}
	return fault.New(fault.Config, "file source: %s is gone, but only %d of its %d bytes have been read; put it back", p.Current.Name, p.At, p.Current.Size)
}

// open starts reading a file. One that has vanished is passed over.
func (r *reader) open(f found) error {
	path := r.s.pathOf(f.Name)
	if err := r.checkColumns(f); err != nil {
		return err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && f.at == 0 {
		r.s.log.Warn("a file vanished before it was read", "file", f.Name)
		return nil
	}
	if err != nil {
		return accessError(path, err)
	}
	r.file, r.found = file, f
	if f.again {
		if err := r.progress.again(f.Name); err != nil {
			return err
		}
	}
	r.progress.Current, r.progress.At, r.progress.Sum, r.progress.Gen = &r.found.identity, f.at, f.sum, f.gen
	r.begun, r.warned, r.changedAt = false, false, r.s.clock.Mono()
	r.rewind(0, 0)
	info, err := file.Stat()
	if err != nil {
		return accessError(path, err)
	}
	if f.at == 0 { // nothing has been read: it is what it is now
		r.found.identity = identityOf(f.Name, info)
	}
	return r.encodeCurrent()
}

func (r *reader) encodeCurrent() (err error) {
	r.current, err = json.Marshal(r.found.identity)
	return fault.Wrap(fault.Internal, err, "file source: encode the offset")
}

// rewind forgets what was read ahead; pos is where the file is.
func (r *reader) rewind(pos int64, sum uint32) {
	r.buf, r.from, r.eof = r.buf[:0], 0, false
	r.pos, r.sum = pos, sum
}

// begin reads the first line of a file, by which decoders know columns, and goes
// to where reading begins.
func (r *reader) begin() error {
	line, _, err := r.line(false)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errTooLong) {
		return err
	}
	r.header = append(r.header[:0], line...)
	r.origin = lineage(r.s.path, r.found.Name, r.found.gen, r.header)
	if _, err := r.file.Seek(r.found.at, io.SeekStart); err != nil {
		return accessError(r.found.Name, err)
	}
	r.rewind(r.found.at, r.found.sum)
	r.begun = true
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

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.file == nil && len(r.queue) > 0 {
			f := r.queue[0]
			r.queue = r.queue[1:]
			if err := r.open(f); err != nil {
				return err
			}
			continue
		}
		if r.file == nil {
			if done, err := r.idle(ctx, dst); done {
				return err
			}
			continue
		}
		r.reported = false
		err := r.records(dst)
		waits := errors.Is(err, errUnfinished)
		if err != nil && !waits {
			return err
		}
		if dst.Payloads == 0 {
			if waits {
				if err := r.pause(ctx); err != nil {
					return err
				}
			}
			continue // an empty file, or half a record
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
		if len(r.progress.Done) == 0 && !r.reported {
			r.reported = true
			r.s.log.Warn("the path matches no file that is to be read; the source ends without a row", "path", r.s.path)
		}
		return true, io.EOF
	}
	if err := r.look(); err != nil || len(r.queue) > 0 {
		return err != nil, err
	}
	if !r.reported {
		r.reported = true
		return true, nil
	}
	err = r.pause(ctx)
	return err != nil, err
}

// pause waits for something to change outside.
func (r *reader) pause(ctx context.Context) error {
	ready := make(chan struct{})
	stop := r.s.clock.AfterFunc(r.s.poll, func() { close(ready) })
	defer stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ready:
		return nil
	}
}

// records reads records of the current file into dst, and closes the file at
// its end.
func (r *reader) records(dst *connectors.Rows) error {
	if !r.begun {
		if err := r.begin(); err != nil {
			return err
		}
	}
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
			r.advance(size)
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
		r.advance(size)
	}
	return nil
}

// advance moves the position behind a record.
func (r *reader) advance(size int64) { r.progress.At, r.progress.Sum = r.progress.At+size, r.sum }

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
