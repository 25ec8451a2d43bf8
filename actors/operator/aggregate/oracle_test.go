package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
)

// The oracle answers a GROUP BY the way a textbook would: it keeps all rows,
// puts each into every window it belongs to, and computes each function over
// the list of a group's values.

type oracleRow struct {
	ts     any // int64 or nil
	keys   []any
	value  any // int64 or nil
	double any
	text   any
	keep   any // filter: bool or nil
	wm     messages.EventTime
}

// input columns of the generated cases
const (
	colTime = iota
	colKeyInt
	colKeyText
	colValue
	colDouble
	colText
	colKeep
)

func testSchema() *messages.Schema {
	f := func(n string, k messages.Kind) messages.Field { return messages.Field{Name: n, Type: messages.T(k)} }
	return messages.NewSchema(f("ts", messages.Timestamp), f("k", messages.BigInt), f("name", messages.String),
		f("v", messages.Int), f("d", messages.Double), f("s", messages.String), f("keep", messages.Boolean))
}

// calls are the functions under test: all that can be exact whatever the order
// of rows.
func calls() []Agg {
	var aggs []Agg
	add := func(name string, arg, filter int) {
		aggs = append(aggs, Agg{Func: name, Arg: arg, Filter: filter, Name: fmt.Sprintf("a%d", len(aggs))})
	}
	add("count", -1, -1)
	add("count", colValue, -1)
	add("sum", colValue, -1)
	add("sum", colValue, colKeep)
	add("min", colValue, -1)
	add("max", colDouble, -1)
	add("min", colText, -1)
	add("max", colText, colKeep)
	add("avg", colValue, -1)
	add("sum", colDouble, -1)
	add("count_if", colKeep, -1)
	add("bool_and", colKeep, -1)
	add("bool_or", colKeep, -1)
	return aggs
}

func column(r oracleRow, c int) any {
	switch c {
	case colValue:
		return r.value
	case colDouble:
		return r.double
	case colText:
		return r.text
	case colKeep:
		return r.keep
	default:
		return 1
	}
}

// compute answers one call over a group's rows.
func compute(a Agg, rows []oracleRow) any {
	var values []any
	for _, r := range rows {
		if a.Filter >= 0 && column(r, a.Filter) != true {
			continue
		}
		if v := column(r, a.Arg); v != nil {
			values = append(values, v)
		}
	}
	count := func(want any) (n int64) {
		for _, v := range values {
			if v == want {
				n++
			}
		}
		return n
	}
	switch {
	case a.Func == "count":
		return int64(len(values))
	case a.Func == "count_if":
		return count(true)
	case len(values) == 0:
		return nil
	case a.Func == "bool_and":
		return count(false) == 0
	case a.Func == "bool_or":
		return count(true) > 0
	case a.Func == "min" || a.Func == "max":
		slices.SortFunc(values, compareAny)
		if a.Func == "min" {
			return values[0]
		}
		return values[len(values)-1]
	}
	isum, fsum := int64(0), 0.0
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			isum += v
		case float64:
			fsum += v
		}
	}
	switch {
	case a.Func == "avg":
		return float64(isum) / float64(len(values))
	case a.Arg == colDouble:
		return fsum
	default:
		return isum
	}
}

func compareAny(a, b any) int {
	switch a := a.(type) {
	case int64:
		return int(a - b.(int64))
	case float64:
		b := b.(float64)
		switch {
		case math.IsNaN(a) && math.IsNaN(b):
			return 0
		case math.IsNaN(a):
			return 1
		case math.IsNaN(b):
			return -1
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	default:
		as, bs := a.(string), b.(string)
		switch {
		case as < bs:
			return -1
		case as > bs:
			return 1
		}
		return 0
	}
}

// answer returns the output rows and the late and filtered counts.
func answer(cfg Config, rows []oracleRow, final messages.EventTime) (want [][]any, late, filtered uint64) {
	type group struct {
		key  []any
		end  int64
		rows []oracleRow
	}
	groups := map[string]*group{}
	add := func(key []any, end int64, r oracleRow) {
		id := fmt.Sprintf("%#v", key)
		if groups[id] == nil {
			groups[id] = &group{key: key, end: end}
		}
		groups[id].rows = append(groups[id].rows, r)
	}
	complete := cfg.Mode == Complete
	for _, r := range rows {
		if cfg.Window == nil {
			end := int64(math.MaxInt64)
			if cfg.EventTimeKey >= 0 && r.ts != nil {
				end = r.ts.(int64)
			}
			if !complete && end <= int64(r.wm) {
				late++
				continue
			}
			add(r.keys, end, r)
			continue
		}
		if r.ts == nil {
			filtered++
			continue
		}
		w, open := cfg.Window, false
		slide := w.Slide
		if slide == 0 {
			slide = w.Size
		}
		// Every multiple that could hold the row is tried.
		for k := (r.ts.(int64)-w.Size-w.Offset)/slide - 2; k <= (r.ts.(int64)-w.Offset)/slide+2; k++ {
			start := k*slide + w.Offset
			if start > r.ts.(int64) || start+w.Size <= r.ts.(int64) || !complete && start+w.Size <= int64(r.wm) {
				continue
			}
			open = true
			add(append([]any{[]any{start, start + w.Size}}, r.keys...), start+w.Size, r)
		}
		if !open {
			late++
		}
	}
	for _, g := range groups {
		if cfg.Mode == Append && g.end > int64(final) {
			continue
		}
		row := slices.Clone(g.key)
		for _, a := range cfg.Aggs {
			row = append(row, compute(a, g.rows))
		}
		want = append(want, row)
	}
	return want, late, filtered
}

// generate makes a story of n rows: times wander forward, some rows are late,
// anything may be NULL.
func generate(seed uint64, cfg Config, n int) operatortest.Case {
	r := rand.New(rand.NewPCG(seed, 99))
	c := operatortest.Case{Name: fmt.Sprintf("seed %d", seed), Inputs: []*messages.Schema{cfg.Input}}
	maybe := func(v any) any {
		if r.IntN(8) == 0 {
			return nil
		}
		return v
	}
	var rows []oracleRow
	wm, now := messages.NoEventTime, int64(-30)
	for len(rows) < n {
		var unit [][]any
		for range 1 + r.IntN(3) {
			now += r.Int64N(4)
			row := []any{
				maybe(now - r.Int64N(12)), maybe(r.Int64N(4)), maybe([]string{"", "a", "bc"}[r.IntN(3)]),
				maybe(r.Int64N(100) - 50), maybe([]float64{0, 0.5, -2.25, 7, math.NaN(), math.Copysign(0, -1)}[r.IntN(6)]),
				maybe([]string{"", "x", "yy", "a longer string that has to move"}[r.IntN(4)]), maybe(r.IntN(2) == 0),
			}
			o := oracleRow{ts: row[0], value: row[3], double: row[4], text: row[5], keep: row[6], wm: wm}
			if d, ok := o.double.(float64); ok && d == 0 {
				o.double = 0.0
			}
			for _, k := range cfg.Keys {
				o.keys = append(o.keys, row[k])
			}
			rows = append(rows, o)
			unit = append(unit, row)
		}
		c.Steps = append(c.Steps, operatortest.Rows(0, unit...))
		if r.IntN(3) > 0 {
			wm = max(wm, messages.EventTime(now-6))
			c.Steps = append(c.Steps, operatortest.Watermark(0, wm))
		}
		if cfg.EmitInterval > 0 && r.IntN(4) == 0 {
			c.Steps = append(c.Steps, operatortest.Advance(cfg.EmitInterval))
		}
	}
	c.Steps = append(c.Steps, operatortest.Flush())
	if cfg.Mode == Append && cfg.Window != nil {
		wm = messages.EventTime(now + 1000)
		c.Steps = append(c.Steps, operatortest.Watermark(0, wm))
		c.Empty = true
	}
	c.Want, c.Late, c.Filtered = answer(cfg, rows, wm)
	if cfg.Mode == Update {
		columns := len(cfg.Keys)
		if cfg.Window != nil {
			columns++
		}
		c.Key = []int{}
		for i := range columns {
			c.Key = append(c.Key, i)
		}
	}
	c.Table = cfg.Mode == Complete
	if len(cfg.Keys) > 0 {
		c.KeyColumns = [][]int{cfg.Keys}
	}
	return c
}

func newOperator(t testing.TB, cfg Config) func() operator.Operator {
	return func() operator.Operator {
		o, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
}

func TestAggregationEqualsTheOracle(t *testing.T) {
	tumbling := &Window{Column: colTime, Size: 10}
	sliding := &Window{Column: colTime, Size: 10, Slide: 4, Offset: 3}
	hopping := &Window{Column: colTime, Size: 9, Slide: 3, Offset: -1}
	configs := map[string]Config{
		"tumbling append":                      {Keys: []int{colKeyInt}, Window: tumbling, EventTimeKey: -1},
		"tumbling append without keys":         {Window: tumbling, EventTimeKey: -1},
		"sliding append by string":             {Keys: []int{colKeyText}, Window: sliding, EventTimeKey: -1},
		"sliding append by two keys":           {Keys: []int{colKeyText, colKeyInt}, Window: hopping, EventTimeKey: -1},
		"append by event time":                 {Keys: []int{colKeyInt, colTime}, EventTimeKey: 1},
		"update":                               {Keys: []int{colKeyInt}, EventTimeKey: -1, Mode: Update},
		"update without keys":                  {EventTimeKey: -1, Mode: Update},
		"update by event time":                 {Keys: []int{colTime}, EventTimeKey: 0, Mode: Update},
		"update tumbling":                      {Keys: []int{colKeyText}, Window: tumbling, EventTimeKey: -1, Mode: Update},
		"update tumbling every second":         {Keys: []int{colKeyInt}, Window: tumbling, EventTimeKey: -1, Mode: Update, EmitInterval: time.Second},
		"update sliding":                       {Keys: []int{colKeyInt}, Window: sliding, EventTimeKey: -1, Mode: Update},
		"update sliding every second":          {Keys: []int{colKeyInt, colKeyText}, Window: hopping, EventTimeKey: -1, Mode: Update, EmitInterval: time.Second},
		"complete":                             {Keys: []int{colKeyText}, EventTimeKey: -1, Mode: Complete},
		"complete every second":                {Keys: []int{colKeyInt, colKeyText}, EventTimeKey: -1, Mode: Complete, EmitInterval: time.Second},
		"complete tumbling":                    {Keys: []int{colKeyInt}, Window: tumbling, EventTimeKey: -1, Mode: Complete},
		"complete sliding":                     {Keys: []int{colKeyInt}, Window: sliding, EventTimeKey: -1, Mode: Complete, EmitInterval: time.Second},
		"complete sliding without a time slot": {Keys: []int{colKeyText}, Window: hopping, EventTimeKey: -1, Mode: Complete},
	}
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Input = testSchema()
			cfg.Aggs = calls()
			cases := []operatortest.Case{generate(3, cfg, 8), generate(2, cfg, 25), generate(1, cfg, 60)}
			if raceEnabled || testing.Short() {
				cases = cases[:1]
			}
			operatortest.Verify(t, newOperator(t, cfg), cases...)
		})
	}
}
