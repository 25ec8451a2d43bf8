package aggregate

import (
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func field(name string, t messages.Type) messages.Field { return messages.Field{Name: name, Type: t} }

// only is a configuration with one call over column "x" of the given type, by
// key "k", in sliding windows, so that slices are merged.
func only(name string, t messages.Type) Config {
	return Config{
		Input: messages.NewSchema(field("ts", messages.T(messages.Timestamp)), field("k", messages.T(messages.Int)), field("x", t)),
		Keys:  []int{1}, Window: &Window{Column: 0, Size: 10, Slide: 5}, EventTimeKey: -1,
		Aggs: []Agg{{Func: name, Arg: 2, Filter: -1}},
	}
}

func pair(x, y messages.Type) messages.Type { return messages.StructType(field("x", x), field("y", y)) }

func by(x, y any) []any { return []any{x, y} }

func window(start, end int64) []any { return []any{start, end} }

func TestFunctionsFollowTheRulesForNull(t *testing.T) {
	decimal := messages.DecimalType(5, 2)
	big := messages.T(messages.BigInt)
	dec := func(n int64) messages.Decimal128 { return messages.Decimal128{Lo: uint64(n), Hi: n >> 63} }
	// The rows of window [0,10) come in two slices; results are by the SQL
	// standard and the documentation of Spark's functions.
	for _, tc := range []struct {
		name  string
		of    messages.Type
		early []any // values at time 1
		late  []any // values at time 6
		want  any
	}{
		{"count", big, []any{1, nil}, []any{nil}, 1},
		{"count", big, []any{nil}, []any{nil}, 0},
		{"sum", big, []any{nil}, []any{nil}, nil},
		{"sum", big, []any{3, nil}, []any{-5}, -2},
		{"sum", messages.T(messages.TinyInt), []any{100, 100}, []any{100}, 300},
		{"sum", messages.T(messages.Float), []any{0.5}, []any{nil, 0.25}, 0.75},
		{"sum", decimal, []any{dec(-150), nil}, []any{dec(25)}, dec(-125)},
		{"sum", decimal, []any{nil}, nil, nil},
		{"avg", big, []any{1, nil}, []any{2}, 1.5},
		{"avg", big, []any{nil}, []any{nil}, nil},
		{"mean", messages.T(messages.Double), []any{1.0}, []any{0.0}, 0.5},
		{"avg", decimal, []any{dec(100), dec(100)}, []any{dec(0)}, dec(666667)},    // 2/3 of 1.00 with six digits
		{"avg", decimal, []any{dec(-100), dec(-100)}, []any{dec(0)}, dec(-666667)}, // half up away from zero
		{"min", messages.T(messages.Date), []any{5, nil}, []any{-3}, -3},
		{"max", messages.T(messages.Double), []any{math.Inf(1)}, []any{math.NaN()}, math.NaN()},
		{"min", messages.T(messages.Double), []any{math.NaN()}, []any{math.Inf(1)}, math.Inf(1)},
		{"max", messages.T(messages.Float), []any{1.5}, []any{-7}, 1.5},
		{"min", decimal, []any{dec(-150)}, []any{dec(25)}, dec(-150)},
		{"max", messages.T(messages.Boolean), []any{false}, []any{true}, true},
		{"max", messages.T(messages.String), []any{"a", "é"}, []any{"z", nil}, "é"},
		{"min", messages.T(messages.Binary), []any{"b"}, []any{""}, ""},
		{"first", big, []any{nil, 1}, []any{2}, nil},
		{"last", big, []any{nil, 1}, []any{nil}, nil},
		{"first_ignore_nulls", big, []any{nil, 1}, []any{2}, 1},
		{"last_ignore_nulls", big, []any{nil, 1}, []any{nil}, 1},
		{"last_value", big, []any{7, 1}, []any{9}, 9},
		{"any_value", messages.T(messages.String), []any{"x"}, []any{"y"}, "x"},
		{"bool_and", messages.T(messages.Boolean), []any{true, nil}, []any{true}, true},
		{"every", messages.T(messages.Boolean), []any{true}, []any{false}, false},
		{"bool_or", messages.T(messages.Boolean), []any{nil}, []any{nil}, nil},
		{"some", messages.T(messages.Boolean), []any{false}, []any{true}, true},
		{"var_pop", big, []any{2, 4}, []any{4, 4, 5, 5, 7, 9}, 4.0},
		{"stddev_pop", big, []any{2, 4, 4, 4}, []any{5, 5, 7, 9}, 2.0},
		{"var_samp", messages.T(messages.Double), []any{1.0}, []any{3.0, nil}, 2.0},
		{"stddev", messages.T(messages.Double), []any{1.0}, nil, nil},
		{"var_pop", messages.T(messages.Double), []any{1.0}, nil, 0.0},
		{"variance", messages.T(messages.Double), []any{nil}, nil, nil},
		{"bit_and", messages.T(messages.Int), []any{7, nil}, []any{13}, 5},
		{"bit_or", messages.T(messages.Int), []any{1}, []any{nil, 4}, 5},
		{"bit_xor", messages.T(messages.TinyInt), []any{-1}, []any{1}, -2},
		{"bit_xor", big, []any{nil}, nil, nil},
		{"max_by", pair(messages.T(messages.String), messages.T(messages.Double)), []any{by("a", -1.5), by("b", nil)}, []any{by("c", math.NaN()), by("d", math.Inf(1))}, "c"},
		{"min_by", pair(messages.T(messages.String), messages.T(messages.Double)), []any{by("a", -1.5)}, []any{by("b", -2), by("c", 0.0)}, "b"},
		{"max_by", pair(big, messages.T(messages.String)), []any{by(nil, "b")}, []any{by(1, "a")}, nil},
		{"min_by", pair(big, decimal), []any{by(1, dec(-5))}, []any{by(2, dec(3)), by(3, dec(-5))}, 1},
		{"min_by", pair(big, messages.T(messages.Int)), []any{by(1, nil)}, nil, nil},
		{"approx_count_distinct", messages.T(messages.String), []any{"a", "b", "a", nil}, []any{"b", ""}, 3},
		{"approx_count_distinct", big, []any{nil}, nil, 0},
		{"collect_list", big, []any{3, nil, 3}, []any{1}, []any{3, 3, 1}},
		{"collect_list", messages.ArrayType(big), []any{[]any{1, nil}}, []any{[]any{}}, []any{[]any{1, nil}, []any{}}},
		{"array_agg", big, []any{nil}, nil, []any{}},
		{"collect_set", messages.T(messages.String), []any{"a", "b", "a"}, []any{"b", "c"}, []any{"a", "b", "c"}},
	} {
		t.Run(tc.name+" of "+tc.of.String(), func(t *testing.T) {
			rows := func(ts int64, values []any) (out [][]any) {
				for _, v := range values {
					out = append(out, operatortest.Row(ts, 1, v))
				}
				return out
			}
			c := operatortest.Case{
				Name: "a group", Inputs: []*messages.Schema{only(tc.name, tc.of).Input}, KeyColumns: [][]int{{1}},
				Steps: []operatortest.Step{
					operatortest.Rows(0, operatortest.Row(-20, 1, nil)), // so that there is always output
					operatortest.Watermark(0, -10),
				},
				Empty: true,
			}
			for _, unit := range [][][]any{rows(1, tc.early), rows(6, tc.late)} {
				if len(unit) > 0 {
					c.Steps = append(c.Steps, operatortest.Rows(0, unit...))
				}
			}
			cfg := only(tc.name, tc.of)
			none, _ := expected(t, cfg, nil)
			early, late := partial(t, cfg, tc.early), partial(t, cfg, tc.late)
			c.Want = [][]any{
				{window(-25, -15), 1, none},
				{window(-20, -10), 1, none},
				{window(-5, 5), 1, early},
				{window(0, 10), 1, tc.want},
			}
			if len(tc.late) > 0 {
				c.Want = append(c.Want, []any{window(5, 15), 1, late})
			}
			c.Steps = append(c.Steps, operatortest.Watermark(0, 100))
			operatortest.Verify(t, newOperator(t, cfg), c)
		})
	}
}

// expected is what a function gives for NULL only.
func expected(t *testing.T, cfg Config, _ []any) (any, bool) {
	t.Helper()
	switch cfg.Aggs[0].Func {
	case "count", "approx_count_distinct":
		return 0, true
	case "collect_list", "array_agg", "collect_set":
		return []any{}, true
	}
	return nil, true
}

// partial computes a window with the values of one slice only by running the
// function in a tumbling window: merging is what the test is about.
func partial(t *testing.T, cfg Config, values []any) any {
	t.Helper()
	if len(values) == 0 {
		return nil
	}
	cfg.Window = &Window{Column: 0, Size: 10}
	o := open(t, cfg)
	b := messages.NewPool(cfg.Input).Get()
	for _, v := range values {
		b.Own(0).AppendInt64(1)
		b.Own(1).AppendInt32(1)
		operatortest.Append(b.Own(2), v)
	}
	b.SetLen(len(values))
	b.Publish()
	out := &keep{}
	more, err := o.Process(0, b, out)
	run(t, o, out, more, err)
	more, err = o.Watermark(100, out)
	run(t, o, out, more, err)
	return operatortest.Value(out.batches[0].Column(2), 0)
}

// keep is an output that keeps batches.
type keep struct{ batches []*messages.Batch }

func (k *keep) Emit(b *messages.Batch) { k.batches = append(k.batches, b) }

func TestSumsThatDoNotFitAreBadRows(t *testing.T) {
	nines := messages.Decimal128{Lo: 687399551400673279, Hi: 5421010862427522170} // 10^38-1
	for _, tc := range []struct {
		name   string
		of     messages.Type
		values []any
	}{
		{"sum", messages.T(messages.BigInt), []any{int64(math.MaxInt64), 1}},
		{"sum", messages.T(messages.BigInt), []any{int64(math.MinInt64), -1}},
		{"sum", messages.DecimalType(38, 0), []any{nines, nines}},
		{"sum", messages.DecimalType(38, 0), []any{nines, 1}},
		{"avg", messages.DecimalType(38, 36), []any{nines}},
	} {
		cfg := only(tc.name, tc.of)
		o := open(t, cfg)
		b := messages.NewPool(cfg.Input).Get()
		for _, v := range tc.values {
			b.Own(0).AppendInt64(1)
			b.Own(1).AppendInt32(1)
			operatortest.Append(b.Own(2), v)
		}
		b.SetLen(len(tc.values))
		b.Publish()
		out := &keep{}
		_, err := o.Process(0, b, out)
		if err == nil {
			_, err = o.Watermark(100, out)
		}
		if fault.KindOf(err) != fault.BadRow || fault.ClassOf(err) != "ARITHMETIC_OVERFLOW" {
			t.Errorf("%s of %v: error %v, class %q; want a bad row, ARITHMETIC_OVERFLOW", tc.name, tc.values, err, fault.ClassOf(err))
		}
	}
}

func toBig(d messages.Decimal128) *big.Int {
	x := new(big.Int).Lsh(big.NewInt(d.Hi), 64)
	return x.Add(x, new(big.Int).SetUint64(d.Lo))
}

func TestDecimalArithmeticEqualsBigIntegers(t *testing.T) {
	limit := new(big.Int).Lsh(big.NewInt(1), 127)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) messages.Decimal128 {
			d := messages.Decimal128{Lo: rapid.Uint64().Draw(t, name), Hi: rapid.Int64().Draw(t, name)}
			if rapid.Bool().Draw(t, name+" is small") {
				d.Hi >>= 62
			}
			return d
		}
		a, b := draw("a"), draw("b")
		sum, ok := addDecimal(a, b)
		want := new(big.Int).Add(toBig(a), toBig(b))
		fits := want.Cmp(limit) < 0 && want.Cmp(new(big.Int).Neg(limit)) >= 0
		if ok != fits || ok && toBig(sum).Cmp(want) != 0 {
			t.Fatalf("%v + %v = %v, %v; want %v, %v", toBig(a), toBig(b), toBig(sum), ok, want, fits)
		}
		digits := rapid.IntRange(1, 38).Draw(t, "digits")
		most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
		if got, want := fitsDigits(a, digits), new(big.Int).Abs(toBig(a)).Cmp(most) < 0; got != want {
			t.Fatalf("%v has at most %d digits: %v, want %v", toBig(a), digits, got, want)
		}
		shift := rapid.IntRange(0, 4).Draw(t, "shift")
		n := rapid.Uint64Min(1).Draw(t, "n")
		q, ok := divideDecimal(a, shift, n)
		// Half up: floor((2*|a|*10^shift + n) / 2n) with the sign of a.
		num := new(big.Int).Mul(new(big.Int).Abs(toBig(a)), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(shift)), nil))
		bn := new(big.Int).SetUint64(n)
		want = new(big.Int).Div(num.Add(num.Lsh(num, 1), bn), bn.Lsh(bn, 1))
		if a.Hi < 0 {
			want.Neg(want)
		}
		fits = new(big.Int).Abs(want).Cmp(limit) < 0
		if ok != fits || ok && toBig(q).Cmp(want) != 0 {
			t.Fatalf("%v e%d / %d = %v, %v; want %v, %v", toBig(a), shift, n, toBig(q), ok, want, fits)
		}
	})
}

func TestVarianceLosesNothingToALargeMean(t *testing.T) {
	cfg := only("var_pop", messages.T(messages.Double))
	o := open(t, cfg)
	b := messages.NewPool(cfg.Input).Get()
	for i := range 1000 {
		b.Own(0).AppendInt64(int64(i % 10))
		b.Own(1).AppendInt32(1)
		b.Own(2).AppendFloat64(1e9 + float64(i%2))
	}
	b.SetLen(1000)
	out := &keep{}
	if _, err := o.Process(0, b.Publish(), out); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Watermark(10, out); err != nil {
		t.Fatal(err)
	}
	last := out.batches[len(out.batches)-1]
	got := last.Column(2).Float64s()[last.Rows()-1]
	if math.Abs(got-0.25) > 1e-6 {
		t.Errorf("variance of 1e9 and 1e9+1 is %v, want 0.25", got)
	}
}

func TestLargeSetsKeepEachValueOnce(t *testing.T) {
	cfg := only("collect_set", messages.T(messages.BigInt))
	cfg.Mode = Update
	o := open(t, cfg)
	out := &keep{}
	for round := range 3 {
		b := messages.NewPool(cfg.Input).Get()
		for i := range 1000 {
			b.Own(0).AppendInt64(int64(round * 2)) // slices 0 and 5 are merged
			b.Own(1).AppendInt32(1)
			b.Own(2).AppendInt64(int64(i%700 + 100*round))
		}
		b.SetLen(1000)
		more, err := o.Process(0, b.Publish(), out)
		run(t, o, out, more, err)
	}
	b := out.batches[len(out.batches)-1]
	got := map[int64]int{}
	row := b.Rows() - 1 // the last window holds all
	c := b.Column(2)
	for j := c.Offsets()[row]; j < c.Offsets()[row+1]; j++ {
		got[c.Child(0).Int64s()[j]]++
	}
	want := map[int64]int{}
	for i := range int64(900) {
		want[i] = 1
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("set (-got +want):\n%s", diff)
	}
}

func TestMomentsEqualThePublishedOnes(t *testing.T) {
	// The answer of Spark's group-by suite for 1, 1, 2, 2, 3, 3, 3 and NULL.
	for name, want := range map[string]float64{
		"variance": 0.8095238095238094, "stddev": 0.8997354108424372, "skewness": -0.2723801058145729, "kurtosis": -1.5069204152249134,
	} {
		cfg := only(name, messages.T(messages.Int))
		o := open(t, cfg)
		out := &keep{}
		b := messages.NewPool(cfg.Input).Get()
		for i, v := range []any{1, 1, 2, 2, 3, 3, nil, 3} {
			b.Own(0).AppendInt64(int64(i)) // in two slices
			b.Own(1).AppendInt32(1)
			operatortest.Append(b.Own(2), v)
		}
		b.SetLen(8)
		if _, err := o.Process(0, b.Publish(), out); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Watermark(10, out); err != nil {
			t.Fatal(err)
		}
		last := out.batches[len(out.batches)-1]
		if got := last.Column(2).Float64s()[last.Rows()-1]; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestDistinctCountsAreCloseAndMerge(t *testing.T) {
	for _, n := range []int{100, 128, 129, 1000, 20_000, 300_000} {
		cfg := only("approx_count_distinct", messages.T(messages.BigInt))
		o := open(t, cfg)
		out := &keep{}
		for from := 0; from < n; from += 1000 {
			b := messages.NewPool(cfg.Input).Get()
			rows := 0
			for i := from; i < min(n, from+1000); i++ {
				for _, ts := range []int64{int64(i % 10), 3} { // most values are in both slices
					b.Own(0).AppendInt64(ts)
					b.Own(1).AppendInt32(1)
					b.Own(2).AppendInt64(int64(i) * 7919)
					rows++
				}
			}
			b.SetLen(rows)
			if _, err := o.Process(0, b.Publish(), out); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := o.Watermark(10, out); err != nil {
			t.Fatal(err)
		}
		last := out.batches[len(out.batches)-1]
		got := float64(last.Column(2).Int64s()[last.Rows()-1])
		limit := 0.1 // three standard errors
		if n <= sketchHashes {
			limit = 0
		}
		if math.Abs(got-float64(n)) > limit*float64(n) {
			t.Errorf("%d distinct values were counted as %v", n, got)
		}
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	in := testSchema()
	star := []Agg{{Func: "count", Arg: -1, Filter: -1}}
	for name, cfg := range map[string]Config{
		"append without time":          {Input: in, EventTimeKey: -1, Aggs: star},
		"no schema":                    {EventTimeKey: -1},
		"a key that is not there":      {Input: in, Keys: []int{99}, EventTimeKey: -1, Mode: Update},
		"a window over a string":       {Input: in, Window: &Window{Column: colText, Size: 1}, EventTimeKey: -1},
		"a window without size":        {Input: in, Window: &Window{Column: colTime}, EventTimeKey: -1},
		"a slide beyond the size":      {Input: in, Window: &Window{Column: colTime, Size: 1, Slide: 2}, EventTimeKey: -1},
		"event time that is text":      {Input: in, Keys: []int{colText}, EventTimeKey: 0},
		"a function that is not there": {Input: in, EventTimeKey: -1, Mode: Update, Aggs: []Agg{{Func: "median", Arg: colValue, Filter: -1}}},
		"a sum of strings":             {Input: in, EventTimeKey: -1, Mode: Update, Aggs: []Agg{{Func: "sum", Arg: colText, Filter: -1}}},
		"sum(*)":                       {Input: in, EventTimeKey: -1, Mode: Update, Aggs: []Agg{{Func: "sum", Arg: -1, Filter: -1}}},
		"a filter that is a number":    {Input: in, EventTimeKey: -1, Mode: Update, Aggs: []Agg{{Func: "count", Arg: -1, Filter: colValue}}},
	} {
		if _, err := New(cfg); fault.KindOf(err) != fault.Config {
			t.Errorf("%s: error %v, want one of kind config", name, err)
		}
	}
}
