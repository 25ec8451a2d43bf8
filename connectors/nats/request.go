package nats

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// request is a call in progress.
type request struct {
	what  string
	limit time.Duration
	rows  bool // it publishes rows

	cancel context.CancelFunc
	denied error // a permission was refused meanwhile
	doubt  bool  // and another call may have asked for it
}

// refuse notes that the server has refused a permission. It says so without naming
// the request, which would wait for its deadline. All that it can have been end; if
// they are several, they may be tried again, as the one to blame will be refused
// again. The refusal of a row's subject concerns who publishes rows.
func (l *link) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denied = err
	var hit []*request
	for r := range l.calls {
		if r.rows || !l.ofRow(err) {
			hit = append(hit, r)
		}
	}
	for _, r := range hit {
		r.denied, r.doubt = err, len(hit) > 1
		r.cancel()
	}
}

// ofRow reports whether a refusal names the subject of a row, and of no request to
// the server and no marker.
func (l *link) ofRow(err error) bool {
	_, text, _ := strings.Cut(err.Error(), "Permissions Violation for Publish ")
	subject, ok := quotedBehind(text, "to ")
	switch {
	case !ok:
		return false
	case strings.HasPrefix(strings.TrimPrefix(subject, l.api), "$KV."): // a leaf node maps l.api away
		return true
	}
	return !strings.HasPrefix(subject, "$JS.") && !strings.HasPrefix(subject, "streamd.")
}

// refused returns the last permission that was refused, nil if none was.
func (l *link) refused() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denied
}

// call runs one request with a deadline and classifies its error.
func (l *link) call(ctx context.Context, what string, f func(context.Context) error) error {
	return l.callWithin(ctx, apiTimeout, what, f)
}

// callWithin is call for requests that may take longer.
func (l *link) callWithin(ctx context.Context, limit time.Duration, what string, f func(context.Context) error) error {
	return l.run(ctx, &request{limit: limit, what: what}, f)
}

func (l *link) run(ctx context.Context, r *request, f func(context.Context) error) error {
	c, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	r.cancel = cancel
	l.mu.Lock()
	l.calls[r] = struct{}{}
	l.mu.Unlock()
	err := f(c)
	l.mu.Lock()
	delete(l.calls, r)
	denied, doubt := r.denied, r.doubt
	l.mu.Unlock()
	switch {
	case err == nil:
		l.enabled.granted()
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.KindOf(err) != fault.Internal:
		return err // f knows better
	case denied != nil && doubt:
		return fault.WithClass(fault.Wrap(fault.Transient, denied, "%s, or something else at the same time", r.what), classPermission)
	case denied != nil:
		return fault.WithClass(fault.Wrap(fault.Config, denied, "%s", r.what), classPermission)
	}
	err = classify(r.what, err)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		// A server that is stopped takes it away before it closes connections.
		return l.enabled.refused(err)
	}
	return err
}
