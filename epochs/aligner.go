package epochs

import (
	"fmt"

	"github.com/streamd-io/streamd/messages"
)

// Aligner decides, for one subtask, whose elements may be processed while a
// marker travels through its inputs. An input that has delivered the marker is
// held back until all others have. It is a pure state machine for one
// goroutine.
type Aligner struct {
	arrived []bool
	count   int
	marker  messages.Marker
	last    messages.Epoch
}

// NewAligner returns the aligner of a subtask with the given number of inputs.
// last is the epoch the attempt was restored from.
func NewAligner(inputs int, last messages.Epoch) *Aligner {
	return &Aligner{arrived: make([]bool, inputs), last: last}
}

// Held reports whether elements of the input must wait: it has delivered the
// current marker and others have not.
func (a *Aligner) Held(input int) bool { return a.arrived[input] }

// Aligning reports whether at least one input has delivered a marker that was
// not released yet.
func (a *Aligner) Aligning() bool { return a.count > 0 }

// Marker notes a marker on an input and reports whether the inputs are aligned:
// the subtask then freezes, forwards the marker and calls Release. Markers must
// be equal on all inputs and grow.
func (a *Aligner) Marker(input int, m messages.Marker) (aligned bool, err error) {
	switch {
	case a.arrived[input]:
		return false, fmt.Errorf("epochs: input %d delivered marker %d while marker %d is being aligned", input, m.Epoch, a.marker.Epoch)
	case a.count == 0 && m.Epoch <= a.last:
		return false, fmt.Errorf("epochs: input %d delivered marker %d after epoch %d", input, m.Epoch, a.last)
	case a.count > 0 && m != a.marker:
		return false, fmt.Errorf("epochs: input %d delivered marker %+v, others %+v", input, m, a.marker)
	}
	a.marker = m
	a.arrived[input] = true
	a.count++
	return a.count == len(a.arrived), nil
}

// Release ends the alignment: all inputs may be processed again.
func (a *Aligner) Release() {
	clear(a.arrived)
	a.count = 0
	a.last = a.marker.Epoch
}
