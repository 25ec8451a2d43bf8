package held

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// writer implements connectors.Writer.
type writer struct {
	rows *Rows
	part uint16

	// mu guards buf: its rows are of the open epoch.
	mu  sync.Mutex
	buf *buffer

	// The fields below are guarded by rows.mu.
	open, openRows int64   // what buf holds
	cut            []cutAt // epochs that are cut and were not confirmed when it was last looked at
}

// cutAt is what was held of an epoch when it was cut.
type cutAt struct {
	epoch messages.Epoch
	bytes int64
}

// writerToken is the token of a writer's epoch.
type writerToken struct {
	Part uint16 `json:"part"`
	Rows int64  `json:"rows"`
}

// Write implements connectors.Writer.
func (w *writer) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	if err := w.waitForRoom(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	err := w.buf.add(b, ids)
	bytes, rows := w.buf.size()
	w.mu.Unlock()
	if err != nil {
		return fault.Wrap(fault.Internal, err, "%s", w.rows.cfg.Sink)
	}
	return w.holds(bytes, rows)
}

// waitForRoom waits while there is an epoch to be confirmed and too much is held.
// Without such an epoch nothing would end the wait.
func (w *writer) waitForRoom(ctx context.Context) error {
	r := w.rows
	for {
		r.mu.Lock()
		waiting := w.waiting()
		full := waiting > 0 && waiting+w.open > r.cfg.Limit
		confirmed := r.confirmed
		r.mu.Unlock()
		if !full {
			return ctx.Err()
		}
		select {
		case <-confirmed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waiting returns how many bytes of epochs that are cut wait to be published. The
// caller holds rows.mu.
func (w *writer) waiting() int64 {
	for len(w.cut) > 0 && w.cut[0].epoch <= w.rows.done {
		w.cut = w.cut[1:]
	}
	n := int64(0)
	for _, c := range w.cut {
		n += c.bytes
	}
	return n
}

// holds notes what the writer holds of the open epoch.
func (w *writer) holds(bytes, rows int64) error {
	r := w.rows
	r.mu.Lock()
	r.open += bytes - w.open
	r.openRows += rows - w.openRows
	w.open, w.openRows = bytes, rows
	near := r.open > r.cfg.MaxBytes/2 || r.cfg.MaxRows > 0 && r.openRows > r.cfg.MaxRows/2 || w.waiting()+w.open > r.cfg.Limit/2
	ask := near && !r.asked && r.cfg.Request.AskEpoch != nil
	r.asked = r.asked || ask
	open := r.open
	r.mu.Unlock()
	if open > r.cfg.MaxBytes {
		return fault.New(fault.Config, "%s: the rows of one epoch take more than %d MiB, which are held in memory until the epoch commits; shorten epoch_interval, or choose visibility = 'at_once'", r.cfg.Sink, r.cfg.MaxBytes>>20)
	}
	if ask {
		r.cfg.Request.AskEpoch()
	}
	return nil
}

// Cut implements connectors.Writer.
func (w *writer) Cut(e messages.Epoch) (connectors.Flush, error) {
	r := w.rows
	w.mu.Lock()
	buf := w.buf
	w.buf = buf.cut()
	bytes, rows := w.buf.size() // of a table that has not ended
	w.mu.Unlock()
	r.mu.Lock()
	if rest := w.open - bytes; !buf.empty() {
		w.cut = append(w.cut, cutAt{e, rest})
	}
	r.open += bytes - w.open
	r.openRows += rows - w.openRows
	w.open, w.openRows = bytes, rows
	r.asked = false
	r.mu.Unlock()
	return func(ctx context.Context) (connectors.Token, error) { return w.flush(ctx, e, buf) }, nil
}

// flush puts what was cut into the checkpoint.
func (w *writer) flush(ctx context.Context, e messages.Epoch, buf *buffer) (connectors.Token, error) {
	if buf.empty() {
		return nil, nil
	}
	r := w.rows
	data, rows := buf.encode()
	if err := r.cfg.Request.Stash.Put(ctx, e, w.part, data); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.parts[partKey{e, w.part}] = data
	r.mu.Unlock()
	t, err := json.Marshal(writerToken{Part: w.part, Rows: rows})
	return t, fault.Wrap(fault.Internal, err, "%s: encode the token of a writer", r.cfg.Sink)
}

// Close implements connectors.Writer.
func (w *writer) Close() error { return nil }
