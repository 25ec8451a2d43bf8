package sql

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dump writes a tree without positions, one line for each value, so that trees can
// be compared as text.
func dump(v any) string {
	var b strings.Builder
	dumpValue(&b, reflect.ValueOf(v), 0)
	return b.String()
}

func dumpValue(b *strings.Builder, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil\n")
			return
		}
		dumpValue(b, v.Elem(), depth)
	case reflect.Slice:
		fmt.Fprintf(b, "list of %d\n", v.Len())
		for i := range v.Len() {
			dumpValue(b, v.Index(i), depth+1)
		}
	case reflect.Struct:
		fmt.Fprintf(b, "%d %s\n", depth, v.Type().Name())
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.Type == reflect.TypeFor[Span]() || v.Type() == reflect.TypeFor[IntervalLit]() && field.Name == "Text" {
				continue
			}
			b.WriteString(field.Name + ": ")
			dumpValue(b, v.Field(i), depth+1)
		}
	default:
		fmt.Fprintf(b, "%#v\n", v.Interface())
	}
}

// checkPrinted checks that printing a statement and parsing the text gives the
// same tree.
func checkPrinted(t *testing.T, src string, stmt Statement) {
	t.Helper()
	text := Format(stmt)
	again, err := ParseStatement(text)
	if err != nil {
		t.Fatalf("parse of the printed statement: %v\nsource:  %q\nprinted: %q", err, src, text)
	}
	if diff := cmp.Diff(dump(again), dump(stmt)); diff != "" {
		t.Fatalf("the printed statement has another tree (-printed +source):\n%s\nsource:  %q\nprinted: %q", diff, src, text)
	}
}

type conformanceLine struct {
	id, text string
	parses   bool
}

func conformanceLines(t testing.TB) []conformanceLine {
	t.Helper()
	data, err := os.ReadFile("testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines []conformanceLine
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, "\t", 3)
		lines = append(lines, conformanceLine{id: parts[0], parses: parts[1] == "ok", text: parts[2]})
	}
	return lines
}

func TestConformanceTexts(t *testing.T) {
	for _, line := range conformanceLines(t) {
		t.Run(line.id, func(t *testing.T) {
			stmt, err := ParseStatement(line.text)
			if (err == nil) != line.parses {
				t.Fatalf("parse of %q: error %v, want success %t", line.text, err, line.parses)
			}
			if err == nil {
				checkPrinted(t, line.text, stmt)
			}
		})
	}
}

// dialect has a statement of every kind the language has.
var dialect = []string{
	`SELECT a, b AS c FROM t WHERE a > 1`,
	`SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END, CASE a WHEN 1 THEN 2 END, CAST(a AS INT) FROM t`,
	`SELECT * FROM t WHERE a LIKE '%x' AND b IN (1, 2) AND c BETWEEN 1 AND 2 AND d NOT LIKE 'a' AND NOT e`,
	`SELECT window.start, window.end, count(*) FROM t GROUP BY window(ts, '10 seconds', '2 seconds')`,
	`SELECT session_window.start AS start FROM t GROUP BY session_window(ts, '5 minutes')`,
	`SELECT * FROM a JOIN b ON a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL 5 MINUTES AND b.ts + INTERVAL '5' MINUTE`,
	`SELECT * FROM a FULL OUTER JOIN b USING (id) LEFT SEMI JOIN c ON a.x = c.x LEFT ANTI JOIN d ON a.x = d.x`,
	`WITH x AS (SELECT 1 AS a), y(b) AS (SELECT a FROM x) SELECT * FROM y`,
	`SELECT * FROM (SELECT a FROM (SELECT a FROM t) u) v`,
	`SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a DESC NULLS LAST LIMIT 10 OFFSET 2`,
	`SELECT sum(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t`,
	`SELECT a.b.c, d[0], m['k'], struct(1, 2).col1, array(1, 2)[0].x FROM t`,
	"SELECT `a b`, `select`.`x``y` FROM `my table`",
	`CREATE TABLE k (a INT) USING kafka OPTIONS (subscribe 'topic', "kafka.bootstrap.servers" = 'h:1')`,
	`CREATE SOURCE bids (auction BIGINT, seq BIGINT METADATA FROM 'sequence', ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS) WITH (connector = 'nats', n = 5)`,
	`CREATE SINK s WITH (connector = 'console')`,
	`CREATE OR REPLACE TEMP VIEW v AS SELECT 1`,
	`INSERT INTO s SELECT a FROM t`,
	`EXPLAIN EXTENDED SELECT a FROM t`,
	`SELECT CAST(x AS ARRAY<STRUCT<a: INT, b: MAP<STRING, DECIMAL(10,2)>>>) FROM t`,
	`SELECT count(*) FILTER (WHERE a > 1), b FROM t GROUP BY ALL`,
	`SELECT transform(a, x -> x + 1), aggregate(a, 0, (acc, x) -> acc + x) FROM t LATERAL VIEW OUTER explode(a) e AS v, w`,
	`SELECT a::int, ts AT TIME ZONE 'UTC', DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00', X'1F' FROM t`,
	`CREATE QUERY q WITH (output_mode = 'update') AS INSERT INTO hot SELECT a, count(*) AS n FROM t GROUP BY a`,
	`CREATE QUERY q AS SELECT a FROM t`,
	`SET epoch_interval = '100ms'`, `SET TIME ZONE 'UTC'`, `SET a.b = -5`,
	`SHOW QUERIES`, `SHOW FUNCTIONS`, `DESCRIBE bids`, `DESC EXTENDED bids`, `DESCRIBE QUERY q`, `DESCRIBE query`,
	`DROP QUERY q`, `DROP SOURCE IF EXISTS a.b`,
	`CREATE TABLE names (id BIGINT NOT NULL, name STRING COMMENT 'x') WITH (connector = 'file')`,
	`CREATE TABLE x AS SELECT a FROM s`,
	`SELECT a FROM STREAM t, STREAM(u) AS w, stream`,
	`SELECT a FROM t WATERMARK ts DELAY OF INTERVAL 10 SECONDS AS x JOIN (SELECT 1) y WATERMARK ts DELAY OF INTERVAL 1 MINUTE`,
	`SELECT a FROM ((SELECT 1 AS a) x JOIN (b JOIN c ON TRUE)) CROSS JOIN LATERAL (SELECT 2) z`,
	`SELECT a FROM ((SELECT 1 LIMIT 1) UNION (SELECT 2 EXCEPT SELECT 3) INTERSECT SELECT 4) t`,
	`SELECT ((SELECT 1) UNION SELECT 2), a IN ((SELECT 1) UNION SELECT 2), EXISTS ((SELECT 1 LIMIT 1)) FROM t`,
	`SELECT a FROM t GROUP BY a, ROLLUP (b, (c, d)), CUBE (e), GROUPING SETS ((), (a), (a, b)) HAVING a > 1`,
	`SELECT a FROM t GROUP BY a, b WITH ROLLUP`, `SELECT * EXCEPT (a, b), t.* FROM t TABLESAMPLE (10 PERCENT) SORT BY a`,
	`SELECT a IS NULL, a IS NOT TRUE, a IS UNKNOWN, a IS NOT DISTINCT FROM b, a <=> b, NOT a = b OR c AND d FROM t`,
	`SELECT a || b, a DIV b, a % b, ~a, -a, - 5, -(5), - -3, +a, a & b | c ^ d, a << 1 >> 2 >>> 3 FROM t`,
	`SELECT INTERVAL '1-2' YEAR TO MONTH, INTERVAL '1 10:00:00.5' DAY TO SECOND, INTERVAL 1 HOUR 30 MINUTES, INTERVAL '1 day 2 hours', INTERVAL -3 DAYS`,
	`SELECT 1L, 2S, 3Y, 4D, 5F, 6BD, 7.5, 8e3, .5, 1.5e-3BD, -9223372036854775808L`,
	`SELECT 'a' 'b', 'it''s', 'tab\t\'\\ \% \u00e9 \101', r'\d+', "double 'quoted'"`,
	`SELECT EXTRACT(YEAR FROM ts), SUBSTRING(x FROM 1 FOR 2), TRIM(BOTH 'x' FROM y), TRIM(LEADING FROM y), trim(y), POSITION('a' IN b), OVERLAY(a PLACING b FROM 1)`,
	`SELECT current_timestamp, current_date(), left(a, 1), exists(a, x -> x > 1), count(DISTINCT a, b), first(a) IGNORE NULLS`,
	`SELECT a LIKE 'x' ESCAPE '!', a ILIKE ANY ('a', 'b'), a NOT RLIKE 'x+', a LIKE ALL ('c') FROM t`,
	`SELECT window, start, end, timestamp, source, sink, query, date, value, key, offset FROM window`,
	`VALUES (1, 'a'), (2, 'b')`, `SELECT * FROM VALUES (1), (2) AS t(a)`, `SELECT * FROM range(10) r`,
	`SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b)`,
}

func TestDialectIsParsedAndPrinted(t *testing.T) {
	for _, src := range dialect {
		stmt, err := ParseStatement(src)
		if err != nil {
			t.Errorf("parse of %q: %v", src, err)
			continue
		}
		checkPrinted(t, src, stmt)
		spans(t, src, reflect.ValueOf(stmt), Span{0, len(src)})
	}
}

func FuzzParse(f *testing.F) {
	for _, src := range dialect {
		f.Add(src)
	}
	for _, line := range conformanceLines(f) {
		f.Add(line.text)
	}
	f.Add("SELECT /* a /* b */ c */ 1; -- x\nSELECT 'unclosed")
	f.Fuzz(func(t *testing.T, src string) {
		stmts, errs := ParseScript(src)
		for _, e := range errs {
			if e.Span.Start < 0 || e.Span.End > len(src) || e.Span.Start > e.Span.End {
				t.Fatalf("error outside the text: %+v", e)
			}
			Render("fuzz.sql", src, e)
		}
		for _, stmt := range stmts {
			checkFuzzed(t, src, stmt)
		}
	})
}

// checkFuzzed is checkPrinted for texts that may become too long or too deeply
// nested by the parentheses of the printer.
func checkFuzzed(t *testing.T, src string, stmt Statement) {
	t.Helper()
	text := Format(stmt)
	again, err := Limits{StatementBytes: 1 << 30, Depth: 10000}.ParseStatement(text)
	if err != nil {
		t.Fatalf("parse of the printed statement: %v\nsource:  %q\nprinted: %q", err, src, text)
	}
	if got, want := dump(again), dump(stmt); got != want {
		t.Fatalf("the printed statement has another tree\n%s\nsource:  %q\nprinted: %q", cmp.Diff(got, want), src, text)
	}
	if second := Format(again); second != text {
		t.Fatalf("printed twice: %q, then %q", text, second)
	}
	spans(t, src, reflect.ValueOf(stmt), Span{0, len(src)})
}

// spans checks that every node stands inside the one above it.
func spans(t *testing.T, src string, v reflect.Value, outer Span) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			spans(t, src, v.Elem(), outer)
		}
	case reflect.Slice:
		for i := range v.Len() {
			spans(t, src, v.Index(i), outer)
		}
	case reflect.Struct:
		if f := v.FieldByName("Span"); f.IsValid() {
			s, ok := f.Interface().(Span)
			if !ok || s == (Span{}) && v.IsZero() {
				return
			}
			if s.Start < outer.Start || s.Start > s.End || s.End > outer.End {
				t.Fatalf("%s at %+v %q is outside of %+v in %q", v.Type().Name(), s, s.In(src), outer, src)
			}
			outer = s
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Span" {
				spans(t, src, v.Field(i), outer)
			}
		}
	default: // holds no nodes
	}
}

func BenchmarkParseStatement(b *testing.B) {
	const src = `SELECT auction, window.start AS start, window.end AS end, count(*) AS n, max(price) AS top
FROM bids WHERE price > 100 AND channel IN ('a', 'b') AND url LIKE '%item%'
GROUP BY auction, window(ts, '10 seconds', '2 seconds') HAVING count(*) > 5`
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseStatement(src); err != nil {
			b.Fatal(err)
		}
	}
}
