package runtime

import (
	"errors"
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/deploy"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// ErrStopped is returned by calls on a query that was stopped.
var ErrStopped = errors.New("the query was stopped")

// Incompatible reports whether err says that a query cannot go on from its
// checkpoint: it does not fit the query, is damaged or of a newer version, or going
// back to an older epoch would repeat rows.
func Incompatible(err error) bool {
	for _, why := range []error{deploy.ErrIncompatible, connectors.ErrForeignOffset, deploy.ErrDuplicates, epochs.ErrDamaged, epochs.ErrNewerFormat} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// Diagnostic is one fault in a script.
type Diagnostic struct {
	// Class is a stable name such as UNRESOLVED_COLUMN.
	Class   string
	Message string
	Hint    string
	// Line and Column count from 1, columns in characters.
	Line, Column int
	text         string
}

// String shows the fault as "line:column: CLASS: text", with the line and a
// caret below.
func (d Diagnostic) String() string { return d.text }

// ScriptError lists all faults found in a script. Nothing of the script was
// carried out.
type ScriptError struct {
	Diagnostics []Diagnostic
}

// Error shows all faults.
func (e *ScriptError) Error() string {
	parts := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		parts[i] = d.text
	}
	return strings.Join(parts, "\n")
}

// FaultKind says that repeating the script does not help.
func (e *ScriptError) FaultKind() fault.Kind { return fault.Config }

// scriptError renders the errors of a script called name.
func scriptError(name, src string, errs []*sql.Error) error {
	if len(errs) == 0 {
		return nil
	}
	out := &ScriptError{}
	src, hide := redact(src)
	for _, e := range errs {
		shown := *e
		shown.Msg, shown.Hint = hide(e.Msg), hide(e.Hint)
		line, col := sql.Position(src, e.Span.Start)
		out.Diagnostics = append(out.Diagnostics, Diagnostic{
			Class: e.Class, Message: shown.Msg, Hint: shown.Hint, Line: line, Column: col,
			text: strings.TrimRight(sql.Render(name, src, &shown), "\n"),
		})
	}
	return out
}

// Class returns the stable name of the error class of err, "" if it has none.
func Class(err error) string {
	if se, ok := errors.AsType[*ScriptError](err); ok && len(se.Diagnostics) > 0 {
		return se.Diagnostics[0].Class
	}
	return fault.ClassOf(err)
}

func configError(span sql.Span, class, format string, args ...any) *sql.Error {
	return &sql.Error{Class: class, Msg: fmt.Sprintf(format, args...), Span: span}
}
