package actors

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// The messages between the actors of one attempt. They are pointers; a message
// belongs to its receiver.

// elementMsg carries one element of an edge. seq counts the elements of one
// (producer, consumer) pair from 1, so that a loss is noticed.
type elementMsg struct {
	attempt uint64
	input   int // index of the inlet at the consumer
	seq     uint64
	el      messages.Element
}

// creditMsg returns credit to the producer.
type creditMsg struct {
	attempt uint64
	outlet  int // index of the outlet at the producer
	batches int
	bytes   int
}

// wireMsg tells a subtask its neighbours and lets it open its operators.
type wireMsg struct {
	outs [][]*actor.PID // per link of the stage, the consumer's subtasks
	ins  []inletRef
}

// inletRef is the other end of an inlet.
type inletRef struct {
	pid    *actor.PID
	outlet int
	input  int // which input of the first operator
}

type (
	// openedMsg: the subtask's worker has opened everything, or failed to.
	openedMsg struct {
		err    error
		reader connectors.Reader
		slots  []*connectors.Rows
		writer connectors.Writer
		ops    []operator.Operator
		tasks  []*operator.Task
		clock  partitionClock
		wm     messages.EventTime // of the key groups furthest behind
		ahead  messages.EventTime // of those furthest ahead
	}
	// subtaskReady goes to the query actor.
	subtaskReady struct{ subtask int }
	// startMsg lets sources read.
	startMsg struct{}
	// stopReading ends reading for a drain.
	stopReading struct{}
	// readingStopped answers stopReading, or says that a source ended by itself.
	readingStopped struct{ subtask int }
	// injectMsg gives a source its marker.
	injectMsg struct{ marker messages.Marker }
	// polledMsg is the outcome of one Read.
	polledMsg struct {
		slot *connectors.Rows
		b    *messages.Batch
		err  error
	}
	// writtenMsg is the outcome of one Write.
	writtenMsg struct {
		err  error
		rows int
	}
	// flushedMsg is the outcome of a writer's flush.
	flushedMsg struct {
		epoch messages.Epoch
		token connectors.Token
		err   error
	}
	// persistedMsg is the outcome of storing a subtask's segments.
	persistedMsg struct {
		epoch messages.Epoch
		segs  []segmentInfo
		err   error
	}
	// encodeTick continues encoding a snapshot when there is nothing else to do.
	encodeTick struct{}
	// idleTick checks whether a source is idle.
	idleTick struct{ generation uint64 }
	// dueTick wakes a source whose rows had to wait for their turn.
	dueTick struct{}
	// timerMsg is a fired processing-time timer of a fused operator.
	timerMsg struct {
		op         int
		domain     operator.Domain
		generation uint64
	}
	// committedMsg tells a source that an epoch is durable.
	committedMsg struct {
		epoch messages.Epoch
		final bool
	}
	// acknowledgedMsg is the outcome of telling a reader that an epoch is durable.
	acknowledgedMsg struct{ err error }
	// sourceDone: a source has acknowledged the final epoch.
	sourceDone struct{}
	// changedMsg: there is something to commit.
	changedMsg struct{}
	// failedMsg ends the attempt.
	failedMsg struct{ err error }
	// stoppedMsg: a worker has returned.
	stoppedMsg struct{ name string }
)

// segmentInfo describes a stored segment for the chain in the commit record.
type segmentInfo struct {
	id    epochs.SegmentID
	base  bool
	bytes int
	sum   uint32
}

// subtaskAck is a subtask's part of an epoch, durable.
type subtaskAck struct {
	subtask  int
	epoch    messages.Epoch
	segs     []segmentInfo
	token    connectors.Token
	source   *epochs.SourceState
	counters []epochs.Counters
}

// messagePool recycles element messages: one is sent per batch and consumer.
type messagePool struct{ p sync.Pool }

func (m *messagePool) get() *elementMsg {
	if e, ok := m.p.Get().(*elementMsg); ok {
		return e
	}
	return &elementMsg{}
}

func (m *messagePool) put(e *elementMsg) {
	e.el = nil
	m.p.Put(e)
}
