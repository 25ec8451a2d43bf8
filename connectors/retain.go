package connectors

import "context"

// Retainer is implemented by replayable sources that can say whether they still
// hold what has been read from them: after damage of its checkpoint a query goes
// back to an older epoch by itself only if they do.
type Retainer interface {
	Source
	// Retains returns nil if everything from the offset on can be read again from
	// the partition, and otherwise an error that says what is missing. It waits for
	// the outside system until ctx ends.
	Retains(ctx context.Context, partition string, from Offset) error
}
