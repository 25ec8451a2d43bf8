package runtime

// Listener is told what happens to the queries of a session. Its methods are
// called one at a time per query, on goroutines of the engine, and must not
// block; nothing of the query may be called from inside but its accessors.
type Listener interface {
	OnStarted(q *Query)
	OnProgress(q *Query, p *Progress)
	// OnTerminated is called once when the query is over; err is nil if it ended
	// well or was stopped.
	OnTerminated(q *Query, err error)
}

// AddListener adds a listener for the queries started from now on and those
// that run.
func (s *Session) AddListener(l Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Copied on write: listeners are read without the lock held.
	s.observers = append(append([]Listener(nil), s.observers...), l)
}

func (s *Session) listeners() []Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.observers
}
