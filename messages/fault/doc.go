// Package fault says what kind of failure an error is, and with that what the
// engine does about it.
//
// Code that knows why something went wrong classifies the error once, close to
// the cause:
//
//	return fault.Wrap(fault.Transient, err, "publish to %q", subject)
//	return fault.New(fault.Config, "option %q: %d is below 1; give the number of partitions", "partitions", n)
//
// Code in between wraps with fmt.Errorf and %w as usual. The engine asks
// [KindOf] and looks up [Reaction]; nothing ever matches on error texts. An
// error nobody classified is [Internal]: it ends the attempt, and the cap on
// restarts ends the query if it keeps coming back.
//
// The engine adds the place once, with [At], so that connectors and operators
// do not repeat it:
//
//	query "orders": window[2/4]: epoch 118: persist segment: no space left
//
// The end of an attempt by cancellation is not a failure. Callers test
// context.Canceled before they ask for a kind.
//
// The package also holds two things that every layer needs and that have no
// dependencies: [Secret], a string that no printer shows, and [Inject], named
// points at which a test build (-tags fault) can make the engine fail.
//
// Everything here is safe for concurrent use. The package imports nothing of
// this module, so every other package may import it.
package fault
