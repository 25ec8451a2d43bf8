package actors

import (
	"context"
	"hash/crc32"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// A subtask encodes state for encodeBudget at a time and then pauses, at least for
// encodePause. The pause is for the scheduler of the Go runtime: a processor looks
// for network and file events only when it has nothing to run, and the monitor
// that looks in its place does so every 10 ms. Measured on two processors with
// 1,000,000 keys, a tenth of them changed in each epoch: without the pause, while the
// other processor was in an fsync, a source did not read for up to 14 ms.
const (
	encodeBudget = 200 * time.Microsecond
	encodePause  = 20 * time.Microsecond
)

// segmentLot is how many bytes of finished segments are stored at a time.
const segmentLot = 1 << 20

// castagnoli is the checksum of segments in the commit record.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// barrier is where a subtask stands with the current epoch: waiting for its
// markers, at the marker, or saving what it froze there.
type barrier struct {
	aligner *epochs.Aligner
	marker  messages.Marker
	aligned bool // the marker is due as soon as the chain is at rest
	flushed bool // the chain has been asked to flush for it

	// saving is the epoch being saved, 0: none.
	saving    messages.Epoch
	encoding  []*stateful // operators not yet encoded
	ticking   bool
	lot       []epochs.Segment
	lotOwners []releaser // who takes back the buffers of lot, nil: nobody
	lotBytes  int
	stores    int  // Put calls that have not answered
	sinkWaits bool // the sink's flush has not answered
	ack       *subtaskAck
}

// stateful is an operator of the chain that has state.
type stateful struct {
	uid  string
	snap operator.Snapshotter
}

func (b *barrier) start(m messages.Marker) { b.marker, b.aligned, b.flushed = m, true, false }

// mustFlush reports whether output may still come before the marker.
func (b *barrier) mustFlush() bool { return b.marker.Flush && !b.flushed }

// inject gives a source its marker.
func (s *subtask) inject(m messages.Marker) { s.barrier.start(m) }

// atMarker ends the epoch for this subtask: everything before the marker has
// left the chain. It freezes the state, cuts the sink, forwards the marker and
// goes on; saving happens aside.
func (s *subtask) atMarker() {
	b := &s.barrier
	if b.mustFlush() {
		b.flushed = true
		s.chain.Flush(messages.EventTimeOf(s.sys.cfg.Clock.Now()))
		return
	}
	if b.saving != 0 {
		s.fail(fault.New(fault.Internal, "%s[%d]: marker %d while epoch %d is being saved", s.stage.name(), s.index, b.marker.Epoch, b.saving))
		return
	}
	if err := fault.Inject("op/freeze"); err != nil {
		s.fail(err)
		return
	}
	b.aligned, s.changed = false, false
	e := b.marker.Epoch
	b.saving = e
	b.ack = &subtaskAck{subtask: s.id, epoch: e, counters: s.counters()}
	b.encoding = b.encoding[:0]
	for i := range s.chain.Len() {
		if st, ok := s.chain.Link(i).Op.(operator.Stateful); ok {
			snap := st.Snapshots()
			snap.Freeze(e)
			b.encoding = append(b.encoding, &stateful{uid: s.chain.Link(i).Task.UID, snap: snap})
		}
	}
	if s.source != nil {
		b.ack.source = s.source.freeze(s, e)
	}
	if s.sink != nil {
		b.sinkWaits = true
		s.sink.cut(s, e)
	}
	s.broadcast(b.marker)
	b.aligner.Release()
	s.finishSaving()
}

// encodeSlice encodes some of the frozen state. It comes back by itself, behind the
// messages that have arrived meanwhile: a slice after every batch would be slower
// than batches arrive.
func (s *subtask) encodeSlice() {
	b := &s.barrier
	if s.dead || b.saving == 0 || len(b.encoding) == 0 {
		return
	}
	start := s.sys.cfg.Clock.Mono()
	until := func() bool { return s.sys.cfg.Clock.Mono()-start > encodeBudget }
	for len(b.encoding) > 0 {
		done, err := b.encoding[0].snap.Encode(until, s.collectSegment)
		if err != nil {
			s.fail(fault.Wrap(fault.Internal, err, "encode state of %s[%d] for epoch %d", s.stage.name(), s.index, b.saving))
			return
		}
		if !done {
			if !b.ticking {
				b.ticking = true
				s.sys.cfg.Clock.AfterFunc(encodePause, func() { s.post(&encodeTick{}) })
			}
			return
		}
		b.encoding = b.encoding[1:]
	}
	s.storeLot()
	s.finishSaving()
}

// releaser is implemented by operator state that recycles segment buffers; it is
// safe to call from any goroutine.
type releaser interface{ Release(data []byte) }

func (s *subtask) collectSegment(seg epochs.Segment) error {
	b := &s.barrier
	owner, _ := b.encoding[0].snap.(releaser)
	b.lot = append(b.lot, seg)
	b.lotOwners = append(b.lotOwners, owner)
	b.lotBytes += len(seg.Data)
	if b.lotBytes >= segmentLot && b.stores < MaxTasks/2 {
		s.storeLot()
	}
	return nil
}

// storeLot hands the segments collected so far to the worker.
func (s *subtask) storeLot() {
	b := &s.barrier
	if len(b.lot) == 0 {
		return
	}
	lot, owners, e := b.lot, b.lotOwners, b.saving
	b.lot, b.lotOwners, b.lotBytes = nil, nil, 0
	b.stores++
	ctx, store := s.ctxIO, s.cfg.Store
	s.worker.Submit(func() {
		segs, err := putSegments(ctx, store, e, lot)
		for i, o := range owners {
			if o != nil {
				o.Release(lot[i].Data) // the store keeps no reference
			}
		}
		s.post(&persistedMsg{epoch: e, segs: segs, err: err})
	})
}

func putSegments(ctx context.Context, store epochs.Segments, e messages.Epoch, lot []epochs.Segment) ([]segmentInfo, error) {
	infos := make([]segmentInfo, len(lot))
	for i, seg := range lot {
		infos[i] = segmentInfo{id: seg.SegmentID, base: seg.Base, bytes: len(seg.Data), sum: crc32.Checksum(seg.Data, castagnoli)}
	}
	if err := fault.Inject("epoch/persist"); err != nil {
		return nil, err
	}
	if err := store.Put(ctx, e, lot); err != nil {
		return nil, fault.Wrap(fault.Restart, err, "persist %d segments of epoch %d", len(lot), e)
	}
	return infos, nil
}

func (s *subtask) persisted(m *persistedMsg) {
	b := &s.barrier
	if m.err != nil {
		s.fail(m.err)
		return
	}
	b.stores--
	b.ack.segs = append(b.ack.segs, m.segs...)
	s.finishSaving()
}

func (s *subtask) flushed(m *flushedMsg) {
	if m.err != nil {
		s.fail(fault.At(fault.Location{Query: s.cfg.Query, Operator: s.stage.name(), Subtask: s.index, Parallelism: s.stage.parallelism, Epoch: uint64(m.epoch)}, m.err))
		return
	}
	s.barrier.sinkWaits = false
	s.barrier.ack.token = m.token
	s.finishSaving()
}

// finishSaving acknowledges the epoch once everything of it is durable.
func (s *subtask) finishSaving() {
	b := &s.barrier
	if b.saving == 0 || len(b.encoding) > 0 || len(b.lot) > 0 || b.stores > 0 || b.sinkWaits {
		return
	}
	if err := fault.Inject("epoch/ack"); err != nil {
		s.fail(err)
		return
	}
	s.ctx.Send(s.query, b.ack)
	b.saving, b.ack = 0, nil
}

// counters copies the row counters of the chain's operators as of the marker.
func (s *subtask) counters() []epochs.Counters {
	out := make([]epochs.Counters, 0, s.chain.Len()+2)
	for i := range s.chain.Len() {
		l := s.chain.Link(i)
		c := *l.Task.Counters
		c.Watermark = s.chain.Reached(i)
		if st, ok := l.Op.(operator.Stateful); ok {
			snap := st.Snapshots()
			c.StateRows, c.StateBytes = snap.Rows(), snap.Bytes()
		}
		out = append(out, c)
	}
	return s.ends.append(out, s.stage)
}
