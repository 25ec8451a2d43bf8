package held_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestAppendKeepsAllRowsInOrder(t *testing.T) {
	w := newWorld(t, held.Config{}, 2)
	id := func(n uint64) messages.ID128 { return messages.ID128{Hi: 9, Lo: n} }
	write(t, w.writer[1], batch(t, schema, []any{"b", 1}), id(1))
	write(t, w.writer[0], batch(t, schema, []any{"a", 2}, []any{"a", 3}), id(2), id(3))
	write(t, w.writer[1], kinds(batch(t, schema, []any{"x", 0}, []any{"b", 4}, []any{nil, 5}), []int32{1, 2}, messages.Insert, messages.UpdateBefore, messages.Delete), id(4), id(5))
	u := w.end(t, 7)
	if diff := cmp.Diff(u, held.Unconfirmed{{Epoch: 7, Rows: 5, Parts: []uint16{0, 1}}}); diff != "" {
		t.Errorf("token: got (-) differs from want (+):\n%s", diff)
	}
	want := []row{
		{0, 0, messages.Insert, []any{"a", int64(2)}, id(2)},
		{1, 0, messages.Insert, []any{"a", int64(3)}, id(3)},
		{2, 1, messages.Insert, []any{"b", int64(1)}, id(1)},
		{3, 1, messages.UpdateBefore, []any{"b", int64(4)}, id(4)},
		{4, 1, messages.Delete, []any{nil, int64(5)}, id(5)},
	}
	if diff := cmp.Diff(w.replay(t.Context(), t, 7), want); diff != "" {
		t.Errorf("from memory: got (-) differs from want (+):\n%s", diff)
	}
	w.restart(t, held.Config{}, 5)
	w.rows.Recover(u)
	for range 2 {
		if diff := cmp.Diff(w.replay(t.Context(), t, 7), want); diff != "" {
			t.Errorf("from the checkpoint: got (-) differs from want (+):\n%s", diff)
		}
	}
}

func TestManyRowsComeBack(t *testing.T) {
	w := newWorld(t, held.Config{}, 1)
	const n = 5000
	for i := 0; i < n; i += 7 {
		var rows [][]any
		for j := i; j < min(i+7, n); j++ {
			rows = append(rows, []any{strings.Repeat("x", j%3000), j})
		}
		write(t, w.writer[0], batch(t, schema, rows...))
	}
	w.end(t, 1)
	rows := w.replay(t.Context(), t, 1)
	if len(rows) != n {
		t.Fatalf("got %d rows, want %d", len(rows), n)
	}
	for i, r := range rows {
		if r.Values[1] != int64(i) || len(r.Values[0].(string)) != i%3000 {
			t.Fatalf("row %d: got %v", i, r.Values[1])
		}
	}
}

func TestTwoEpochsAreOutstandingAndConfirmedInOrder(t *testing.T) {
	w := newWorld(t, held.Config{}, 1)
	write(t, w.writer[0], batch(t, schema, []any{"a", 1}))
	w.end(t, 3)
	write(t, w.writer[0], batch(t, schema, []any{"a", 2}))
	u := w.end(t, 4)
	if diff := cmp.Diff(w.rows.Pending(3), []messages.Epoch{3}); diff != "" {
		t.Errorf("pending up to 3: got (-) differs from want (+):\n%s", diff)
	}
	pending := func(want ...messages.Epoch) {
		t.Helper()
		if diff := cmp.Diff(w.rows.Pending(9), want); diff != "" {
			t.Errorf("pending: got (-) differs from want (+):\n%s", diff)
		}
	}
	pending(3, 4)
	w.rows.Confirm(3)
	pending(4)
	if err := w.rows.Replay(t.Context(), 3, nil); err == nil {
		t.Error("rows of a confirmed epoch are replayed")
	}
	if u5 := w.end(t, 5); len(u5) != 1 || u5[0].Epoch != 4 {
		t.Errorf("epoch 5 without rows: got token %v, want epoch 4 only", u5)
	}
	w.rows.Confirm(5)
	if u6 := w.end(t, 6); u6 != nil {
		t.Errorf("got %v, want nothing", u6)
	}
	w.restart(t, held.Config{}, 1)
	w.rows.Recover(u)
	pending(3, 4)
}

func TestRowIDsAreTheSameAfterARestartAndNoOthers(t *testing.T) {
	w := newWorld(t, held.Config{}, 1)
	seen := map[messages.ID128]string{}
	first := w.rows.RowID(1, 1)
	for e := range messages.Epoch(20) {
		for n := range int64(50) {
			id := w.rows.RowID(e, n)
			if other := seen[id]; other != "" {
				t.Fatalf("row %d of epoch %d has the identity of %s", n, e, other)
			}
			seen[id] = fmt.Sprintf("row %d of epoch %d", n, e)
		}
	}
	w.restart(t, held.Config{}, 1)
	if got := w.rows.RowID(1, 1); got != first {
		t.Errorf("got %v after a restart, %v before", got, first)
	}
	other, err := held.New(held.Config{Request: connectors.WriteRequest{Sink: "q/other", Incarnation: messages.ID128{Hi: 1, Lo: 2}, Schema: schema, Stash: w.stash}})
	if err != nil {
		t.Fatal(err)
	}
	if other.RowID(1, 1) == first {
		t.Error("two sinks of a query give rows the same identity")
	}
}

// TestUpdateKeepsTheLastRowPerKey compares with the rule: a row counts unless a
// later one of the epoch has the same key.
func TestUpdateKeepsTheLastRowPerKey(t *testing.T) {
	for _, tc := range []struct {
		name       string
		keys, rows int
	}{{"few keys", 5, 20_000}, {"many keys", 5000, 12_000}, {"one row", 1, 1}, {"each key once", 1 << 40, 3000}} {
		t.Run(tc.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(tc.keys)))
			c := held.Config{Request: connectors.WriteRequest{KeyColumns: []int{0}}}
			w := newWorld(t, c, 1)
			for e := messages.Epoch(1); e <= 2; e++ {
				var all []row
				for len(all) < tc.rows {
					var rows [][]any
					var ks []messages.RowKind
					var ids []messages.ID128
					for range min(1+rng.IntN(300), tc.rows-len(all)) {
						r := row{Kind: messages.RowKind(rng.IntN(4)), Values: []any{fmt.Sprint(rng.IntN(tc.keys)), rng.Int64()}, ID: messages.ID128{Lo: uint64(len(all))}}
						if rng.IntN(50) == 0 {
							r.Values[0] = nil
						}
						rows, ks, ids, all = append(rows, r.Values), append(ks, r.Kind), append(ids, r.ID), append(all, r)
					}
					write(t, w.writer[0], kinds(batch(t, schema, rows...), nil, ks...), ids...)
				}
				last := map[any]int{}
				for i, r := range all {
					if r.Kind != messages.UpdateBefore {
						last[r.Values[0]] = i
					}
				}
				want := []row{}
				for i, r := range all {
					if j, ok := last[r.Values[0]]; ok && i == j {
						r.N = int64(len(want))
						want = append(want, r)
					}
				}
				w.end(t, e)
				if got := w.replay(t.Context(), t, e); !cmp.Equal(got, want) && len(got)+len(want) > 0 {
					t.Fatalf("epoch %d: got %d rows, want %d:\n%s", e, len(got), len(want), cmp.Diff(got, want))
				}
				w.rows.Confirm(e)
			}
		})
	}
}

func TestKeysAreEqualAsInGroups(t *testing.T) {
	s := messages.NewSchema(
		messages.Field{Name: "d", Type: messages.T(messages.Double)},
		messages.Field{Name: "w", Type: messages.StructType(messages.Field{Name: "a", Type: messages.T(messages.BigInt)}, messages.Field{Name: "b", Type: messages.T(messages.Boolean)})},
		messages.Field{Name: "l", Type: messages.ArrayType(messages.T(messages.Int))},
		messages.Field{Name: "v", Type: messages.T(messages.BigInt)},
	)
	w := newWorld(t, held.Config{Request: connectors.WriteRequest{Schema: s, KeyColumns: []int{0, 1, 2}}}, 1)
	rows := [][]any{ // pairs of equal keys, and nothing else is equal
		{0.0, []any{1, true}, []any{1, 2}, 1},
		{math.Copysign(0, -1), []any{1, true}, []any{1, 2}, 2},
		{math.NaN(), nil, nil, 3},
		{-math.NaN(), nil, nil, 4},
		{nil, []any{nil, true}, []any{}, 5},
		{nil, []any{nil, true}, []any{}, 6},
		{nil, []any{nil, true}, []any{nil}, 7},
		{nil, []any{nil, true}, []any{nil}, 8},
		{nil, []any{nil, true}, []any{2, 1}, 9},
		{nil, []any{nil, true}, []any{2, 1}, 10},
		{nil, []any{nil, true}, []any{1, 2}, 11},
		{nil, []any{nil, true}, []any{1, 2}, 12},
	}
	write(t, w.writer[0], batch(t, s, rows...))
	w.end(t, 1)
	var got []int64
	for _, r := range w.replay(t.Context(), t, 1) {
		got = append(got, r.Values[3].(int64))
	}
	if diff := cmp.Diff(got, []int64{2, 4, 6, 8, 10, 12}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestWithoutKeyColumnsInUpdateModeAllRowsShareAKey(t *testing.T) {
	w := newWorld(t, held.Config{Request: connectors.WriteRequest{KeyColumns: []int{}}}, 1)
	write(t, w.writer[0], batch(t, schema, []any{"a", 1}, []any{"b", 2}))
	write(t, w.writer[0], batch(t, schema, []any{"c", 3}))
	w.end(t, 1)
	if diff := cmp.Diff(w.replay(t.Context(), t, 1), []row{{Values: []any{"c", int64(3)}}}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

// tables publishes an epoch in complete mode: the rows of each table it brings.
func (w *world) tables(t *testing.T, e messages.Epoch) []string {
	t.Helper()
	out, open := []string{}, false
	if err := w.rows.Replay(t.Context(), e, func(b *held.Block) error {
		if f := b.Batch.Frame(); f&messages.FrameStart != 0 {
			if open {
				t.Error("a table starts in the middle of another")
			}
			open = true
			out = append(out, "")
		}
		if !open {
			t.Error("rows outside of a table")
		}
		for i := range b.Batch.Rows() {
			out[len(out)-1] += fmt.Sprint(format.RowAt(b.Batch, i)[1], " ")
		}
		open = open && b.Batch.Frame()&messages.FrameEnd == 0
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if open {
		t.Error("the last table does not end")
	}
	return out
}

func TestCompleteKeepsTheLastWholeTable(t *testing.T) {
	w := newWorld(t, held.Config{}, 2)
	start, end := messages.FrameStart, messages.FrameEnd
	one := func(n int) *messages.Batch { return batch(t, schema, []any{"r", n}) }
	write(t, w.writer[0], frame(one(1), start|end))
	write(t, w.writer[0], frame(one(2), start))
	write(t, w.writer[0], one(3))
	write(t, w.writer[0], frame(batch(t, schema), end))
	write(t, w.writer[1], frame(one(4), start)) // does not end before the cut
	w.end(t, 1)
	if diff := cmp.Diff(w.tables(t, 1), []string{"2 3 "}); diff != "" {
		t.Errorf("epoch 1: got (-) differs from want (+):\n%s", diff)
	}
	w.rows.Confirm(1)
	write(t, w.writer[0], frame(batch(t, schema), start|end))
	write(t, w.writer[1], frame(one(5), end))
	w.end(t, 2)
	if diff := cmp.Diff(w.tables(t, 2), []string{"", "4 5 "}); diff != "" {
		t.Errorf("epoch 2: got (-) differs from want (+):\n%s", diff)
	}
	var rows [][]any
	want := ""
	for i := range 3000 {
		rows = append(rows, []any{"r", i})
		want += fmt.Sprint(i, " ")
	}
	write(t, w.writer[0], frame(batch(t, schema, rows[:1500]...), start))
	write(t, w.writer[0], frame(batch(t, schema, rows[1500:]...), end))
	w.end(t, 3)
	if diff := cmp.Diff(w.tables(t, 3), []string{want}); diff != "" {
		t.Errorf("epoch 3: got (-) differs from want (+):\n%s", diff)
	}
}

func TestRowsOfAnEarlierSchemaComeBackUnderIt(t *testing.T) {
	w := newWorld(t, held.Config{}, 1)
	write(t, w.writer[0], batch(t, schema, []any{"a", 1}))
	u := w.end(t, 1)
	narrow := messages.NewSchema(messages.Field{Name: "k", Type: messages.T(messages.BigInt)})
	w.restart(t, held.Config{Request: connectors.WriteRequest{Schema: narrow}}, 1)
	w.rows.Recover(u)
	if diff := cmp.Diff(w.replay(t.Context(), t, 1), []row{{Values: []any{"a", int64(1)}}}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestReplayRefusesWhatDoesNotFitTheToken(t *testing.T) {
	w := newWorld(t, held.Config{}, 2)
	write(t, w.writer[0], batch(t, schema, []any{"a", 1}))
	write(t, w.writer[1], batch(t, schema, []any{"a", 1}))
	w.end(t, 1)
	for name, e := range map[string]held.Epoch{
		"a part is missing":      {Epoch: 1, Rows: 2, Parts: []uint16{0, 1, 2}},
		"a part is too many":     {Epoch: 1, Rows: 1, Parts: []uint16{0}},
		"another part":           {Epoch: 1, Rows: 2, Parts: []uint16{0, 7}},
		"another number of rows": {Epoch: 1, Rows: 3, Parts: []uint16{0, 1}},
	} {
		w.restart(t, held.Config{}, 0)
		w.rows.Recover(held.Unconfirmed{e})
		err := w.rows.Replay(t.Context(), 1, func(*held.Block) error { return nil })
		if fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "test sink: rows held of epoch 1") {
			t.Errorf("%s: got %v, want an error of kind config that names sink and epoch", name, err)
		}
	}
}

func TestReplayEndsWithTheErrorOfItsCallback(t *testing.T) {
	w := newWorld(t, held.Config{}, 1)
	write(t, w.writer[0], batch(t, schema, []any{"a", 1}))
	u := w.end(t, 1)
	enough := errors.New("enough")
	for range 2 { // from memory, then from the checkpoint
		if err := w.rows.Replay(t.Context(), 1, func(*held.Block) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("got %v, want the error of the callback", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.rows.Replay(ctx, 1, func(*held.Block) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the context has ended", err)
		}
		w.restart(t, held.Config{}, 1)
		w.rows.Recover(u)
	}
}

func TestIdentitiesAreForAllRowsOrForNone(t *testing.T) {
	w := newWorld(t, held.Config{}, 1)
	write(t, w.writer[0], batch(t, schema, []any{"a", 1}), messages.ID128{Lo: 1})
	for _, ids := range [][]messages.ID128{nil, {{Lo: 1}, {Lo: 2}}} {
		if err := w.writer[0].Write(t.Context(), batch(t, schema, []any{"a", 1}), ids); fault.KindOf(err) != fault.Internal {
			t.Errorf("%d identities for one row: got %v, want an internal error", len(ids), err)
		}
	}
}

func TestNewAndWriterRefuseWhatCannotWork(t *testing.T) {
	if _, err := held.New(held.Config{Request: connectors.WriteRequest{Schema: schema}}); err == nil {
		t.Error("rows are held without a stash")
	}
	w := newWorld(t, held.Config{}, 0)
	if _, err := w.rows.Writer(connectors.MaxStashParts); fault.KindOf(err) != fault.Config {
		t.Errorf("got %v, want an error of kind config", err)
	}
	if _, err := w.rows.Prepare(1, []connectors.Token{connectors.Token("{")}); err == nil {
		t.Error("a token that is none is accepted")
	}
}

// away is a stash that gives nothing back.
type away struct{ connectors.Stash }

func (away) Load(context.Context, messages.Epoch, func(uint16, []byte) error) error {
	return errors.New("the checkpoint is read")
}

func TestRowsOfTheRunningAttemptAreNotReadBack(t *testing.T) {
	w := newWorld(t, held.Config{}, 0)
	rows, err := held.New(held.Config{Request: connectors.WriteRequest{Schema: schema, Stash: away{w.stash}}})
	if err != nil {
		t.Fatal(err)
	}
	wr, err := rows.Writer(0)
	if err != nil {
		t.Fatal(err)
	}
	w.rows, w.writer = rows, []connectors.Writer{wr}
	write(t, wr, batch(t, schema, []any{"a", 1}))
	w.end(t, 1)
	if got := w.replay(t.Context(), t, 1); len(got) != 1 {
		t.Errorf("got %d rows, want 1", len(got))
	}
}
