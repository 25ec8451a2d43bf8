package nats

import (
	"context"
	"encoding/json"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// leftRows are rows of committed epochs that a sink which publishes per epoch has
// left in the checkpoint. When the guarantee is changed to at_least_once, nobody
// else publishes them: their epochs are not read again.
type leftRows struct {
	rows     *held.Rows
	by       connectors.Guarantee // what they were to be published with
	out      *writer              // nil until the sink is connected
	encoders encoders
}

// decodeLeft returns what is left according to a token of any mode of a sink of
// this connector, nil if nothing is.
func decodeLeft(last connectors.Token, r connectors.WriteRequest) (*leftRows, error) {
	if len(last) == 0 {
		return nil, nil
	}
	var t struct {
		Guarantee connectors.Guarantee `json:"guarantee"`
		Rows      held.Unconfirmed     `json:"rows"`
	}
	if err := json.Unmarshal(last, &t); err != nil {
		return nil, fault.Wrap(fault.Config, err, "nats sink: the checkpoint's token for it was not made by a nats sink; "+
			"start the query once with the sink that it had, stop it in good order, and change it then")
	}
	if len(t.Rows) == 0 {
		return nil, nil
	}
	rows, err := held.New(held.Config{Sink: "nats sink", Request: r})
	if err != nil {
		return nil, err
	}
	rows.Recover(t.Rows)
	return &leftRows{rows: rows, by: t.Guarantee}, nil
}

// skip leaves out epochs that the marker of the sink says are published. Where
// there is no marker all are published, again as the case may be.
func (f *leftRows) skip(ctx context.Context, c *committer, l *link) error {
	at := c.markerPlace()
	if f.by == connectors.Transactional {
		at = place{c.sink.stream.name, transactionSubjects + escaped(c.req.Query) + "." + escaped(c.req.Sink)}
	}
	m, _, err := l.readMarker(ctx, at)
	if err == nil && m != nil && m.Incarnation == c.incarnation() {
		f.rows.Confirm(m.Epoch)
	}
	return err
}

// note logs that epochs up to epoch are published behind their time.
func (f *leftRows) note(c *committer, epoch messages.Epoch) {
	if p := f.rows.Pending(epoch); len(p) > 0 {
		c.sink.log.Info("nats sink publishes rows of committed epochs that were left when its guarantee was changed to at_least_once",
			"query", c.req.Query, "sink", c.req.Sink, "from_epoch", p[0], "to_epoch", p[len(p)-1])
	}
}

// recoverLoosely is Recover with at_least_once.
func (c *committer) recoverLoosely(ctx context.Context, epoch messages.Epoch, last connectors.Token) error {
	if c.kept == nil {
		left, err := decodeLeft(last, c.req)
		if err != nil {
			return err
		}
		err = c.start(ctx, func(ctx context.Context, l *link) error {
			_, _, _, err := c.lookUp(ctx, l)
			if err == nil && left != nil {
				err = left.skip(ctx, c, l)
			}
			return err
		})
		if err != nil || left == nil {
			return err
		}
		left.encoders = encoders{sink: c.sink, schema: c.req.Schema}
		if left.out, err = c.addWriter(0, rowEncoder{}); err != nil {
			return err
		}
		left.note(c, epoch)
		c.left = left
	}
	if c.left == nil {
		return fault.New(fault.Internal, "Recover of a nats sink was called again after it had succeeded")
	}
	err := retry(ctx, func() error { return c.left.publish(ctx, epoch) })
	if err == nil {
		err, c.left = c.left.out.Close(), nil
	}
	return err
}

// publish publishes the rows of the epochs up to last.
func (f *leftRows) publish(ctx context.Context, last messages.Epoch) error {
	for _, e := range f.rows.Pending(last) {
		err := f.rows.Replay(ctx, e, func(b *held.Block) error { return f.block(ctx, b.Batch) })
		if err == nil {
			err = f.out.await(ctx, f.out.tail.Load())
		}
		if err != nil {
			return err
		}
		f.rows.Confirm(e)
	}
	return nil
}

func (f *leftRows) block(ctx context.Context, b *messages.Batch) error {
	enc, err := f.encoders.get(b.Schema())
	if err != nil {
		return err
	}
	kinds := b.Kinds()
	for i := range b.Rows() {
		if kinds != nil && kinds[i] == messages.UpdateBefore {
			continue
		}
		if kinds != nil && kinds[i] == messages.Delete { // held for a bucket
			return f.out.c.deletion()
		}
		if err := f.out.put(ctx, enc, b, i, nil); err != nil {
			return err
		}
	}
	return nil
}

// recoverLoosely is Recover with at_least_once.
func (c *kvCommitter) recoverLoosely(ctx context.Context, epoch messages.Epoch, last connectors.Token) error {
	if c.kept == nil {
		left, err := decodeLeft(last, c.req)
		if err != nil {
			return err
		}
		err = c.connect(ctx, func(ctx context.Context, l *link) error {
			err := c.takeOver(ctx, l, epoch, nil)
			if err == nil && left != nil {
				err = left.skip(ctx, c.marks, l)
			}
			return err
		})
		if err != nil || left == nil {
			return err
		}
		left.note(c.marks, epoch)
		c.rows = left.rows
		c.left = newKVPublisher(c)
	}
	if c.left == nil {
		return fault.New(fault.Internal, "Recover of a nats sink was called again after it had succeeded")
	}
	err := retry(ctx, func() error { return c.left.publish(ctx, epoch) })
	if err == nil {
		c.table.remove(c.left.out)
		c.left, c.rows = nil, nil
	}
	return err
}

// retry calls f until it succeeds, or fails for another reason than that the
// server is away.
func retry(ctx context.Context, f func() error) error {
	var wait backoff
	for {
		err := f()
		if err == nil || fault.KindOf(err) != fault.Transient || ctx.Err() != nil {
			return err
		}
		if err := sleep(ctx, wait.next()); err != nil {
			return err
		}
	}
}
