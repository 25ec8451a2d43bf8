package nats

import "time"

// A server answers messages of one stream in the order in which they come. When the
// leader of a stream changes, or a route between servers breaks, answers are lost, and
// those to later messages come over the same connection. As long as they come the
// connection does not count as lost for that; but the epoch of the message without
// an answer cannot end.

// lap looks for such rows every stuckAfter. The zero value is ready; it has to be made
// anew when rows were sent again.
type lap struct {
	ticks int
	tails []uint64 // of the writers, when it began
}

// tick is called once a second. It reports whether a row that was sent before the lap
// began has no answer, although one that was sent since has.
func (l *lap) tick(ws []*writer) bool {
	if l.ticks > 0 && time.Duration(l.ticks)*time.Second < stuckAfter {
		l.ticks++
		return false
	}
	missing, later := false, false
	for i, tail := range l.tails {
		missing = missing || ws[i].open.Load() && ws[i].head.Load() < tail
		later = later || ws[i].answeredFrom(tail)
	}
	l.ticks, l.tails = 1, l.tails[:0]
	for _, w := range ws {
		l.tails = append(l.tails, w.tail.Load())
	}
	return missing && later
}

// answeredFrom reports whether row from or a later one is stored.
func (w *writer) answeredFrom(from uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.head.Load() > from {
		return true
	}
	for row := from; row < w.tail.Load(); row++ {
		if w.ring[row%uint64(len(w.ring))].state == slotDone {
			return true
		}
	}
	return false
}

// overdue reports whether a value sent before or as number mark has no answer,
// although one that was sent since has. It returns the number of the last one sent.
func (t *kvTable) overdue(mark uint64) (late bool, sends uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answeredTo <= mark {
		return false, t.sends
	}
	for i := range t.slots {
		s := &t.slots[i]
		late = late || s.e != nil && s.e.state == kvSent && s.order <= mark
	}
	return late, t.sends
}
