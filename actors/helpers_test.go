package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

var testSchema = messages.NewSchema(
	messages.Field{Name: "k", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "v", Type: messages.T(messages.BigInt)},
)

// sliceSource serves fixed rows (k, v) per partition and then waits, or ends
// when it is bounded.
type sliceSource struct {
	parts   [][][2]int64
	bounded bool
	batch   int
}

func (s *sliceSource) Schema() *messages.Schema { return testSchema }
func (s *sliceSource) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true, Bounded: s.bounded}
}

func (s *sliceSource) Partitions(context.Context) ([]string, error) {
	names := make([]string, len(s.parts))
	for i := range names {
		names[i] = fmt.Sprint("p", i)
	}
	return names, nil
}

func (s *sliceSource) Open(_ context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	var i, pos int
	if _, err := fmt.Sscanf(r.Partition, "p%d", &i); err != nil {
		return nil, err
	}
	if r.From != nil {
		if err := json.Unmarshal(r.From, &pos); err != nil {
			return nil, err
		}
	}
	return &sliceReader{src: s, rows: s.parts[i], pos: pos, part: uint64(i)}, nil
}

type sliceReader struct {
	src  *sliceSource
	rows [][2]int64
	pos  int
	part uint64
	// arrival is the broker time of every row.
	arrival messages.EventTime
}

func (r *sliceReader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: 7, Lo: r.part})
	if r.pos == len(r.rows) {
		dst.Status.State = connectors.CaughtUp
		if r.src.bounded {
			return io.EOF
		}
		<-ctx.Done()
		return ctx.Err()
	}
	b := dst.Builder()
	for range r.src.batch {
		if r.pos == len(r.rows) {
			break
		}
		row := r.rows[r.pos]
		b.Column(0).AppendInt64(row[0])
		b.Column(1).AppendInt64(row[1])
		b.EndRow()
		b.EndUnit(uint64(r.pos), r.arrival)
		dst.Payloads++
		r.pos++
	}
	dst.Next = fmt.Append(dst.Next[:0], r.pos)
	return nil
}

func (r *sliceReader) Committed(context.Context, connectors.Offset) error { return nil }
func (r *sliceReader) Close() error                                       { return nil }

func (s *sliceSource) spec() SourceSpec {
	return SourceSpec{Source: s, Bounded: s.bounded, IdleTimeout: -1, Rows: func() (*connectors.Rows, error) {
		return connectors.NewRows(testSchema, nil, connectors.FailOnError), nil
	}}
}

// collectSink keeps every row it is given, with the identity of each.
type collectSink struct {
	mu     sync.Mutex
	rows   [][2]int64
	ids    map[messages.ID128]int
	commit []messages.Epoch
}

func (c *collectSink) Traits() connectors.SinkTraits { return connectors.SinkTraits{Append: true} }

func (c *collectSink) Open(context.Context, connectors.WriteRequest) (connectors.Committer, error) {
	return collectCommitter{c}, nil
}

type collectCommitter struct{ c *collectSink }

func (k collectCommitter) Recover(context.Context, messages.Epoch, connectors.Token) error {
	return nil
}

func (k collectCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	return collectWriter(k), nil
}
func (k collectCommitter) Begin(messages.Epoch) {}

func (k collectCommitter) Prepare(context.Context, messages.Epoch, []connectors.Token) (connectors.Token, error) {
	return nil, nil
}

func (k collectCommitter) Commit(_ context.Context, e messages.Epoch, _ connectors.Token) error {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	k.c.commit = append(k.c.commit, e)
	return nil
}
func (k collectCommitter) Close() error { return nil }

type collectWriter struct{ c *collectSink }

func (w collectWriter) Write(_ context.Context, b *messages.Batch, ids []messages.ID128) error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.ids == nil {
		w.c.ids = map[messages.ID128]int{}
	}
	for i := range b.Rows() {
		r := b.Row(i)
		w.c.rows = append(w.c.rows, [2]int64{b.Column(0).Int64s()[r], b.Column(1).Int64s()[r]})
		if ids != nil {
			w.c.ids[ids[i]]++
		}
	}
	return nil
}

func (w collectWriter) Cut(messages.Epoch) (connectors.Flush, error) {
	return func(context.Context) (connectors.Token, error) { return nil, nil }, nil
}
func (w collectWriter) Close() error { return nil }

func (c *collectSink) spec() SinkSpec { return SinkSpec{Sink: c, Schema: testSchema, Lineage: true} }

func numbers(n, keys int) [][2]int64 {
	rows := make([][2]int64, n)
	for i := range rows {
		rows[i] = [2]int64{int64(i % keys), int64(i)}
	}
	return rows
}

func wait(t *testing.T, a *Attempt) error {
	t.Helper()
	select {
	case <-a.Done():
		return a.Err()
	case <-t.Context().Done():
		t.Fatal("attempt did not end")
		return nil
	}
}
