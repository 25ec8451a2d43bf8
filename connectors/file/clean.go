package file

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// Committed implements connectors.Reader. With clean_source it removes the files
// that a committed epoch has finished.
func (r *reader) Committed(_ context.Context, next connectors.Offset) error {
	if r.s.clean == "off" {
		return nil
	}
	var p progress
	if err := json.Unmarshal(next, &p); err != nil {
		return fault.Wrap(fault.Internal, err, "file source: a committed offset")
	}
	r.tidy(p.Done)
	return nil
}

// tidy removes finished files, each once. What cannot be removed stays and is
// not read again; that is worth a warning, not a failed query.
func (r *reader) tidy(done []finished) {
	if r.s.clean == "off" {
		return
	}
	for _, d := range done {
		f := d.identity
		if r.tidied[f] {
			continue
		}
		if r.tidied == nil {
			r.tidied = map[identity]bool{}
		}
		r.tidied[f] = true
		if err := r.s.remove(f); err != nil && !os.IsNotExist(err) {
			r.s.log.Warn("a finished file could not be cleaned up", slog.String("file", f.Name), slog.String("clean_source", r.s.clean), slog.Any("error", err))
		}
	}
	kept := map[identity]bool{} // forget what the offset has forgotten
	for _, f := range done {
		kept[f.identity] = true
	}
	r.tidied = kept
}

func (s *source) remove(f identity) error {
	path := s.pathOf(f.Name)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if identityOf(f.Name, info) != f {
		return nil // another file, or it goes on: that has not been read
	}
	if s.clean == "delete" {
		return os.Remove(path)
	}
	to := filepath.Join(s.archive, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil { // the umask decides
		return err
	}
	return os.Rename(path, to)
}
