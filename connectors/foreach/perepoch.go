package foreach

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// token is the sink's part of a commit record.
type token struct {
	Rows held.Unconfirmed `json:"rows"`
}

// epochCommitter hands rows over when their epoch has committed.
type epochCommitter struct {
	sink *sink
	rows *held.Rows
	sets map[uint16]*set
	// done is the last epoch of each partition that its Writer has taken in this
	// attempt: when another one failed for a passing reason, it does not get it again.
	done map[uint16]messages.Epoch
}

func newEpochCommitter(s *sink, q connectors.WriteRequest) (*epochCommitter, error) {
	rows, err := held.New(held.Config{Sink: "foreach sink", Request: q})
	if err != nil {
		return nil, err
	}
	return &epochCommitter{sink: s, rows: rows, sets: map[uint16]*set{}, done: map[uint16]messages.Epoch{}}, nil
}

// Recover hands over what may not have been: the rows of the last epochs.
func (c *epochCommitter) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
	var t token
	if last != nil {
		if err := json.Unmarshal(last, &t); err != nil {
			return fault.Wrap(fault.Config, err, "foreach sink: the token in the checkpoint is not one of this sink")
		}
	}
	c.rows.Recover(t.Rows)
	return c.Commit(ctx, e, last)
}

func (c *epochCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	return c.rows.Writer(subtask)
}

func (c *epochCommitter) Begin(messages.Epoch) {}

func (c *epochCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	rows, err := c.rows.Prepare(e, tokens)
	if rows == nil {
		return nil, err
	}
	t, err := json.Marshal(token{Rows: rows})
	return t, fault.Wrap(fault.Internal, err, "foreach sink: encode the token")
}

// Commit hands over the rows of epochs up to last, unless that was done.
func (c *epochCommitter) Commit(ctx context.Context, last messages.Epoch, _ connectors.Token) error {
	for _, e := range c.rows.Pending(last) {
		if err := c.deliver(ctx, e); err != nil {
			return err
		}
		c.rows.Confirm(e)
	}
	return nil
}

// deliver hands over an epoch, partition by partition.
func (c *epochCommitter) deliver(ctx context.Context, e messages.Epoch) error {
	var s *set
	err := c.rows.Replay(ctx, e, func(b *held.Block) error {
		if s != nil && s.partition != int(b.Part) {
			if err := c.end(s); err != nil {
				return err
			}
			s = nil
		}
		if c.done[b.Part] >= e {
			return nil
		}
		if s == nil {
			s = c.set(b.Part)
			if err := s.begin(e); err != nil {
				return err
			}
		}
		return s.process(ctx, b.Batch, b.IDs)
	})
	switch {
	case err != nil && s != nil && s.open:
		return errors.Join(err, s.end(err))
	case err != nil || s == nil:
		return err
	}
	return c.end(s)
}

func (c *epochCommitter) set(partition uint16) *set {
	s := c.sets[partition]
	if s == nil {
		s = &set{user: c.sink.make(), partition: int(partition)}
		c.sets[partition] = s
	}
	return s
}

// end notes that a partition's rows have been taken.
func (c *epochCommitter) end(s *set) error {
	if err := s.end(nil); err != nil {
		return err
	}
	c.done[uint16(s.partition)] = s.epoch
	return nil
}

func (c *epochCommitter) Close() error { return nil }
