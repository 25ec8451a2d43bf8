package actors

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// readSlots is how many reads are outstanding: while one result is processed
// the next is read.
const readSlots = 2

// partitionClock is implemented by the operator that derives the watermark of a
// source partition (package eventtime). Its state is one instant, kept in the
// partition's entry of the commit record.
type partitionClock interface {
	Watermark() messages.EventTime
	Restore(wm messages.EventTime)
	// Skewed is how many rows were too far in the future to move it.
	Skewed() uint64
}

// sourceHalf is the part of a subtask that reads one partition. Only the rows
// that have been processed count as read: what waits in a slot at the marker
// belongs to the next epoch.
type sourceHalf struct {
	spec      *SourceSpec
	partition string
	reads     Worker
	acks      Worker
	reader    connectors.Reader
	slots     []*connectors.Rows // free slots
	ready     []*polledMsg       // results not yet processed, oldest first
	offset    connectors.Offset  // behind the last processed record
	rows      uint64             // since the query first started
	reading   int                // reads outstanding
	stopping  bool               // no more reads
	told      bool               // the query actor knows that reading has stopped
	ended     bool
	started   bool

	idle       bool
	status     connectors.Status
	activeAt   time.Duration // when the partition was last not silent, on the monotonic clock
	generation uint64        // of the idle timer
	idleStop   func() bool

	throttle *throttle     // shared by the partitions; nil: no limit
	reserved bool          // the oldest result has its turn at due
	due      time.Duration // on the monotonic clock
	dueStop  func() bool

	// frozen are the offsets of epochs that are not acknowledged yet.
	frozen map[messages.Epoch]connectors.Offset
	// durable is to be acknowledged upstream next, nil: nothing.
	durable      connectors.Offset
	durableEpoch messages.Epoch
	acking       bool // an acknowledgement has not returned
	final        bool // no epoch follows
	held         bool // too much is uncommitted; see gate
	clock        partitionClock
	skewed       uint64 // rows that clock did not follow, as last counted
	// restoredWM is the partition's watermark in the record restored from.
	restoredWM messages.EventTime
}

// poll keeps reads outstanding while there are free slots.
func (s *subtask) poll() {
	src := s.source
	for src.started && !src.held && !src.stopping && !src.ended && len(src.slots) > 0 {
		slot := src.slots[len(src.slots)-1]
		src.slots = src.slots[:len(src.slots)-1]
		src.reading++
		reader, ctx := src.reader, s.ctxIO
		src.reads.Submit(func() {
			slot.Reset()
			err := fault.Inject("src/read")
			if err == nil {
				err = reader.Read(ctx, slot)
			}
			s.post(&polledMsg{slot: slot, b: slot.Finish(), err: err})
		})
	}
}

// polled takes the outcome of a read.
func (s *subtask) polled(m *polledMsg) {
	src := s.source
	src.reading--
	if m.err != nil && !errors.Is(m.err, io.EOF) {
		if m.b != nil {
			m.b.Release()
		}
		s.fail(fault.At(fault.Location{Query: s.cfg.Query, Operator: s.stage.source.name + " partition " + src.partition}, m.err))
		return
	}
	if src.stopping && !src.ended {
		// Read too late for this attempt: it stays unread.
		if m.b != nil {
			m.b.Release()
		}
		s.sayStopped()
		return
	}
	src.ready = append(src.ready, m)
}

// takePolled processes the oldest result. It reports whether there was one.
func (s *subtask) takePolled() bool {
	src := s.source
	if len(src.ready) == 0 {
		return false
	}
	m := src.ready[0]
	if !s.mayTake(m) {
		return false
	}
	src.ready = append(src.ready[:0], src.ready[1:]...)
	s.noteStatus(m.slot)
	n := s.nodes[0]
	n.BytesIn.Add(int64(m.slot.PayloadBytes))
	n.Bad.Add(int64(len(m.slot.Bad)))
	n.Lost.Add(int64(m.slot.Lost))
	s.ends.refused(len(m.slot.Bad))
	s.badRecords(m.slot)
	moved := len(m.slot.Next) > 0 && !bytes.Equal(src.offset, m.slot.Next)
	if moved {
		src.offset = append(src.offset[:0], m.slot.Next...)
	}
	if m.b != nil {
		src.rows += uint64(m.b.Rows())
		src.idle = false
		s.wake()
		s.deliver(0, m.b)
	}
	if m.b != nil || m.slot.Payloads > 0 || moved {
		s.tellChanged() // the position also counts without rows: it may be the end of a quiet stream
	}
	src.slots = append(src.slots, m.slot)
	if errors.Is(m.err, io.EOF) {
		s.endOfInput()
		return true
	}
	s.poll()
	return true
}

// tellChanged tells the query actor, once per epoch, that there is something new
// to commit.
func (s *subtask) tellChanged() {
	if !s.changed {
		s.changed = true
		s.ctx.Send(s.query, &changedMsg{})
	}
}

func (s *subtask) endOfInput() {
	src := s.source
	src.ended, src.stopping = true, true
	s.tellChanged()
	s.inputEnded()
	s.sayStopped()
}

// stopReading begins a drain: what has not been processed stays unread.
func (s *subtask) stopReading() {
	src := s.source
	src.stopping = true
	src.generation++ // what is left unread is not idleness
	src.disarm()
	src.undue()
	for _, m := range src.ready {
		if m.b != nil {
			m.b.Release()
		}
	}
	src.ready = nil
	s.sayStopped()
}

// sayStopped tells the query actor, once, that nothing more will be processed.
func (s *subtask) sayStopped() {
	if !s.source.told {
		s.source.told = true
		s.ctx.Send(s.query, &readingStopped{subtask: s.id})
	}
}

// noteStatus takes in what the reader says of itself and starts the wait for
// idleness. Only a connected reader at the confirmed end of its partition, with
// nothing unread or unprocessed, may become idle. It is called for every read, so
// it sets no timer while one is set and reports nothing but trouble.
func (s *subtask) noteStatus(slot *connectors.Rows) {
	src := s.source
	old := src.status
	src.status = slot.Status
	caughtUp := src.status.State == connectors.CaughtUp
	if caughtUp != (old.State == connectors.CaughtUp) {
		s.countCaughtUp(caughtUp)
	}
	if !caughtUp || slot.Payloads > 0 {
		src.activeAt = s.sys.cfg.Clock.Mono()
	}
	if !caughtUp && src.idle && !src.stopping {
		src.idle = false // who cannot be asked, or has something to read, is not idle
		s.wake()
	}
	if caughtUp && !src.idle && src.idleStop == nil {
		s.armIdle(0)
	}
	retries := src.status.State == connectors.Retrying
	if s.cfg.OnStatus != nil && (retries != (old.State == connectors.Retrying) || retries && src.status.Reason != old.Reason) {
		s.cfg.OnStatus(StatusReport{Source: s.stage.source.name, Partition: src.partition, Retrying: retries, Reason: src.status.Reason})
	}
}

func (s *subtask) countCaughtUp(up bool) {
	d := int64(-1)
	if up {
		d = 1
	}
	s.nodes[0].CaughtUp.Add(d)
}

func (src *sourceHalf) disarm() {
	if src.idleStop != nil {
		src.idleStop()
		src.idleStop = nil
	}
}

// armIdle looks at the partition again when it may have been silent for long
// enough, given that it has been for so long already.
func (s *subtask) armIdle(silent time.Duration) {
	src := s.source
	d := src.idleTimeout()
	if d < 0 || src.ended || src.stopping {
		return
	}
	src.generation++
	g := src.generation
	src.idleStop = s.sys.cfg.Clock.AfterFunc(d-silent, func() { s.post(&idleTick{generation: g}) })
}

// idleTimeout is how long a partition must be silent; negative: it is never idle.
func (src *sourceHalf) idleTimeout() time.Duration {
	if src.spec.IdleTimeout == 0 {
		return 30 * time.Second
	}
	return src.spec.IdleTimeout
}

func (s *subtask) idleTick(m *idleTick) {
	src := s.source
	if src == nil || m.generation != src.generation || src.ended {
		return
	}
	src.idleStop = nil
	if src.status.State != connectors.CaughtUp {
		return // the wait begins again when the reader has caught up
	}
	if len(src.ready) > 0 || s.chain.Busy() || s.outputBlocked() || src.held {
		s.armIdle(0) // held up is not idle; look again later
		return
	}
	if silent := s.sys.cfg.Clock.Mono() - src.activeAt; silent < src.idleTimeout() {
		s.armIdle(silent)
		return
	}
	src.idle = true
	s.tellChanged()
	s.silence = goesIdle
}

// freeze notes the partition's position for epoch e.
func (src *sourceHalf) freeze(s *subtask, e messages.Epoch) *epochs.SourceState {
	off := append(connectors.Offset(nil), src.offset...)
	src.frozen[e] = off
	st := &epochs.SourceState{
		Source: s.stage.source.name, Partition: src.partition, Offset: off,
		Watermark: messages.NoEventTime, Idle: src.idle, Ended: src.ended, Rows: src.rows,
	}
	if src.clock != nil {
		st.Watermark = src.clock.Watermark()
		s.noteSkew(src.clock.Skewed())
	}
	return st
}

// noteSkew counts rows that did not move the watermark and tells of the first.
func (s *subtask) noteSkew(total uint64) {
	src := s.source
	if total == src.skewed {
		return
	}
	if src.skewed == 0 {
		s.sys.cfg.Log.Warn("rows are stamped further ahead of their broker time than max_future_skew; they are processed and do not move the watermark",
			"query", s.cfg.Query, "source", s.stage.source.name, "partition", src.partition, "rows", total)
	}
	s.nodes[0].Skewed.Add(int64(total - src.skewed))
	src.skewed = total
}

// committed notes that an epoch is durable.
func (s *subtask) committed(m *committedMsg) {
	src := s.source
	if off := src.frozen[m.epoch]; len(off) > 0 {
		src.durable, src.durableEpoch = off, m.epoch
	}
	delete(src.frozen, m.epoch)
	src.final = m.final
	s.acknowledge()
}

// acknowledge acknowledges the newest durable epoch upstream. One call is made at
// a time; what becomes durable meanwhile is acknowledged together.
func (s *subtask) acknowledge() {
	src := s.source
	if src.acking {
		return
	}
	if src.durable == nil {
		if src.final {
			s.ctx.Send(s.query, &sourceDone{})
		}
		return
	}
	off, e, reader, ctx := src.durable, src.durableEpoch, src.reader, s.ctxIO
	src.acking, src.durable = true, nil
	src.acks.Submit(func() {
		err := fault.Inject("src/ack")
		if err == nil {
			err = reader.Committed(ctx, off)
		}
		if err != nil {
			err = fault.Wrap(fault.Restart, err, "acknowledge epoch %d", e)
		}
		s.post(&acknowledgedMsg{err: err})
	})
}

func (s *subtask) acknowledged(m *acknowledgedMsg) {
	s.source.acking = false
	if m.err != nil && !s.source.final {
		s.fail(m.err)
		return
	}
	if m.err != nil { // the results are complete, and the next start acknowledges again
		s.sys.cfg.Log.Warn("source", "query", s.cfg.Query, "partition", s.source.partition, "error", m.err)
	}
	s.acknowledge()
}

func (src *sourceHalf) shutdown(s *subtask, stopped func(string) func()) {
	for _, m := range src.ready {
		if m.b != nil {
			m.b.Release()
		}
	}
	src.ready = nil
	src.disarm()
	src.undue()
	reader, log, query := src.reader, s.sys.cfg.Log, s.cfg.Query
	done := stopped(s.workerName("reader"))
	src.acks.Stop(func() {
		// Reads may still run; they return since the context has ended.
		src.reads.Stop(func() {
			defer done()
			if reader == nil {
				return
			}
			if err := reader.Close(); err != nil {
				log.Warn("close reader", "query", query, "partition", src.partition, "error", err)
			}
		})
	})
}
