package operator

import (
	"time"

	"github.com/streamd-io/streamd/messages"
)

// Operator is a step that turns batches into batches.
//
// Calls are resumable: Process and the methods of the optional interfaces emit
// at most about MaxEmit rows or work about 100 µs and return more = true when
// they are not finished. While more is true the host calls Resume, as credit
// allows, and nothing else. An operator that never returns more need not
// implement Resumer. There is no snapshot while more is true, so what remains
// to be done never needs to be saved.
type Operator interface {
	// Open is called once, before everything else but after the state, if any,
	// has been restored.
	Open(t *Task) error
	// Process takes the selected rows of a batch of the given input. The batch
	// belongs to the host: retain it to keep it. Rows are judged by the watermark
	// of the latest Watermark call; the host splits batches where that matters
	// (see Splitter).
	Process(input int, b *messages.Batch, out Output) (more bool, err error)
	// Close releases what Open acquired. It is called once, also after a failure.
	Close() error
}

// MaxEmit is the number of rows after which an operator should yield.
const MaxEmit = 1024

// Resumer continues a call that returned more = true.
type Resumer interface {
	Resume(out Output) (more bool, err error)
}

// Watermarker is told each time the combined watermark of the inputs advances.
// It emits what the advance releases; the host forwards the watermark after it.
// An operator without this method passes watermarks through. Batches emitted by
// an operator with this method carry no marks and no watermark of their own.
type Watermarker interface {
	Watermark(wm messages.EventTime, out Output) (more bool, err error)
}

// Finite is implemented by operators that hold what only the watermark makes final.
// Horizon returns the watermark at which nothing of it is left, NoEventTime if
// there is nothing; it is asked when all input has ended and the query closes
// windows then (Chain.Finish).
type Finite interface {
	Horizon() messages.EventTime
}

// Splitter decides whether a batch may be processed in one call although the
// watermark advances to wm inside it. The answer must be true only if the
// outcome equals that of applying the watermark after every unit: wm is before
// the operator's next deadline and before the deadline of every row in b. The
// host splits the batch at the marks otherwise. An operator that does not look
// at the watermark at all need not implement it and must not implement
// Watermarker.
type Splitter interface {
	Whole(input int, b *messages.Batch, wm messages.EventTime) bool
}

// Domain is the kind of time a timer waits for.
type Domain uint8

// ProcessingTime timers follow the host's monotonic clock. Event-time deadlines
// need no timer: they are met by Watermark.
const ProcessingTime Domain = 0

// Timed receives the timers set through Task.SetTimer. at is the time asked
// for; now is the wall clock for the rows emitted (their current_timestamp).
type Timed interface {
	Timer(d Domain, at time.Duration, now messages.EventTime, out Output) (more bool, err error)
}

// Flusher emits what an operator holds back only to coalesce output. It is
// called before a marker that asks for it and when the query drains. now is the
// wall clock as in Timed.
type Flusher interface {
	Flush(now messages.EventTime, out Output) (more bool, err error)
}

// Output takes what an operator emits.
type Output interface {
	// Emit hands over a published batch and one reference to it. It never
	// blocks and never fails.
	Emit(b *messages.Batch)
}
