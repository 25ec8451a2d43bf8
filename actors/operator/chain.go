package operator

import (
	"runtime/debug"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// ChainOutput takes what leaves the last operator of a chain, in order.
type ChainOutput interface {
	Output
	// Watermark says that the chain's watermark has reached wm. Batches emitted
	// before it may have carried it already.
	Watermark(wm messages.EventTime)
}

// Link is an operator and the task it runs as.
type Link struct {
	Op   Operator
	Task *Task
}

// Chain runs operators one behind the other on one goroutine: what one emits is
// queued for the next, and the operator furthest down works first, so that at
// most the output of one call waits between two operators.
//
// Deliver, Watermark, Flush and Timer enqueue work; Step does one call of one
// operator. While Busy, the host must not deliver anything new, so that the
// chain never needs to be saved with work in it.
type Chain struct {
	steps []step
	out   ChainOutput
	views *messages.Pool
}

type itemKind uint8

const (
	batchItem itemKind = iota
	watermarkItem
	flushItem
	timerItem
	finishItem
)

// item is a piece of work queued for a step.
type item struct {
	kind   itemKind
	domain Domain
	input  int
	b      *messages.Batch
	pos    int // batchItem: index into the selected rows, rows before it are done
	mark   int // batchItem: marks before it are done
	wm     messages.EventTime
	at     time.Duration
	now    messages.EventTime
}

type step struct {
	chain *Chain
	index int
	link  Link
	res   Resumer
	wmk   Watermarker
	split Splitter
	timed Timed
	flush Flusher

	queue  []item
	head   int
	more   bool
	cur    item               // the call that returned more
	part   *messages.Batch    // view or batch being processed, to be released
	rest   bool               // cur has rows left after part
	wm     messages.EventTime // of the latest Watermark call, or passed through
	passed messages.EventTime // highest watermark handed down
}

// NewChain links the operators. They must have been opened and their state
// restored. wm is the watermark that they start with; a Starter is told.
func NewChain(links []Link, wm messages.EventTime, out ChainOutput) *Chain {
	c := &Chain{out: out, views: messages.NewViewPool(), steps: make([]step, len(links))}
	for i, l := range links {
		s := &c.steps[i]
		s.chain, s.index, s.link = c, i, l
		s.wm, s.passed = wm, wm
		s.res, _ = l.Op.(Resumer)
		s.wmk, _ = l.Op.(Watermarker)
		s.split, _ = l.Op.(Splitter)
		s.timed, _ = l.Op.(Timed)
		s.flush, _ = l.Op.(Flusher)
		if st, ok := l.Op.(Starter); ok {
			st.Start(wm)
		}
	}
	return c
}

// Len is the number of operators.
func (c *Chain) Len() int { return len(c.steps) }

// Link returns operator i and its task.
func (c *Chain) Link(i int) Link { return c.steps[i].link }

// Reached is the watermark that operator i has been brought to.
func (c *Chain) Reached(i int) messages.EventTime { return c.steps[i].wm }

// Deliver queues a batch of the given input of the first operator. The chain
// takes over one reference.
func (c *Chain) Deliver(input int, b *messages.Batch) {
	c.push(0, item{kind: batchItem, input: input, b: b})
}

// Watermark queues an advance of the combined watermark of the inputs.
func (c *Chain) Watermark(wm messages.EventTime) { c.push(0, item{kind: watermarkItem, wm: wm}) }

// Flush queues a request to emit everything that is held back only to coalesce.
func (c *Chain) Flush(now messages.EventTime) { c.push(0, item{kind: flushItem, now: now}) }

// Finish queues the end of all input: every operator that holds what only the
// watermark makes final is brought to the watermark at which it is.
func (c *Chain) Finish() { c.push(0, item{kind: finishItem}) }

// Timer queues a fired timer of operator i.
func (c *Chain) Timer(i int, d Domain, at time.Duration, now messages.EventTime) {
	c.push(i, item{kind: timerItem, domain: d, at: at, now: now})
}

// push queues work for step i, or hands it to the output behind the last step.
func (c *Chain) push(i int, it item) {
	if i < len(c.steps) {
		s := &c.steps[i]
		s.queue = append(s.queue, it)
		return
	}
	switch it.kind {
	case batchItem:
		c.out.Emit(it.b)
	case watermarkItem:
		c.out.Watermark(it.wm)
	case flushItem, timerItem, finishItem: // not for the outside
	}
}

// Busy reports whether there is work left.
func (c *Chain) Busy() bool {
	for i := range c.steps {
		if s := &c.steps[i]; s.more || s.head < len(s.queue) {
			return true
		}
	}
	return false
}

// Step does one operator call. It must only be called while Busy. An error or a
// panic of the operator is returned with the operator's name and ends the
// chain.
func (c *Chain) Step() (err error) {
	var at *step
	defer func() {
		if v := recover(); v != nil {
			err = fault.Recovered(v, debug.Stack())
		}
		if err != nil && at != nil {
			t := at.link.Task
			err = fault.At(fault.Location{Query: t.Query, Operator: t.UID, Subtask: t.Index, Parallelism: t.Parallelism}, err)
		}
	}()
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := &c.steps[i]
		if s.more {
			at = s
			return s.resume()
		}
		if s.head < len(s.queue) {
			at = s
			return s.next()
		}
	}
	return nil
}

// Close releases batches in progress and closes the operators, first error wins.
func (c *Chain) Close() error {
	var first error
	for i := range c.steps {
		s := &c.steps[i]
		for _, it := range s.queue[s.head:] {
			if it.b != nil {
				it.b.Release()
			}
		}
		if s.more && s.cur.b != nil {
			s.releasePart()
		}
		s.queue, s.more = nil, false
		if err := s.link.Op.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// stepOutput is the Output an operator sees.
type stepOutput struct{ s *step }

func (o stepOutput) Emit(b *messages.Batch) {
	s := o.s
	if wm := b.Watermark(); wm > s.passed {
		s.passed = wm
	}
	s.chain.push(s.index+1, item{kind: batchItem, b: b})
}

func (s *step) resume() error {
	more, err := s.res.Resume(stepOutput{s})
	return s.done(more, err)
}

func (s *step) next() error {
	it := s.queue[s.head]
	s.queue[s.head] = item{}
	s.head++
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
	s.cur = it
	switch it.kind {
	case batchItem:
		return s.batch()
	case watermarkItem:
		return s.watermark()
	case flushItem:
		if s.flush == nil {
			return s.done(false, nil)
		}
		more, err := s.flush.Flush(it.now, stepOutput{s})
		return s.done(more, err)
	case finishItem:
		return s.finish()
	default:
		if s.timed == nil {
			return s.done(false, nil)
		}
		more, err := s.timed.Timer(it.domain, it.at, it.now, stepOutput{s})
		return s.done(more, err)
	}
}

// finish brings the operator to its horizon, and then passes the end on.
func (s *step) finish() error {
	if f, ok := s.link.Op.(Finite); ok && s.wmk != nil {
		if wm := f.Horizon(); wm > s.wm {
			s.pushFront(s.cur)
			s.pushFront(item{kind: watermarkItem, wm: wm})
			return nil
		}
	}
	return s.done(false, nil)
}

func (s *step) watermark() error {
	if s.cur.wm <= s.wm {
		return s.done(false, nil)
	}
	s.wm = s.cur.wm
	if s.wmk == nil {
		return s.done(false, nil)
	}
	more, err := s.wmk.Watermark(s.cur.wm, stepOutput{s})
	return s.done(more, err)
}

// batch processes the next part of the current batch: all that is left, or the
// rows up to the unit behind which the watermark must act.
func (s *step) batch() error {
	s.rest = false
	b := s.cur.b
	end, mark := s.cutAt(b)
	s.part = b
	if s.cur.pos > 0 || end < b.Rows() {
		s.part = slicePart(s.chain.views, b, s.cur.pos, end)
	}
	s.cur.pos, s.cur.mark = end, mark
	s.rest = mark < len(b.Marks()) || end < b.Rows()
	more, err := s.link.Op.Process(s.cur.input, s.part, stepOutput{s})
	return s.done(more, err)
}

// done finishes the current call or notes that it goes on.
func (s *step) done(more bool, err error) error {
	if err != nil {
		return err
	}
	s.more = more
	if more {
		return nil
	}
	switch s.cur.kind {
	case batchItem:
		s.batchDone()
	case watermarkItem:
		s.pass(s.cur.wm)
	case flushItem, finishItem:
		s.chain.push(s.index+1, s.cur)
	case timerItem: // for this operator only
	}
	s.cur.b = nil
	return nil
}

func (s *step) pass(wm messages.EventTime) {
	if wm > s.passed {
		s.passed = wm
		s.chain.push(s.index+1, item{kind: watermarkItem, wm: wm})
	}
}

// batchDone queues, in front of everything else, the watermark reached by the
// part just processed and then the rest of the batch.
func (s *step) batchDone() {
	b, it := s.cur.b, s.cur
	wm := b.Watermark()
	if s.rest && it.mark > 0 {
		wm = b.Marks()[it.mark-1].At
	}
	if s.part != b {
		s.part.Release()
	}
	s.part = nil
	if s.rest {
		s.pushFront(it)
	} else {
		b.Release()
	}
	if wm <= s.wm {
		return
	}
	if s.wmk == nil {
		s.wm = wm
		s.pass(wm)
		return
	}
	s.pushFront(item{kind: watermarkItem, wm: wm})
}

func (s *step) pushFront(it item) {
	if s.head > 0 {
		s.head--
		s.queue[s.head] = it
		return
	}
	s.queue = append(s.queue, item{})
	copy(s.queue[1:], s.queue)
	s.queue[0] = it
}

func (s *step) releasePart() {
	if s.part != nil && s.part != s.cur.b {
		s.part.Release()
	}
	s.part = nil
	if s.cur.b != nil {
		s.cur.b.Release()
		s.cur.b = nil
	}
}
