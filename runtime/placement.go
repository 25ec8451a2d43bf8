package runtime

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/catalogstore"
	"github.com/streamd-io/streamd/messages/fault"
)

// Where a query's checkpoint is: in the directory "state" of the query's own
// directory if there is one, else in the catalog that queries without state share.
// A query moves by making the copy first and then the directory appear or
// disappear, with one rename: at any moment one of the two counts, and what a crash
// leaves of the other is removed before it could. A checkpoint that holds state
// stays where it is.
const (
	catalogDir = "catalog"
	ownDir     = "state"
	// incoming and outgoing are what a move makes and leaves.
	incoming = ".new"
	outgoing = ".moved"
)

// place opens the checkpoint of a query, in the catalog if shared and possible,
// and moves it before if need be.
func (st *stores) place(ctx context.Context, query string, back, shared bool) (epochs.Segments, error) {
	own := filepath.Join(st.path(query), ownDir)
	for _, left := range []string{own + incoming, own + outgoing} {
		if err := os.RemoveAll(left); err != nil {
			return nil, fault.Wrap(epochs.OpenKind(err), err, "remove what a move of the checkpoint has left")
		}
	}
	exists, err := isThere(own)
	switch {
	case err != nil:
		return nil, fault.Wrap(epochs.OpenKind(err), err, "look for the checkpoint")
	case exists && shared:
		return st.moveToCatalog(ctx, query, own, back)
	case exists:
		return st.openOwn(ctx, own)
	case shared:
		return st.openShared(ctx, query)
	}
	return st.moveToOwn(ctx, query, own)
}

// openStored opens the checkpoint of a query where it is.
func (st *stores) openStored(ctx context.Context, query string) (epochs.Segments, error) {
	if st.dir == "" {
		return st.open(ctx, query, false, false)
	}
	if st.only != nil {
		return st.only.from.open(ctx, query)
	}
	own := filepath.Join(st.path(query), ownDir)
	exists, err := isThere(own)
	switch {
	case err != nil:
		return nil, fault.Wrap(epochs.OpenKind(err), err, "look for the checkpoint")
	case exists:
		return st.openOwn(ctx, own)
	}
	return st.openShared(ctx, query)
}

func isThere(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (st *stores) openOwn(ctx context.Context, own string) (epochs.Segments, error) {
	s, err := badgerstore.Open(ctx, own, badgerstore.Options{Log: st.cfg.Log, AllowLost: true})
	if err != nil {
		return nil, fault.Wrap(epochs.OpenKind(err), err, "open the checkpoint")
	}
	return s, nil
}

// openCatalog opens the store of the catalog, though it may have lost its newest
// epoch: the catalog tells each query.
func (st *stores) openCatalog(ctx context.Context) (epochs.Segments, error) {
	s, err := badgerstore.Open(ctx, filepath.Join(st.dir, catalogDir), badgerstore.Options{Log: st.cfg.Log, AllowLost: true})
	if err != nil {
		return nil, fault.Wrap(epochs.OpenKind(err), err, "open the checkpoint that the queries without state share")
	}
	return s, nil
}

// openShared opens a query in the catalog.
func (st *stores) openShared(ctx context.Context, query string) (epochs.Segments, error) {
	if err := st.clean(ctx); err != nil {
		return nil, err
	}
	return st.catalog.Open(ctx, query)
}

// clean removes, once, what interrupted moves have left in the catalog of queries
// that have a store of their own.
func (st *stores) clean(ctx context.Context) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cleaned {
		return nil
	}
	names, err := st.catalog.Queries(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		own, err := isThere(filepath.Join(st.path(name), ownDir))
		if err == nil && own {
			err = st.catalog.Remove(ctx, name)
		}
		if err != nil {
			return fault.Wrap(epochs.OpenKind(err), err, "tidy the checkpoint that the queries without state share")
		}
	}
	st.cleaned = true
	return nil
}

// step is a point at which a test interrupts a move.
func (st *stores) step(name string) error {
	if st.onStep == nil {
		return nil
	}
	return st.onStep(name)
}

// moveToCatalog moves a checkpoint without state into the catalog and opens it
// there. One with state, and one that is damaged or to go back, is opened where it
// is.
func (st *stores) moveToCatalog(ctx context.Context, query, own string, back bool) (epochs.Segments, error) {
	from, err := st.openOwn(ctx, own)
	if err != nil || back {
		return from, err
	}
	to, err := st.copyToCatalog(ctx, query, from)
	if errors.Is(err, catalogstore.ErrState) || errors.Is(err, epochs.ErrDamaged) {
		return from, nil // whoever reads it is told of the damage
	}
	if cerr := from.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = st.retire(own)
	}
	if err != nil {
		if to != nil {
			err = errors.Join(err, to.Close())
		}
		return nil, fault.Wrap(fault.Restart, err, "move the checkpoint to the one that the queries without state share")
	}
	return to, nil
}

func (st *stores) copyToCatalog(ctx context.Context, query string, from epochs.Segments) (epochs.Segments, error) {
	if err := catalogstore.Movable(ctx, from); err != nil {
		return nil, err
	}
	if err := st.clean(ctx); err != nil {
		return nil, err
	}
	if err := st.catalog.Remove(ctx, query); err != nil {
		return nil, err
	}
	to, err := st.catalog.Open(ctx, query)
	if err != nil {
		return nil, err
	}
	if err = st.step("opened"); err == nil {
		err = catalogstore.Copy(ctx, from, to)
	}
	if err == nil {
		err = st.step("copied")
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

// retire makes a query's own store disappear.
func (st *stores) retire(own string) error {
	if err := os.Rename(own, own+outgoing); err != nil {
		return err
	}
	if err := st.step("renamed"); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(own)); err != nil {
		return err
	}
	return os.RemoveAll(own + outgoing)
}

// moveToOwn opens a store of the query's own, with what the catalog holds of it.
func (st *stores) moveToOwn(ctx context.Context, query, own string) (epochs.Segments, error) {
	known, err := isThere(filepath.Join(st.dir, catalogDir))
	if err != nil {
		return nil, fault.Wrap(epochs.OpenKind(err), err, "look for the shared checkpoint")
	}
	if known {
		if err := st.copyToOwn(ctx, query, own); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "move the checkpoint to a directory of its own")
		}
	}
	return st.openOwn(ctx, own)
}

func (st *stores) copyToOwn(ctx context.Context, query, own string) error {
	from, err := st.openShared(ctx, query)
	if err != nil {
		return err
	}
	empty, err := st.fill(ctx, from, own+incoming)
	if err = errors.Join(err, from.Close()); err != nil || empty {
		return err
	}
	if err := st.step("copied"); err != nil {
		return err
	}
	if err := os.Rename(own+incoming, own); err != nil {
		return fault.Wrap(fault.Restart, err, "")
	}
	if err := st.step("renamed"); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(own)); err != nil {
		return fault.Wrap(fault.Restart, err, "")
	}
	return st.catalog.Remove(ctx, query)
}

// fill copies a checkpoint to a new directory; empty says that there is none.
func (st *stores) fill(ctx context.Context, from epochs.Segments, dir string) (empty bool, err error) {
	if records, highest, err := from.Committed(ctx); err != nil || len(records) == 0 && highest == 0 {
		return true, err
	}
	to, err := badgerstore.Open(ctx, dir, badgerstore.Options{Log: st.cfg.Log})
	if err != nil {
		return false, err
	}
	return false, errors.Join(catalogstore.Copy(ctx, from, to), to.Close())
}

// shared lists the queries that the catalog has something of, also those whose own
// directory is gone.
func (st *stores) shared(ctx context.Context) ([]string, error) {
	if st.dir == "" {
		return nil, nil
	}
	there, err := isThere(filepath.Join(st.dir, catalogDir))
	if err != nil || !there {
		return nil, err
	}
	return st.catalog.Queries(ctx)
}

// forget removes a query from the catalog, if there is one.
func (st *stores) forget(ctx context.Context, query string) error {
	there, err := isThere(filepath.Join(st.dir, catalogDir))
	if err != nil || !there {
		return err
	}
	return st.catalog.Remove(ctx, query)
}

// syncDir makes what has been renamed in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
