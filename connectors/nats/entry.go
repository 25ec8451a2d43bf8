package nats

import (
	"sync"
	"time"

	"github.com/streamd-io/streamd/messages/fault"
)

// entryPatience is how long a server may refuse what it has accepted before:
// credentials, or a certificate, are replaced on one side first, and a service that
// a server asks about them may be away.
const entryPatience = 10 * time.Minute

// entry remembers whether the servers have let us in. Safe for concurrent use; the
// zero value is ready.
type entry struct {
	mu sync.Mutex
	// mu guards the fields below.
	known bool      // they have, in this process
	since time.Time // refused since, unless zero
}

// granted notes that a server has let us in.
func (e *entry) granted() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known, e.since = true, time.Time{}
}

// refused turns a refusal into an error that passes, for a while, if we have been
// let in before. Other errors are left alone.
func (e *entry) refused(err error) error {
	if fault.KindOf(err) != fault.Config {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known {
		return err
	}
	if e.since.IsZero() {
		e.since = time.Now()
	}
	left := entryPatience - time.Since(e.since)
	if left <= 0 {
		return err
	}
	later := fault.Wrap(fault.Transient, err, "refused by a server that has accepted it before, tried again for %v", left.Round(time.Second))
	return fault.WithClass(later, fault.ClassOf(err))
}
