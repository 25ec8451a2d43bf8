package foreach

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// errEnded closes a set whose rows did not all come.
var errEnded = errors.New("the attempt has ended")

// committer hands rows over as they come.
type committer struct {
	sink    *sink
	request connectors.WriteRequest
	epoch   messages.Epoch
	writers []*writer
}

// Recover hands over what a query that held its rows until their epoch committed
// has left.
func (c *committer) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
	c.epoch = e
	if last == nil {
		return nil
	}
	before, err := newEpochCommitter(c.sink, c.request)
	if err != nil {
		return err
	}
	return before.Recover(ctx, e, last)
}

func (c *committer) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	w := &writer{set: set{user: c.sink.make(), partition: subtask}, epoch: c.epoch + 1}
	c.writers = append(c.writers, w)
	return w, nil
}

func (c *committer) Begin(messages.Epoch) {}

func (c *committer) Prepare(context.Context, messages.Epoch, []connectors.Token) (connectors.Token, error) {
	return nil, nil
}

func (c *committer) Commit(context.Context, messages.Epoch, connectors.Token) error { return nil }

func (c *committer) Close() error {
	var errs []error
	for _, w := range c.writers {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// writer implements connectors.Writer.
type writer struct {
	// mu guards the fields below: an epoch's flush comes while Write goes on.
	mu    sync.Mutex
	set   set
	epoch messages.Epoch // of the rows that come now
}

// Write implements connectors.Writer.
func (w *writer) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set.open && w.set.epoch != w.epoch { // its flush has not come yet
		if err := w.set.end(nil); err != nil {
			return err
		}
	}
	if b.Rows() == 0 {
		return nil
	}
	if !w.set.open {
		if err := w.set.begin(w.epoch); err != nil {
			return err
		}
	}
	return w.set.process(ctx, b, ids)
}

// Cut implements connectors.Writer.
func (w *writer) Cut(e messages.Epoch) (connectors.Flush, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch = e + 1
	return func(context.Context) (connectors.Token, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.set.open && w.set.epoch <= e {
			return nil, w.set.end(nil)
		}
		return nil, w.set.failed
	}, nil
}

// Close implements connectors.Writer.
func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.set.open {
		return nil
	}
	return w.set.end(errEnded)
}

// set calls the program's Writer in the promised order.
type set struct {
	user      Writer
	partition int
	epoch     messages.Epoch
	open      bool
	wanted    bool  // Open returned true
	failed    error // what ended the last set early
}

func (s *set) begin(e messages.Epoch) (err error) {
	s.epoch = e
	s.wanted, err = s.guardOpen()
	s.open = true
	if err != nil {
		return s.fail(userError(err, "open"))
	}
	return nil
}

func (s *set) guardOpen() (ok bool, err error) {
	defer recovered(&err)
	return s.user.Open(s.partition, s.epoch)
}

// process hands over the selected rows of b.
func (s *set) process(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	if !s.wanted {
		return nil
	}
	for i := range b.Rows() {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := Row{batch: b, index: b.Row(i)}
		if ids != nil {
			r.id, r.hasID = ids[i], true
		}
		if err := s.guardProcess(r); err != nil {
			return s.fail(userError(err, "process a row"))
		}
	}
	return nil
}

func (s *set) guardProcess(r Row) (err error) {
	defer recovered(&err)
	return s.user.Process(r)
}

// fail ends the set because of err.
func (s *set) fail(err error) error {
	s.failed = err
	return errors.Join(err, s.end(err))
}

func (s *set) end(cause error) error {
	s.open = false
	err := userError(s.guardClose(cause), "close")
	if err != nil {
		s.failed = err
	}
	return err
}

func (s *set) guardClose(cause error) (err error) {
	defer recovered(&err)
	return s.user.Close(cause)
}

// recovered turns a panic of the program's code into an error, so that Close
// can still be called.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fault.Recovered(v, debug.Stack())
	}
}
