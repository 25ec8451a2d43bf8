package sql

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// generator writes random texts of the dialect. Every keyword occurs as a name in
// back quotes, so that the printer must know where a name needs them.
type generator struct {
	r     *rand.Rand
	words []string
}

func newGenerator(seed uint64) *generator {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), words: strings.Fields("a b c t window start end value key date")}
	for w := range keywords {
		g.words = append(g.words, quoteName(strings.ToLower(w)))
	}
	slices.Sort(g.words)
	return g
}

func (g *generator) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *generator) name() string { return g.words[g.r.IntN(len(g.words))] }

// maybe returns s in half of the cases, else nothing.
func (g *generator) maybe(s string) string { return g.pick("", s) }

// list returns one to three results of f, separated by commas.
func (g *generator) list(f func() string) string {
	out := f()
	for range g.r.IntN(3) {
		out += ", " + f()
	}
	return out
}

// fill replaces the verbs of a template: %e expressions, %n names, %q queries.
func (g *generator) fill(template string, depth int) string {
	var b strings.Builder
	for i := 0; i < len(template); i++ {
		if template[i] != '%' {
			b.WriteByte(template[i])
			continue
		}
		i++
		switch template[i] {
		case '%':
			b.WriteByte('%')
		case 'e':
			b.WriteString(g.expr(depth - 1))
		case 'n':
			b.WriteString(g.name())
		case 'q':
			b.WriteString(g.query(depth - 1))
		case 'p': // an operand no operator can be torn from
			b.WriteString("(" + g.expr(depth-1) + ")")
		case 't':
			b.WriteString(g.typeName(depth - 1))
		case 'w':
			b.WriteString(g.window(depth - 1))
		}
	}
	return b.String()
}

func (g *generator) leaf() string {
	return g.pick("1", "-2", "3L", "1.5", "2e3", ".5D", "'s'", `'it\'s'`, "NULL", "TRUE", "X'0A'", "DATE '2020-01-01'",
		"TIMESTAMP '2020-01-01 00:00:00'", "INTERVAL 3 DAYS", "INTERVAL '1-2' YEAR TO MONTH", "current_timestamp",
		g.name(), g.name(), g.name()+"."+g.name(), "CURRENT_DATE()", "INTERVAL '1 day 2 hours'")
}

var operators = strings.Fields("+ - * / %% DIV || & | ^ << >> >>> = <> < <= > >= <=> == != AND OR")

func (g *generator) expr(depth int) string {
	if depth <= 0 {
		return g.leaf()
	}
	templates := []string{
		"%p " + g.pick(operators...) + " %p", "%p " + g.pick(operators...) + " %p", "(%e)", "- %p", "-%p", "+ %p", "~ %p", "(NOT %p)",
		"%p" + g.maybe(" NOT") + " BETWEEN %p AND %p", "%p" + g.maybe(" NOT") + " IN (%e, %e)", "%p IN (%e)", "%p" + g.maybe(" NOT") + " IN (%q)",
		"EXISTS (%q)", "(%q)", "%p LIKE %p", "%p ILIKE %p ESCAPE '!'", "%p NOT RLIKE %p", "%p LIKE " + g.pick("ANY", "ALL") + " (%e, %e)",
		"%p IS NOT NULL", "%p IS " + g.pick("TRUE", "FALSE", "UNKNOWN"), "%p IS NOT DISTINCT FROM %p",
		"CASE WHEN %e THEN %e ELSE %e END", "CASE %e WHEN %e THEN %e END", "CAST(%e AS %t)", "TRY_CAST(%e AS %t)", "%p::%t",
		"%n(%e, %e)", "`%s`(%e)", "%n()", "%n(DISTINCT %e)", "count(*)", "sum(%e) FILTER (WHERE %e)", "lag(%e) IGNORE NULLS OVER %w",
		"%n(%e) OVER %w", "f(%n -> %e)", "f(%e, (%n, %n) -> %e)", "%p[%e]", "%p.%n", "%n.%n[%e].%n", "(%e, %e)",
		"EXTRACT(YEAR FROM %e)", "TRIM(" + g.pick("BOTH", "LEADING", "TRAILING") + " %p FROM %e)", "TRIM(%p FROM %e)", "TRIM(LEADING FROM %e)",
		"SUBSTRING(%e FROM %e FOR %e)", "POSITION(%p IN %e)", "OVERLAY(%e PLACING %e FROM %e)", "%p AT TIME ZONE %p",
		g.leaf() + " " + g.pick("+", "AND", "=", "*", "%%") + " " + g.leaf() + " OR " + g.leaf(), "position(%p, %e)", "exists(%e, x -> x)", "trim(%e)", "left(%e, 1)",
		g.name() + "." + g.name() + "(%e)",
	}
	template := templates[g.r.IntN(len(templates))]
	template = strings.ReplaceAll(template, "`%s`", "`"+g.pick("position", "trim", "exists", "cast", "extract", "substring", "case", "rollup", "left")+"`")
	return g.fill(template, depth)
}

func (g *generator) typeName(depth int) string {
	if depth <= 0 {
		return g.pick("INT", "long", "STRING", "decimal(5,2)", "varchar(3)", "INTERVAL DAY TO SECOND", "INTERVAL", "timestamp_ntz")
	}
	return g.fill(g.pick("ARRAY<%t>", "MAP<%t, %t>", "STRUCT<%n: %t, %n %t NOT NULL>", "%t"), depth)
}

func (g *generator) window(depth int) string {
	return g.fill(g.pick("%n", "()", "(PARTITION BY %e)", "(ORDER BY %e DESC, %e NULLS LAST)",
		"(PARTITION BY %e ORDER BY %e ROWS BETWEEN UNBOUNDED PRECEDING AND %p FOLLOWING)", "(RANGE CURRENT ROW)", "(ROWS %p PRECEDING)"), depth)
}

func (g *generator) relation(depth int) string {
	if depth <= 0 {
		return g.fill(g.pick("%n", "%n.%n", "%n AS %n", "STREAM %n", "STREAM(%n) AS %n", "%n AS %n(%n, %n)"), 0)
	}
	kind := g.pick("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN", "LEFT SEMI JOIN", "ANTI JOIN", "CROSS JOIN")
	r := func() string { return g.relation(depth - 1) }
	switch g.r.IntN(9) {
	case 0:
		return r() + " " + kind + " " + g.relation(0) + g.fill(" ON %e", depth)
	case 1:
		return r() + " " + kind + " (" + r() + ")" + g.fill(" USING (%n, %n)", depth)
	case 2:
		return "(" + r() + ") " + kind + " " + g.relation(0)
	case 3:
		return g.fill("(%q) AS %n", depth)
	case 4:
		return g.fill("((%q) UNION (%q)) AS %n", depth)
	case 5:
		return g.fill("(((%q) AS %n) JOIN %n)", depth)
	case 6:
		return g.fill("%n(%e) AS %n", depth)
	case 7:
		return g.fill("%n WATERMARK %n DELAY OF INTERVAL 1 HOUR AS %n", depth)
	}
	return g.fill("%n TABLESAMPLE (5 PERCENT) WATERMARK (%e) AS %n DELAY OF INTERVAL 1 HOUR", depth)
}

func (g *generator) item() string {
	return g.fill(g.pick("%e", "%e AS %n", "*", "%n.*", "* EXCEPT (%n)", "%e AS (%n, %n)"), 2)
}

func (g *generator) query(depth int) string {
	if depth <= 0 {
		return g.fill("SELECT %e AS %n FROM %n", 0)
	}
	switch g.r.IntN(8) {
	case 0:
		op := g.pick("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "INTERSECT ALL")
		return "(" + g.query(depth-1) + ") " + op + " (" + g.query(depth-1) + ")" + g.fill(g.maybe(" LIMIT %e"), depth)
	case 1:
		return "SELECT " + g.item() + " " + g.pick("UNION", "EXCEPT", "INTERSECT") + " SELECT 1 " + g.pick("UNION ALL", "INTERSECT") + " SELECT 2"
	case 2:
		return g.fill("WITH %n AS (%q), %n(%n) AS (%q) SELECT *", depth)
	case 3:
		return g.fill("VALUES (%e, %e), (%e, %e), (%p)", depth)
	}
	q := "SELECT " + g.maybe("DISTINCT ") + g.list(g.item) + " FROM " + g.list(func() string { return g.relation(depth - 1) })
	q += g.fill(g.pick("", "", " LATERAL VIEW explode(%e) %n AS %n, %n", " LATERAL VIEW OUTER f(%e) AS %n"), depth)
	q += g.fill(g.maybe(" WHERE %e"), depth)
	q += g.fill(g.pick("", " GROUP BY ALL", " GROUP BY %e, %e", " GROUP BY ROLLUP (%e, (%e, %e)), CUBE (%e)", " GROUP BY GROUPING SETS ((), (%e))", " GROUP BY %e WITH CUBE"), depth)
	q += g.fill(g.maybe(" HAVING %e"), depth)
	q += g.fill(g.pick("", "", " WINDOW %n AS %w"), depth)
	q += g.fill(g.pick("", " ORDER BY %e DESC NULLS FIRST, %e", " SORT BY %e", " CLUSTER BY %e", " DISTRIBUTE BY %e"), depth)
	return q + g.fill(g.maybe(" LIMIT %e"), depth) + g.fill(g.maybe(" OFFSET %e"), depth)
}

func (g *generator) statement() string {
	return g.fill(g.pick("%q", "%q", "%q", "INSERT INTO %n %q", "INSERT INTO %n (%n) %q", "CREATE VIEW %n AS %q", "EXPLAIN %q",
		"CREATE QUERY %n WITH (a = 'b') AS INSERT INTO %n %q", "CREATE TABLE %n AS %q", "CREATE SINK %n (%n %t, c2 %t) USING %n",
		"CREATE SOURCE %n (%n %t, x2 %t NOT NULL METADATA) WITH (k = 1)", "DESCRIBE %n.%n", "DESCRIBE SINK %n", "DROP VIEW IF EXISTS %n"), 4)
}

func TestGeneratedStatementsSurvivePrinting(t *testing.T) {
	g := newGenerator(20)
	limits := Limits{StatementBytes: 1 << 30, Depth: 1000}
	for i := range 2000 {
		src := g.statement()
		stmt, err := limits.ParseStatement(src)
		if err != nil {
			t.Fatal(fmt.Errorf("statement %d: parse of %s: %w", i, src, err))
		}
		checkFuzzed(t, src, stmt)
		spans(t, src, reflect.ValueOf(stmt), Span{0, len(src)})
	}
}
