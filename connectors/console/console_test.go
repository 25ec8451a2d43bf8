package console_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/console"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func newSink(t testing.TB, out interface{ Write([]byte) (int, error) }, keyValues ...string) connectors.Sink {
	t.Helper()
	c := console.Connector()
	s, err := c.Sink(t.Context(), connectors.SinkConfig{Options: connectortest.Options(t, c.SinkOptions, keyValues...), Env: connectors.Env{Stdout: out, Clock: connectortest.NewClock(time.Time{})}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	connectortest.Sink(t, connectortest.SinkCase{
		New: func(t testing.TB) connectors.Sink { return newSink(t, &bytes.Buffer{}) },
	})
}

var wordCount = messages.NewSchema(messages.Field{Name: "word", Type: messages.T(messages.String)}, messages.Field{Name: "count", Type: messages.T(messages.BigInt)})

func batch(t *testing.T, s *messages.Schema, frame messages.Frame, kinds []messages.RowKind, rows ...[]any) *messages.Batch {
	t.Helper()
	b := messages.NewPool(s).Get()
	for _, r := range rows {
		for c, v := range r {
			if err := format.AppendValue(b.Own(c), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.SetLen(len(rows))
	b.SetFrame(frame)
	b.SetKinds(kinds)
	return b.Publish()
}

func TestTables(t *testing.T) {
	const head = "-------------------------------------------\nQuery: words  Epoch: 1\n-------------------------------------------\n"
	for _, tc := range []struct {
		name    string
		options []string
		batches func(t *testing.T) []*messages.Batch
		want    string
	}{
		{"rows of an epoch in one table", nil, func(t *testing.T) []*messages.Batch {
			return []*messages.Batch{
				batch(t, wordCount, 0, nil, []any{"cat", 1}, []any{"a word that is too long", nil}),
				batch(t, wordCount, 0, nil),
				batch(t, wordCount, 0, nil, []any{"owl\n\x1b[31m", 2}),
			}
		}, head + `+--------------------+-----+
|                word|count|
+--------------------+-----+
|                 cat|    1|
|a word that is to...| NULL|
|     owl\n\u001B[31m|    2|
+--------------------+-----+

`},
		{"not truncated and limited", []string{"truncate", "false", "num_rows", "1"}, func(t *testing.T) []*messages.Batch {
			return []*messages.Batch{batch(t, wordCount, 0, nil, []any{"a word that is too long", 1}, []any{"cat", 2})}
		}, head + `+-----------------------+-----+
|word                   |count|
+-----------------------+-----+
|a word that is too long|1    |
+-----------------------+-----+
only showing 1 of 2 rows

`},
		{"complete tables, an empty one too", nil, func(t *testing.T) []*messages.Batch {
			return []*messages.Batch{
				batch(t, wordCount, messages.FrameStart, nil, []any{"a", 1}),
				batch(t, wordCount, messages.FrameEnd, nil, []any{"b", 2}),
				batch(t, wordCount, messages.FrameStart|messages.FrameEnd, nil),
			}
		}, head + `+----+-----+
|word|count|
+----+-----+
|   a|    1|
|   b|    2|
+----+-----+

` + head + `+----+-----+
|word|count|
+----+-----+
+----+-----+

`},
		{"deletes are told from updates", nil, func(t *testing.T) []*messages.Batch {
			return []*messages.Batch{batch(t, wordCount, 0, []messages.RowKind{messages.UpdateBefore, messages.UpdateAfter, messages.Delete, messages.Insert},
				[]any{"a", 1}, []any{"a", 2}, []any{"b", 1}, []any{"c", 1})}
		}, head + `+------+----+-----+
|    op|word|count|
+------+----+-----+
|update|   a|    2|
|delete|   b|    1|
|insert|   c|    1|
+------+----+-----+

`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			q := connectors.WriteRequest{Query: "words", Schema: wordCount}
			if err := connectortest.Drain(t.Context(), newSink(t, &out, tc.options...), q, tc.batches(t)...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(out.String(), tc.want); diff != "" {
				t.Errorf("got (-) differs from want (+):\n%s", diff)
			}
		})
	}
}

func TestValuesLookAsInSpark(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 500000000, time.UTC)
	for _, tc := range []struct {
		typ  messages.Type
		v    any
		want string
	}{
		{messages.T(messages.Double), 1.0, "1.0"},
		{messages.T(messages.Double), 1e7, "1.0E7"},
		{messages.T(messages.Double), 1.25e-5, "1.25E-5"},
		{messages.T(messages.Double), math.Inf(-1), "-Infinity"},
		{messages.T(messages.Float), 0.1, "0.1"},
		{messages.DecimalType(5, 2), "1", "1.00"},
		{messages.T(messages.Boolean), true, "true"},
		{messages.T(messages.Binary), []byte{1, 255}, "[01 FF]"},
		{messages.T(messages.Date), noon, "2026-05-01"},
		{messages.T(messages.Timestamp), noon, "2026-05-01 12:00:00.5"},
		{messages.T(messages.TimestampNTZ), noon.Truncate(time.Minute), "2026-05-01 12:00:00"},
		{messages.WindowType(), []any{noon.Truncate(time.Second), nil}, "{2026-05-01 12:00:00, NULL}"},
		{messages.ArrayType(messages.T(messages.Int)), []any{1, nil}, "[1, NULL]"},
		{messages.MapType(messages.T(messages.String), messages.T(messages.TinyInt)), map[string]any{"a": 1}, "{a -> 1}"},
	} {
		var out bytes.Buffer
		s := messages.NewSchema(messages.Field{Name: "v", Type: tc.typ})
		if err := connectortest.Drain(t.Context(), newSink(t, &out, "truncate", "false"), connectors.WriteRequest{Schema: s}, batch(t, s, 0, nil, []any{tc.v})); err != nil {
			t.Fatal(err)
		}
		row := strings.Split(out.String(), "\n")[6]
		if got := strings.TrimRight(strings.Trim(row, "|"), " "); got != tc.want {
			t.Errorf("%s %v: got %q, want %q", tc.typ, tc.v, got, tc.want)
		}
	}
}

// tables is an output that hands over table by table.
type tables chan string

func (c tables) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}

// rowsOf are the rows of a printed table, without frame and header.
func rowsOf(table string) string {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	return strings.Join(lines[6:len(lines)-1], " ")
}

func TestTablesAreNotPrintedForEveryRow(t *testing.T) {
	clock := connectortest.NewClock(time.Time{})
	out := make(tables, 10)
	s, err := console.Connector().Sink(t.Context(), connectors.SinkConfig{
		Options: connectortest.Options(t, console.Connector().SinkOptions, "num_rows", "2"), Env: connectors.Env{Stdout: out, Clock: clock},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Open(t.Context(), connectors.WriteRequest{Query: "words", Schema: wordCount, KeyColumns: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Recover(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	w, err := c.Writer(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	write := func(rows ...[]any) {
		t.Helper()
		if err := w.Write(t.Context(), batch(t, wordCount, 0, nil, rows...), nil); err != nil {
			t.Fatal(err)
		}
	}
	cut := func(e messages.Epoch) {
		t.Helper()
		if _, err := w.Cut(e); err != nil {
			t.Fatal(err)
		}
	}
	silent := func(when string) {
		t.Helper()
		if len(out) > 0 {
			t.Fatalf("%s: a table was printed:\n%s", when, <-out)
		}
	}
	want := func(when, rows string) {
		t.Helper()
		if got := <-out; !strings.Contains(rowsOf(got), rows) {
			t.Errorf("%s: got\n%swant %s", when, got, rows)
		}
	}
	write([]any{"a", 1})
	silent("at once")
	clock.Advance(50 * time.Millisecond)
	want("after a quiet time", "|   a|    1|")
	for i := range 100 { // the same group again and again
		write([]any{"a", i}, []any{"b", 1})
	}
	clock.Advance(50 * time.Millisecond)
	silent("soon after the table before")
	clock.Advance(450 * time.Millisecond)
	want("of a busy query", "|   a|   99| |   b|    1|")
	for i := range 100 {
		write([]any{"a", i}, []any{"b", i}, []any{"c", i})
	}
	cut(1)
	want("at the end of an epoch", "|   a|   99| |   b|   99| +----+-----+")
	cut(2)
	clock.Advance(time.Hour)
	silent("when nothing has come")
	write([]any{"a", 1})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	silent("after the end")
}

type closedPipe struct{ err error }

func (p closedPipe) Write([]byte) (int, error) { return 0, p.err }

func TestAFailingOutputFailsTheAttempt(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind fault.Kind
		text string
	}{
		{errors.New("no space left"), fault.Restart, "no space left"},
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, fault.Config, "nobody reads standard output any more"},
	} {
		err := connectortest.Drain(t.Context(), newSink(t, closedPipe{c.err}), connectors.WriteRequest{Schema: wordCount}, batch(t, wordCount, 0, nil, []any{"a", 1}))
		if fault.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got error %v, want %q of kind %v", err, c.text, c.kind)
		}
	}
}
