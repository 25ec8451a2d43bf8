package fault

import "fmt"

// Panic is a recovered panic. Its kind is always Internal, whatever value was
// thrown: the code that panicked left its state in an unknown condition.
type Panic struct { //nolint:errname // it is a panic; PanicError says no more
	// Stack is the text of debug.Stack, taken while the panicking frames were
	// still there. Error does not show it; whoever logs the error does.
	Stack []byte

	text string
	err  error // the thrown value, if it was an error
}

// Error returns "panic: " and the thrown value.
func (p *Panic) Error() string { return "panic: " + p.text }

// Unwrap returns the thrown value if it was an error, so that errors.Is works.
func (p *Panic) Unwrap() error { return p.err }

// FaultKind returns Internal.
func (p *Panic) FaultKind() Kind { return Internal }

// Recovered turns what recover returned into an error. The stack is kept, not
// copied. A nil value means that there was no panic and gives nil, so this is
// a complete guard:
//
//	defer func() {
//		if v := recover(); v != nil {
//			err = fault.Recovered(v, debug.Stack())
//		}
//	}()
func Recovered(v any, stack []byte) error {
	if v == nil {
		return nil
	}
	// The text is made now: later the value may have changed. fmt.Sprint also
	// survives a value whose Error or String method panics.
	p := &Panic{Stack: stack, text: fmt.Sprint(v)}
	p.err, _ = v.(error)
	return p
}
