package actors

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// arraySource has two units of three rows each.
type arraySource struct{ sliceSource }

func (s *arraySource) Open(context.Context, connectors.ReadRequest) (connectors.Reader, error) {
	return &arrayReader{}, nil
}

type arrayReader struct{ fedReader }

func (*arrayReader) Read(_ context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: 1})
	b := dst.Builder()
	for unit := range uint64(2) {
		for range 3 {
			b.Column(0).AppendInt64(1)
			b.Column(1).AppendInt64(1)
			b.EndRow()
		}
		b.EndUnit(unit, 0)
		dst.Payloads++
	}
	return io.EOF
}

// refuser refuses all rows.
type refuser struct{ errs *operator.RowErrors }

func (r *refuser) Open(t *operator.Task) error { r.errs = t.OnRowError; return nil }
func (r *refuser) Close() error                { return nil }

func (r *refuser) Process(_ int, b *messages.Batch, _ operator.Output) (bool, error) {
	for i := range b.Rows() {
		r.errs.Report(b, b.Row(i), errors.New("no"))
	}
	return false, nil
}

func TestBadRowsOfOneUnitHaveDifferentIdentities(t *testing.T) {
	src := &arraySource{sliceSource{parts: make([][][2]int64, 1), bounded: true}}
	dead := &letterSink{}
	spec := src.spec()
	spec.Source = src
	g := NewGraph()
	in := g.Source("src", spec)
	n := g.Operator("refuse", 0, func() operator.Operator { return &refuser{} }, Forward(in))
	n.OnRowError(&operator.RowErrors{Drop: true})
	g.Sink("out", (&collectSink{}).spec(), Forward(n))
	ids := &idSink{letterSink: dead, ids: map[messages.ID128]int{}}
	g.Sink("dead", SinkSpec{Sink: ids, Schema: DeadLetterSchema(), Lineage: true}, BadRecords(in))
	a, _ := start(t, g, nil)
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if len(ids.ids) != 6 {
		t.Errorf("6 letters have %d identities", len(ids.ids))
	}
}

// idSink counts identities.
type idSink struct {
	*letterSink
	ids map[messages.ID128]int
}

func (s *idSink) Open(context.Context, connectors.WriteRequest) (connectors.Committer, error) {
	return idCommitter{collectCommitter{&s.collectSink}, s}, nil
}

type idCommitter struct {
	collectCommitter
	s *idSink
}

func (k idCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	return idWriter{collectWriter{k.c}, k.s}, nil
}

type idWriter struct {
	collectWriter
	s *idSink
}

func (w idWriter) Write(_ context.Context, _ *messages.Batch, ids []messages.ID128) error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, id := range ids {
		w.s.ids[id]++
	}
	return nil
}

func TestOnlySinksTakeTheLateRowsOfOperators(t *testing.T) {
	src := &arraySource{sliceSource{parts: make([][][2]int64, 1), bounded: true}}
	one := func() operator.Operator { return &refuser{} }
	late := SinkSpec{Sink: &letterSink{}, Schema: LateSchema(testSchema.Fields...)}
	for name, build := range map[string]func(g *Graph, in *Node){
		"late rows of a source": func(g *Graph, in *Node) { g.Sink("late", late, LateRows(in)) },
		"an operator takes late rows": func(g *Graph, in *Node) {
			g.Sink("late", late, Forward(g.Operator("two", 0, one, LateRows(g.Operator("one", 0, one, Forward(in))))))
		},
	} {
		g := NewGraph()
		in := g.Source("src", src.spec())
		g.Sink("out", (&collectSink{}).spec(), Forward(in))
		build(g, in)
		if err := g.Check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
