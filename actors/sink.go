package actors

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// writeWindow is how many batches may wait for or be inside a writer.
const writeWindow = 16

// sinkHalf is the part of a subtask that writes. Writing happens in its own
// worker in the order of the rows; waiting for acknowledgements in another.
type sinkHalf struct {
	s         *subtask
	spec      *SinkSpec
	base      messages.ID128 // query incarnation and sink
	committer connectors.Committer
	writer    connectors.Writer
	writes    Worker
	flushes   Worker
	waiting   int // writes outstanding
	// queued are tasks for the writes' worker beyond the window, in order: one call
	// of an operator may emit many small batches.
	queued []sinkTask
	// broken belongs to the writes' worker: a write has failed or panicked.
	// Nothing may follow it, or rows behind the failed one would be published
	// and those in it, replayed by the next attempt, would come after them.
	broken bool
}

// sinkTask is a task for the writes' worker.
type sinkTask struct {
	run   func()
	write bool // its end is a writtenMsg
}

func (k *sinkHalf) full() bool { return k.waiting >= writeWindow }

// submit hands a task to the writes' worker, behind those that are queued.
func (k *sinkHalf) submit(t sinkTask) {
	if len(k.queued) > 0 || t.write && k.waiting > writeWindow {
		k.queued = append(k.queued, t)
		return
	}
	k.writes.Submit(t.run)
}

// written notes the end of a write and lets a queued one take its place, together
// with what does not count.
func (k *sinkHalf) written() {
	k.waiting--
	for i, t := range k.queued {
		k.writes.Submit(t.run)
		k.queued[i] = sinkTask{}
		if t.write {
			k.queued = k.queued[i+1:]
			return
		}
	}
	k.queued = nil
}

// write hands a batch to the writer's worker. It takes over one reference.
func (k *sinkHalf) write(b *messages.Batch) {
	if b.Rows() == 0 && b.Frame() == 0 {
		b.Release()
		return
	}
	k.waiting++
	w, ctx, lineage, base, s := k.writer, k.s.ctxIO, k.spec.Lineage, k.base, k.s
	k.submit(sinkTask{write: true, run: func() {
		defer b.Release()
		if k.broken {
			return // the attempt is ending
		}
		k.broken = true
		var ids []messages.ID128
		if lineage {
			ids = rowIDs(base, b)
		}
		rows := b.Rows()
		err := fault.Inject("sink/write")
		if err == nil {
			err = w.Write(ctx, b, ids)
		}
		k.broken = err != nil
		s.post(&writtenMsg{err: err, rows: rows})
	}})
}

func (s *subtask) written(m *writtenMsg) {
	s.sink.written()
	if m.err != nil {
		s.fail(fault.At(fault.Location{Query: s.cfg.Query, Operator: s.stage.name(), Subtask: s.index, Parallelism: s.stage.parallelism}, m.err))
	}
}

// cut ends epoch e in the row sequence of the writer; the flush runs beside the
// rows that follow.
func (k *sinkHalf) cut(s *subtask, e messages.Epoch) {
	w, ctx := k.writer, s.ctxIO
	k.submit(sinkTask{run: func() {
		if k.broken {
			return
		}
		flush, err := w.Cut(e)
		if err != nil {
			s.post(&flushedMsg{epoch: e, err: err})
			return
		}
		k.flushes.Submit(func() {
			err := fault.Inject("sink/flush")
			var t connectors.Token
			if err == nil {
				t, err = flush(ctx)
			}
			s.post(&flushedMsg{epoch: e, token: t, err: err})
		})
	}})
}

func (k *sinkHalf) shutdown(stopped func(string) func()) {
	w, log, query := k.writer, k.s.sys.cfg.Log, k.s.cfg.Query
	done := stopped(k.s.workerName("writer"))
	flushes := k.flushes
	k.writes.Stop(func() {
		flushes.Stop(func() {
			defer done()
			if w == nil {
				return
			}
			if err := w.Close(); err != nil {
				log.Warn("close writer", "query", query, "error", err)
			}
		})
	})
}

// rowIDs computes the identity of each selected row from the query's
// incarnation, the sink and the row's lineage. It returns nil for rows without
// a lineage.
func rowIDs(base messages.ID128, b *messages.Batch) []messages.ID128 {
	l := b.Lineage()
	if l.A == nil {
		return nil
	}
	ids := make([]messages.ID128, b.Rows())
	var buf [48]byte
	binary.LittleEndian.PutUint64(buf[0:], base.Hi)
	binary.LittleEndian.PutUint64(buf[8:], base.Lo)
	binary.LittleEndian.PutUint64(buf[16:], l.Base.Hi)
	binary.LittleEndian.PutUint64(buf[24:], l.Base.Lo)
	for i := range ids {
		r := b.Row(i)
		binary.LittleEndian.PutUint64(buf[32:], l.A[r])
		var path uint64
		if l.B != nil {
			path = l.B[r]
		}
		binary.LittleEndian.PutUint64(buf[40:], path)
		h := xxh3.Hash128(buf[:])
		ids[i] = messages.ID128{Hi: h.Hi, Lo: h.Lo}
	}
	return ids
}

// sinkBase identifies a sink of a query incarnation.
func sinkBase(incarnation messages.ID128, sink string) messages.ID128 {
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[0:], incarnation.Hi)
	binary.LittleEndian.PutUint64(buf[8:], incarnation.Lo)
	return operator.HashID(buf[:], []byte(sink))
}
