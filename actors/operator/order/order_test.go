package order

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// arrivalOf is when a row of build arrived.
func arrivalOf(id int32) messages.EventTime { return messages.EventTime(id) * 3 }

// build makes a batch of a table; each row is a unit.
func build(rows [][]any, f messages.Frame) *messages.Batch {
	bl := messages.NewBuilder(schema)
	for _, r := range rows {
		for c, v := range r {
			operatortest.Append(bl.Column(c), v)
		}
		bl.EndRow()
		id := int32(r[3].(int))
		bl.EndUnit(uint64(id), arrivalOf(id))
	}
	b := bl.Finish()
	v := messages.NewViewPool().View(b)
	b.Release()
	v.SetFrame(f)
	return v.Publish()
}

// sink notes the ids of the last table.
type sink struct {
	ids      []int32
	arrivals []messages.EventTime
}

func (s *sink) Emit(b *messages.Batch) {
	if b.Frame()&messages.FrameStart != 0 {
		*s = sink{}
	}
	s.ids = append(s.ids, b.Column(3).Int32s()...)
	s.arrivals = append(s.arrivals, b.Arrivals()...)
	b.Release()
}

func open(t *testing.T, cfg Config) operator.Operator {
	t.Helper()
	op := newOrder(cfg)()
	if err := op.Open(&operator.Task{Counters: &epochs.Counters{}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := op.Close(); err != nil {
			t.Error(err)
		}
	})
	return op
}

func process(t *testing.T, op operator.Operator, b *messages.Batch, s operator.Output) {
	t.Helper()
	more, err := op.Process(0, b, s)
	b.Release()
	if more || err != nil {
		t.Fatalf("Process() = %v, %v", more, err)
	}
}

func TestRowsKeepTheirArrivals(t *testing.T) {
	op := open(t, Config{Keys: []Key{{Column: 0}}})
	s := &sink{}
	process(t, op, build([][]any{row(4, nil, nil, 40), row(2, nil, nil, 20)}, messages.FrameStart), s)
	process(t, op, build([][]any{row(3, nil, nil, 30), row(1, nil, nil, 10)}, messages.FrameEnd), s)
	if diff := cmp.Diff(s.ids, []int32{10, 20, 30, 40}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if diff := cmp.Diff(s.arrivals, []messages.EventTime{30, 60, 90, 120}); diff != "" {
		t.Errorf("arrivals: -got +want\n%s", diff)
	}
}

func TestATableBegunAnewReplacesAnUnfinishedOne(t *testing.T) {
	op := open(t, Config{Keys: []Key{{Column: 0}}})
	s := &sink{}
	process(t, op, build([][]any{row(9, nil, nil, 9)}, messages.FrameStart), s)
	process(t, op, build([][]any{row(2, nil, nil, 2), row(1, nil, nil, 1)}, messages.FrameStart|messages.FrameEnd), s)
	if diff := cmp.Diff(s.ids, []int32{1, 2}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestRowsOutsideATableAreRefused(t *testing.T) {
	op := open(t, Config{Keys: []Key{{Column: 0}}})
	if _, err := op.Process(0, build([][]any{row(9, nil, nil, 9)}, 0), &sink{}); err == nil {
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
	var in []*messages.Batch
	for i := range batches {
		var f messages.Frame
		if i == 0 {
			f |= messages.FrameStart
		}
		if i == batches-1 {
			f |= messages.FrameEnd
		}
		in = append(in, build(randomRows(r, size), f))
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
