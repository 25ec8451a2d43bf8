package actors

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// silence is what a subtask has to tell its consumers about the rows to come.
type silence uint8

const (
	speaks   silence = iota // nothing new
	wakes                   // it is idle no longer
	goesIdle                // it will send no rows for the time being
	ends                    // nor ever
)

// subtask is the actor of one subtask of a stage. Its fields belong to the
// actor; workers get what they need as arguments and answer by messages.
//
// The heart is work: after every message it goes on as long as there is
// something it may do. It may not process anything while output is blocked, and
// nothing but the chain's own work while the chain is busy.
type subtask struct {
	sys   *System
	cfg   *AttemptConfig
	ctxIO context.Context // ends with the attempt
	query *actor.PID
	stage *stage
	id    int // number of the subtask in the attempt
	index int // of stage.parallelism
	pool  *messagePool
	views *messages.Pool
	nodes []*NodeMetrics // one per operator of the chain

	ctx     actor.Context // of the message being handled
	self    *actor.PID
	dead    bool
	opened  bool
	opening *openedMsg // what the worker opens, until it is taken over
	changed bool       // the query actor knows that there is something to commit
	catchUp bool       // the chain is being brought to the restored watermark

	inlets []*inlet
	next   int // where the search for an element starts, for fairness
	outs   []*fanout
	mains  int       // how many of outs take rows; the others take bad records
	outlet []*outlet // all outlets, by index
	wm     messages.EventTime
	chain  *operator.Chain
	ends   endCounters
	// silence is what the consumers are to be told as soon as the chain is at rest.
	silence silence
	quiet   bool   // they have been told that the subtask is idle
	worker  Worker // opening, restoring, storing segments
	from    *epochs.Record

	source  *sourceHalf
	letters *deadLetters // nil without a sink for bad records
	late    []*lateRows  // of the operators whose late rows have a sink
	sink    *sinkHalf
	barrier barrier
	timers  []timerSlot
	blocked time.Duration // since when output is blocked, 0: it is not
}

// Receive handles one message. A panic here is a bug of the engine; it ends the
// attempt, not the process.
func (s *subtask) Receive(ctx actor.Context) {
	defer func() {
		if v := recover(); v != nil {
			s.fail(fault.Recovered(v, debug.Stack()))
		}
	}()
	s.ctx = ctx
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.self = ctx.Self()
	case *actor.Stopping:
		s.shutdown()
	case *elementMsg:
		s.receive(m)
	case *creditMsg:
		if m.attempt == s.cfg.Attempt && !s.dead {
			s.outlet[m.outlet].credit(m.batches, m.bytes)
		}
	default:
		s.control(m)
	}
	if s.opened && !s.dead {
		s.work()
	}
}

func (s *subtask) control(msg any) {
	if s.dead {
		s.discard(msg)
		return
	}
	switch m := msg.(type) {
	case *wireMsg:
		s.wire(m)
	case *openedMsg:
		s.open(m)
	case *startMsg:
		s.start()
	case *stopReading:
		s.stopReading()
	case *holdSource:
		s.hold(m.held)
	case *injectMsg:
		s.inject(m.marker)
	case *polledMsg:
		s.polled(m)
	case *writtenMsg:
		s.written(m)
	case *flushedMsg:
		s.flushed(m)
	case *persistedMsg:
		s.persisted(m)
	case *encodeTick:
		s.barrier.ticking = false
		s.encodeSlice()
	case *idleTick:
		s.idleTick(m)
	case *dueTick:
		s.source.dueStop = nil
	case *timerMsg:
		s.timer(m)
	case *committedMsg:
		s.committed(m)
	case *acknowledgedMsg:
		s.acknowledged(m)
	case *failedMsg:
		s.fail(m.err)
	}
}

// discard lets go of what a message for a dead subtask holds.
func (s *subtask) discard(msg any) {
	if m, ok := msg.(*polledMsg); ok && m.b != nil {
		m.b.Release()
	}
}

// receive takes an element off an edge.
func (s *subtask) receive(m *elementMsg) {
	defer s.pool.put(m)
	if m.attempt != s.cfg.Attempt || s.dead {
		if b, ok := m.el.(*messages.Batch); ok {
			b.Release()
		}
		return
	}
	in := s.inlets[m.input]
	if m.seq != in.seq+1 {
		s.fail(fault.New(fault.Internal, "%s[%d]: element %d of input %d arrived after element %d", s.stage.name(), s.index, m.seq, m.input, in.seq))
		return
	}
	in.seq = m.seq
	in.push(m.el)
}

// work goes on until there is nothing it may do.
func (s *subtask) work() {
	for !s.dead {
		switch {
		case s.outputBlocked():
			s.noteBlocked(true)
			return
		case s.chain.Busy():
			s.noteBlocked(false)
			if err := s.chain.Step(); err != nil {
				s.fail(err)
				return
			}
			s.sendLetters()
			s.sendLate()
		case s.silence != speaks:
			s.fallSilent()
		case s.barrier.aligned:
			s.noteBlocked(false)
			s.atMarker()
			s.encodeSlice()
		default:
			s.noteBlocked(false)
			s.catchUp = false
			if !s.takeNext() {
				return
			}
		}
	}
}

// outputBlocked reports whether a batch waits for credit or the sink is full. A
// marker waits for neither: it is handled even so when the chain is at rest.
func (s *subtask) outputBlocked() bool {
	if s.barrier.aligned && !s.chain.Busy() && !s.barrier.mustFlush() {
		return false
	}
	if s.sink != nil && s.sink.full() {
		return true
	}
	for _, o := range s.outlet {
		if o.blocked() {
			return true
		}
	}
	return false
}

func (s *subtask) noteBlocked(now bool) {
	if now == (s.blocked != 0) {
		return
	}
	t := s.sys.cfg.Clock.Mono()
	if now {
		s.blocked = max(t, 1)
		return
	}
	s.lastNode().BlockedNanos.Add(int64(t - s.blocked))
	s.blocked = 0
}

// takeNext processes one element of the source or of an input that may proceed,
// fairly. It reports whether there was one.
func (s *subtask) takeNext() bool {
	if s.source != nil {
		return s.takePolled()
	}
	for i := range s.inlets {
		k := (s.next + i) % len(s.inlets)
		in := s.inlets[k]
		if in.empty() || s.barrier.aligner.Held(k) {
			continue
		}
		s.next = k + 1
		el := in.pop()
		if b, ok := el.(*messages.Batch); ok {
			s.returnCredit(in, 1, b.Size())
		} else {
			s.returnCredit(in, 0, 0) // the queue may have run dry behind a batch
		}
		s.accept(k, in, el)
		return true
	}
	return false
}

// accept processes one element of an input.
func (s *subtask) accept(k int, in *inlet, el messages.Element) {
	switch el := el.(type) {
	case *messages.Batch:
		in.idle = false
		s.wake()
		s.deliver(in.input, s.remark(in, el))
	case messages.Watermark:
		in.idle = false
		s.wake()
		in.wm = max(in.wm, el.At)
		s.advance()
	case messages.Idle:
		in.idle = true
		s.advance()
		s.rest()
	case messages.End:
		in.ended = true
		s.advance()
		s.rest()
	case messages.Marker:
		aligned, err := s.barrier.aligner.Marker(k, el)
		if err != nil {
			s.fail(fault.Wrap(fault.Internal, err, "%s[%d]", s.stage.name(), s.index))
			return
		}
		if aligned {
			s.barrier.start(el)
		}
	}
}

// deliver gives a batch to the chain, or straight to the output of a stage
// without operators.
func (s *subtask) deliver(input int, b *messages.Batch) {
	s.stageIn().RowsIn.Add(int64(b.Rows()))
	s.ends.delivered(b)
	s.chain.Deliver(input, b)
}

// advance passes on a combined watermark that has risen.
func (s *subtask) advance() {
	if wm := s.combined(); wm > s.wm {
		s.wm = wm
		s.chain.Watermark(wm)
	}
}

// wake ends the idleness that the consumers have been told of. Rows alone do not:
// they may all go to one consumer, or be filtered out, and the others would go on
// without this subtask's watermark.
func (s *subtask) wake() {
	if s.quiet {
		s.quiet, s.silence = false, wakes
	}
}

// stayQuiet repeats that the subtask is idle when something leaves it although no
// input has spoken: what an operator had held back.
func (s *subtask) stayQuiet() {
	if s.quiet && s.silence == speaks {
		s.silence = goesIdle
	}
}

// rest notes what the consumers must be told when no input sends anything for
// the time being, or ever.
func (s *subtask) rest() {
	ended := true
	for _, in := range s.inlets {
		if !in.idle && !in.ended {
			return
		}
		ended = ended && in.ended
	}
	s.silence = goesIdle
	if ended {
		s.inputEnded()
	}
}

// inputEnded tells the consumers that there will be nothing more, behind what the
// chain still has, and behind what it closes if the query closes windows at the end.
func (s *subtask) inputEnded() {
	s.silence = ends
	if s.cfg.FlushAtEnd {
		s.chain.Finish()
	}
}

// fallSilent tells the consumers, behind everything that came before.
func (s *subtask) fallSilent() {
	was := s.silence
	s.silence = speaks
	switch was {
	case ends:
		s.broadcast(messages.End{})
	case goesIdle:
		s.quiet = true
		s.broadcast(messages.Idle{})
	default:
		for _, o := range s.outlet {
			o.send(messages.Watermark{At: o.wm})
		}
	}
}

func (s *subtask) broadcast(el messages.Element) {
	for _, o := range s.outlet {
		o.send(el)
	}
}

// returnCredit gives credit back in lots, so that it costs little, but at once
// when the queue has run dry, so that a producer never waits for a lot to fill.
func (s *subtask) returnCredit(in *inlet, batches, bytes int) {
	in.freedBatches += batches
	in.freedBytes += bytes
	if in.freedBatches*4 < s.cfg.Window && in.freedBytes*4 < s.cfg.WindowBytes && !in.empty() {
		return
	}
	if in.freedBatches == 0 {
		return
	}
	s.ctx.Send(in.pid, &creditMsg{attempt: s.cfg.Attempt, outlet: in.outlet, batches: in.freedBatches, bytes: in.freedBytes})
	in.freedBatches, in.freedBytes = 0, 0
}

// Emit takes a batch that leaves the chain (operator.ChainOutput).
func (s *subtask) Emit(b *messages.Batch) {
	s.lastNode().RowsOut.Add(int64(b.Rows()))
	s.ends.emitted(b)
	if s.catchUp {
		s.tellChanged()
	}
	s.stayQuiet()
	if s.sink != nil {
		s.sink.write(b)
		return
	}
	b.Retain(s.mains - 1)
	for _, f := range s.outs {
		if !f.link.side {
			f.emit(b)
		}
	}
}

// Watermark takes a watermark that leaves the chain (operator.ChainOutput).
func (s *subtask) Watermark(wm messages.EventTime) {
	s.lastNode().Watermark.Store(int64(wm))
	s.stayQuiet()
	for _, o := range s.outlet {
		o.watermark(wm)
	}
}

func (s *subtask) lastNode() *NodeMetrics { return s.nodes[len(s.nodes)-1] }
func (s *subtask) stageIn() *NodeMetrics  { return s.nodes[0] }

// fail reports the first failure and stops doing anything but what is needed to
// go away.
func (s *subtask) fail(err error) {
	if s.dead {
		return
	}
	s.dead = true
	s.ctx.Send(s.query, &failedMsg{err: err})
}

// shutdown stops the workers and lets go of everything. What workers own is
// closed by them, after their running task.
func (s *subtask) shutdown() {
	s.dead = true
	for _, in := range s.inlets {
		in.release()
	}
	for _, o := range s.outlet {
		o.release()
	}
	for i := range s.timers {
		s.timers[i].cancel()
	}
	for _, l := range s.late {
		l.release()
	}
	root, query := s.sys.as.Root, s.query
	stopped := func(name string) func() {
		return func() { root.Send(query, &stoppedMsg{name: name}) }
	}
	if s.source != nil {
		s.source.shutdown(s, stopped)
	}
	if s.sink != nil {
		s.sink.shutdown(stopped)
	}
	chain, opening := s.chain, s.opening
	name := s.workerName("state")
	s.worker.Stop(func() {
		defer stopped(name)()
		if opening != nil { // opened, or in part, but never taken over
			s.closeOpened(opening)
		}
		if chain != nil {
			if err := chain.Close(); err != nil {
				s.sys.cfg.Log.Warn("close operator", "query", s.cfg.Query, "operator", s.stage.name(), "subtask", s.index, "error", err)
			}
		}
	})
}

func (s *subtask) workerName(what string) string {
	return fmt.Sprintf("%s of %s[%d/%d]", what, s.stage.name(), s.index, s.stage.parallelism)
}

// post sends a message to this subtask from a worker or a timer.
func (s *subtask) post(msg any) { s.sys.as.Root.Send(s.self, msg) }
