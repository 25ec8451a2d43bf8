package operator

import (
	"fmt"

	"github.com/streamd-io/streamd/messages"
)

// Expr is an expression compiled for one operator instance. It owns scratch
// memory and belongs to the operator's goroutine.
type Expr interface {
	// Type is the type of the result.
	Type() messages.Type
	// Eval evaluates the expression for the selected rows of b. The result has
	// b.Len() values, one per physical row; those of rows that are not selected
	// are unspecified. The column is either frozen (part of b, to be shared) or
	// scratch of the expression, valid until the next Eval; the caller may take
	// scratch away with Column.Swap, so Eval must not count on its content.
	// A row that cannot be evaluated gives a *RowError for the first such row.
	Eval(b *messages.Batch) (*messages.Column, error)
}

// RowError says which row of a batch an expression failed on.
type RowError struct {
	Row int // physical index
	Err error
}

// Error returns the cause's text.
func (e *RowError) Error() string { return e.Err.Error() }

// Unwrap returns the cause, a fault.BadRow.
func (e *RowError) Unwrap() error { return e.Err }

// ColumnRef is the expression that is column Index of its input. It is never
// copied.
type ColumnRef struct {
	Index int
	Of    messages.Type
}

// Type returns the column's type.
func (c ColumnRef) Type() messages.Type { return c.Of }

// Eval returns the column itself.
func (c ColumnRef) Eval(b *messages.Batch) (*messages.Column, error) {
	return b.Column(c.Index), nil
}

// String describes the reference.
func (c ColumnRef) String() string { return fmt.Sprintf("#%d", c.Index) }
