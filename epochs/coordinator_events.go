package epochs

import (
	"time"

	"github.com/streamd-io/streamd/messages"
)

// Event is what a Coordinator is told.
//
//sumtype:decl
type Event interface{ event() }

// The events. Epoch-related ones carry the epoch so that stale ones are noticed.
type (
	// Started: all subtasks of the attempt run and sinks have recovered.
	Started struct{}
	// TimerFired: the time asked for by SetTimer has come.
	TimerFired struct{}
	// Changed: an offset, state, timer or watermark changed since the last
	// marker. The host may report it any number of times.
	Changed struct{}
	// Ready answers a Precheck action: nil to go ahead, or why not (no disk
	// space); the epoch is then tried again after the interval.
	Ready struct{ Err error }
	// SubtaskAcked: a subtask's part of the epoch is durable.
	SubtaskAcked struct {
		Subtask int
		Epoch   messages.Epoch
	}
	// RecordSynced: the commit record of the epoch is durable.
	RecordSynced struct{ Epoch messages.Epoch }
	// SinksCommitted: all sink commits of the epoch are confirmed.
	SinksCommitted struct{ Epoch messages.Epoch }
	// EpochRequested: somebody waits for an epoch that starts after now (drain of
	// a test, ProcessAllAvailable); it starts without waiting for the interval,
	// even if nothing changed. Requests made before its marker is injected share
	// one epoch. Behind the final epoch there is none: whoever waits is answered
	// by Finish.
	EpochRequested struct{}
	// EpochAsked: a sink that holds rows until they are committed comes near one of
	// its limits. The next epoch starts as soon as it may; nothing is flushed for it.
	EpochAsked struct{}
	// DrainRequested: sources have stopped and all rows in flight will be
	// covered by the next marker; it is the final one.
	DrainRequested struct{}
)

func (Started) event()        {}
func (TimerFired) event()     {}
func (Changed) event()        {}
func (Ready) event()          {}
func (SubtaskAcked) event()   {}
func (RecordSynced) event()   {}
func (SinksCommitted) event() {}
func (EpochRequested) event() {}
func (EpochAsked) event()     {}
func (DrainRequested) event() {}

// Action is what a Coordinator wants done.
//
//sumtype:decl
type Action interface{ action() }

// The actions, to be carried out in the order given.
type (
	// SetTimer asks for a TimerFired event at the given monotonic time; it
	// replaces the previous request.
	SetTimer struct{ At time.Duration }
	// Precheck asks for disk, quota and previous-record checks before the epoch
	// is injected; answered by Ready.
	Precheck struct{ Epoch messages.Epoch }
	// Inject sends the marker to all sources and calls Begin of all sinks.
	Inject struct{ Marker messages.Marker }
	// WriteRecord collects sink tokens (Prepare) and writes the commit record of
	// the epoch as successor of Prev.
	WriteRecord struct{ Epoch, Prev messages.Epoch }
	// CommitSinks commits the epoch in all sinks, in epoch order.
	CommitSinks struct{ Epoch messages.Epoch }
	// AckSources tells sources that everything before the epoch's offsets is
	// durable.
	AckSources struct{ Epoch messages.Epoch }
	// ReportBlocked says that no epoch can be started and why; Err nil means
	// that the obstacle is gone.
	ReportBlocked struct{ Err error }
	// Finish says that the final epoch is committed and acknowledged.
	Finish struct{ Epoch messages.Epoch }
	// Fail ends the attempt: the protocol was violated or an epoch timed out.
	Fail struct{ Err error }
)

func (SetTimer) action()      {}
func (Precheck) action()      {}
func (Inject) action()        {}
func (WriteRecord) action()   {}
func (CommitSinks) action()   {}
func (AckSources) action()    {}
func (ReportBlocked) action() {}
func (Finish) action()        {}
func (Fail) action()          {}

// CoordinatorConfig configures a Coordinator.
type CoordinatorConfig struct {
	// Interval between the injections of two epochs. An epoch that takes longer
	// makes the next one late; none are stacked. 0 means 1 second.
	Interval time.Duration
	// Timeout after which an injected epoch whose commit record is not durable
	// fails the attempt; also the longest time a Precheck may take. 0 means
	// 10 minutes.
	Timeout time.Duration
	// Subtasks is how many acknowledgements complete an epoch.
	Subtasks int
	// Committed is the epoch the attempt was restored from, 0 for none.
	Committed messages.Epoch
	// Next is the first epoch number to use: larger than every number ever seen
	// in the store. 0 means Committed+1.
	Next messages.Epoch
	// Flush lets operators emit what they hold back in front of every marker, and
	// not only of those that were asked for.
	Flush bool
}
