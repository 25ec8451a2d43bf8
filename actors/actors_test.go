package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// identity passes rows on; its error, if any, is returned for the given value.
type identity struct {
	failOn int64
	panics bool
	out    *messages.Pool
}

func (o *identity) Open(*operator.Task) error { o.out = messages.NewViewPool(); return nil }
func (o *identity) Close() error              { return nil }

func (o *identity) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	for i := range b.Rows() {
		if v := b.Column(1).Int64s()[b.Row(i)]; o.failOn > 0 && v == o.failOn {
			if o.panics {
				panic("boom")
			}
			return false, errors.New("does not like the row")
		}
	}
	b.Retain(1)
	out.Emit(b)
	return false, nil
}

func start(t *testing.T, g *Graph, from *epochs.Record) (*Attempt, epochs.Segments) {
	t.Helper()
	store, err := memstore.New(memstore.Options{}).Open()
	if err != nil {
		t.Fatal(err)
	}
	sys := NewSystem(SystemConfig{})
	a, err := sys.Start(t.Context(), AttemptConfig{
		Graph: g, Query: "q", Attempt: 1, Store: store, From: from, NextEpoch: 1, EpochInterval: 5 * time.Millisecond,
		BatchRows: 7, Window: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sys.Close() })
	return a, store
}

func sorted(rows [][2]int64) [][2]int64 {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b [2]int64) int { return cmp.Compare(a[1], b[1]) })
	return rows
}

func TestBoundedGraphs(t *testing.T) {
	one := func() operator.Operator { return &identity{} }
	graphs := map[string]func(g *Graph, src *Node, sink *collectSink){
		"a source feeds a sink": func(g *Graph, src *Node, sink *collectSink) {
			g.Sink("out", sink.spec(), Forward(src))
		},
		"an operator is fused": func(g *Graph, src *Node, sink *collectSink) {
			g.Sink("out", sink.spec(), Forward(g.Operator("id", 0, one, Forward(src))))
		},
		"rows are exchanged by key": func(g *Graph, src *Node, sink *collectSink) {
			g.Sink("out", sink.spec(), Forward(g.Operator("id", 3, one, Keyed(src, 0))))
		},
		"a diamond joins again": func(g *Graph, src *Node, sink *collectSink) {
			a := g.Operator("a", 2, one, Keyed(src, 0))
			b := g.Operator("b", 3, one, Keyed(a, 0))
			c := g.Operator("c", 1, one, Forward(a))
			drop := g.Operator("drop", 1, func() operator.Operator { return &dropAll{} }, Forward(c))
			g.Sink("out", sink.spec(), Forward(b), Forward(drop))
		},
	}
	for name, build := range graphs {
		t.Run(name, func(t *testing.T) {
			src := &sliceSource{parts: [][][2]int64{numbers(1000, 13), numbers(500, 7)}, bounded: true, batch: 7}
			sink := &collectSink{}
			g := NewGraph()
			build(g, g.Source("src", src.spec()), sink)
			a, store := start(t, g, nil)
			if err := wait(t, a); err != nil {
				t.Fatal(err)
			}
			want := sorted(append(numbers(1000, 13), numbers(500, 7)...))
			if got := sorted(sink.rows); len(got) != len(want) {
				t.Errorf("got %d rows, want %d", len(got), len(want))
			} else if d := gocmp.Diff(valuesOf(want), valuesOf(got)); d != "" {
				t.Errorf("rows (-want +got):\n%s", d)
			}
			if len(sink.ids) != len(want) {
				t.Errorf("got %d different row ids, want %d", len(sink.ids), len(want))
			}
			recs, _, err := store.Committed(t.Context())
			if err != nil || len(recs) == 0 {
				t.Fatalf("no commit record: %v", err)
			}
			rec, err := epochs.DecodeRecord(recs[0].Data)
			if err != nil {
				t.Fatal(err)
			}
			if !rec.Final || !a.Final() {
				t.Errorf("last record is not final")
			}
			if string(rec.Sources[0].Offset) != "1000" || string(rec.Sources[1].Offset) != "500" {
				t.Errorf("offsets are %s and %s", rec.Sources[0].Offset, rec.Sources[1].Offset)
			}
		})
	}
}

func valuesOf(rows [][2]int64) []int64 {
	var vs []int64
	for _, r := range rows {
		vs = append(vs, r[1])
	}
	return vs
}

type dropAll struct{}

func (dropAll) Open(*operator.Task) error { return nil }
func (dropAll) Close() error              { return nil }
func (dropAll) Process(int, *messages.Batch, operator.Output) (bool, error) {
	return false, nil
}

func TestFailuresEndTheAttempt(t *testing.T) {
	for name, op := range map[string]identity{
		"an operator returns an error": {failOn: 500},
		"an operator panics":           {failOn: 500, panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			src := &sliceSource{parts: [][][2]int64{numbers(1000, 13)}, batch: 7}
			sink := &collectSink{}
			g := NewGraph()
			n := g.Source("src", src.spec())
			g.Sink("out", sink.spec(), Forward(g.Operator("id", 2, func() operator.Operator { o := op; return &o }, Keyed(n, 0))))
			a, _ := start(t, g, nil)
			err := wait(t, a)
			if err == nil {
				t.Fatal("attempt ended well")
			}
			t.Log(err)
		})
	}
}

func TestDrainEndsWithAFinalEpoch(t *testing.T) {
	src := &sliceSource{parts: [][][2]int64{numbers(1000, 13)}, batch: 7}
	sink := &collectSink{}
	g := NewGraph()
	n := g.Source("src", src.spec())
	g.Sink("out", sink.spec(), Forward(g.Operator("id", 2, func() operator.Operator { return &identity{} }, Keyed(n, 0))))
	a, _ := start(t, g, nil)
	done := make(chan error, 1)
	a.RequestEpoch(func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.Drain()
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if !a.Final() {
		t.Error("the last epoch is not final")
	}
}

func TestStopReportsErrStopped(t *testing.T) {
	src := &sliceSource{parts: [][][2]int64{numbers(10, 3)}, batch: 7}
	sink := &collectSink{}
	g := NewGraph()
	g.Sink("out", sink.spec(), Forward(g.Source("src", src.spec())))
	a, _ := start(t, g, nil)
	a.Stop()
	if err := wait(t, a); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
}

// badSource serves rows of which every third one is a bad record.
type badSource struct{ sliceSource }

func (s *badSource) Open(ctx context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	in, err := s.sliceSource.Open(ctx, r)
	return &badReader{in}, err
}

type badReader struct{ connectors.Reader }

func (r *badReader) Read(ctx context.Context, dst *connectors.Rows) error {
	err := r.Reader.Read(ctx, dst)
	if err == nil {
		dst.Bad = append(dst.Bad, connectors.BadRecord{Payload: []byte("{"), Origin: "here", Cause: errors.New("half an object"), Offset: uint64(dst.Len()), Arrival: 5})
		dst.Bad = append(dst.Bad, connectors.BadRecord{Payload: []byte{0xff}, Origin: "there", Cause: errors.New("no text")})
	}
	return err
}

// letterSink keeps payload and encoding.
type letterSink struct {
	collectSink
	letters []string
}

func (l *letterSink) Open(context.Context, connectors.WriteRequest) (connectors.Committer, error) {
	return letterCommitter{collectCommitter{&l.collectSink}, l}, nil
}

type letterCommitter struct {
	collectCommitter
	l *letterSink
}

func (k letterCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	return letterWriter{collectWriter{k.c}, k.l}, nil
}

type letterWriter struct {
	collectWriter
	l *letterSink
}

func (w letterWriter) Write(_ context.Context, b *messages.Batch, ids []messages.ID128) error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for i := range b.Rows() {
		r := b.Row(i)
		w.l.letters = append(w.l.letters, b.Column(3).Str(r)+" "+b.Column(5).Str(r)+" "+b.Column(6).Str(r))
	}
	return nil
}

func TestBadRecordsGoToTheirSink(t *testing.T) {
	src := &badSource{sliceSource{parts: [][][2]int64{numbers(7, 3)}, bounded: true, batch: 7}}
	sink, dead := &collectSink{}, &letterSink{}
	spec := src.spec()
	spec.Source = src
	g := NewGraph()
	n := g.Source("src", spec)
	g.Sink("out", sink.spec(), Forward(n))
	g.Sink("dead", SinkSpec{Sink: dead, Schema: DeadLetterSchema()}, BadRecords(n))
	a, _ := start(t, g, nil)
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
	if len(sink.rows) != 7 {
		t.Errorf("got %d rows, want 7", len(sink.rows))
	}
	if d := gocmp.Diff([]string{"here { utf8", "there /w== base64"}, dead.letters); d != "" {
		t.Errorf("dead letters (-want +got):\n%s", d)
	}
}
