package epochs

import (
	"fmt"

	"github.com/streamd-io/streamd/messages"
)

// RecordError says that the commit record of an epoch is there but cannot be
// read. It is damage.
type RecordError struct {
	Epoch messages.Epoch
	Err   error
}

// Error names the record.
func (e *RecordError) Error() string {
	return fmt.Sprintf("commit record of epoch %d: %v", e.Epoch, e.Err)
}

// Unwrap returns the cause and ErrDamaged.
func (e *RecordError) Unwrap() []error { return []error{e.Err, ErrDamaged} }

// LostError says that an epoch newer than every commit record was committed: the
// sinks may have published it. It is damage.
type LostError struct {
	// Have is the newest epoch with a record, Lost the one that was committed; 0:
	// nobody knows which.
	Have, Lost messages.Epoch
	// Text says how it is known.
	Text string
}

// Error says what is missing.
func (e *LostError) Error() string { return e.Text }

// Unwrap returns ErrDamaged.
func (e *LostError) Unwrap() error { return ErrDamaged }

// NewestDamage returns the error among those that Segments.Committed has returned
// in err that is about a newer epoch than have, nil if there is none: damage of
// older records harms nobody who starts at have.
func NewestDamage(err error, have messages.Epoch) error {
	switch e := err.(type) { //nolint:errorlint // the whole tree is walked
	case nil:
		return nil
	case *RecordError:
		if e.Epoch <= have {
			return nil
		}
		return e
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if found := NewestDamage(part, have); found != nil {
				return found
			}
		}
		return nil
	case interface{ Unwrap() error }:
		if NewestDamage(e.Unwrap(), have) == nil {
			return nil
		}
	}
	return err
}
