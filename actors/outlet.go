package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
)

// outlet is the producer's end of one (producer subtask, consumer subtask) pair:
// a window of credit and one pending queue. Elements leave in the order in which
// they were sent. Batches need credit; control elements do not, but keep their
// place behind batches that wait.
//
// Invariant: the queue is empty or its head is a batch without credit.
type outlet struct {
	owner   *subtask
	pid     *actor.PID
	input   int // index of the inlet at the consumer
	seq     uint64
	batches int // in flight
	bytes   int // in flight
	pending []messages.Element
	head    int
	wm      messages.EventTime // highest watermark sent
}

func (o *outlet) send(el messages.Element) {
	if o.head == len(o.pending) && o.admits(el) {
		o.post(el)
		return
	}
	o.pending = append(o.pending, el)
}

// admits reports whether el may travel now. An empty window admits a batch of
// any size, so that one larger than the window still moves.
func (o *outlet) admits(el messages.Element) bool {
	if _, ok := el.(*messages.Batch); !ok {
		return true
	}
	cfg := o.owner.cfg
	return o.batches == 0 || (o.batches < cfg.Window && o.bytes < cfg.WindowBytes)
}

func (o *outlet) post(el messages.Element) {
	if b, ok := el.(*messages.Batch); ok {
		o.batches++
		o.bytes += b.Size()
	}
	o.seq++
	m := o.owner.pool.get()
	m.attempt, m.input, m.seq, m.el = o.owner.cfg.Attempt, o.input, o.seq, el
	o.owner.ctx.Send(o.pid, m)
}

func (o *outlet) credit(batches, bytes int) {
	o.batches -= batches
	o.bytes -= bytes
	for o.head < len(o.pending) && o.admits(o.pending[o.head]) {
		el := o.pending[o.head]
		o.pending[o.head] = nil
		o.head++
		o.post(el)
	}
	if o.head == len(o.pending) {
		o.pending, o.head = o.pending[:0], 0
	}
}

// blocked reports whether a batch waits for credit.
func (o *outlet) blocked() bool { return o.head < len(o.pending) }

func (o *outlet) release() {
	for _, el := range o.pending[o.head:] {
		if b, ok := el.(*messages.Batch); ok {
			b.Release()
		}
	}
	o.pending, o.head = nil, 0
}

// fanout is one link of a stage seen from one producer subtask.
type fanout struct {
	link    *link
	outlets []*outlet
	views   *messages.Pool

	// Scratch of split.
	hashes []uint64
	parts  []*messages.Batch
	sels   [][]int32
}

// emit sends a batch, of which it takes over one reference.
func (f *fanout) emit(b *messages.Batch) {
	switch {
	case len(f.outlets) == 1:
		f.outlets[0].sendBatch(b)
	case f.link.kind == BroadcastEdge:
		b.Retain(len(f.outlets) - 1)
		for _, o := range f.outlets {
			o.sendBatch(b)
		}
	default:
		f.split(b)
		b.Release()
	}
}

func (o *outlet) sendBatch(b *messages.Batch) {
	o.wm = max(o.wm, b.Watermark())
	o.send(b)
}

// split gives each consumer a view of the rows whose key group it owns. The
// columns are shared; only the selections differ.
func (f *fanout) split(b *messages.Batch) {
	n := len(f.outlets)
	f.hashes = operator.HashKeys(f.hashes, b, f.link.keys)
	rows := b.Rows()
	views, sels := f.parts[:0], f.sels[:0]
	for range n {
		v := f.views.View(b)
		views = append(views, v)
		sels = append(sels, v.SelectBuffer(rows))
	}
	f.parts, f.sels = views, sels
	for i := range rows {
		r := b.Row(i)
		c := operator.SubtaskOf(operator.GroupOf(f.hashes[r]), n)
		sels[c] = append(sels[c], int32(r))
	}
	for c, o := range f.outlets {
		if len(sels[c]) == 0 && b.Frame() == 0 {
			views[c].Release()
			o.watermark(b.Watermark())
			continue
		}
		views[c].Select(sels[c])
		o.sendBatch(views[c])
	}
}

// watermark tells the consumer about an advance that no batch carries.
func (o *outlet) watermark(wm messages.EventTime) {
	if wm > o.wm {
		o.wm = wm
		o.send(messages.Watermark{At: wm})
	}
}
