package epochs

import "github.com/streamd-io/streamd/messages"

// Record is the commit record of one epoch: with it the epoch exists, without
// it nothing of the epoch does. It is written last and by compare-and-set on
// its predecessor. EncodeRecord and DecodeRecord have the encoding.
type Record struct {
	Epoch, Prev messages.Epoch
	Attempt     uint64
	Query       string
	// Incarnation is the query's random identity, drawn when it first started.
	Incarnation messages.ID128
	// WallMicros is when the record was made (information only).
	WallMicros int64
	// Final tells that the query ended in good order with this epoch.
	Final bool
	Plan  Plan
	// Sources has an entry per source and partition.
	Sources []SourceState
	// Sinks has the tokens of sink commits that may not be confirmed yet.
	Sinks []SinkState
	// Chains has an entry per operator and key group that has state.
	Chains []Chain
	// Counters balance per operator; see package operator.
	Counters []Counters
	// Ranges has, for the few operators whose subtasks had reached different
	// watermarks, the one of each range of key groups.
	Ranges []RangeWatermark
}

// RangeWatermark is the watermark that the key groups [From, To) of an operator
// had been brought to.
type RangeWatermark struct {
	Operator  string
	From, To  uint16
	Watermark messages.EventTime // NoEventTime: none yet
}

// Plan identifies what ran: enough to decide whether another plan may go on
// from this record.
type Plan struct {
	Fingerprint string // of the whole plan, for information
	// HashVersion names the key hash; groups are only comparable under one hash.
	HashVersion uint32
	// Operators lists the stateful operators.
	Operators []OperatorState
	// MaxWatermark says that the watermark of several inputs is the highest of
	// theirs, not the lowest. It holds for the life of a checkpoint.
	MaxWatermark bool
}

// OperatorState describes a stateful operator's state.
type OperatorState struct {
	UID    string
	Kind   string // "aggregate", "session", ...
	Schema string // keys, aggregates and window in one canonical line
	Format uint32 // version of the state's encoding
}

// SourceState is the position of one source partition.
type SourceState struct {
	Source, Partition string
	Offset            []byte
	Watermark         messages.EventTime // NoEventTime: none yet
	Idle, Ended       bool
	Rows              uint64 // rows read since the query first started
}

// SinkState is a sink's token.
type SinkState struct {
	Sink  string
	Epoch messages.Epoch
	Token []byte
}

// Chain says which segments make up one key group at the record's epoch, so
// that a lost or damaged one is noticed: the segments of (Operator, Group) from
// epoch Base on are Segments in number and the checksum chained over them is Sum.
type Chain struct {
	Operator string
	Group    uint16
	Base     messages.Epoch
	Last     messages.Epoch
	Segments uint32
	Sum      uint64
	// BaseBytes and DeltaBytes steer when the next base is due.
	BaseBytes, DeltaBytes int64
}

// Counters account for the rows of one node of the query, a source, an operator
// or a sink, since the query first started; see Balance.
type Counters struct {
	Operator string
	// Rule and Inputs let the counters be checked. Inputs are the nodes whose rows
	// the node takes, all of them and nothing else; nil: not to be checked.
	Rule    RowRule
	Inputs  []string
	In, Out uint64
	// Late rows were behind the watermark; Filtered ones failed a predicate or a
	// rule; Bad ones raised an error and were not kept; Absorbed ones went into
	// state; Deduplicated ones had been seen.
	Late, Filtered, Bad, Absorbed, Deduplicated uint64
	// Adopted rows were found already published after a restart; Evicted is the
	// number of state entries dropped by the watermark.
	Adopted, Evicted uint64
	// StateRows and StateBytes are what the operator holds at the epoch.
	StateRows, StateBytes int64
	// Watermark is the combined watermark the operator's subtasks had reached, the
	// lowest if they differ (see Record.Ranges); NoEventTime: none yet.
	Watermark messages.EventTime
}

// AddRows adds the row counts of d to c; what c holds and its watermark stay.
func (c *Counters) AddRows(d Counters) {
	c.In += d.In
	c.Out += d.Out
	c.Late += d.Late
	c.Filtered += d.Filtered
	c.Bad += d.Bad
	c.Absorbed += d.Absorbed
	c.Deduplicated += d.Deduplicated
	c.Adopted += d.Adopted
	c.Evicted += d.Evicted
}
