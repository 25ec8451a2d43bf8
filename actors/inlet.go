package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/messages"
)

// inlet is the consumer's end of one (producer subtask, consumer subtask) pair.
type inlet struct {
	pid    *actor.PID
	outlet int // index at the producer
	input  int // which input of the first operator
	seq    uint64
	queue  []messages.Element
	head   int

	wm          messages.EventTime
	idle, ended bool

	freedBatches, freedBytes int
}

// push queues an element. Of watermarks without rows between them only the last
// counts: they need no credit, so that a slow consumer would collect them.
func (in *inlet) push(el messages.Element) {
	if _, ok := el.(messages.Watermark); ok && !in.empty() {
		last := &in.queue[len(in.queue)-1]
		if _, ok := (*last).(messages.Watermark); ok {
			*last = el
			return
		}
	}
	in.queue = append(in.queue, el)
}

func (in *inlet) empty() bool { return in.head == len(in.queue) }

func (in *inlet) pop() messages.Element {
	el := in.queue[in.head]
	in.queue[in.head] = nil
	in.head++
	if in.head == len(in.queue) {
		in.queue, in.head = in.queue[:0], 0
	}
	return el
}

func (in *inlet) release() {
	for _, el := range in.queue[in.head:] {
		if b, ok := el.(*messages.Batch); ok {
			b.Release()
		}
	}
	in.queue, in.head = nil, 0
}

// combined is the watermark over all inputs: the minimum of those that are
// neither idle nor ended, the maximum if all are or if the plan says so. Without
// inputs that have seen anything it is none. What an input has closed at its end
// (FlushAtEnd) counts when all have ended.
func (s *subtask) combined() messages.EventTime {
	low, high := messages.MaxEventTime, messages.NoEventTime
	active, open := false, false
	for _, in := range s.inlets {
		open = open || !in.ended
	}
	for _, in := range s.inlets {
		if s.cfg.FlushAtEnd && open && in.ended {
			continue
		}
		high = max(high, in.wm)
		if !in.idle && !in.ended {
			active = true
			low = min(low, in.wm)
		}
	}
	if active && !s.cfg.Plan.MaxWatermark {
		return low
	}
	return high
}

// remark rewrites the marks of a batch of one input into marks of the combined
// watermark. It returns b itself when nothing changes. cur is the combined
// watermark before the batch; the new one is returned.
func (s *subtask) remark(in *inlet, b *messages.Batch) *messages.Batch {
	target := max(in.wm, b.Watermark())
	if len(s.inlets) == 1 {
		in.wm = target
		s.wm = max(s.wm, target)
		return b
	}
	others := messages.MaxEventTime // with the policy max the others hold nothing back
	for _, o := range s.inlets {
		if o != in && !o.idle && !o.ended && !s.cfg.Plan.MaxWatermark {
			others = min(others, o.wm)
		}
	}
	in.wm = target
	now := max(s.wm, min(others, target))
	v := s.views.View(b)
	defer b.Release() // the view holds its own reference
	v.SetWatermark(now)
	if now == s.wm {
		v.SetMarks(nil)
		return v
	}
	marks := v.MarkBuffer(len(b.Marks()))
	cur := s.wm
	for _, m := range b.Marks() {
		if c := min(others, m.At); c > cur {
			marks = append(marks, messages.Mark{Row: m.Row, At: c})
			cur = c
		}
	}
	v.SetMarks(marks)
	s.wm = now
	return v
}
