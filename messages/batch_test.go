package messages

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var bidSchema = NewSchema(
	Field{"auction", T(BigInt)}, Field{"bidder", T(BigInt)}, Field{"price", T(BigInt)},
	Field{"channel", T(String)}, Field{"url", T(String)}, Field{"ts", T(Timestamp)},
)

func appendBid(bl *Builder, i int64) {
	bl.Column(0).AppendInt64(i)
	bl.Column(1).AppendInt64(i * 7)
	bl.Column(2).AppendInt64(i * 13)
	bl.Column(3).AppendString("channel")
	bl.Column(4).AppendString("https://www.nexmark.com/abcd/efgh/item.htm?q=1")
	bl.Column(5).AppendInt64(i * 1000)
	bl.EndRow()
}

func TestBuilder(t *testing.T) {
	schema := NewSchema(Field{"n", T(BigInt)}, Field{"l", ArrayType(T(BigInt))})
	row := func(bl *Builder, n int64) {
		bl.Column(0).AppendInt64(n)
		bl.Column(1).Child(0).AppendInt64(n)
		bl.Column(1).CloseList()
		bl.EndRow()
	}
	t.Run("makes columns without a value NULL", func(t *testing.T) {
		bl := NewBuilder(schema)
		bl.Column(0).AppendInt64(1)
		bl.EndRow()
		bl.EndRow()
		b := bl.Finish()
		if got, want := readColumn(b.Column(0)), []any{int64(1), nil}; !cmp.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("numbers the rows of a unit", func(t *testing.T) {
		bl := NewBuilder(schema)
		bl.SetOrigin(ID128{1, 2})
		row(bl, 1)
		bl.EndUnit(10, 100)
		row(bl, 2)
		row(bl, 3)
		bl.EndUnit(12, 101)
		bl.EndUnit(13, 102) // a unit without rows
		row(bl, 4)
		bl.EndUnit(14, 103)
		b := bl.Finish()
		want := Lineage{Base: ID128{1, 2}, A: []uint64{10, 12, 12, 14}, B: []uint64{0, 0, 1, 0}}
		if diff := cmp.Diff(b.Lineage(), want); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
		if diff := cmp.Diff(b.Arrivals(), []EventTime{100, 101, 101, 103}); diff != "" {
			t.Errorf("arrivals: -got +want\n%s", diff)
		}
	})
	t.Run("leaves out the paths when every unit has one row", func(t *testing.T) {
		bl := NewBuilder(schema)
		for i := range uint64(3) {
			row(bl, int64(i))
			bl.EndUnit(i, 0)
		}
		if b := bl.Finish(); b.Lineage().B != nil || len(b.Lineage().A) != 3 {
			t.Errorf("got %+v, want offsets only", b.Lineage())
		}
	})
	t.Run("gives no lineage when a row belongs to no unit", func(t *testing.T) {
		bl := NewBuilder(schema)
		row(bl, 1)
		bl.EndUnit(1, 1)
		row(bl, 2)
		if b := bl.Finish(); b.Lineage().A != nil || b.Arrivals() != nil || b.Len() != 2 {
			t.Errorf("got %+v of %d rows, want none of 2", b.Lineage(), b.Len())
		}
	})
	t.Run("drops an aborted row with its unfinished list", func(t *testing.T) {
		bl := NewBuilder(schema)
		row(bl, 1)
		bl.Column(1).Child(0).AppendInt64(99)
		bl.AbortRow()
		row(bl, 2)
		bl.Column(1).Child(0).AppendInt64(98) // never ended
		b := bl.Finish()
		want := []any{[]any{int64(1)}, []any{int64(2)}}
		if got := readColumn(b.Column(1)); !cmp.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := b.Column(1).Child(0).Len(); got != 2 {
			t.Errorf("the child has %d values, want 2", got)
		}
	})
	t.Run("drops an aborted unit", func(t *testing.T) {
		bl := NewBuilder(schema)
		row(bl, 1)
		bl.EndUnit(1, 1)
		row(bl, 2)
		row(bl, 3)
		bl.Column(0).AppendInt64(4)
		if got := bl.AbortUnit(); got != 2 {
			t.Errorf("AbortUnit() = %d, want 2", got)
		}
		row(bl, 5)
		bl.EndUnit(3, 3)
		b := bl.Finish()
		if got, want := readColumn(b.Column(0)), []any{int64(1), int64(5)}; !cmp.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if diff := cmp.Diff(b.Lineage().A, []uint64{1, 3}); diff != "" {
			t.Errorf("-got +want\n%s", diff)
		}
	})
	t.Run("starts clean after each batch, however it is reused", func(t *testing.T) {
		bl := NewBuilder(schema)
		for i := range int64(50) {
			for j := range i % 5 {
				row(bl, i+j)
			}
			if i%3 == 0 {
				bl.EndUnit(uint64(i), EventTime(i))
			}
			b := bl.Finish()
			if got, want := b.Len(), int(i%5); got != want {
				t.Fatalf("batch %d has %d rows, want %d", i, got, want)
			}
			if got, want := b.Lineage().A != nil, i%3 == 0 && i%5 > 0; got != want {
				t.Fatalf("batch %d has a lineage: %v, want %v", i, got, want)
			}
			b.Release()
		}
	})
}

func TestPoolDoesNotAllocateAfterWarmUp(t *testing.T) {
	if invariants {
		t.Skip("batches are not reused in this build")
	}
	bl := NewBuilder(bidSchema)
	views := NewViewPool()
	dense := NewPool(bidSchema)
	work := func() {
		for i := range int64(256) {
			appendBid(bl, i)
			bl.EndUnit(uint64(i), EventTime(i))
		}
		b := bl.Finish()
		v := views.View(b)
		v.Select(append(v.SelectBuffer(b.Len()), 3, 5, 200))
		v.Publish()
		b.Release()
		c := v.Compact(dense)
		v.Release()
		c.Release()
	}
	for range 10 {
		work()
	}
	// A garbage collection may empty the pool, hence not exactly 0 per run.
	if got := testing.AllocsPerRun(200, work); got > 1 {
		t.Errorf("%v allocations per batch of 256 rows, want 0", got)
	}
}

func TestView(t *testing.T) {
	bl := NewBuilder(bidSchema)
	for i := range int64(10) {
		appendBid(bl, i)
		bl.EndUnit(uint64(i), EventTime(i))
	}
	b := bl.Finish()
	pool := NewViewPool()
	v := pool.View(b)
	v.Select(append(v.SelectBuffer(0), 2, 4))
	v.Publish()
	b.Release() // the view keeps it alive
	w := pool.View(v).Publish()
	v.Release()
	if got := w.Rows(); got != 2 {
		t.Errorf("Rows() = %d, want 2", got)
	}
	if got := w.Column(0).Int64s()[w.Row(1)]; got != 4 {
		t.Errorf("second selected value = %d, want 4", got)
	}
	if got := w.Lineage().A[w.Row(0)]; got != 2 {
		t.Errorf("offset of the first selected row = %d, want 2", got)
	}
	if w.Schema() != bidSchema {
		t.Error("a view has another schema")
	}
	w.Release()
}

func TestSelectBufferIsNeverNil(t *testing.T) {
	if b := NewPool(bidSchema).Get(); b.SelectBuffer(0) == nil {
		t.Error("an empty selection would mean all rows")
	}
}

func TestOnePoolForViewsAndOwnBatches(t *testing.T) {
	pool := NewPool(bidSchema)
	other := NewSchema(Field{"x", T(Int)})
	src := NewPool(other).Get()
	src.Own(0).AppendInt32(7)
	src.SetLen(1)
	src.Publish()
	for range 20 {
		v := pool.View(src).Publish()
		b := pool.Get()
		if b.Schema() != bidSchema || b.Columns() != 6 || b.Rows() != 0 || b.Watermark() != NoEventTime {
			t.Fatalf("Get() = %d columns of %s", b.Columns(), b.Schema())
		}
		b.Publish()
		b.Release()
		v.Release()
	}
	src.Release()
}

func TestKeepHoldsTwoOthers(t *testing.T) {
	pool := NewPool(NewSchema())
	a, b, c := pool.Get().Publish(), pool.Get().Publish(), pool.Get().Publish()
	v := pool.Get()
	v.Keep(a)
	v.Keep(b)
	v.Keep(a)
	v.Keep(nil)
	mustPanic(t, "Keep of a third batch", func() { v.Keep(c) })
	if got := a.refs.Load(); got != 2 {
		t.Errorf("a has %d holders, want 2", got)
	}
	v.Publish()
	v.Release()
	if got := b.refs.Load(); got != 1 {
		t.Errorf("b has %d holders, want 1", got)
	}
}

func TestReleaseFromManyGoroutines(t *testing.T) {
	bl := NewBuilder(bidSchema)
	pool := NewViewPool()
	for round := range int64(200) {
		appendBid(bl, round)
		b := bl.Finish()
		const holders = 4
		b.Retain(holders - 1)
		var wg sync.WaitGroup
		for range holders {
			v := pool.View(b).Publish()
			wg.Go(func() {
				if got := v.Column(0).Int64s()[0]; got != round {
					t.Errorf("read %d, want %d", got, round)
				}
				v.Release()
				b.Release()
			})
		}
		wg.Wait()
		if got := b.refs.Load(); !invariants && got != 0 && got != 1 {
			t.Fatalf("%d holders are left", got)
		}
	}
}

func TestMisuseIsFoundInBuildsWithInvariants(t *testing.T) {
	if !invariants {
		t.Skip("needs -tags invariants or -race")
	}
	build := func() *Batch {
		bl := NewBuilder(bidSchema)
		appendBid(bl, 1)
		bl.EndUnit(1, 1)
		return bl.Finish()
	}
	b := build()
	kept, offsets := b.Column(0), b.Lineage().A
	b.Release()
	mustPanic(t, "a second release", b.Release)
	mustPanic(t, "a read of a released batch", func() { b.Column(0) })
	mustPanic(t, "a read of a kept column", func() { _ = kept.Int64s()[0] })
	if offsets[0] == 1 {
		t.Error("kept side information is still intact after the release")
	}
	c := build()
	c.Release()
	mustPanic(t, "a retain after the last release", func() { c.Retain(1) })
	d := build()
	mustPanic(t, "a read at another width", func() { d.Column(0).Int32s() })
	for name, f := range map[string]func(*Batch){
		"a wrong length":       func(b *Batch) { b.SetLen(2) },
		"a selection too far":  func(b *Batch) { b.Select([]int32{1}) },
		"a descending one":     func(b *Batch) { b.Select([]int32{0, 0}) },
		"a mark too far":       func(b *Batch) { b.SetMarks([]Mark{{Row: 1}}) },
		"marks that go back":   func(b *Batch) { b.SetMarks([]Mark{{-1, 5}, {0, 4}}) },
		"too few arrivals":     func(b *Batch) { b.SetArrivals(make([]EventTime, 2)) },
		"a column's wrong typ": func(b *Batch) { b.Own(1).Reset(T(Int)); b.Own(1).AppendInt32(1) },
	} {
		b := NewPool(NewSchema(Field{"a", T(Int)}, Field{"b", T(BigInt)})).Get()
		b.Own(0).AppendInt32(1)
		b.Own(1).AppendInt64(1)
		b.SetLen(1)
		f(b)
		mustPanic(t, "publishing with "+name, func() { b.Publish() })
	}
}

func TestCompact(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		schema := NewSchema(Field{"n", T(BigInt)}, Field{"x", randomType(r, 2)})
		b := NewPool(schema).Get()
		n := r.IntN(70)
		var rows []any
		var offsets []uint64
		for i := range n {
			v := randomValue(r, schema.Fields[1].Type)
			b.Own(0).AppendInt64(int64(i))
			appendValue(b.Own(1), v)
			rows = append(rows, []any{int64(i), v})
			offsets = append(offsets, uint64(i)*3)
		}
		b.SetLen(n)
		b.SetLineage(Lineage{Base: ID128{4, 5}, A: offsets})
		var marks []Mark
		for i := range n {
			if r.IntN(3) == 0 {
				marks = append(marks, Mark{Row: int32(i), At: EventTime(i)})
				b.SetWatermark(EventTime(i))
			}
		}
		b.SetMarks(marks)
		if r.IntN(4) > 0 {
			sel := b.SelectBuffer(n)
			for i := range n {
				if r.IntN(3) == 0 {
					sel = append(sel, int32(i))
				}
			}
			b.Select(sel)
		}
		b.Publish()
		got := b.Compact(NewPool(schema))
		checkCompact(t, seed, b, got, rows)
		b.Release()
		got.Release()
	}
}

// checkCompact replays both batches row by row: which rows come, and which
// watermark each of them is judged by.
func checkCompact(t *testing.T, seed uint64, b, got *Batch, rows []any) {
	t.Helper()
	type judged struct {
		Row    any
		Offset uint64
		Before EventTime
	}
	replay := func(b *Batch) []judged {
		out := []judged{}
		for k := range b.Rows() {
			i := b.Row(k)
			wm := NoEventTime
			for _, m := range b.Marks() {
				if int(m.Row) < i {
					wm = m.At
				}
			}
			row := rows[b.Column(0).Int64s()[i]].([]any)[0]
			out = append(out, judged{[]any{row, readValue(b.Column(1), i)}, b.Lineage().A[i], wm})
		}
		return out
	}
	if got.Selection() != nil {
		t.Errorf("seed %d: the compact batch has a selection", seed)
	}
	if diff := cmp.Diff(replay(got), replay(b)); diff != "" {
		t.Fatalf("seed %d: -compact +original\n%s", seed, diff)
	}
	if m := got.Marks(); len(b.Marks()) > 0 && m[len(m)-1].At != got.Watermark() {
		t.Errorf("seed %d: last mark %v, watermark %v", seed, m[len(m)-1], got.Watermark())
	}
}

func TestSparse(t *testing.T) {
	b := NewPool(NewSchema()).Get()
	b.SetLen(100)
	if b.Sparse() {
		t.Error("a batch without a selection is sparse")
	}
	b.Select(make([]int32, 24))
	if !b.Sparse() {
		t.Error("24 of 100 rows is not sparse")
	}
	b.Select(make([]int32, 25))
	if b.Sparse() {
		t.Error("25 of 100 rows is sparse")
	}
}

func TestEventTimeMinusStaysBetweenTheLimits(t *testing.T) {
	for _, c := range []struct {
		at   EventTime
		d    time.Duration
		want EventTime
	}{
		{100, 40 * time.Microsecond, 60},
		{100, -40 * time.Microsecond, 140},
		{NoEventTime, time.Hour, NoEventTime},
		{MaxEventTime, time.Hour, MaxEventTime},
		{NoEventTime + 1, time.Hour, NoEventTime + 1},
		{NoEventTime + 5, 5 * time.Microsecond, NoEventTime + 1},
		{MaxEventTime - 1, -time.Hour, MaxEventTime - 1},
		{MaxEventTime - 5, -5 * time.Microsecond, MaxEventTime - 1},
		{math.MaxInt64 / 2, 0, math.MaxInt64 / 2},
	} {
		if got := c.at.Minus(c.d); got != c.want {
			t.Errorf("%d.Minus(%v) = %d, want %d", c.at, c.d, got, c.want)
		}
	}
}
