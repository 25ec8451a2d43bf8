package connectors

import (
	"errors"
	"fmt"

	"github.com/streamd-io/streamd/messages/fault"
)

// ErrForeignOffset marks an offset that is not one of the source as it is
// configured now: to read on from it would repeat or skip rows.
var ErrForeignOffset = errors.New("the position is not one of this source")

// OffsetChecker is implemented by sources whose partitions keep their names when
// the source is made to read something else.
type OffsetChecker interface {
	Source
	// CheckOffset returns nil if the partition can be read on from the offset, and
	// otherwise an error of Foreign. It does not connect; Open refuses the same.
	CheckOffset(partition string, from Offset) error
}

// Foreign returns an error that wraps ErrForeignOffset. The text says what differs
// and how to set it back; the engine says how to start anew.
func Foreign(format string, args ...any) error {
	return &foreign{text: fmt.Sprintf(format, args...)}
}

type foreign struct{ text string }

func (e *foreign) Error() string         { return e.text }
func (e *foreign) Unwrap() error         { return ErrForeignOffset }
func (e *foreign) FaultKind() fault.Kind { return fault.Config }
