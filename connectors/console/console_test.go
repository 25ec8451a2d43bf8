package console_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
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
	s, err := c.Sink(t.Context(), connectors.SinkConfig{Options: connectortest.Options(t, c.SinkOptions, keyValues...), Env: connectors.Env{Stdout: out}})
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
		{"rows as they come", nil, func(t *testing.T) []*messages.Batch {
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
+--------------------+-----+

` + head + `+---------------+-----+
|           word|count|
+---------------+-----+
|owl\n\u001B[31m|    2|
+---------------+-----+

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

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAFailingOutputFailsTheAttempt(t *testing.T) {
	err := connectortest.Drain(t.Context(), newSink(t, closedPipe{}), connectors.WriteRequest{Schema: wordCount}, batch(t, wordCount, 0, nil, []any{"a", 1}))
	if fault.KindOf(err) != fault.Restart || err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("got error %v, want a restart error with the cause", err)
	}
}
