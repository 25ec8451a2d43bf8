package runtime

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/catalogstore"
)

// reader opens checkpoints without changing them, wherever they are: in the
// query's own directory or in the catalog.
type reader struct {
	st      *stores
	catalog *catalogstore.Catalog
}

func newReader(dir string) *reader {
	r := &reader{st: &stores{dir: dir}}
	shared := filepath.Join(dir, catalogDir)
	r.catalog = catalogstore.NewReadOnly(shared, func(ctx context.Context) (epochs.Segments, error) {
		return badgerstore.OpenReadOnly(ctx, shared, badgerstore.Options{})
	})
	return r
}

// open opens the checkpoint of a query; fs.ErrNotExist: it has none.
func (r *reader) open(ctx context.Context, query string) (epochs.Segments, error) {
	s, err := badgerstore.OpenReadOnly(ctx, filepath.Join(r.st.path(query), "state"), badgerstore.Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	q, err := r.catalog.Open(ctx, query)
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (r *reader) close() error { return r.catalog.Close() }

// size is the number of bytes that a query's directory takes on disk.
func (r *reader) size(query string) int64 {
	var n int64
	_ = filepath.WalkDir(r.st.path(query), func(_ string, d fs.DirEntry, err error) error { // an estimate
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be seen does not count
		}
		if info, err := d.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				n += s.Blocks * 512
			}
		}
		return nil
	})
	return n
}

// checkIdentity looks at the query's identity.
func (r *reader) checkIdentity(query string) error {
	var id identity
	return readIdentity(filepath.Join(r.st.path(query), "IDENTITY"), &id)
}
