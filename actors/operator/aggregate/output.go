package aggregate

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// batchWriter makes the output batches.
type batchWriter struct {
	o     *Operator
	pool  *messages.Pool
	b     *messages.Batch // being filled; nil: none
	n     int
	now   messages.EventTime
	frame messages.Frame // of the next batch
	ids   bool           // rows have an identity
	base  messages.ID128
	idA   []uint64
	idB   []uint64
	buf   []byte
}

func (w *batchWriter) init(o *Operator) {
	w.o = o
	w.pool = messages.NewPool(o.schema)
	w.ids = o.cfg.Mode == Append
}

// begin starts the output of a job.
func (w *batchWriter) begin(p plannedJob) {
	w.now, w.frame = p.now, 0
	if p.kind == jobTable {
		w.frame = messages.FrameStart
	}
	if w.ids && w.base == (messages.ID128{}) {
		var inc [16]byte
		binary.LittleEndian.PutUint64(inc[:], w.o.task.Incarnation.Hi)
		binary.LittleEndian.PutUint64(inc[8:], w.o.task.Incarnation.Lo)
		w.base = operator.HashID(inc[:], []byte(w.o.task.UID))
	}
}

// row appends the group of e in the given window. A full batch goes out when
// the row behind it comes.
func (w *batchWriter) row(window int64, e state.Entry, out operator.Output) error {
	if w.n == operator.MaxEmit {
		w.flush(out, 0)
	}
	if w.b == nil {
		w.b = w.pool.Get()
		if w.ids {
			w.idA, w.idB = w.b.LineageBuffers(operator.MaxEmit)
		}
	}
	col := 0
	if w.o.slices != nil {
		c := w.b.Own(0)
		c.Child(0).AppendInt64(window)
		c.Child(1).AppendInt64(window + w.o.slices.size)
		c.CloseStruct()
		col = 1
	}
	w.o.keys.result(e, w.b, col)
	for i := range w.o.cells {
		c := &w.o.cells[i]
		if err := c.f.result(c, e, w.b.Own(w.o.results+i)); err != nil {
			return err
		}
	}
	if w.ids {
		w.identify(window, e)
	}
	w.n++
	return nil
}

// identify gives the row the identity of its window and group.
func (w *batchWriter) identify(window int64, e state.Entry) {
	w.buf = w.buf[:0]
	if w.o.slices != nil {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(window))
		w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(window+w.o.slices.size))
	}
	w.buf = w.o.keys.identity(w.buf, e)
	id := xxh3.Hash128(w.buf)
	w.idA, w.idB = append(w.idA, id.Hi), append(w.idB, id.Lo)
}

// flush emits what there is. The end of a frame comes with the last rows; an
// empty table emits nothing.
func (w *batchWriter) flush(out operator.Output, end messages.Frame) {
	b := w.b
	if b == nil {
		return
	}
	b.SetLen(w.n)
	if w.ids {
		b.SetLineage(messages.Lineage{Base: w.base, A: w.idA, B: w.idB})
	}
	if w.now != messages.NoEventTime {
		arrivals := b.ArrivalBuffer(w.n)
		for range w.n {
			arrivals = append(arrivals, w.now)
		}
		b.SetArrivals(arrivals)
	}
	b.SetFrame(w.frame | end)
	w.frame = 0
	w.o.task.Counters.Out += uint64(w.n)
	w.b, w.n = nil, 0
	out.Emit(b.Publish())
}

// drop forgets a batch that will not be emitted.
func (w *batchWriter) drop() {
	if w.b != nil {
		w.b.SetLen(0)
		w.b.Release()
		w.b, w.n = nil, 0
	}
}
