package order

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var schema = messages.NewSchema(
	messages.Field{Name: "id", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "name", Type: messages.T(messages.String)},
	messages.Field{Name: "x", Type: messages.T(messages.Double)},
)

// row is a row of the model; nil is NULL.
type row struct {
	id   int64
	name any
	x    any
}

func (r row) String() string { return fmt.Sprint(r.id, " ", r.name, " ", r.x) }

func build(bl *messages.Builder, views *messages.Pool, rows []row, f messages.Frame) *messages.Batch {
	for _, r := range rows {
		bl.Column(0).AppendInt64(r.id)
		if r.name != nil {
			bl.Column(1).AppendString(r.name.(string))
		}
		if r.x != nil {
			bl.Column(2).AppendFloat64(r.x.(float64))
		}
		bl.EndRow()
		bl.EndUnit(uint64(r.id), messages.EventTime(r.id*3))
	}
	b := bl.Finish()
	v := views.View(b)
	b.Release()
	v.SetFrame(f)
	return v.Publish()
}

// sink collects the last complete table.
type sink struct {
	coming, table []string
	open          bool
	tables        int
	most          int
	bad           string
}

func (s *sink) Emit(b *messages.Batch) {
	if b.Frame()&messages.FrameStart != 0 {
		s.coming, s.open = []string{}, true
	} else if !s.open {
		s.bad = "rows outside a table"
	}
	s.most = max(s.most, b.Rows())
	for i := range b.Rows() {
		r := row{id: b.Column(0).Int64s()[i]}
		if !b.Column(1).IsNull(i) {
			r.name = b.Column(1).Str(i)
		}
		if !b.Column(2).IsNull(i) {
			r.x = b.Column(2).Float64s()[i]
		}
		if got := b.Arrivals()[i]; got != messages.EventTime(r.id*3) {
			s.bad = fmt.Sprintf("row %v arrived at %d", r, got)
		}
		s.coming = append(s.coming, r.String())
	}
	if b.Frame()&messages.FrameEnd != 0 {
		s.table, s.open = s.coming, false
		s.tables++
	}
	b.Release()
}

// rank maps a value to its place by the rules of the SQL dialect, in words of
// numbers that a plain sort understands.
func rank(v any, k Key) (group int, s string, f float64) {
	if v == nil {
		first := k.Nulls == NullsFirst || k.Nulls == NullsDefault && !k.Desc
		if first != k.Desc { // a descending sort turns the order round
			return -1, "", 0
		}
		return 2, "", 0
	}
	switch v := v.(type) {
	case string:
		return 0, v, 0
	case float64:
		if v != v {
			return 1, "", 0
		}
		return 0, "", v + 0 // -0.0 + 0 is 0.0
	}
	panic("unexpected value")
}

func model(rows []row, keys []Key, limit int) []string {
	rows = append([]row{}, rows...)
	sort.SliceStable(rows, func(i, j int) bool {
		for _, k := range keys {
			value := func(r row) any {
				return []any{float64(r.id), r.name, r.x}[k.Column]
			}
			g1, s1, f1 := rank(value(rows[i]), k)
			g2, s2, f2 := rank(value(rows[j]), k)
			if g1 == g2 && s1 == s2 && f1 == f2 {
				continue
			}
			less := g1 < g2 || g1 == g2 && (s1 < s2 || s1 == s2 && f1 < f2)
			return less != k.Desc
		}
		return false
	})
	out := []string{}
	for i := range min(limit, len(rows)) {
		out = append(out, rows[i].String())
	}
	return out
}

func randomRows(r *rand.Rand, n int) []row {
	rows := make([]row, n)
	xs := []any{nil, math.NaN(), math.Inf(1), math.Inf(-1), 0.0, math.Copysign(0, -1), 1.5, -1.5}
	for i := range rows {
		rows[i] = row{id: r.Int64N(50), x: xs[r.IntN(len(xs))]}
		if r.IntN(6) > 0 {
			rows[i].name = fmt.Sprint("n", r.IntN(20))
		}
	}
	return rows
}

func open(t *testing.T, cfg Config) (operator.Operator, *epochs.Counters) {
	t.Helper()
	c := &epochs.Counters{}
	cfg.Schema = schema
	op := New(cfg)
	if err := op.Open(&operator.Task{Counters: c}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := op.Close(); err != nil {
			t.Error(err)
		}
	})
	return op, c
}

// feeder sends tables in batches of any size.
type feeder struct {
	bl    *messages.Builder
	views *messages.Pool
	r     *rand.Rand
}

func newFeeder(r *rand.Rand) *feeder {
	return &feeder{messages.NewBuilder(schema), messages.NewViewPool(), r}
}

func (f *feeder) table(t *testing.T, op operator.Operator, input int, rows []row, s *sink) {
	t.Helper()
	frame := messages.FrameStart
	for {
		n := 0
		if len(rows) > 0 {
			n = 1 + f.r.IntN(min(len(rows), 1024))
		}
		if n == len(rows) && f.r.IntN(2) == 0 {
			frame |= messages.FrameEnd
		}
		b := build(f.bl, f.views, rows[:n], frame)
		more, err := op.Process(input, b, s)
		b.Release()
		for more && err == nil {
			more, err = op.(operator.Resumer).Resume(s)
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = rows[n:]
		if frame&messages.FrameEnd != 0 {
			return
		}
		frame = 0
	}
}

func TestOrderSortsTables(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		var keys []Key
		for _, c := range r.Perm(3)[:1+r.IntN(3)] {
			keys = append(keys, Key{Column: c, Desc: r.IntN(2) == 0, Nulls: Nulls(r.IntN(3))})
		}
		cfg := Config{Keys: keys, Limited: r.IntN(3) == 0, Limit: r.Int64N(60)}
		limit := math.MaxInt
		if cfg.Limited {
			limit = int(cfg.Limit)
		}
		op, c := open(t, cfg)
		s := &sink{}
		f := newFeeder(r)
		for round := range 3 {
			rows := randomRows(r, r.IntN(80))
			if r.IntN(10) == 0 {
				rows = randomRows(r, 4000)
			}
			f.table(t, op, 0, rows, s)
			if diff := cmp.Diff(s.table, model(rows, keys, limit)); diff != "" {
				t.Fatalf("seed %d, %+v: -got +want\n%s", seed, cfg, diff)
			}
			if s.tables != round+1 || s.most > operator.MaxEmit || s.bad != "" {
				t.Fatalf("seed %d: %d tables, a batch of %d rows, %s", seed, s.tables, s.most, s.bad)
			}
		}
		if c.In != c.Out+c.Filtered {
			t.Errorf("seed %d: counters do not balance: %+v", seed, *c)
		}
	}
}

func TestOrderMergesTheLatestTableOfEveryInput(t *testing.T) {
	keys := []Key{{Column: 1}, {Column: 0, Desc: true}}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 11))
		op, _ := open(t, Config{Keys: keys, Inputs: 3})
		s := &sink{}
		f := newFeeder(r)
		latest := make([][]row, 3)
		for round := range 12 {
			in := r.IntN(3)
			latest[in] = randomRows(r, r.IntN(40))
			f.table(t, op, in, latest[in], s)
			all := append(append(append([]row{}, latest[0]...), latest[1]...), latest[2]...)
			if diff := cmp.Diff(s.table, model(all, keys, math.MaxInt)); diff != "" {
				t.Fatalf("seed %d, round %d: -got +want\n%s", seed, round, diff)
			}
		}
	}
}

func TestATableBegunAnewReplacesAnUnfinishedOne(t *testing.T) {
	op, _ := open(t, Config{Keys: []Key{{Column: 0}}})
	s := &sink{}
	f := newFeeder(rand.New(rand.NewPCG(1, 1)))
	b := build(f.bl, f.views, []row{{id: 9}}, messages.FrameStart)
	if more, err := op.Process(0, b, s); more || err != nil {
		t.Fatal(more, err)
	}
	b.Release()
	f.table(t, op, 0, []row{{id: 2}, {id: 1}}, s)
	if diff := cmp.Diff(s.table, []string{"1 <nil> <nil>", "2 <nil> <nil>"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestRowsOutsideATableAreRefused(t *testing.T) {
	op, _ := open(t, Config{Keys: []Key{{Column: 0}}})
	b := build(messages.NewBuilder(schema), messages.NewViewPool(), []row{{id: 9}}, 0)
	if _, err := op.Process(0, b, &sink{}); err == nil {
		t.Error("no error")
	}
}

func TestConfigIsChecked(t *testing.T) {
	s := messages.NewSchema(messages.Field{Name: "m", Type: messages.MapType(schema.Fields[1].Type, schema.Fields[0].Type)})
	for _, cfg := range []Config{{Schema: s, Keys: []Key{{}}}, {Schema: schema, Limited: true, Limit: -1}} {
		if err := New(cfg).Open(&operator.Task{Counters: &epochs.Counters{}}); fault.KindOf(err) != fault.Config {
			t.Errorf("got %v, want a config error", err)
		}
	}
}

// Each list is in ascending order by the rules of the dialect.
func TestValuesOfEachTypeAreOrdered(t *testing.T) {
	d := func(hi int64, lo uint64) messages.Decimal128 { return messages.Decimal128{Hi: hi, Lo: lo} }
	list := func(c *messages.Column, values ...any) {
		for _, v := range values {
			if v == nil {
				c.Child(0).AppendNull()
			} else {
				c.Child(0).AppendInt32(int32(v.(int)))
			}
		}
		c.CloseList()
	}
	pair := func(c *messages.Column, a int32, b string) {
		c.Child(0).AppendInt32(a)
		c.Child(1).AppendString(b)
		c.CloseStruct()
	}
	for _, c := range []struct {
		typ  messages.Type
		fill func(c *messages.Column)
	}{
		{messages.T(messages.Boolean), func(c *messages.Column) { c.AppendBool(false); c.AppendBool(true) }},
		{messages.T(messages.TinyInt), func(c *messages.Column) { c.AppendInt8(-128); c.AppendInt8(127) }},
		{messages.T(messages.SmallInt), func(c *messages.Column) { c.AppendInt16(-300); c.AppendInt16(2) }},
		{messages.T(messages.Date), func(c *messages.Column) { c.AppendInt32(-1); c.AppendInt32(0) }},
		{messages.T(messages.Float), func(c *messages.Column) {
			for _, f := range []float64{math.Inf(-1), -1, 0, 2, math.Inf(1), math.NaN()} {
				c.AppendFloat32(float32(f))
			}
		}},
		{messages.DecimalType(38, 0), func(c *messages.Column) {
			// -2^64, -1, 0, 2^63, 2^64
			for _, v := range []messages.Decimal128{d(-1, 0), d(-1, math.MaxUint64), d(0, 0), d(0, 1<<63), d(1, 0)} {
				c.AppendDecimal(v)
			}
		}},
		{messages.T(messages.Binary), func(c *messages.Column) {
			for _, s := range []string{"", "a", "ab", "b", "\xff"} {
				c.AppendString(s)
			}
		}},
		{messages.ArrayType(messages.T(messages.Int)), func(c *messages.Column) {
			list(c)
			list(c, nil, 9)
			list(c, 1)
			list(c, 1, 1)
			list(c, 2)
		}},
		{messages.StructType(messages.Field{Name: "a", Type: messages.T(messages.Int)}, messages.Field{Name: "b", Type: messages.T(messages.String)}), func(c *messages.Column) {
			pair(c, 1, "x")
			pair(c, 1, "y")
			pair(c, 2, "a")
		}},
	} {
		var col messages.Column
		col.Reset(c.typ)
		c.fill(&col)
		col.AppendNull()
		k := Key{Nulls: NullsLast}
		for i := range col.Len() {
			for j := range col.Len() {
				got, want := k.compare(&col, i, &col, j), 0
				if i < j {
					want = -1
				} else if i > j {
					want = 1
				}
				if got != want {
					t.Errorf("%s: value %d against %d = %d, want %d", c.typ, i, j, got, want)
				}
			}
		}
	}
}

// discard releases what it gets.
type discard struct{}

func (discard) Emit(b *messages.Batch) { b.Release() }

func BenchmarkOrder(b *testing.B) {
	const batches, size = 20, 1000
	r := rand.New(rand.NewPCG(1, 2))
	bl, views := messages.NewBuilder(schema), messages.NewViewPool()
	var in []*messages.Batch
	for i := range batches {
		var f messages.Frame
		if i == 0 {
			f |= messages.FrameStart
		}
		if i == batches-1 {
			f |= messages.FrameEnd
		}
		in = append(in, build(bl, views, randomRows(r, size), f))
	}
	op := New(Config{Schema: schema, Keys: []Key{{Column: 1}, {Column: 0}}})
	if err := op.Open(&operator.Task{Counters: &epochs.Counters{}}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, batch := range in {
			more, err := op.Process(0, batch, discard{})
			for more && err == nil {
				more, err = op.(operator.Resumer).Resume(discard{})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(batches*size), "ns/row")
}
