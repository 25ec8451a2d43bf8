package file

import (
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/streamd-io/streamd/messages/fault"
)

// Files should be moved into place whole and not change. Those that do all the
// same are read as if they had been written slowly, as long as that is certain:
// a file that only grows is read on behind its end, a path that is given to
// another file is read anew, and half a line waits for its rest. What would lose
// or repeat a line is an error.

// settled is how long a file, or a directory, has not changed when it counts as
// done with. Modification times are not exacter than that everywhere.
const settled = 2 * time.Second

const (
	// lookAgain is how often files are looked at although their directory has not
	// changed: what is appended does not show in it.
	lookAgain = time.Second
	// lookShare bounds the time for that: one part in so many.
	lookShare = 50
)

// settled reports whether the current file has not changed for a while.
func (r *reader) settled() bool {
	modified := time.Unix(0, r.found.Time)
	return r.s.clock.Now().Sub(modified) >= settled || r.s.clock.Mono()-r.changedAt >= settled
}

// grown reports whether there is more in the current file, after its end was
// reached.
func (r *reader) grown() (bool, error) {
	info, err := r.file.Stat()
	if err != nil {
		return false, accessError(r.found.Name, err)
	}
	is := identityOf(r.found.Name, info)
	switch {
	case is.Size < r.pos:
		return false, changed(r.found.identity, is, "it was found")
	case is.Size == r.pos && is.Size <= r.found.Size:
		return false, nil
	case is.Size > r.found.Size && !r.warned:
		r.warned = true
		r.s.log.Warn("a file is still being written; it should be moved into place whole", "file", r.found.Name, "size", is.Size, "before", r.found.Size)
	}
	r.found.identity, r.changedAt = is, r.s.clock.Mono()
	if err := r.encodeCurrent(); err != nil || is.Size == r.pos {
		return false, err
	}
	r.eof = false
	return true, nil
}

// finish closes the current file at its end, unless there is more.
func (r *reader) finish() error {
	info, err := r.file.Stat()
	if err != nil {
		return accessError(r.found.Name, err)
	}
	is := identityOf(r.found.Name, info)
	if is.Size > r.progress.At {
		r.eof = false // the next call goes on
		return nil
	}
	if is != r.found.identity {
		same, err := sumIs(io.NewSectionReader(r.file, 0, is.Size), is.Size, r.progress.Sum)
		if err != nil {
			return accessError(r.found.Name, err)
		}
		if !same || is.Size < r.progress.At {
			return changed(r.found.identity, is, "it was found")
		}
		r.found.identity = is
	}
	if err := r.closeFile(); err != nil {
		return err
	}
	return r.progress.finish(r.s.maxAge)
}

// sumIs reports whether the next n bytes of in have a checksum.
func sumIs(in io.Reader, n int64, sum uint32) (bool, error) {
	h := crc32.New(castagnoli)
	_, err := io.CopyN(h, in, n)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil && h.Sum32() == sum, err
}

// begins reports whether the first n bytes of a file have a checksum.
func (s *source) begins(name string, n int64, sum uint32) (bool, error) {
	f, err := os.Open(s.pathOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, accessError(s.pathOf(name), err)
	}
	same, err := sumIs(f, n, sum)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, accessError(s.pathOf(name), err)
	}
	return same, nil
}

// ends returns the bytes on both sides of position n of a file.
func (s *source) ends(name string, n int64) (before, after byte, err error) {
	f, err := os.Open(s.pathOf(name))
	if err != nil {
		return 0, 0, accessError(s.pathOf(name), err)
	}
	var b [2]byte
	_, err = f.ReadAt(b[:], n-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, 0, accessError(s.pathOf(name), err)
	}
	return b[0], b[1], nil
}

// look queues new files. A plain directory that has not changed is listed now and
// then only.
func (r *reader) look() error {
	var modified time.Time
	begin := r.s.clock.Mono()
	if r.s.pattern == "" && !r.s.nested {
		info, err := os.Stat(r.s.base)
		if err != nil {
			return accessError(r.s.base, err)
		}
		modified = info.ModTime()
		if modified.Equal(r.listed) && r.s.clock.Now().Sub(modified) > settled && begin-r.listedAt < max(lookAgain, lookShare*r.listCost) {
			return nil
		}
	}
	files, err := r.s.list()
	if err != nil {
		return err
	}
	r.listed, r.listedAt = modified, begin
	r.queue, err = r.pending(files, false)
	r.listCost = r.s.clock.Mono() - begin
	return err
}

// pending returns those of the listed files that are to be read, in order. first
// says that it is the first list.
func (r *reader) pending(files []found, first bool) ([]found, error) {
	p := r.progress
	limit, limited := p.horizon(r.s.maxAge)
	var todo []found
	for _, f := range files {
		if p.Current != nil && f.Name == p.Current.Name {
			continue
		}
		if done, ok := p.names[f.Name]; ok {
			if done.identity == f.identity {
				continue
			}
			more, err := r.compare(done, &f)
			if err != nil {
				return nil, err
			}
			if more {
				todo = append(todo, f)
			}
			continue
		}
		if limited && f.Time < limit {
			if !first && !p.old[f.Name] {
				r.s.log.Warn("a new file is older than max_file_age allows; it is not read", "file", f.Name, "modified", f.modified())
			}
			p.old[f.Name] = true
			continue
		}
		todo = append(todo, f)
	}
	return todo, nil
}

// compare finds out what has become of a finished file and reports whether there
// is something to read.
func (r *reader) compare(done finished, f *found) (bool, error) {
	same := f.Size >= done.Size
	if same {
		var err error
		if same, err = r.s.begins(f.Name, done.Size, done.Sum); err != nil {
			return false, err
		}
	}
	f.again = true
	switch {
	case !same:
		f.gen = done.Gen + 1
		r.s.log.Warn("the path of a finished file belongs to another one, which is read from its beginning", "file", f.Name, "size", f.Size, "before", done.Size)
		return true, nil
	case f.Size == done.Size:
		r.s.log.Warn("a finished file was written again with the same content; it is not read again", "file", f.Name)
		return false, r.progress.touched(f.identity)
	}
	f.at, f.sum, f.gen = done.Size, done.Sum, done.Gen
	if done.Size > 0 {
		before, after, err := r.s.ends(f.Name, done.Size)
		if err != nil {
			return false, err
		}
		switch {
		case before == '\n':
		case after == '\n': // now the last line is ended
			f.at, f.sum = f.at+1, crc32.Update(f.sum, castagnoli, []byte{after})
		default:
			return false, fault.New(fault.Config, "file source: %s: the line that ended at byte %d when it was read, without a line end, goes on now; "+
				"write whole lines, or move files into place whole", f.Name, done.Size)
		}
	}
	r.s.log.Warn("a finished file has grown and is read on; files should be moved into place whole", "file", f.Name, "size", f.Size, "before", done.Size)
	return true, nil
}
