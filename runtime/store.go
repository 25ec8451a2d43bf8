package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/catalogstore"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages/fault"
)

// stores opens the checkpoint stores of a session's queries: directories below
// Dir, or memory.
type stores struct {
	dir     string // "" for memory
	lock    *os.File
	cfg     *Config
	catalog *catalogstore.Catalog
	only    *Checkpoints // of a session that only reads
	// onStep, if not nil, interrupts moves; for tests.
	onStep func(step string) error

	// mu guards the fields below.
	mu         sync.Mutex
	memory     map[string]*memstore.Disk
	identities map[string]identity
	cleaned    bool // the catalog holds nothing of queries with a store of their own
}

func openStores(cfg *Config) (*stores, error) {
	st := &stores{dir: cfg.Dir, cfg: cfg, memory: map[string]*memstore.Disk{}, identities: map[string]identity{}}
	st.catalog = catalogstore.NewIn(filepath.Join(cfg.Dir, catalogDir), st.openCatalog)
	if cfg.Dir == "" {
		return st, nil
	}
	if cfg.ReadOnly {
		c, err := OpenCheckpoints(cfg.Dir)
		st.only = c
		return st, err
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "queries"), 0o700); err != nil {
		return nil, fault.Wrap(fault.Config, err, "checkpoint directory")
	}
	f, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	st.lock = f
	if err := st.finishDrops(); err != nil {
		return nil, errors.Join(fault.Wrap(fault.Config, err, "checkpoint directory"), st.close())
	}
	return st, nil
}

// droppedPrefix marks the directory of a query that is being removed. No query's
// directory begins with a dot.
const droppedPrefix = ".dropped-"

// finishDrops removes what a drop has left that was interrupted.
func (st *stores) finishDrops() error {
	entries, err := os.ReadDir(filepath.Join(st.dir, "queries"))
	for _, e := range entries {
		name, dropped := strings.CutPrefix(e.Name(), droppedPrefix)
		if err != nil || !dropped {
			continue
		}
		if name, err = url.PathUnescape(name); err == nil {
			err = st.finishDrop(name)
		}
	}
	return err
}

// finishDrop removes what is left of a query whose directory has been set aside.
func (st *stores) finishDrop(query string) error {
	if there, err := isThere(st.aside(query)); err != nil || !there {
		return err
	}
	return st.erase(query)
}

// erase removes a query from the catalog and then its directory, which has been set
// aside if there was one.
func (st *stores) erase(query string) error {
	if err := st.forget(context.Background(), query); err != nil {
		return err
	}
	return os.RemoveAll(st.aside(query))
}

// aside is where the directory of a query is while it is being removed.
func (st *stores) aside(query string) string {
	return filepath.Join(st.dir, "queries", droppedPrefix+queryDir(query))
}

// lockDir takes the lock of a checkpoint directory and writes the pid into it.
// The lock ends with the process, however it ends.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "LOCK")
	// The file is truncated below: never one that a link leads to.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fault.New(fault.Config, "%s is a symbolic link; remove it", path)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "lock the checkpoint directory")
	}
	if err := flockDir(f, dir, "stop it or choose another directory with --dir"); err != nil {
		return nil, err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // the number is for people
		_ = f.Close() // the write error is the one that matters
		return nil, fault.Wrap(fault.Config, err, "write %s", path)
	}
	return f, nil
}

// flockDir locks an open lock file; when it fails the file is closed. The error
// for a directory in use ends with advice.
func flockDir(f *os.File, dir, advice string) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return nil
	}
	pid := make([]byte, 32)
	n, rerr := f.ReadAt(pid, 0)
	_ = f.Close() // nothing was written
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return fault.Wrap(fault.Config, err, "lock %s", f.Name())
	}
	who := "another process"
	if n > 0 || rerr == nil {
		who = "process " + strings.TrimSpace(string(bytes.TrimRight(pid[:n], "\x00")))
	}
	return fault.Wrap(fault.Config, epochs.ErrLocked, "%s is used by %s; %s", dir, who, advice)
}

func (st *stores) close() error {
	if st.only != nil {
		return st.only.Close()
	}
	if st.lock == nil {
		return nil
	}
	return errors.Join(st.catalog.Close(), st.lock.Close())
}

// path is the directory of a query; the name is escaped so that it is one
// element whatever it holds.
func (st *stores) path(query string) string {
	return filepath.Join(st.dir, "queries", queryDir(query))
}

func queryDir(query string) string {
	esc := url.PathEscape(query)
	if strings.HasPrefix(esc, ".") {
		esc = "%2E" + esc[1:]
	}
	return esc
}

// maxDir is how long the name of a query's directory may be: file systems take 255
// bytes, and one that is being removed has a prefix.
const maxDir = 255 - len(droppedPrefix)

// checkName returns what is wrong with the name of a query, "" if nothing is. The
// verdict is the same whether checkpoints are in memory or in files.
func checkName(query string) string {
	switch n := len(queryDir(query)); {
	case query == "":
		return "the query needs a name: its checkpoint is found under it"
	case !utf8.ValidString(query):
		return fmt.Sprintf("the name of a query must be UTF-8, %q is not", query)
	case n > maxDir:
		return fmt.Sprintf("the name of a query is too long: that of its directory would have %d bytes, at most %d are possible (%.40q...)", n, maxDir, query)
	}
	return ""
}

// open opens the store of a query. back says that the query is to go back to an
// older epoch, so that newer ones may be missing; shared that it has no state, so
// that its records can be in the catalog.
func (st *stores) open(ctx context.Context, query string, back, shared bool) (epochs.Segments, error) {
	if st.dir == "" {
		st.mu.Lock()
		d := st.memory[query]
		if d == nil {
			d = memstore.New(memstore.Options{})
			st.memory[query] = d
		}
		st.mu.Unlock()
		return d.Open()
	}
	if err := st.found(query); err != nil {
		return nil, fault.Wrap(epochs.OpenKind(err), fullDisk(err), "checkpoint directory of query %q", query)
	}
	// A drop may have failed half-way in this session.
	if err := st.finishDrop(query); err != nil {
		return nil, fault.Wrap(fault.Restart, err, "remove an earlier checkpoint of query %q", query)
	}
	return st.place(ctx, query, back, shared)
}

// writeDurably replaces a small file: after it returns the new content survives
// a power cut, before that the old one does.
func writeDurably(path string, data []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// stored lists the queries that have a checkpoint below Dir.
func (st *stores) stored() ([]string, error) {
	if st.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Join(st.dir, "queries"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, err := url.PathUnescape(e.Name()); err == nil && e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// drop removes the checkpoint of a query that does not run: all of it, or nothing
// if the process dies.
func (st *stores) drop(query string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.memory, query)
	delete(st.identities, query)
	if st.dir == "" {
		return nil
	}
	if err := os.Rename(st.path(query), st.aside(query)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return st.erase(query) // the catalog may have records of a query without a directory
}
