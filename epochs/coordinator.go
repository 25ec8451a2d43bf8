package epochs

import (
	"fmt"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	defaultInterval = time.Second
	defaultTimeout  = 10 * time.Minute
	// minRetry is the shortest pause between two prechecks of a blocked epoch:
	// space on a disk does not come back within milliseconds.
	minRetry = time.Second
	// maxOpen is how many epochs may be injected and not yet confirmed by all
	// sinks.
	maxOpen = 2
	// maxNamed is how many missing subtasks an error lists.
	maxNamed = 8
)

// Coordinator runs the epochs of one attempt of one query. It is a pure state
// machine for one goroutine: Step is told what happened and answers what to do.
//
// The way of one epoch, actions on the left, their answers on the right:
//
//	          timer due and something changed, or an epoch was requested
//	              |
//	Precheck e ---+---------------> Ready err: ReportBlocked, again later
//	              |                 Ready nil
//	Inject e      |
//	              +---------------> SubtaskAcked e, by every subtask
//	WriteRecord e, prev
//	              +---------------> RecordSynced e
//	CommitSinks e |                     from here on e+1 may be injected
//	              +---------------> SinksCommitted e
//	AckSources e  |                     from here on e+2 may be injected
//	              |
//	Finish e  (final epoch only)
//
// At most one epoch at a time is between Inject and RecordSynced, and at most
// two between Inject and SinksCommitted:
//
//	e    Inject ... WriteRecord . RecordSynced . CommitSinks ........ SinksCommitted . AckSources
//	e+1                                        Inject ... WriteRecord . RecordSynced . (waits) . CommitSinks ...
//	e+2                                                                                  Inject ...
//
// The interval is measured from one injection to the next. When an epoch takes
// longer, the next one starts as soon as it may, once, however many intervals
// have passed. Between two markers with nothing to say nothing is done but to
// set the next timer.
//
// There is no way back: an injected epoch ends with AckSources, or the attempt
// ends with Fail. After Fail or Finish, Step returns nothing more.
type Coordinator struct {
	cfg CoordinatorConfig

	started, ended bool
	changed        bool // since the last marker
	requested      bool // EpochRequested since the last marker
	drain          bool // DrainRequested
	finalInjected  bool

	// due is when the interval is over; passed means that an epoch is due.
	due time.Duration
	// checking: Precheck was sent and Ready has not come, by checkBy at latest.
	checking bool
	checkBy  time.Duration
	// blocked: the last Ready had an error; the next Precheck is at retryAt.
	blocked bool
	retryAt time.Duration
	// timerSet: TimerFired is to be expected at timerAt.
	timerSet bool
	timerAt  time.Duration

	// next is the number of the next epoch to inject; prev that of the newest
	// synced record.
	next, prev messages.Epoch
	// open holds the epochs that are injected and not confirmed by the sinks,
	// oldest first; only the last one can be unsynced.
	open []openEpoch
	// acked has, for the last open epoch, the subtasks that have acknowledged;
	// missing is how many have not.
	acked   []bool
	missing int

	actions []Action
}

type openEpoch struct {
	marker messages.Marker
	stage  stage
	// commitBy is when the record must be synced.
	commitBy time.Duration
}

// stage is how far an injected epoch has come.
type stage uint8

const (
	stageAcks    stage = iota // waits for subtasks
	stageRecord               // waits for RecordSynced
	stageSynced               // waits for its turn to commit in the sinks
	stageCommits              // waits for SinksCommitted
)

// NewCoordinator returns the coordinator of one attempt. A wrong configuration
// (Next not after Committed, a negative number of subtasks) is reported by a
// Fail action at Started.
func NewCoordinator(cfg CoordinatorConfig) *Coordinator {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Next == 0 {
		cfg.Next = cfg.Committed + 1
	}
	return &Coordinator{
		cfg:     cfg,
		next:    cfg.Next,
		prev:    cfg.Committed,
		open:    make([]openEpoch, 0, maxOpen),
		acked:   make([]bool, max(cfg.Subtasks, 0)),
		actions: make([]Action, 0, 8),
	}
}

// Step takes an event that happened at the monotonic time now and returns the
// actions it leads to, in order. now must not go back from call to call; all
// times are measured from the same arbitrary zero.
//
// The returned slice is used again by the next call. A call that leads to
// nothing, such as a repeated Changed or an acknowledgement that is not the
// last, does not allocate.
//
// Acknowledgements that repeat an earlier one, and those of epochs of earlier
// attempts, are ignored. Those that cannot be right (an epoch that was never
// injected, an unknown subtask, an answer nobody asked for) end the attempt.
func (c *Coordinator) Step(now time.Duration, ev Event) []Action {
	clear(c.actions) // do not keep the errors of earlier actions
	c.actions = c.actions[:0]
	if c.ended {
		return nil
	}
	switch ev := ev.(type) {
	case Started:
		c.start(now)
	case TimerFired:
		// Even when it came too early: setting the timer again costs nothing, and
		// losing it would stop the epochs.
		c.timerSet = false
	case Changed:
		c.changed = true
	case EpochRequested:
		c.requested = true
	case EpochAsked:
		c.changed = true
		c.due = min(c.due, now)
	case DrainRequested:
		c.drain = true
	case Ready:
		c.ready(now, ev.Err)
	case SubtaskAcked:
		c.subtaskAcked(ev)
	case RecordSynced:
		c.recordSynced(ev.Epoch)
	case SinksCommitted:
		c.sinksCommitted(ev.Epoch)
	default:
		c.fail(fmt.Errorf("epochs: coordinator: unknown event %T", ev))
	}
	if c.started && !c.ended {
		c.checkTimeouts(now)
		c.startEpoch(now)
		c.setTimer()
	}
	return c.actions
}

func (c *Coordinator) do(a Action) { c.actions = append(c.actions, a) }

func (c *Coordinator) fail(err error) {
	if c.ended {
		return
	}
	c.ended = true
	c.do(Fail{Err: err})
}

func (c *Coordinator) start(now time.Duration) {
	if c.started {
		return
	}
	c.started = true
	c.due = now + c.cfg.Interval
	switch {
	case c.cfg.Next <= c.cfg.Committed:
		c.fail(fmt.Errorf("epochs: coordinator: the next epoch %d is not after the committed epoch %d", c.cfg.Next, c.cfg.Committed))
	case c.cfg.Subtasks < 0:
		c.fail(fmt.Errorf("epochs: coordinator: %d subtasks", c.cfg.Subtasks))
	}
}

// unsynced returns the newest open epoch if its record is not synced yet.
func (c *Coordinator) unsynced() *openEpoch {
	if n := len(c.open); n > 0 && c.open[n-1].stage < stageSynced {
		return &c.open[n-1]
	}
	return nil
}

// mayInject reports whether the gate is open: the previous record is synced,
// and the sinks have committed the epoch before that.
func (c *Coordinator) mayInject() bool {
	return !c.finalInjected && !c.checking && len(c.open) < maxOpen && c.unsynced() == nil
}

// startEpoch asks for the next epoch's precheck if it is time for one.
func (c *Coordinator) startEpoch(now time.Duration) {
	if c.ended || !c.mayInject() {
		return
	}
	if c.blocked {
		if now >= c.retryAt {
			c.precheck(now)
		}
		return
	}
	switch {
	case c.requested || c.drain:
		c.precheck(now)
	case now < c.due:
	case c.changed:
		c.precheck(now)
	default:
		c.due = now + c.cfg.Interval
	}
}

func (c *Coordinator) precheck(now time.Duration) {
	c.checking = true
	c.checkBy = now + c.cfg.Timeout
	c.do(Precheck{Epoch: c.next})
}

func (c *Coordinator) ready(now time.Duration, err error) {
	if !c.checking {
		c.fail(fmt.Errorf("epochs: coordinator: an answer to a precheck that was not asked for (next epoch %d)", c.next))
		return
	}
	c.checking = false
	if err != nil {
		c.blocked = true
		c.retryAt = now + max(c.cfg.Interval, minRetry)
		c.do(ReportBlocked{Err: err})
		return
	}
	if c.blocked {
		c.blocked = false
		c.do(ReportBlocked{})
	}
	c.inject(now)
}

// inject sends the marker. What was asked for or changed until now lies before
// it, whenever the precheck was made.
func (c *Coordinator) inject(now time.Duration) {
	m := messages.Marker{Epoch: c.next, Final: c.drain, Flush: c.requested || c.drain || c.cfg.Flush}
	c.next++
	c.changed, c.requested = false, false
	c.finalInjected = m.Final
	c.due = now + c.cfg.Interval
	c.open = append(c.open, openEpoch{marker: m, commitBy: now + c.cfg.Timeout})
	clear(c.acked)
	c.missing = len(c.acked)
	c.do(Inject{Marker: m})
	if c.missing == 0 {
		c.writeRecord()
	}
}

func (c *Coordinator) writeRecord() {
	e := c.unsynced()
	e.stage = stageRecord
	c.do(WriteRecord{Epoch: e.marker.Epoch, Prev: c.prev})
}

// injected tells whether an epoch number can have been seen by anybody; if it
// cannot, what fails the attempt.
func (c *Coordinator) injected(what string, e messages.Epoch) bool {
	if e >= c.next {
		c.fail(fmt.Errorf("epochs: coordinator: %s epoch %d, which has not been injected (next is %d)", what, e, c.next))
		return false
	}
	return true
}

func (c *Coordinator) subtaskAcked(ev SubtaskAcked) {
	if ev.Subtask < 0 || ev.Subtask >= c.cfg.Subtasks {
		c.fail(fmt.Errorf("epochs: coordinator: subtask %d acknowledged epoch %d, but there are %d subtasks", ev.Subtask, ev.Epoch, c.cfg.Subtasks))
		return
	}
	if !c.injected("a subtask acknowledged", ev.Epoch) {
		return
	}
	e := c.unsynced()
	if e == nil || e.marker.Epoch != ev.Epoch || c.acked[ev.Subtask] {
		return
	}
	c.acked[ev.Subtask] = true
	c.missing--
	if c.missing == 0 {
		c.writeRecord()
	}
}

func (c *Coordinator) recordSynced(epoch messages.Epoch) {
	if !c.injected("a commit record was synced for", epoch) {
		return
	}
	e := c.unsynced()
	if e == nil || e.marker.Epoch != epoch {
		return
	}
	if e.stage != stageRecord {
		c.fail(fmt.Errorf("epochs: coordinator: the commit record of epoch %d was synced before all subtasks had acknowledged", epoch))
		return
	}
	e.stage = stageSynced
	c.prev = epoch
	c.commitSinks()
}

// commitSinks lets the oldest open epoch commit if it is its turn.
func (c *Coordinator) commitSinks() {
	if len(c.open) > 0 && c.open[0].stage == stageSynced {
		c.open[0].stage = stageCommits
		c.do(CommitSinks{Epoch: c.open[0].marker.Epoch})
	}
}

func (c *Coordinator) sinksCommitted(epoch messages.Epoch) {
	if !c.injected("sinks committed", epoch) {
		return
	}
	if len(c.open) == 0 || epoch < c.open[0].marker.Epoch {
		return
	}
	e := c.open[0]
	if epoch != e.marker.Epoch || e.stage != stageCommits {
		c.fail(fmt.Errorf("epochs: coordinator: sinks committed epoch %d before they were asked to", epoch))
		return
	}
	c.open = append(c.open[:0], c.open[1:]...)
	c.do(AckSources{Epoch: epoch})
	if e.marker.Final {
		c.ended = true
		c.do(Finish{Epoch: epoch})
		return
	}
	c.commitSinks()
}

// checkTimeouts fails the attempt when an epoch has not become durable in time.
// Sink commits have no deadline here: they are repeated until they succeed, and
// the gate keeps the epochs behind them from piling up.
func (c *Coordinator) checkTimeouts(now time.Duration) {
	if c.checking && now >= c.checkBy {
		c.fail(fault.New(fault.Restart, "epochs: epoch %d: the checks before it took longer than %v", c.next, c.cfg.Timeout))
		return
	}
	e := c.unsynced()
	if e == nil || now < e.commitBy {
		return
	}
	if e.stage == stageRecord {
		c.fail(fault.New(fault.Restart, "epochs: epoch %d: its commit record was not durable after %v", e.marker.Epoch, c.cfg.Timeout))
		return
	}
	c.fail(fault.New(fault.Restart, "epochs: epoch %d: not acknowledged after %v by %s", e.marker.Epoch, c.cfg.Timeout, c.missingSubtasks()))
}

func (c *Coordinator) missingSubtasks() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d subtasks:", c.missing, len(c.acked))
	named := 0
	for i, acked := range c.acked {
		if acked {
			continue
		}
		if named == maxNamed {
			fmt.Fprintf(&b, " and %d more", c.missing-named)
			break
		}
		fmt.Fprintf(&b, " %d", i)
		named++
	}
	return b.String()
}

// setTimer asks for the next wake-up if it is not the one already asked for.
func (c *Coordinator) setTimer() {
	if c.ended {
		return
	}
	var at time.Duration
	found := false
	want := func(t time.Duration) {
		if !found || t < at {
			at, found = t, true
		}
	}
	if c.checking {
		want(c.checkBy)
	}
	if e := c.unsynced(); e != nil {
		want(e.commitBy)
	}
	// While the gate is closed, the event that opens it starts the next epoch.
	if c.mayInject() {
		if c.blocked {
			want(c.retryAt)
		} else {
			want(c.due)
		}
	}
	if !found || c.timerSet && c.timerAt == at {
		return
	}
	c.timerSet, c.timerAt = true, at
	c.do(SetTimer{At: at})
}
