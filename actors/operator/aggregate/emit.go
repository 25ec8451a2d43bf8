package aggregate

import (
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// jobKind is a piece of emission work.
type jobKind uint8

const (
	jobPending jobKind = iota // update: emit the changed groups
	jobEvict                  // update: drop what the watermark has passed
	jobFinal                  // append: emit and drop what the watermark has passed
	jobTable                  // complete: emit everything
)

// plannedJob is a job and what it needs to know.
type plannedJob struct {
	kind jobKind
	at   messages.EventTime // watermark
	now  messages.EventTime // arrival time of the rows, NoEventTime: none
}

// job is the emission in progress. No snapshot is taken while there is one, so
// nothing of it is saved but what closed can be computed from.
type job struct {
	queue []plannedJob
	begun bool // the first of queue has begun

	// closed is the start of the last window that the watermark has passed;
	// windows behind it are open.
	closed int64

	next   int // pending: next group; its windows from window on
	window int64
	stage  windowStage
	slice  int64 // being combined
	cursor state.Cursor
}

// windowStage is where the emission of one window stands.
type windowStage uint8

const (
	stageNone    windowStage = iota
	stageCombine             // adding slices up
	stageEmit                // emitting groups
)

func (j *job) plan(k jobKind, at, now messages.EventTime) {
	j.queue = append(j.queue, plannedJob{k, at, now})
}

// work is how much a call may still do: a row emitted, a record combined or
// dropped costs one.
type work int

// dropCost is what dropping a pane counts for.
const dropCost = 64

// Resume goes on with the emission.
func (o *Operator) Resume(out operator.Output) (bool, error) {
	left := work(operator.MaxEmit)
	j := &o.job
	for len(j.queue) > 0 {
		p := j.queue[0]
		if !j.begun {
			j.begun = true
			o.begin(p)
		}
		done, err := o.step(p, &left, out)
		if err != nil {
			o.out.drop()
			return false, err
		}
		if !done {
			if p.kind != jobTable { // a table goes out in full batches, with an end
				o.out.flush(out, 0)
			}
			return true, nil
		}
		o.finish(p, out)
		j.begun = false
		j.queue = j.queue[:copy(j.queue, j.queue[1:])]
	}
	return false, nil
}

// begin prepares the first step of a job.
func (o *Operator) begin(p plannedJob) {
	j := &o.job
	j.next, j.stage = 0, stageNone
	j.window = noWindow
	o.out.begin(p)
	if p.kind == jobTable && (o.slices == nil || o.slices.tumbling()) {
		j.cursor = o.store.ScanAll()
	}
}

func (o *Operator) step(p plannedJob, left *work, out operator.Output) (done bool, err error) {
	switch p.kind {
	case jobPending:
		return o.stepPending(left, out)
	case jobEvict:
		return o.stepEvict(p, left), nil
	case jobFinal:
		if o.slices == nil {
			return o.stepTimers(p, left, out)
		}
		return o.stepFinal(p, left, out)
	default:
		if o.slices == nil || o.slices.tumbling() {
			return o.emitCursor(left, out)
		}
		return o.stepTable(left, out)
	}
}

func (o *Operator) finish(p plannedJob, out operator.Output) {
	switch p.kind {
	case jobTable:
		o.out.flush(out, messages.FrameEnd)
	case jobPending:
		clear(o.pending)
		o.pending = o.pending[:0]
		o.out.flush(out, 0)
	case jobFinal:
		if o.slices != nil {
			o.job.closed = max(o.job.closed, o.slices.closedBy(int64(p.at)))
		}
		o.out.flush(out, 0)
	case jobEvict: // emits nothing
	}
}

// stepFinal emits the windows that end at or before the watermark, in order, and
// drops the slices that no open window needs.
func (o *Operator) stepFinal(p plannedJob, left *work, out operator.Output) (bool, error) {
	j := &o.job
	for *left > 0 {
		if j.stage == stageNone {
			start, ok := o.slices.next(j.closed, o.store)
			if !ok || start+o.slices.size > int64(p.at) {
				return true, nil
			}
			o.beginWindow(start)
		}
		done, err := o.stepWindow(left, out)
		if !done || err != nil {
			return false, err
		}
		j.closed = j.window
		o.dropBefore(j.window+o.slices.slide, left)
	}
	return false, nil
}

// stepTable emits all windows of a table with sliding windows.
func (o *Operator) stepTable(left *work, out operator.Output) (bool, error) {
	j := &o.job
	for *left > 0 {
		if j.stage == stageNone {
			start, ok := o.slices.next(j.window, o.store)
			if !ok {
				return true, nil
			}
			o.beginWindow(start)
		}
		done, err := o.stepWindow(left, out)
		if !done || err != nil {
			return false, err
		}
	}
	return false, nil
}

// dropBefore drops the slices that start before the given one.
func (o *Operator) dropBefore(slice int64, left *work) {
	for {
		pane, ok := o.store.MinPane()
		if !ok || pane >= slice {
			return
		}
		o.task.Counters.Evicted += uint64(o.store.DropPane(pane))
		*left -= dropCost
	}
}

// beginWindow starts the emission of the window that starts at start. A window
// with data in one slice only is emitted from there.
func (o *Operator) beginWindow(start int64) {
	j := &o.job
	j.window, j.stage = start, stageEmit
	first, _ := o.store.NextPane(start)
	second, more := o.store.NextPane(first + 1)
	if !more || second >= start+o.slices.size {
		j.cursor = o.store.Scan(first)
		return
	}
	j.stage, j.slice = stageCombine, first
	j.cursor = o.store.Scan(first)
}

// stepWindow goes on with the window begun; done when all its groups are out.
func (o *Operator) stepWindow(left *work, out operator.Output) (done bool, err error) {
	j := &o.job
	for j.stage == stageCombine {
		for *left > 0 {
			e, ok := j.cursor.Next()
			if !ok {
				break
			}
			*left--
			if err := o.combine(e); err != nil {
				return false, err
			}
		}
		if *left <= 0 {
			return false, nil
		}
		next, ok := o.store.NextPane(j.slice + 1)
		if ok && next < j.window+o.slices.size {
			j.slice, j.cursor = next, o.store.Scan(next)
			continue
		}
		j.stage, j.cursor = stageEmit, o.scrap.Scan(0)
	}
	done, err = o.emitCursor(left, out)
	if done && err == nil {
		j.stage = stageNone
		if o.scrap != nil {
			o.scrap.Clear()
		}
	}
	return done, err
}

// combine adds a record to that of its group in the scrap store.
func (o *Operator) combine(e state.Entry) error {
	sum, created := o.keys.copy(o.scrap, e)
	if created {
		copy(sum.Slots(), e.Slots())
		for i := range o.values {
			o.scrap.SetValue(sum, i, e.Value(i))
		}
		return nil
	}
	for i := range o.cells {
		c := &o.cells[i]
		if err := c.f.merge(c, sum, e); err != nil {
			return err
		}
	}
	return nil
}

// emitCursor emits the groups that the cursor meets.
func (o *Operator) emitCursor(left *work, out operator.Output) (done bool, err error) {
	j := &o.job
	for *left > 0 {
		e, ok := j.cursor.Next()
		if !ok {
			return true, nil
		}
		*left--
		window := j.window
		if window == noWindow {
			window = e.Pane()
		}
		if err := o.out.row(window, e, out); err != nil {
			return false, err
		}
	}
	return false, nil
}

// stepTimers emits and drops the groups whose own time the watermark has passed.
func (o *Operator) stepTimers(p plannedJob, left *work, out operator.Output) (bool, error) {
	for *left > 0 {
		e, _, ok := o.store.Due(p.at)
		if !ok {
			return true, nil
		}
		*left--
		if err := o.out.row(0, e, out); err != nil {
			return false, err
		}
		o.store.Delete(e)
		o.task.Counters.Evicted++
	}
	return false, nil
}

// stepEvict drops what the watermark has passed.
func (o *Operator) stepEvict(p plannedJob, left *work) bool {
	if o.slices != nil {
		for *left > 0 {
			pane, ok := o.store.MinPane()
			if !ok || o.slices.lastEnd(pane) > int64(p.at) {
				o.job.closed = max(o.job.closed, o.slices.closedBy(int64(p.at)))
				return true
			}
			o.task.Counters.Evicted += uint64(o.store.DropPane(pane))
			*left -= dropCost
		}
		return false
	}
	if !o.timed {
		return true
	}
	for *left > 0 {
		e, _, ok := o.store.Due(p.at)
		if !ok {
			return true
		}
		*left--
		o.store.Delete(e)
		o.task.Counters.Evicted++
	}
	return false
}

// stepPending emits the changed groups, with sliding windows once per open
// window.
func (o *Operator) stepPending(left *work, out operator.Output) (bool, error) {
	j := &o.job
	for ; j.next < len(o.pending); j.next++ {
		e := o.pending[j.next]
		if o.slices == nil || o.slices.tumbling() {
			if *left <= 0 {
				return false, nil
			}
			*left--
			o.store.Mutate(e)[0] &^= changed
			if err := o.out.row(e.Pane(), e, out); err != nil {
				return false, err
			}
			continue
		}
		if done, err := o.stepSliding(e, left, out); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// stepSliding emits the open windows of a changed slice of a group. A window
// with another slice still to come in the pending list is left to that one.
func (o *Operator) stepSliding(e state.Entry, left *work, out operator.Output) (bool, error) {
	j := &o.job
	slice := e.Pane()
	if j.stage == stageNone {
		o.store.Mutate(e)[0] &^= changed
		j.stage = stageEmit
		j.window = o.slices.firstStart(slice)
	}
	for last := o.slices.lastStart(slice); j.window <= last; j.window += o.slices.slide {
		if j.window <= j.closed {
			continue
		}
		if *left <= 0 {
			return false, nil
		}
		*left--
		if err := o.emitOne(e, left, out); err != nil {
			return false, err
		}
	}
	j.stage = stageNone
	return true, nil
}

// emitOne emits the group of e in the window at hand.
func (o *Operator) emitOne(e state.Entry, left *work, out operator.Output) error {
	j := &o.job
	defer func() { // one group is dropped faster than the pane
		if sum, found := o.keys.find(o.scrap, 0, e); found {
			o.scrap.Delete(sum)
		}
	}()
	for pane, ok := o.store.NextPane(j.window); ok && pane < j.window+o.slices.size; pane, ok = o.store.NextPane(pane + 1) {
		part, found := o.keys.find(o.store, pane, e)
		*left--
		if !found {
			continue
		}
		if part.Slots()[0]&changed != 0 {
			return nil
		}
		if err := o.combine(part); err != nil {
			return err
		}
	}
	sum, found := o.keys.find(o.scrap, 0, e)
	if !found {
		return nil
	}
	return o.out.row(j.window, sum, out)
}
