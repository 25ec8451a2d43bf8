package aggregate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

var countAll = []Agg{{Func: "count", Arg: -1, Filter: -1}}

func TestLargeEmissionsComeInPieces(t *testing.T) {
	groups := 5000
	if raceEnabled || testing.Short() {
		groups = 2200
	}
	wide := &Window{Column: colTime, Size: 10}
	sliding := &Window{Column: colTime, Size: 10, Slide: 5}
	for name, cfg := range map[string]Config{
		"append":           {Keys: []int{colKeyInt}, Window: wide, EventTimeKey: -1},
		"append sliding":   {Keys: []int{colKeyInt}, Window: sliding, EventTimeKey: -1},
		"append by time":   {Keys: []int{colKeyInt, colTime}, EventTimeKey: 1},
		"update":           {Keys: []int{colKeyInt}, EventTimeKey: -1, Mode: Update, EmitInterval: time.Second},
		"update sliding":   {Keys: []int{colKeyInt}, Window: sliding, EventTimeKey: -1, Mode: Update, EmitInterval: time.Second},
		"complete":         {Keys: []int{colKeyInt}, EventTimeKey: -1, Mode: Complete, EmitInterval: time.Second},
		"complete sliding": {Keys: []int{colKeyInt}, Window: sliding, EventTimeKey: -1, Mode: Complete, EmitInterval: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Input, cfg.Aggs = testSchema(), countAll
			c := operatortest.Case{Inputs: []*messages.Schema{cfg.Input}, KeyColumns: [][]int{cfg.Keys}, Table: cfg.Mode == Complete}
			var unit [][]any
			for k := range groups {
				unit = append(unit, operatortest.Row(2, k, nil, nil, nil, nil, nil))
				unit = append(unit, operatortest.Row(7, k, nil, nil, nil, nil, nil))
			}
			for rows := range slices.Chunk(unit, 1000) {
				c.Steps = append(c.Steps, operatortest.Rows(0, rows...))
			}
			c.Steps = append(c.Steps, operatortest.Advance(time.Second), operatortest.Watermark(0, 100))
			for k := range groups {
				switch {
				case cfg.Window == sliding:
					c.Want = append(c.Want, []any{window(-5, 5), k, 1}, []any{window(0, 10), k, 2}, []any{window(5, 15), k, 1})
				case cfg.Window == wide:
					c.Want = append(c.Want, []any{window(0, 10), k, 2})
				case cfg.EventTimeKey == 1:
					c.Want = append(c.Want, []any{k, 2, 1}, []any{k, 7, 1})
				default:
					c.Want = append(c.Want, []any{k, 2})
				}
			}
			operatortest.VerifyBriefly(t, newOperator(t, cfg), c)
		})
	}
}

// collector is an output that keeps rows as text and what belongs to them.
type collector struct {
	rows     []string
	ids      []messages.ID128
	frames   []messages.Frame
	arrivals []messages.EventTime
}

func (c *collector) Emit(b *messages.Batch) {
	for i := range b.Rows() {
		row := ""
		for k := range b.Columns() {
			row += fmt.Sprint(operatortest.Value(b.Column(k), b.Row(i))) + " "
		}
		c.rows = append(c.rows, row)
		if l := b.Lineage(); l.A != nil {
			c.ids = append(c.ids, messages.ID128{Hi: l.Base.Hi ^ l.A[i], Lo: l.Base.Lo ^ l.B[i]})
		}
	}
	c.arrivals = append(c.arrivals, b.Arrivals()...)
	c.frames = append(c.frames, b.Frame())
	b.Release()
}

// feed gives the operator rows of time and key.
func feed(t *testing.T, o *Operator, out operator.Output, rows ...[2]int64) {
	t.Helper()
	bl := messages.NewBuilder(testSchema())
	for _, r := range rows {
		bl.Column(colTime).AppendInt64(r[0])
		bl.Column(colKeyInt).AppendInt64(r[1])
		bl.EndRow()
	}
	b := bl.Finish()
	more, err := o.Process(0, b, out)
	run(t, o, out, more, err)
	b.Release()
}

func advance(t *testing.T, o *Operator, out operator.Output, wm messages.EventTime) {
	t.Helper()
	more, err := o.Watermark(wm, out)
	run(t, o, out, more, err)
}

func TestWindowsComeInOrderOfTheirEnd(t *testing.T) {
	o := open(t, Config{Input: testSchema(), Keys: []int{colKeyInt}, Window: &Window{Column: colTime, Size: 6, Slide: 2}, EventTimeKey: -1, Aggs: countAll})
	out := &collector{}
	feed(t, o, out, [2]int64{1000, 1}, [2]int64{3, 2}, [2]int64{-4, 3}, [2]int64{5, 1})
	advance(t, o, out, 7)
	want := []string{"[-8 -2] 3 1 ", "[-6 0] 3 1 ", "[-4 2] 3 1 ", "[-2 4] 2 1 ", "[0 6] 1 1 ", "[0 6] 2 1 "}
	got := slices.Clone(out.rows)
	slices.Sort(got[4:]) // the order within a window is not defined
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("windows (-got +want):\n%s", diff)
	}
	advance(t, o, out, 5000)
	if got, want := len(out.rows), 6+2+1+3; got != want {
		t.Errorf("%d rows, want %d: %q", got, want, out.rows)
	}
	if o.store.Rows() != 0 {
		t.Errorf("%d slices are left", o.store.Rows())
	}
}

func TestRowsOfClosedWindowsCountForOpenOnesOnly(t *testing.T) {
	var late []int
	cfg := Config{Input: testSchema(), Window: &Window{Column: colTime, Size: 10, Slide: 5}, EventTimeKey: -1, Aggs: countAll}
	o := open(t, cfg)
	o.task.OnLate = func(_ *messages.Batch, row int) { late = append(late, row) }
	out := &collector{}
	feed(t, o, out, [2]int64{6, 0})
	advance(t, o, out, 10)                              // closes [0,10)
	feed(t, o, out, [2]int64{7, 0}, [2]int64{4, 0})     // 7 counts for [5,15) only, 4 is late
	feed(t, o, out, [2]int64{9, 0}, [2]int64{-1000, 0}) // so are 9 and -1000
	advance(t, o, out, 100)
	want := []string{"[0 10] 1 ", "[5 15] 3 "}
	if diff := cmp.Diff(out.rows, want); diff != "" {
		t.Errorf("windows (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(late, []int{1, 1}); diff != "" {
		t.Errorf("late rows (-got +want):\n%s", diff)
	}
	k := o.task.Counters
	if k.In != 5 || k.Late != 2 || k.Absorbed != 3 {
		t.Errorf("counters %+v", k)
	}
}

func TestIdentitiesDependOnWindowAndKeyOnly(t *testing.T) {
	cfg := Config{Input: testSchema(), Keys: []int{colKeyInt}, Window: &Window{Column: colTime, Size: 10}, EventTimeKey: -1, Aggs: countAll}
	seen := map[string]messages.ID128{}
	for i, rows := range [][][2]int64{{{1, 1}, {1, 2}, {11, 1}}, {{12, 1}, {3, 2}, {4, 1}, {5, 1}}} {
		o := open(t, cfg)
		o.task.Index = i
		out := &collector{}
		feed(t, o, out, rows...)
		advance(t, o, out, 100)
		if len(out.ids) != 3 {
			t.Fatalf("%d identities for %d rows", len(out.ids), len(out.rows))
		}
		for j, row := range out.rows {
			name := row[:len(row)-2] // without the count
			if id, ok := seen[name]; ok && id != out.ids[j] {
				t.Errorf("%s has identities %v and %v", name, id, out.ids[j])
			}
			for other, id := range seen {
				if other != name && id == out.ids[j] {
					t.Errorf("%s and %s have the same identity", name, other)
				}
			}
			seen[name] = out.ids[j]
		}
	}
}

func TestATableIsOneFrameStampedWithTheTick(t *testing.T) {
	cfg := Config{Input: testSchema(), Keys: []int{colKeyInt}, EventTimeKey: -1, Aggs: countAll, Mode: Complete, EmitInterval: time.Second}
	o := open(t, cfg)
	out := &collector{}
	if _, err := o.Flush(5, out); err != nil || len(out.frames) != 0 {
		t.Errorf("an empty table was emitted: %v, %v", out.frames, err)
	}
	for k := range int64(2500) {
		feed(t, o, out, [2]int64{0, k})
	}
	more, err := o.Timer(operator.ProcessingTime, time.Second, 77, out)
	run(t, o, out, more, err)
	want := []messages.Frame{messages.FrameStart, 0, messages.FrameEnd}
	if diff := cmp.Diff(out.frames, want); diff != "" {
		t.Errorf("frames (-got +want):\n%s", diff)
	}
	if len(out.arrivals) != 2500 || out.arrivals[0] != 77 || out.arrivals[2499] != 77 {
		t.Errorf("%d rows are stamped, want 2500 with 77", len(out.arrivals))
	}
	if more, err = o.Flush(78, out); more || err != nil || len(out.frames) != 3 {
		t.Error("a table that did not change was emitted again")
	}
}

// TestATableAtMarkersComesWithAFlushOnly: whatever happens before, and also when it was
// pending in what is restored.
func TestATableAtMarkersComesWithAFlushOnly(t *testing.T) {
	cfg := Config{Input: testSchema(), Keys: []int{colKeyInt}, EventTimeKey: -1, Aggs: countAll, Mode: Complete, AtMarkers: true}
	o := open(t, cfg)
	out := &collector{}
	for k := range int64(3) {
		feed(t, o, out, [2]int64{0, k})
	}
	more, err := o.Watermark(100, out)
	run(t, o, out, more, err)
	if len(out.rows) > 0 {
		t.Errorf("%d rows came without a flush", len(out.rows))
	}
	for range 2 {
		more, err = o.Flush(77, out)
		run(t, o, out, more, err)
	}
	if len(out.rows) != 3 {
		t.Errorf("%d rows came with two flushes, want a table of 3", len(out.rows))
	}
	o.Start(100)
	more, err = o.Flush(78, out)
	run(t, o, out, more, err)
	if len(out.rows) != 6 {
		t.Errorf("%d rows came in all, want the table again behind a start", len(out.rows))
	}
}

func TestKeysOfEveryTypeAreToldApart(t *testing.T) {
	dec := messages.DecimalType(20, 3)
	for _, tc := range []struct {
		of     messages.Type
		values []any // all different
	}{
		{messages.T(messages.Boolean), []any{nil, true, false}},
		{messages.T(messages.TinyInt), []any{nil, 0, -1, 127}},
		{messages.T(messages.SmallInt), []any{nil, 0, -1, 300}},
		{messages.T(messages.Int), []any{nil, 0, 1, -1}},
		{messages.T(messages.BigInt), []any{nil, 0, 1, 2, -1}},
		{messages.T(messages.Float), []any{nil, 0.0, 1.5, -1.5}},
		{messages.T(messages.Double), []any{nil, 0.0, 1.5, -1.5}},
		{messages.T(messages.Date), []any{nil, 0, 19000}},
		{messages.T(messages.TimestampNTZ), []any{nil, 0, 1}},
		{messages.T(messages.String), []any{nil, "", "a", "ab"}},
		{messages.T(messages.Binary), []any{nil, "", "\x00"}},
		{dec, []any{nil, 0, messages.Decimal128{Lo: 1, Hi: 1}, messages.Decimal128{Lo: 1, Hi: -1}}},
		{messages.T(messages.Interval), []any{nil, messages.IntervalValue{Months: 1}, messages.IntervalValue{Days: 1}, messages.IntervalValue{Nanos: 1}}},
		{messages.ArrayType(messages.T(messages.String)), []any{nil, []any{}, []any{nil}, []any{""}, []any{"", ""}, []any{"a", "b"}}},
		{messages.WindowType(), []any{nil, []any{nil, nil}, []any{0, 1}, []any{1, 1}}},
	} {
		t.Run(tc.of.String(), func(t *testing.T) {
			for _, columns := range [][]int{{0}, {0, 1}} {
				in := messages.NewSchema(field("k", tc.of), field("other", tc.of))
				c := operatortest.Case{Name: fmt.Sprintf("%d columns", len(columns)), Inputs: []*messages.Schema{in}, KeyColumns: [][]int{columns}, Key: columns}
				for range 2 {
					for i, v := range tc.values {
						c.Steps = append(c.Steps, operatortest.Rows(0, operatortest.Row(v, tc.values[(i+1)%len(tc.values)])))
					}
				}
				for i, v := range tc.values {
					want := []any{v, tc.values[(i+1)%len(tc.values)], 2}
					if len(columns) == 1 {
						want = []any{v, 2}
					}
					c.Want = append(c.Want, want)
				}
				operatortest.VerifyBriefly(t, newOperator(t, Config{Input: in, Keys: columns, EventTimeKey: -1, Mode: Update, Aggs: countAll}), c)
			}
		})
	}
}

func TestEventTimeOfAWindowKeyIsItsEnd(t *testing.T) {
	in := messages.NewSchema(field("w", messages.WindowType()), field("n", messages.T(messages.BigInt)))
	cfg := Config{Input: in, Keys: []int{0}, EventTimeKey: 0, Aggs: []Agg{{Func: "sum", Arg: 1, Filter: -1}}}
	operatortest.Verify(t, newOperator(t, cfg), operatortest.Case{
		Name: "windows of windows", Inputs: []*messages.Schema{in}, KeyColumns: [][]int{{0}}, Late: 1, Empty: true,
		Steps: []operatortest.Step{
			operatortest.Rows(0, operatortest.Row(window(0, 10), 1), operatortest.Row(window(10, 20), 2), operatortest.Row(window(0, 10), 3)),
			operatortest.Watermark(0, 10),
			operatortest.Rows(0, operatortest.Row(window(0, 10), 5), operatortest.Row(window(10, 20), 7)),
			operatortest.Watermark(0, 19),
			operatortest.Watermark(0, 20),
		},
		Want: [][]any{{window(0, 10), 4}, {window(10, 20), 9}},
	})
}

func TestNothingIsAllocatedPerRow(t *testing.T) {
	all := calls()
	for name, cfg := range map[string]Config{
		"tumbling": {Keys: []int{colKeyInt}, Window: &Window{Column: colTime, Size: 1_000_000}},
		"sliding":  {Keys: []int{colKeyText}, Window: &Window{Column: colTime, Size: 1_000_000, Slide: 250_000}},
		"update":   {Keys: []int{colKeyInt, colKeyText}, Mode: Update},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Input, cfg.Aggs, cfg.EventTimeKey = testSchema(), all, -1
			o := open(t, cfg)
			out := &discard{}
			in := batches(200, 500) // 256 rows, 256 ms each
			i, epoch := 0, messages.Epoch(0)
			work := func() {
				for range 10 {
					b := in[i%len(in)]
					more, err := o.Process(0, b, out)
					run(t, o, out, more, err)
					i++
					if i < len(in) {
						more, err = o.Watermark(messages.EventTime(i*256_000), out)
						run(t, o, out, more, err)
					}
				}
				epoch++
				o.store.Freeze(epoch)
				if _, err := o.store.Encode(nil, func(seg epochs.Segment) error { o.store.Release(seg.Data); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			for range 12 {
				work()
			}
			// 2,560 rows in, at least as many out: a slot in a growing slice now and
			// then is fine, one allocation per row or batch column is not.
			if got := testing.AllocsPerRun(7, work); got > 150 && !testing.Short() && !raceEnabled {
				t.Errorf("%v allocations per 2,560 rows", got)
			}
		})
	}
}

func TestAnAggregationOverEverythingHasItsRowFromTheBeginning(t *testing.T) {
	aggs := []Agg{{Func: "count", Arg: -1, Filter: -1}, {Func: "max", Arg: colKeyInt, Filter: -1}}
	for _, mode := range []Mode{Update, Complete} {
		for _, interval := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(mode, " mode, every ", interval), func(t *testing.T) {
				o := open(t, Config{Input: testSchema(), EventTimeKey: -1, Aggs: aggs, Mode: mode, EmitInterval: interval})
				o.Start(messages.NoEventTime)
				out := &collector{}
				flush := func() {
					more, err := o.Flush(messages.NoEventTime, out)
					run(t, o, out, more, err)
				}
				flush()
				flush()
				feed(t, o, out, [2]int64{0, 7})
				flush()
				if diff := cmp.Diff(out.rows, []string{"0 <nil> ", "1 7 "}); diff != "" {
					t.Errorf("rows (-got +want):\n%s", diff)
				}
			})
		}
	}
}

func TestTheHorizonIsWhereNothingIsLeft(t *testing.T) {
	windows := Config{Input: testSchema(), Window: &Window{Column: colTime, Size: 10, Slide: 5}, EventTimeKey: -1, Aggs: countAll}
	timed := Config{Input: testSchema(), Keys: []int{colTime}, EventTimeKey: 0, Aggs: countAll}
	complete := windows
	complete.Mode = Complete
	for _, c := range []struct {
		name string
		cfg  Config
		want messages.EventTime
	}{
		{"windows", windows, 45}, // 37 is in [30,40) and [35,45)
		{"a time among the keys", timed, 37},
		{"complete mode", complete, messages.NoEventTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := open(t, c.cfg)
			if got := o.Horizon(); got != messages.NoEventTime {
				t.Errorf("without rows the horizon is %d", got)
			}
			out := &collector{}
			feed(t, o, out, [2]int64{37, 0}, [2]int64{6, 0}, [2]int64{12, 0})
			if got := o.Horizon(); got != c.want {
				t.Errorf("horizon %d, want %d", got, c.want)
			}
			if c.want == messages.NoEventTime {
				return
			}
			advance(t, o, out, c.want)
			if rows, h := o.store.Rows(), o.Horizon(); rows != 0 || h > c.want {
				t.Errorf("at the horizon %d groups are left, and the next horizon is %d", rows, h)
			}
		})
	}
}
