package expr

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/streamd-io/streamd/messages"
)

// columnExpressions read columns of every kind of type; each can be evaluated for
// every row of columnBatch or fails for some in the same way in any batch.
var columnExpressions = []string{
	"s", "upper(s)", "lower(s)", "concat(s, '-', i)", "concat_ws('/', s, string(i), 'x')", "substring(s, 2, 2)", "length(s)", "reverse(s)", "trim(s)", "lpad(s, 6, '*')",
	"s LIKE '%a%'", "s LIKE 'a%'", "s LIKE '%b'", "s LIKE 'ab'", "s LIKE s", "s ILIKE '%A_'", "s RLIKE 'a+b'", "s = 'ab'", "s <> 'ab'", "s < 'b'", "'ab' = s", "s IN ('a', 'ab', NULL)", "s IN (s, 'x')",
	"replace(s, 'a', 'xyz')", "split(s, 'a')", "split(s, '[ab]', 2)", "regexp_replace(s, 'a', 'b')", "regexp_extract_all(s, '(a|b)', 1)", "md5(s)", "hex(s)", "format_string('%s|%5d', s, i)",
	"i + 1", "i / 2", "i % 7", "-i", "abs(i)", "CAST(i AS STRING)", "CAST(i AS DECIMAL(12,2)) * 1.5", "TRY_CAST(s AS INT)", "i & 6", "i BETWEEN -5 AND 5", "i <=> NULL", "greatest(i, 3)", "least(s, 'b')", "round(d, 1)", "d > 0.5D", "d = d", "CAST(d AS STRING)",
	"hour(ts)", "date_trunc('hour', ts)", "date_format(ts, 'yyyy/MM')", "ts + INTERVAL 1 DAY", "CAST(ts AS DATE)", "extract(second FROM ts)", "ts - TIMESTAMP '2020-01-01 00:00:00'", "dec + 1", "dec * dec", "dec > 3", "CAST(dec AS INT)", "round(dec, 0)",
	"a", "size(a)", "get(a, 1)", "array_contains(a, 3)", "array(i, 2, NULL)", "concat(a, array(7))", "transform(a, x -> x + i)", "transform(a, (x, k) -> concat(s, x, k))", "filter(a, x -> x > i)", "exists(a, x -> x IS NULL)", "forall(a, x -> x > 0)", "array_distinct(a)", "array_max(a)", "CAST(a AS ARRAY<STRING>)", "reverse(a)",
	"m", "m['k']", "map_keys(m)", "map_values(m)", "map('x', i)", "st", "st.x", "st.y", "struct(s, i, st)", "named_struct('p', a)", "CAST(st AS STRUCT<x: STRING, y: STRING>)", "st = st", "st < struct(3, 'b')", "to_json(st)", "from_json(to_json(st), 'x INT, y STRING')", "get_json_object(concat('{\"a\":', i, '}'), '$.a')",
	"b", "NOT b", "b AND i > 0", "b OR s IS NULL", "b IS NOT TRUE", "b = (i > 0)", "NULL", "1", "'text'", "current_timestamp()", "rand(1)", "uuid()",
	"CASE WHEN i <> 0 THEN 7 / i ELSE 0 END", "i = 0 OR 7 / i > 1", "i <> 0 AND 7 DIV i > 1", "coalesce(TRY_CAST(s AS INT), i)", "nullif(s, 'ab')",
}

func columnSchema(t testing.TB) *messages.Schema {
	return schemaOf(t, "s string, i int, d double, ts timestamp, dec decimal(10,2), a array<int>, m map<string,int>, st struct<x:int,y:string>, b boolean")
}

// columnBatch has n random rows with NULLs everywhere, also inside nested values.
func columnBatch(t testing.TB, rnd *rand.Rand, n int) *messages.Batch {
	bl := messages.NewBuilder(columnSchema(t))
	texts := []string{"", "a", "ab", "AaB", " x ", "日本a", "12", "aab", "éb"}
	null := func(c *messages.Column) bool {
		if rnd.IntN(5) == 0 {
			c.AppendNull()
			return true
		}
		return false
	}
	put := func(c *messages.Column, fill func()) {
		if !null(c) {
			fill()
		}
	}
	number := func(c *messages.Column) { put(c, func() { c.AppendInt32(int32(rnd.IntN(20) - 10)) }) }
	text := func(c *messages.Column) { put(c, func() { c.AppendString(texts[rnd.IntN(len(texts))]) }) }
	for row := range n {
		col := bl.Column
		text(col(0))
		number(col(1))
		put(col(2), func() { col(2).AppendFloat64(float64(rnd.IntN(100)-50) / 8) })
		put(col(3), func() { col(3).AppendInt64(rnd.Int64N(2_000_000_000_000_000)) })
		put(col(4), func() { col(4).AppendDecimal(decInt(rnd.Int64N(2000) - 1000)) })
		put(col(5), func() {
			for range rnd.IntN(4) {
				number(col(5).Child(0))
			}
			col(5).CloseList()
		})
		put(col(6), func() {
			for k := range rnd.IntN(3) {
				col(6).Child(0).Child(0).AppendString([]string{"k", "l"}[k])
				number(col(6).Child(0).Child(1))
				col(6).Child(0).CloseStruct()
			}
			col(6).CloseList()
		})
		put(col(7), func() {
			number(col(7).Child(0))
			text(col(7).Child(1))
			col(7).CloseStruct()
		})
		put(col(8), func() { col(8).AppendBool(rnd.IntN(2) == 0) })
		bl.EndRow()
		bl.EndUnit(uint64(row), messages.EventTime(row))
	}
	return bl.Finish()
}

// TestResultsDoNotDependOnTheBatch evaluates for whole batches, selections and single
// rows, alone and inside the expressions that choose between others.
func TestResultsDoNotDependOnTheBatch(t *testing.T) {
	s := columnSchema(t)
	rnd := rand.New(rand.NewPCG(11, 12))
	pick := func() string { return columnExpressions[rnd.IntN(len(columnExpressions))] }
	texts := append([]string{}, columnExpressions...)
	for _, e := range columnExpressions {
		texts = append(texts, "CASE WHEN b THEN "+e+" WHEN i > 2 THEN NULL ELSE "+e+" END", "coalesce(if(b, "+e+", NULL), "+e+")",
			"CASE WHEN i > 0 THEN "+e+" END IS NULL AND "+pick()+" IS NOT NULL", "struct("+e+", "+pick()+")", "array("+e+")")
	}
	for _, text := range texts {
		n := resolveText(t, text, s)
		b := columnBatch(t, rnd, 1+rnd.IntN(40))
		var sel []int32
		for i := range b.Len() {
			if rnd.IntN(3) > 0 {
				sel = append(sel, int32(i))
			}
		}
		e, err := Compile(n, Options{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := make([]string, b.Len())
		for i := range want {
			want[i] = evalRows(t, n, b, []int32{int32(i)})[0]
		}
		// The same instance again and again: scratch must not leak into results.
		for round, rows := range [][]int32{nil, sel, {}, nil, sel} {
			v := messages.NewViewPool().View(b)
			v.Select(rows)
			v.Publish()
			c, err := e.Eval(v)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if c.Len() != b.Len() {
				t.Fatalf("%s: %d values for %d rows", text, c.Len(), b.Len())
			}
			if err := c.Check(); err != nil {
				t.Fatalf("%s: round %d: %v", text, round, err)
			}
			for i := range v.Rows() {
				if r := v.Row(i); valueText(c, r) != want[r] {
					t.Fatalf("%s: round %d: row %d: %s in the batch, %s alone", text, round, r, valueText(c, r), want[r])
				}
			}
			if round == 3 && !c.Frozen() { // a caller may take the result away
				var taken messages.Column
				taken.Swap(c)
			}
		}
	}
}

// evalRows evaluates with a fresh instance for a selection.
func evalRows(t *testing.T, n Node, b *messages.Batch, sel []int32) []string {
	t.Helper()
	e, err := Compile(n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := messages.NewViewPool().View(b)
	v.Select(sel)
	c, err := e.Eval(v.Publish())
	if err != nil {
		t.Fatalf("%s: rows %s: %v", n, fmt.Sprint(sel), err)
	}
	var out []string
	for _, i := range sel {
		out = append(out, valueText(c, int(i)))
	}
	return out
}
