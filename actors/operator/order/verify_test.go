package order

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
)

// The rows of the cases: a number, a name, a measure; nil is NULL. The last
// column tells rows with equal keys apart.
var (
	schema = messages.NewSchema(
		messages.Field{Name: "n", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "name", Type: messages.T(messages.String)},
		messages.Field{Name: "x", Type: messages.T(messages.Double)},
		messages.Field{Name: "id", Type: messages.T(messages.Int)},
	)
	row = operatortest.Row
)

// place says where a value stands by the rules of the SQL dialect: group -1 and
// 2 are NULLs in front and behind, 1 is NaN, which is greater than every other
// number; the rest is 0.
func place(v any, k Key) (group int, s string, f float64) {
	switch v := v.(type) {
	case nil:
		first := k.Nulls == NullsFirst || k.Nulls == NullsDefault && !k.Desc
		if first != k.Desc { // a descending sort turns the order round
			return -1, "", 0
		}
		return 2, "", 0
	case string:
		return 0, v, 0
	case int:
		return 0, "", float64(v)
	case float64:
		if math.IsNaN(v) {
			return 1, "", 0
		}
		return 0, "", v // -0.0 == 0.0
	default:
		panic(fmt.Sprintf("no place for a %T", v))
	}
}

// wanted is what ORDER BY keys LIMIT limit shows of the parts.
func wanted(keys []Key, limit int) func(parts [][][]any) [][]any {
	return func(parts [][][]any) [][]any {
		rows := slices.Concat(parts...)
		sort.SliceStable(rows, func(i, j int) bool {
			for _, k := range keys {
				g1, s1, f1 := place(rows[i][k.Column], k)
				g2, s2, f2 := place(rows[j][k.Column], k)
				if g1 == g2 && s1 == s2 && f1 == f2 {
					continue
				}
				less := g1 < g2 || g1 == g2 && (s1 < s2 || s1 == s2 && f1 < f2)
				return less != k.Desc
			}
			return false
		})
		return rows[:min(limit, len(rows))]
	}
}

// randomRows has few different values, so that ties are many.
func randomRows(r *rand.Rand, n int) [][]any {
	names := []any{nil, "", "a", "ab", "b", "Z", "\u00e9", "n1", "n10", "n2"}
	xs := []any{nil, math.NaN(), math.Inf(1), math.Inf(-1), 0.0, math.Copysign(0, -1), 1.5, -1.5}
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = row(r.IntN(9)-4, names[r.IntN(len(names))], xs[r.IntN(len(xs))], r.IntN(1<<30))
	}
	return rows
}

// tables makes a case of one table after the other, each for any of the inputs.
func tables(name string, cfg *Config, sizes []int, r *rand.Rand) operatortest.Case {
	limit := math.MaxInt
	if cfg.Limited {
		limit = int(cfg.Limit)
	}
	c := operatortest.Case{
		Name: name, Ordered: true, Interleave: true, Resend: true,
		WantTable: wanted(cfg.Keys, limit),
	}
	latest := make([][][]any, max(cfg.Inputs, 1))
	for range latest {
		c.Inputs = append(c.Inputs, schema)
	}
	for i, n := range sizes {
		input := i % len(latest)
		rows := randomRows(r, n)
		c.Steps = append(c.Steps, operatortest.TableOn(input, rows...))
		latest[input] = rows
		c.Filtered += dropped(c.WantTable(latest), rows)
	}
	return c
}

// dropped counts the rows of a new table that are not shown; they are known by
// their ids.
func dropped(shown, rows [][]any) uint64 {
	n := uint64(0)
	for _, r := range rows {
		if !slices.ContainsFunc(shown, func(s []any) bool { return s[3] == r[3] }) {
			n++
		}
	}
	return n
}

func newOrder(cfg Config) func() operator.Operator {
	cfg.Schema = schema
	return func() operator.Operator { return New(cfg) }
}

// title writes a key as in SQL.
func title(k Key) string {
	s := schema.Fields[k.Column].Name
	if k.Desc {
		s += " desc"
	}
	return s + []string{"", " nulls first", " nulls last"}[k.Nulls]
}

func TestOrderInEveryWay(t *testing.T) {
	sizes := []int{5, 0, 12, 1, 30}
	for _, column := range []int{0, 1, 2} {
		for _, desc := range []bool{false, true} {
			for _, nulls := range []Nulls{NullsDefault, NullsFirst, NullsLast} {
				cfg := Config{Keys: []Key{{Column: column, Desc: desc, Nulls: nulls}}}
				r := rand.New(rand.NewPCG(uint64(column), uint64(nulls)))
				operatortest.VerifyBriefly(t, newOrder(cfg), tables("by "+title(cfg.Keys[0]), &cfg, sizes, r))
			}
		}
	}
	several := []Key{{Column: 1, Nulls: NullsLast}, {Column: 2, Desc: true, Nulls: NullsFirst}, {Column: 0, Desc: true}}
	for _, c := range []struct {
		name  string
		cfg   Config
		sizes []int
	}{
		{"three keys", Config{Keys: several}, []int{40, 25}},
		{"no key keeps the order of arrival", Config{}, []int{9, 0, 4}},
		{"limit", Config{Keys: several[:1], Limited: true, Limit: 4}, []int{3, 0, 4, 5, 20}},
		{"limit 0", Config{Keys: several, Limited: true}, []int{3, 0, 4}},
		{"three inputs", Config{Keys: several[:2], Inputs: 3}, []int{4, 6, 5, 0, 3, 9, 2}},
		{"three inputs with a limit", Config{Keys: several[1:], Inputs: 3, Limited: true, Limit: 5}, []int{4, 6, 0, 8, 3, 9, 2}},
	} {
		r := rand.New(rand.NewPCG(7, uint64(len(c.name))))
		operatortest.Verify(t, newOrder(c.cfg), tables(c.name, &c.cfg, c.sizes, r))
	}
}

func TestLargeTablesInEveryWay(t *testing.T) {
	const more = 2*operator.MaxEmit + 100
	for _, c := range []struct {
		name  string
		cfg   Config
		sizes []int
	}{
		{"more rows than one call emits", Config{Keys: []Key{{Column: 0}}}, []int{more, 10}},
		{"just as many rows as one call emits", Config{Keys: []Key{{Column: 2}}}, []int{operator.MaxEmit}},
		{"a limit of more than one call", Config{Keys: []Key{{Column: 1, Desc: true}}, Inputs: 2, Limited: true, Limit: operator.MaxEmit + 1}, []int{more, 900}},
	} {
		operatortest.VerifyBriefly(t, newOrder(c.cfg), tables(c.name, &c.cfg, c.sizes, rand.New(rand.NewPCG(5, 5))))
	}
}

// A case small enough to be read.
func TestTheLatestPartsAreShownTogether(t *testing.T) {
	cfg := Config{Keys: []Key{{Column: 1}, {Column: 0, Desc: true}}, Inputs: 2}
	nan := math.NaN()
	operatortest.Verify(t, newOrder(cfg), operatortest.Case{
		Name: "two inputs", Inputs: []*messages.Schema{schema, schema}, Interleave: true, Ordered: true, Resend: true, Table: true,
		Steps: []operatortest.Step{
			operatortest.TableOn(1, row(9, "z", 1, 1)),
			operatortest.TableOn(0, row(1, "b", nan, 2), row(2, "a", nil, 3), row(2, nil, nil, 4)),
			operatortest.TableOn(1, row(3, "a", nan, 5), row(2, "a", 0.5, 6), row(1, "c", 1, 7)),
		},
		Want: [][]any{
			row(2, nil, nil, 4), row(3, "a", nan, 5), row(2, "a", nil, 3), row(2, "a", 0.5, 6), row(1, "b", nan, 2), row(1, "c", 1, 7),
		},
	})
}
