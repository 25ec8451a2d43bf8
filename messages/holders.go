package messages

// Holders is the number of references on the batch, for tests that look for
// batches nobody released.
func (b *Batch) Holders() int { return int(b.refs.Load()) }
