package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Location is the place in a running query where an error happened. Fields
// with their zero value are left out of the text.
type Location struct {
	Query    string // name of the query
	Operator string // name of the source, operator or sink inside the query
	Subtask  int    // index of the subtask, from 0, as in logs and metrics
	// Parallelism is the number of subtasks of the operator; 0 leaves the
	// subtask out, for errors of an operator as a whole.
	Parallelism int
	Epoch       uint64 // the epoch that was open or being persisted; 0: none
}

// String returns the text form, such as `query "orders": window[2/4]: epoch 118`.
func (l Location) String() string {
	parts := make([]string, 0, 3)
	if l.Query != "" {
		parts = append(parts, fmt.Sprintf("query %q", l.Query))
	}
	if l.Operator != "" {
		name := l.Operator
		if l.Parallelism > 0 {
			name = fmt.Sprintf("%s[%d/%d]", name, l.Subtask, l.Parallelism)
		}
		parts = append(parts, name)
	}
	if l.Epoch != 0 {
		parts = append(parts, fmt.Sprintf("epoch %d", l.Epoch))
	}
	return strings.Join(parts, ": ")
}

// LogValue returns the location as a group with the keys all log lines use:
// query, operator, subtask, epoch.
func (l Location) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 4)
	if l.Query != "" {
		attrs = append(attrs, slog.String("query", l.Query))
	}
	if l.Operator != "" {
		attrs = append(attrs, slog.String("operator", l.Operator))
	}
	if l.Parallelism > 0 {
		attrs = append(attrs, slog.Int("subtask", l.Subtask))
	}
	if l.Epoch != 0 {
		attrs = append(attrs, slog.Uint64("epoch", l.Epoch))
	}
	return slog.GroupValue(attrs...)
}

// located is an error with its place.
type located struct {
	loc Location
	err error
}

func (e *located) Error() string {
	at := e.loc.String()
	if at == "" {
		return e.err.Error()
	}
	return at + ": " + e.err.Error()
}

func (e *located) Unwrap() error { return e.err }

// At adds the place to err. The engine calls it where an error leaves an
// actor. An error that already has a place is returned as it is, because the
// first place is the one nearest to the cause. Kind and class stay the same.
// At of nil is nil.
func At(loc Location, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := LocationOf(err); ok {
		return err
	}
	return &located{loc: loc, err: err}
}

// LocationOf returns the place of err, if one was added.
func LocationOf(err error) (Location, bool) {
	if e, ok := errors.AsType[*located](err); ok {
		return e.loc, true
	}
	return Location{}, false
}
