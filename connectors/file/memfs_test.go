package file

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// memFS is a file system that forgets what was not synced when it crashes.
type memFS struct {
	mu      sync.Mutex
	dirs    map[string]bool
	entries map[string]*inode // as programs see them
	durable map[string]*inode // as they are after a crash
	fail    error             // what every call returns, if not nil
	calls   []string
}

type inode struct {
	data   []byte
	synced []byte
}

func newMemFS() *memFS {
	return &memFS{dirs: map[string]bool{}, entries: map[string]*inode{}, durable: map[string]*inode{}}
}

// crash drops what was not synced. With r, some of it stays by chance, as it
// does when a system writes back on its own.
func (m *memFS) crash(r *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	chance := func() bool { return r != nil && r.IntN(2) == 0 }
	after := map[string]*inode{}
	placed := map[*inode]bool{}
	put := func(name string, n *inode) {
		if placed[n] { // a file has one name
			return
		}
		placed[n] = true
		data := append([]byte(nil), n.synced...)
		if chance() && len(n.data) > len(data) {
			data = append(data, n.data[len(data):len(data)+r.IntN(len(n.data)-len(data)+1)]...)
		}
		after[name] = &inode{data: data, synced: data}
	}
	for name, n := range m.entries {
		if m.durable[name] == n || chance() {
			put(name, n)
		}
	}
	for name, n := range m.durable {
		if m.entries[name] != n {
			put(name, n)
		}
	}
	m.entries = after
	m.durable = map[string]*inode{}
	for name, n := range after {
		m.durable[name] = n
	}
}

func (m *memFS) call(what, name string) error {
	m.calls = append(m.calls, what+" "+filepath.Base(name))
	return m.fail
}

func (m *memFS) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirs[dir] = true
	return m.call("mkdir", dir)
}

func (m *memFS) Create(name string) (writeFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("create", name); err != nil {
		return nil, err
	}
	if m.entries[name] != nil {
		return nil, fs.ErrExist
	}
	n := &inode{}
	m.entries[name] = n
	return &memFile{m, n, false}, nil
}

func (m *memFS) Truncate(name string, size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("truncate", name); err != nil {
		return err
	}
	n := m.entries[name]
	if n == nil {
		return fs.ErrNotExist
	}
	n.data = n.data[:size:size]
	n.synced = append([]byte(nil), n.data...)
	return nil
}

func (m *memFS) Size(name string) (int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.entries[name]; n != nil {
		return int64(len(n.data)), true, m.fail
	}
	return 0, false, m.fail
}

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("rename", to); err != nil {
		return err
	}
	n := m.entries[from]
	if n == nil {
		return fs.ErrNotExist
	}
	delete(m.entries, from)
	m.entries[to] = n
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("remove", name); err != nil {
		return err
	}
	delete(m.entries, name)
	return nil
}

func (m *memFS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("syncdir", dir); err != nil {
		return err
	}
	for name := range m.durable {
		if filepath.Dir(name) == dir {
			delete(m.durable, name)
		}
	}
	for name, n := range m.entries {
		if filepath.Dir(name) == dir {
			m.durable[name] = n
		}
	}
	return nil
}

func (m *memFS) Names(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]bool{}
	for name := range m.entries {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			found[first] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), m.fail
}

// visible returns the content of the files that are not hidden, by name.
func (m *memFS) visible() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := map[string]string{}
	for name, n := range m.entries {
		if !strings.HasPrefix(filepath.Base(name), ".") {
			files[strings.TrimPrefix(name, "/out/")] = string(n.data)
		}
	}
	return files
}

type memFile struct {
	m      *memFS
	n      *inode
	closed bool
}

func (f *memFile) Write(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if f.m.fail != nil {
		return 0, f.m.fail
	}
	f.n.data = append(f.n.data, p...)
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.n.synced = append([]byte(nil), f.n.data...)
	return f.m.fail
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return errors.New("closed twice")
	}
	f.closed = true
	return nil
}
