package expr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// typeNamed reads a type as SQL writes it.
func typeNamed(t testing.TB, s string) messages.Type {
	t.Helper()
	n, err := sql.ParseDataType(s)
	if err != nil {
		t.Fatalf("type %s: %v", s, err)
	}
	ty, e := TypeOf(n)
	if e != nil {
		t.Fatalf("type %s: %v", s, e)
	}
	return ty
}

// schemaOf reads "a int, b string".
func schemaOf(t testing.TB, s string) *messages.Schema {
	t.Helper()
	out := &messages.Schema{}
	if s == "" {
		return out
	}
	st := typeNamed(t, "struct<"+strings.ReplaceAll(strings.ReplaceAll(s, ", ", ","), " ", ":")+">")
	out.Fields = st.Fields
	return out
}

// appendJSON appends a JSON value to a column of any type.
func appendJSON(t testing.TB, c *messages.Column, v any) {
	t.Helper()
	if v == nil {
		c.AppendNull()
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			appendJSON(t, c.Child(0), e)
		}
		c.CloseList()
		return
	case bool:
		c.AppendBool(v)
		return
	}
	text := fmt.Sprint(v)
	if c.Type().Kind == messages.Timestamp || c.Type().Kind == messages.TimestampNTZ {
		ts, err := time.Parse("2006-01-02T15:04:05.999999999", strings.TrimSuffix(text, "Z"))
		if err != nil {
			t.Fatal(err)
		}
		c.AppendInt64(ts.UnixMicro())
		return
	}
	n := convert(String(text), c.Type())
	e, err := Compile(n, Options{})
	if err != nil {
		t.Fatalf("%v as %s: %v", v, c.Type(), err)
	}
	col, err := e.Eval(batchOf(t, &messages.Schema{}, [][]any{{}}))
	if err != nil {
		t.Fatalf("%v as %s: %v", v, c.Type(), err)
	}
	c.AppendFrom(col, 0)
}

// batchOf builds a published batch from JSON-like rows.
func batchOf(t testing.TB, s *messages.Schema, rows [][]any) *messages.Batch {
	t.Helper()
	bl := messages.NewBuilder(s)
	for i, r := range rows {
		for k, v := range r {
			appendJSON(t, bl.Column(k), v)
		}
		bl.EndRow()
		bl.EndUnit(uint64(i), messages.EventTime(1_700_000_000_000_000+i))
	}
	return bl.Finish()
}

// resolveText resolves one expression over a schema.
func resolveText(t testing.TB, text string, s *messages.Schema) Node {
	t.Helper()
	e, err := sql.ParseExpr(text)
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	n, rerr := Resolve(e, NewScope("input", s), ResolveOptions{})
	if rerr != nil {
		t.Fatalf("resolve %s: %v", text, rerr)
	}
	return n
}

// valueText is a value as CAST(... AS STRING) writes it, or NULL.
func valueText(c *messages.Column, i int) string {
	if c.IsNull(i) {
		return "NULL"
	}
	return string(appendValue(nil, c, i, utcZone()))
}

// evalText evaluates an expression without columns, folded and not folded, and
// returns its type and text.
func evalText(t testing.TB, text string, opts Options) (string, error) {
	t.Helper()
	n := resolveText(t, text, &messages.Schema{})
	var got [2]string
	for k, n := range []Node{n, Fold(n, opts)} {
		e, err := Compile(n, opts)
		if err != nil {
			return "", err
		}
		c, err := e.Eval(batchOf(t, &messages.Schema{}, [][]any{{}, {}}))
		if err != nil {
			return "", err
		}
		if c.Len() != 2 {
			t.Fatalf("%s: %d values, want 2", text, c.Len())
		}
		got[k] = valueText(c, 1)
	}
	if got[0] != got[1] {
		t.Errorf("%s: %s when evaluated, %s when folded", text, got[0], got[1])
	}
	return got[0], nil
}

func decodeLine(t testing.TB, line string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}
