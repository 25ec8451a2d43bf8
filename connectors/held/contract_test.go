package held_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
)

// shelf is an outside system that knows which rows it has by their identities,
// and a sink that publishes there. Each publication of an epoch is cut short once
// and repeated.
type shelf struct {
	mu   sync.Mutex
	seen map[messages.ID128]bool
	rows [][]any
}

func (s *shelf) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{Append: true, Update: true, Complete: true, Guarantees: []connectors.Offer{{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}}}
}

func (s *shelf) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	rows, err := held.New(held.Config{Sink: "shelf", Request: q})
	return &shelfCommitter{s, rows}, err
}

type shelfCommitter struct {
	s    *shelf
	rows *held.Rows
}

func (c *shelfCommitter) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
	var u held.Unconfirmed
	if last != nil {
		if err := json.Unmarshal(last, &u); err != nil {
			return err
		}
	}
	c.rows.Recover(u)
	return c.Commit(ctx, e, last)
}

func (c *shelfCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	return c.rows.Writer(subtask)
}

func (c *shelfCommitter) Begin(messages.Epoch) {}

func (c *shelfCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	u, err := c.rows.Prepare(e, tokens)
	if u == nil || err != nil {
		return nil, err
	}
	return json.Marshal(u)
}

var errCut = errors.New("cut short")

func (c *shelfCommitter) Commit(ctx context.Context, last messages.Epoch, _ connectors.Token) error {
	for _, e := range c.rows.Pending(last) {
		blocks := 0
		err := c.rows.Replay(ctx, e, func(b *held.Block) error {
			if blocks++; blocks > 1 {
				return errCut
			}
			return c.put(b)
		})
		if err != nil && !errors.Is(err, errCut) {
			return err
		}
		if err := c.rows.Replay(ctx, e, c.put); err != nil {
			return err
		}
		c.rows.Confirm(e)
	}
	return nil
}

func (c *shelfCommitter) put(b *held.Block) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for i := range b.Batch.Rows() {
		id := c.rows.RowID(b.Epoch, b.First+int64(i))
		if !c.s.seen[id] {
			c.s.seen[id] = true
			c.s.rows = append(c.s.rows, format.RowAt(b.Batch, i))
		}
	}
	return nil
}

func (c *shelfCommitter) Close() error { return nil }

func TestASinkMadeOfRowsKeepsTheContract(t *testing.T) {
	var s *shelf
	connectortest.Sink(t, connectortest.SinkCase{
		New:   func(testing.TB) connectors.Sink { return s },
		Reset: func(testing.TB) { s = &shelf{seen: map[messages.ID128]bool{}} },
		Visible: func(testing.TB) [][]any {
			s.mu.Lock()
			defer s.mu.Unlock()
			return append([][]any{}, s.rows...)
		},
		Offer: connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
	})
}
