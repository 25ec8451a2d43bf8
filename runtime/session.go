package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// Session defines sources, sinks and queries and runs them. Its methods are safe
// for concurrent use.
type Session struct {
	cfg      Config
	sys      *actors.System
	ownSys   bool
	registry *connectors.Registry
	stores   *stores
	ctx      context.Context
	cancel   context.CancelFunc
	watchers sync.WaitGroup
	// defining is held, before mu, while the catalog is changed.
	defining sync.Mutex

	// mu guards the fields below.
	mu        sync.Mutex
	closed    bool
	catalog   *catalog
	queries   []*Query // in the order of their start, ended ones included
	observers []Listener
	started   map[string]bool // names of queries that have run in this session
}

// Open starts a session. The session ends with Close; when ctx ends, its queries
// are stopped at once and go on from their checkpoints another time.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	cfg.defaults()
	reg, err := connectors.NewRegistry(cfg.Connectors, cfg.Formats)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "")
	}
	s := &Session{cfg: cfg, registry: reg, catalog: newCatalog(), sys: cfg.System, started: map[string]bool{}}
	if err := s.checkDefaults(); err != nil {
		return nil, err
	}
	if s.stores, err = openStores(&cfg); err != nil {
		return nil, err
	}
	if s.sys == nil {
		s.sys = actors.NewSystem(actors.SystemConfig{Log: cfg.Log})
		s.ownSys = true
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s, nil
}

// Close stops all queries at once, without losing anything, and waits until
// nothing of the session is left. Use Stop for a drain.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	queries := slices.Clone(s.queries)
	s.mu.Unlock()
	s.cancel()
	for _, q := range queries {
		<-q.runner.Done()
	}
	s.watchers.Wait()
	if s.ownSys {
		s.sys.Close()
	}
	return s.stores.close()
}

// Stop drains all queries: each stops reading, commits a final epoch and ends.
// When ctx ends first, the rest is stopped at once, and the error names them.
func (s *Session) Stop(ctx context.Context) error {
	var wg sync.WaitGroup
	queries := s.Queries()
	errs := make([]error, len(queries))
	for i, q := range queries {
		wg.Go(func() { errs[i] = q.Stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Queries lists the queries that have been started and not dropped, in the order
// of their start, those that are over included.
func (s *Session) Queries() []*Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

// Query returns the query of that name, nil if there is none.
func (s *Session) Query(name string) *Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(name)
}

func (s *Session) find(name string) *Query {
	for _, q := range s.queries {
		if q.name == name {
			return q
		}
	}
	return nil
}

// Active lists the queries that are not over.
func (s *Session) Active() []*Query {
	return slices.DeleteFunc(s.Queries(), func(q *Query) bool { return q.runner.State().Over() })
}

// Wait blocks until every query is over and returns the failures; or until ctx
// ends, and returns its error.
func (s *Session) Wait(ctx context.Context) error {
	var errs []error
	for _, q := range s.Queries() {
		if err := q.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return err
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// WaitAny blocks until one of the queries that run now is over and returns it.
func (s *Session) WaitAny(ctx context.Context) (*Query, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	active := s.Active()
	if len(active) == 0 {
		return nil, nil
	}
	over := make(chan *Query, len(active))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	for _, q := range active {
		s.watchers.Go(func() {
			select {
			case <-q.Done():
				over <- q
			case <-ctx.Done():
			}
		})
	}
	s.mu.Unlock()
	select {
	case q := <-over:
		return q, q.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Drop removes a query that is over, with its checkpoint.
func (s *Session) Drop(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.find(name)
	if q == nil {
		return fault.New(fault.Config, "there is no query %q", name)
	}
	if !q.runner.State().Over() {
		return fault.New(fault.Config, "query %q is running; stop it first", name)
	}
	s.queries = slices.DeleteFunc(s.queries, func(o *Query) bool { return o == q })
	return s.stores.drop(name)
}

// Fresh removes the checkpoint of a query that has not been started in this
// session, so that it begins anew.
func (s *Session) Fresh(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(name) != nil {
		return fault.New(fault.Config, "query %q has been started already", name)
	}
	return s.stores.drop(name)
}

// Stored lists the names of queries that have a checkpoint in the directory.
func (s *Session) Stored() ([]string, error) { return s.stores.stored() }

// Clock returns the session's source of time.
func (s *Session) Clock() connectors.Clock { return s.sys.Clock() }

var errClosed = fmt.Errorf("the session is closed")
