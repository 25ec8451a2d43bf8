package connectors

// Keyed is implemented by sinks that keep the last row per key, such as a
// key-value bucket. It is looked up once, by the planner.
type Keyed interface {
	Sink
	// Key lists what the key of a row is made from. Rows with equal values there
	// have the same key, others do not.
	Key() []KeyPart
}

// KeyPart is a column of the result, or a field of one, inside a key.
type KeyPart struct {
	Column int    // index in the schema the sink was made with
	Field  string // of a column of type struct; "" means the column itself
}
