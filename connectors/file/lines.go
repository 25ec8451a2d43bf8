package file

import (
	"bytes"
	"cmp"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"github.com/streamd-io/streamd/connectors"
)

// errUnfinished says that the file ends within a record whose rest may still
// come. Nothing of the record has been taken.
var errUnfinished = errors.New("record not finished")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTooLong says that a record is longer than max_record_size. The record's
// beginning and its whole size are returned with it.
var errTooLong = errors.New("record too long")

// record returns the next record without its line end, and how many bytes of
// the file it takes. The record is valid until the next call. io.EOF means that
// there is none.
func (r *reader) record(dst *connectors.Rows) ([]byte, int64, error) {
	line, size, err := r.line(false)
	if err != nil {
		return line, size, err
	}
	open := dst.Continues(line, false)
	if !open {
		return line, size, nil
	}
	// The record goes on: its parts stay next to each other in buf.
	begin := r.from - int(size)
	for open {
		more, n, err := r.line(true)
		if errors.Is(err, io.EOF) && r.settled() {
			break // the decoder says what is missing
		}
		if errors.Is(err, io.EOF) || errors.Is(err, errUnfinished) {
			r.from -= int(size)
			r.sum = r.progress.Sum
			return nil, 0, errUnfinished
		}
		size += n
		begin = r.from - int(size) // line may have moved the bytes
		if err != nil {
			return more, size, err
		}
		if size > int64(r.s.maxRecord) {
			return head(r.buf[begin:r.from]), size, errTooLong
		}
		open = dst.Continues(more, true)
	}
	return trimEnd(r.buf[begin:r.from]), size, nil
}

// line returns the next line without its end and how many bytes it takes. With
// keep, the bytes of the record before it stay in buf.
func (r *reader) line(keep bool) ([]byte, int64, error) {
	if !keep {
		r.buf = slices.Delete(r.buf, 0, r.dropped())
	}
	scanned := r.from
	for {
		if i := bytes.IndexByte(r.buf[scanned:], '\n'); i >= 0 {
			end := scanned + i + 1
			line := r.take(end)
			if len(line)-1 > r.s.maxRecord {
				return head(line), int64(len(line)), errTooLong
			}
			return trimEnd(line), int64(len(line)), nil
		}
		scanned = len(r.buf)
		if r.eof {
			if more, err := r.grown(); err != nil {
				return nil, 0, err
			} else if !more {
				return r.lastLine()
			}
		}
		if scanned-r.from > r.s.maxRecord {
			return r.discard()
		}
		if err := r.more(); err != nil {
			return nil, 0, err
		}
	}
}

// dropped returns how many consumed bytes are worth removing from the front of
// buf: all, once they are the larger part.
func (r *reader) dropped() int {
	if r.from < len(r.buf)/2 && r.from < readSize {
		return 0
	}
	n := r.from
	r.from = 0
	return n
}

// lastLine returns what stands behind the last line end of the file.
func (r *reader) lastLine() ([]byte, int64, error) {
	line := r.buf[r.from:]
	if len(line) == 0 {
		return nil, 0, io.EOF
	}
	if !r.settled() { // else a line that is being written would be cut in two
		return nil, 0, errUnfinished
	}
	r.take(len(r.buf))
	if len(line) > r.s.maxRecord {
		return head(line), int64(len(line)), errTooLong
	}
	return trimEnd(line), int64(len(line)), nil
}

// take consumes the bytes of buf up to end.
func (r *reader) take(end int) []byte {
	b := r.buf[r.from:end]
	r.from = end
	r.sum = crc32.Update(r.sum, castagnoli, b)
	return b
}

// more reads on.
func (r *reader) more() error {
	r.buf = slices.Grow(r.buf, readSize)
	n, err := r.file.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	r.pos += int64(n)
	if err == io.EOF {
		r.eof = true
		return nil
	}
	if err != nil {
		return accessError(r.found.Name, err)
	}
	return nil
}

// discard passes over a line that is too long without keeping it. It returns
// its first bytes.
func (r *reader) discard() ([]byte, int64, error) {
	begin := append([]byte(nil), head(r.buf[r.from:])...)
	size := int64(0)
	for {
		i := bytes.IndexByte(r.buf[r.from:], '\n')
		if i >= 0 {
			r.take(r.from + i + 1)
			return begin, size + int64(i) + 1, errTooLong
		}
		size += int64(len(r.buf) - r.from)
		r.take(len(r.buf))
		r.buf, r.from = r.buf[:0], 0
		if r.eof {
			if more, err := r.grown(); err != nil || !more {
				return begin, size, cmp.Or(err, errTooLong)
			}
		}
		if err := r.more(); err != nil {
			return nil, 0, err
		}
	}
}

// head is the beginning of a record that is too long, for messages.
func head(b []byte) []byte { return b[:min(len(b), 64)] }

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}
