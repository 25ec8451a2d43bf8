package foreach

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/messages/wire"
)

// maxHeld is how many bytes of rows one subtask holds for an epoch at most: they
// are part of the commit record.
const maxHeld = 64 << 20

// held are the rows of one subtask and epoch.
type held struct {
	Epoch     messages.Epoch `json:"epoch"`
	Partition int            `json:"partition"`
	// Schema describes the blocks, so that a token cannot be read wrongly.
	Schema []byte `json:"schema"`
	// Blocks are column blocks one behind the other, IDs the identities of their
	// rows, if they have any.
	Blocks []byte           `json:"blocks"`
	IDs    []messages.ID128 `json:"ids,omitempty"`
}

// epochCommitter holds rows until their epoch has committed.
type epochCommitter struct {
	sink    *sink
	pool    *messages.Pool
	schema  *messages.Schema
	writers []*epochWriter
	// mu guards the fields below.
	mu   sync.Mutex
	sets map[int]*set
	// done is the last epoch handed over to each partition in this attempt.
	done map[int]messages.Epoch
	// unconfirmed are the rows of epochs whose Commit has not returned. The token
	// of an epoch holds them too, because it may replace the one they are in.
	unconfirmed []held
}

// Recover hands over what may not have been: the rows of the last epochs.
func (c *epochCommitter) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
	c.sets, c.done = map[int]*set{}, map[int]messages.Epoch{}
	return c.Commit(ctx, e, last)
}

func (c *epochCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	w := &epochWriter{partition: subtask, schema: wire.EncodeSchema(nil, c.schema)}
	c.writers = append(c.writers, w)
	return w, nil
}

func (c *epochCommitter) Begin(messages.Epoch) {}

func (c *epochCommitter) Prepare(_ context.Context, _ messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tokens {
		if t == nil {
			continue
		}
		var h held
		if err := json.Unmarshal(t, &h); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "foreach sink: decode the token of a writer")
		}
		c.unconfirmed = append(c.unconfirmed, h)
	}
	if len(c.unconfirmed) == 0 {
		return nil, nil
	}
	t, err := json.Marshal(c.unconfirmed)
	return t, fault.Wrap(fault.Internal, err, "foreach sink: encode the token")
}

// Commit hands over the rows of epochs up to e, unless that was done.
func (c *epochCommitter) Commit(ctx context.Context, e messages.Epoch, t connectors.Token) error {
	if t == nil {
		return nil
	}
	var all []held
	if err := json.Unmarshal(t, &all); err != nil {
		return fault.Wrap(fault.Config, err, "foreach sink: the token in the checkpoint is not one of this sink")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range all {
		h := &all[i]
		if c.done[h.Partition] >= h.Epoch {
			continue
		}
		if err := c.deliver(ctx, h.Epoch, h); err != nil {
			return err
		}
		c.done[h.Partition] = h.Epoch
	}
	c.unconfirmed = slices.DeleteFunc(c.unconfirmed, func(h held) bool { return h.Epoch <= e })
	return nil
}

func (c *epochCommitter) deliver(ctx context.Context, e messages.Epoch, h *held) error {
	schema, err := wire.DecodeSchema(h.Schema)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "foreach sink: epoch %d", e)
	}
	pool := c.pool
	if !schema.Equal(c.schema) {
		pool = messages.NewPool(schema)
	}
	s := c.sets[h.Partition]
	if s == nil {
		s = &set{user: c.sink.make(), partition: h.Partition}
		c.sets[h.Partition] = s
	}
	if err := s.begin(e); err != nil {
		return err
	}
	ids := h.IDs
	for blocks := h.Blocks; len(blocks) > 0; {
		n, err := wire.BlockSize(blocks)
		if err != nil {
			return s.fail(fault.Wrap(fault.Internal, err, "foreach sink: epoch %d", e))
		}
		b, err := wire.DecodeBatch(pool, blocks[:n])
		if err != nil {
			return s.fail(fault.Wrap(fault.Internal, err, "foreach sink: epoch %d", e))
		}
		blocks = blocks[n:]
		var own []messages.ID128
		if len(ids) >= b.Rows() {
			own, ids = ids[:b.Rows()], ids[b.Rows():]
		}
		err = s.process(ctx, b, own)
		b.Release()
		if err != nil {
			if s.open {
				return errors.Join(err, s.end(err))
			}
			return err
		}
	}
	return s.end(nil)
}

func (c *epochCommitter) Close() error { return nil }

// epochWriter implements connectors.Writer.
type epochWriter struct {
	partition int
	schema    []byte
	// mu guards the fields below.
	mu     sync.Mutex
	blocks []byte
	ids    []messages.ID128
}

// Write implements connectors.Writer.
func (w *epochWriter) Write(_ context.Context, b *messages.Batch, ids []messages.ID128) error {
	if b.Rows() == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocks = wire.EncodeBatch(w.blocks, b)
	w.ids = append(w.ids, ids...)
	if len(w.blocks) > maxHeld {
		return fault.New(fault.Config, "foreach sink: an epoch holds more than %d MiB of rows; shorten epoch_interval, or use visibility = 'at_once'", maxHeld>>20)
	}
	return nil
}

// Cut implements connectors.Writer.
func (w *epochWriter) Cut(e messages.Epoch) (connectors.Flush, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := held{Epoch: e, Partition: w.partition, Schema: w.schema, Blocks: w.blocks, IDs: w.ids}
	w.blocks, w.ids = nil, nil
	return func(context.Context) (connectors.Token, error) {
		if len(h.Blocks) == 0 {
			return nil, nil
		}
		t, err := json.Marshal(h)
		return t, fault.Wrap(fault.Internal, err, "foreach sink: encode the token")
	}, nil
}

// Close implements connectors.Writer.
func (w *epochWriter) Close() error { return nil }
