package catalogstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages/fault"
)

// Catalog is the checkpoints of many queries in one store. The store is opened
// with the first query and stays open until Close. After a failed write every
// query must be opened again, and the first one to be reopens the store.
type Catalog struct {
	openBase func(context.Context) (epochs.Segments, error)
	mark     mark
	readOnly bool

	// io is held while the store below is used. It is taken before mu.
	io sync.Mutex

	// mu guards the fields below.
	mu    sync.Mutex
	cur   *book // nil: not open
	users map[string]*Query
	queue []*request
}

// request is changes that wait for being written.
type request struct {
	book    *book
	changes []change
	done    chan error
}

// New returns a catalog in the store that open opens, which never says that its
// newest epoch is lost. Nothing is opened yet.
func New(open func(context.Context) (epochs.Segments, error)) *Catalog { return NewIn("", open) }

// NewIn is New for a store in a directory. When the store says that its newest
// epoch is lost, which it may only if it can be rewound, every query is told, be it
// by another process: until that is on record a file in the directory keeps it.
func NewIn(dir string, open func(context.Context) (epochs.Segments, error)) *Catalog {
	return &Catalog{openBase: open, mark: mark{dir}, users: map[string]*Query{}}
}

// NewReadOnly is NewIn for a store that is open for reading only. Nothing in the
// directory is changed.
func NewReadOnly(dir string, open func(context.Context) (epochs.Segments, error)) *Catalog {
	c := NewIn(dir, open)
	c.readOnly = true
	return c
}

// Open opens the store of a query; the caller closes it. The error wraps
// epochs.ErrLocked if the query is open, or what opening the store below says.
func (c *Catalog) Open(ctx context.Context, query string) (*Query, error) {
	c.io.Lock()
	defer c.io.Unlock()
	b, err := c.book(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users[query] != nil {
		return nil, fault.Wrap(fault.Config, fmt.Errorf("query %q is open: %w", query, epochs.ErrLocked), "open checkpoint")
	}
	q := &Query{catalog: c, book: b, name: query}
	c.users[query] = q
	return q, nil
}

// book returns the open book; after a failed write it opens the store again. io
// is held.
func (c *Catalog) book(ctx context.Context) (*book, error) {
	c.mu.Lock()
	b := c.cur
	c.mu.Unlock()
	if b != nil {
		b.mu.RLock()
		failed := b.failed
		b.mu.RUnlock()
		if failed == nil {
			return b, nil
		}
		c.setBook(nil)
		if err := b.base.Close(); err != nil {
			return nil, fault.Wrap(fault.Restart, err, "close the catalog after a failed write")
		}
	}
	base, err := c.openBase(ctx)
	if err != nil {
		return nil, err
	}
	b, err = openBook(ctx, base, c.mark, c.readOnly)
	if err != nil {
		return nil, fault.Wrap(epochs.OpenKind(err), errors.Join(err, base.Close()), "open the catalog")
	}
	c.setBook(b)
	return b, nil
}

func (c *Catalog) setBook(b *book) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cur = b
}

// write makes changes durable, together with what others want to write at the
// same time.
func (c *Catalog) write(ctx context.Context, b *book, changes []change) error {
	r := &request{book: b, changes: changes, done: make(chan error, 1)}
	c.mu.Lock()
	c.queue = append(c.queue, r)
	c.mu.Unlock()
	c.io.Lock()
	defer c.io.Unlock()
	select {
	case err := <-r.done: // the one before has written it
		return err
	default:
	}
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	// What others want does not end with this caller's context.
	ctx = context.WithoutCancel(ctx)
	var all []change
	for _, x := range queue {
		if x.book == b {
			all = append(all, x.changes...)
		}
	}
	err := b.write(ctx, all)
	for _, x := range queue {
		if x.book == b {
			x.done <- err
		} else {
			x.done <- mustReopen(errors.New("a write of another query failed"))
		}
	}
	return <-r.done
}

func mustReopen(failed error) error {
	return fault.Wrap(fault.Restart, failed, "checkpoint must be reopened after a failed write")
}

// Queries lists the queries that have something in the catalog, in the order of
// their names.
func (c *Catalog) Queries(ctx context.Context) ([]string, error) {
	c.io.Lock()
	defer c.io.Unlock()
	b, err := c.book(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	var names []string
	for name, q := range b.queries {
		if len(q.records) > 0 || len(q.chains) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Remove durably forgets a query that is not open.
func (c *Catalog) Remove(ctx context.Context, query string) error {
	q, err := c.Open(ctx, query)
	if err != nil {
		return err
	}
	return errors.Join(q.forget(ctx), q.Close())
}

// Close closes the store below. No other call may be in progress, and no query
// can be used afterwards.
func (c *Catalog) Close() error {
	c.io.Lock()
	defer c.io.Unlock()
	c.mu.Lock()
	b := c.cur
	c.cur = nil
	c.mu.Unlock()
	if b == nil {
		return nil
	}
	_ = b.fail(errors.New("the catalog is closed"))
	return b.base.Close()
}
