package fault

import (
	"errors"
	"fmt"
)

// Kind is the kind of a failure. Its only purpose is to select a [Reaction].
type Kind uint8

const (
	// Internal is a broken invariant, a panic, or an error nobody classified.
	// It is the zero value: what is unknown is Internal.
	Internal Kind = iota
	// Transient is a failure that the same call may not meet again a moment
	// later: a lost connection, a time-out, a full buffer of a server. Use it
	// only where repeating the call is harmless.
	Transient
	// BadRow is a failure caused by the content of one row or payload. It
	// would fail again at every attempt.
	BadRow
	// Restart is a failure after which the attempt cannot go on but the query
	// can, from its last checkpoint: a full disk while a segment is written, a
	// source that was reset, a sink connection that lost its fence.
	Restart
	// Config is a mistake in what the user wrote or set up, or an outside
	// condition that only a person can change: a missing stream, refused
	// credentials, a checkpoint that does not fit the query.
	Config
)

// String returns the kind as one lower-case word, as used in logs and metrics.
func (k Kind) String() string {
	switch k {
	case Internal:
		return "internal"
	case Transient:
		return "transient"
	case BadRow:
		return "bad_row"
	case Restart:
		return "restart"
	case Config:
		return "config"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

// Action is what the engine does about a failure.
type Action uint8

const (
	// Fail stops the query for good and keeps its state and checkpoints. It is
	// the zero value.
	Fail Action = iota
	// Retry repeats the same call in place, with a growing pause and a cap on
	// the time spent; when the cap is reached the failure counts as Restart.
	Retry
	// ApplyRowPolicy applies the on_error option of the source to the row
	// (fail, null, drop, dead_letter). Above the first stateful operator there
	// is no such option, and the query fails.
	ApplyRowPolicy
	// RestartAttempt cancels the attempt and starts the next one from the last
	// committed epoch, with back-off and at most max_restarts times.
	RestartAttempt
)

// String returns the action in words, as used in logs.
func (a Action) String() string {
	switch a {
	case Fail:
		return "fail"
	case Retry:
		return "retry"
	case ApplyRowPolicy:
		return "apply row policy"
	case RestartAttempt:
		return "restart attempt"
	default:
		return fmt.Sprintf("action(%d)", uint8(a))
	}
}

// reactions is the whole error policy of the engine. Severity orders kinds for
// errors that were joined: the higher one decides.
var reactions = [...]struct {
	action   Action
	severity int
}{
	Transient: {Retry, 1},
	BadRow:    {ApplyRowPolicy, 2},
	Restart:   {RestartAttempt, 3},
	Config:    {Fail, 4},
	Internal:  {RestartAttempt, 5},
}

// Reaction is the single place that says what the engine does about an error:
//
//	kind       action          in words
//	Transient  Retry           the same call again, in place, with back-off; past the cap as Restart
//	BadRow     ApplyRowPolicy  on_error of the source: fail, null, drop or dead_letter; never a restart
//	Restart    RestartAttempt  next attempt from the last committed epoch, with back-off and a cap
//	Config     Fail            the query stops; a restart cannot help
//	Internal   RestartAttempt  as Restart: a panic or an unknown error may not come again; the cap ends it if it does
//
// A value that is none of the kinds is a bug of the engine and fails the query.
func Reaction(k Kind) Action {
	if int(k) >= len(reactions) {
		return Fail
	}
	return reactions[k].action
}

// severity orders kinds from the mildest to the worst reaction. Internal is
// above Config because nothing is known about it.
func severity(k Kind) int {
	if int(k) >= len(reactions) {
		k = Internal
	}
	return reactions[k].severity
}

// classified gives an error its kind.
type classified struct {
	kind Kind
	text string
	err  error // the cause; nil when the error starts here
}

func (e *classified) Error() string { return e.text }
func (e *classified) Unwrap() error { return e.err }

// New returns an error of the given kind. Format and args are those of
// fmt.Errorf, %w included. The text is lower case and says what was done to
// what, why it failed and, for a Config error, what to do.
func New(k Kind, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &classified{kind: k, text: err.Error(), err: err}
}

// Wrap gives err a kind and, when format is not empty, puts the formatted text
// and a colon before its text. It overrides a kind that err already has: the
// caller that wraps later knows more about what can be done. Wrap of nil is nil.
func Wrap(k Kind, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if format != "" {
		text = fmt.Sprintf(format, args...) + ": " + text
	}
	return &classified{kind: k, text: text, err: err}
}

// Kinder is implemented by error types of other packages that carry fields of
// their own (a position, a hint) and know their kind.
type Kinder interface {
	error
	FaultKind() Kind
}

// KindOf returns the kind of err, looking through everything that unwraps. An
// error is classified by New, by Wrap or by being a [Kinder]; in a chain the
// outermost classification counts. Where an error has several
// causes (errors.Join, several %w) the most severe one counts:
//
//	Transient < BadRow < Restart < Config < Internal
//
// A cause nobody classified is Internal, also beside classified ones; so
// classify what you join. KindOf(nil) has no meaning and returns Internal.
func KindOf(err error) Kind {
	for err != nil {
		// The tree is walked by hand because errors.AsType stops at the first
		// match and cannot compare the branches of a join.
		switch e := err.(type) { //nolint:errorlint // see above
		case *classified:
			return e.kind
		case Kinder:
			return e.FaultKind()
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return worst(e.Unwrap())
		default:
			return Internal
		}
	}
	return Internal
}

// worst returns the most severe kind among errs; nil entries do not count.
func worst(errs []error) Kind {
	found, top := false, Internal
	for _, err := range errs {
		if err == nil {
			continue
		}
		if k := KindOf(err); !found || severity(k) > severity(top) {
			found, top = true, k
		}
	}
	return top
}

// classed gives an error a class.
type classed struct {
	class string
	err   error
}

func (e *classed) Error() string { return e.err.Error() }
func (e *classed) Unwrap() error { return e.err }

// WithClass gives err a stable upper-case name such as DIVIDE_BY_ZERO or
// CAST_INVALID_INPUT, which users and tests may rely on. Text and kind stay
// the same. WithClass of nil is nil.
func WithClass(err error, class string) error {
	if err == nil {
		return nil
	}
	return &classed{class: class, err: err}
}

// ClassOf returns the outermost class of err, or "" if it has none. Of several
// causes the first that has a class counts.
func ClassOf(err error) string {
	if e, ok := errors.AsType[*classed](err); ok {
		return e.class
	}
	return ""
}
