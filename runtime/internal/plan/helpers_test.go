package plan

import (
	"strings"
	"testing"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// testCatalog is a catalog of tables declared with one line each.
type testCatalog struct {
	relations map[string]Relation
	names     []string
}

func (c *testCatalog) Relation(name string) Relation {
	return c.relations[strings.ToLower(name)]
}

func (c *testCatalog) Names() []string { return c.names }

func (c *testCatalog) add(name string, r Relation) {
	if c.relations == nil {
		c.relations = map[string]Relation{}
	}
	if c.relations[strings.ToLower(name)] == nil {
		c.names = append(c.names, name)
	}
	c.relations[strings.ToLower(name)] = r
}

// schemaOf reads "a int, ts timestamp".
func schemaOf(t testing.TB, text string) *messages.Schema {
	t.Helper()
	s := &messages.Schema{}
	if strings.TrimSpace(text) == "" {
		return s
	}
	d, err := sql.ParseDataType("struct<" + text + ">")
	if err != nil {
		t.Fatalf("schema %q: %v", text, err)
	}
	typ, serr := expr.TypeOf(d)
	if serr != nil {
		t.Fatalf("schema %q: %v", text, serr)
	}
	s.Fields = typ.Fields
	return s
}

func parseQuery(t testing.TB, text string) *sql.Query {
	t.Helper()
	st, err := sql.ParseStatement(text)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	s, ok := st.(*sql.SelectStatement)
	if !ok {
		t.Fatalf("%q is a %T, not a query", text, st)
	}
	return s.Query
}

// render writes faults as a person sees them.
func render(src string, errs []*sql.Error) string {
	var b strings.Builder
	for _, e := range errs {
		b.WriteString(sql.Render("q.sql", src, e))
	}
	return b.String()
}
