package held_test

import (
	"context"
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schema is (k string, v bigint).
var schema = messages.NewSchema(
	messages.Field{Name: "k", Type: messages.T(messages.String)},
	messages.Field{Name: "v", Type: messages.T(messages.BigInt)},
)

// world is one committer's Rows over a stash that outlives it.
type world struct {
	stash  *connectortest.Stash
	rows   *held.Rows
	writer []connectors.Writer
	asked  int
}

func newWorld(t *testing.T, c held.Config, writers int) *world {
	t.Helper()
	w := &world{stash: &connectortest.Stash{}}
	w.restart(t, c, writers)
	return w
}

// restart begins another attempt.
func (w *world) restart(t *testing.T, c held.Config, writers int) {
	t.Helper()
	c.Sink = "test sink"
	c.Request.Sink, c.Request.Incarnation, c.Request.Stash = "q/sink", messages.ID128{Hi: 1, Lo: 2}, w.stash
	c.Request.AskEpoch = func() { w.asked++ }
	if c.Request.Schema == nil {
		c.Request.Schema = schema
	}
	rows, err := held.New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.rows, w.writer = rows, nil
	for i := range writers {
		wr, err := rows.Writer(i)
		if err != nil {
			t.Fatal(err)
		}
		w.writer = append(w.writer, wr)
	}
}

// end cuts epoch e in all writers and returns what the token must hold, after its
// way through JSON.
func (w *world) end(t *testing.T, e messages.Epoch) held.Unconfirmed {
	t.Helper()
	var tokens []connectors.Token
	for _, wr := range w.writer {
		flush, err := wr.Cut(e)
		if err != nil {
			t.Fatal(err)
		}
		token, err := flush(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	u, err := w.rows.Prepare(e, tokens)
	if err != nil {
		t.Fatal(err)
	}
	w.stash.Commit(e)
	text, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	var back held.Unconfirmed
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// row is a row as it is published.
type row struct {
	N      int64
	Part   uint16
	Kind   messages.RowKind
	Values []any
	ID     messages.ID128
}

// replay publishes an epoch.
func (w *world) replay(ctx context.Context, t *testing.T, e messages.Epoch) []row {
	t.Helper()
	var out []row
	err := w.rows.Replay(ctx, e, func(b *held.Block) error {
		if b.Epoch != e || b.First != int64(len(out)) || b.Batch.Selection() != nil {
			t.Errorf("epoch %d: got a block of epoch %d that starts at row %d behind %d rows, selection %v", e, b.Epoch, b.First, len(out), b.Batch.Selection())
		}
		for i := range b.Batch.Rows() {
			r := row{N: b.First + int64(i), Part: b.Part, Values: format.RowAt(b.Batch, i)}
			if k := b.Batch.Kinds(); k != nil {
				r.Kind = k[i]
			}
			if b.IDs != nil {
				r.ID = b.IDs[i]
			}
			out = append(out, r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func batch(t *testing.T, s *messages.Schema, rows ...[]any) *messages.Batch {
	t.Helper()
	b := messages.NewBuilder(s)
	for _, r := range rows {
		if err := format.AppendRow(b, r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish()
}

// kinds returns a view of b with the given kinds and selection.
func kinds(b *messages.Batch, sel []int32, ks ...messages.RowKind) *messages.Batch {
	v := messages.NewViewPool().View(b)
	v.SetKinds(ks)
	v.Select(sel)
	return v.Publish()
}

// frame returns a view of b that starts or ends a table.
func frame(b *messages.Batch, f messages.Frame) *messages.Batch {
	v := messages.NewViewPool().View(b)
	v.SetFrame(f)
	return v.Publish()
}

func write(t *testing.T, w connectors.Writer, b *messages.Batch, ids ...messages.ID128) {
	t.Helper()
	if err := w.Write(t.Context(), b, ids); err != nil {
		t.Fatal(err)
	}
	b.Release()
}
