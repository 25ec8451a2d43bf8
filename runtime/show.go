package runtime

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// explain adds EXPLAIN: the text of the query it holds.
func (sc *script) explain(st *sql.Explain) {
	var p *prepared
	switch q := st.Statement.(type) {
	case *sql.SelectStatement:
		p = &prepared{name: sc.selectName(), span: q.Span, nameSpan: q.Span, query: q.Query}
	case *sql.Insert:
		p = &prepared{name: q.Sink.String(), span: q.Span, nameSpan: q.Sink.Span, sinkName: &q.Sink, sinkColumns: q.Columns, query: q.Query}
	case *sql.CreateQuery:
		p = &prepared{name: q.Name.Name, span: q.Span, nameSpan: q.Name.Span, query: q.Query, sinkName: q.Sink, sinkColumns: q.SinkColumns, options: q.Options}
	default:
		sc.fail(configError(st.Span, classNotYet, "EXPLAIN takes a SELECT, an INSERT or a CREATE QUERY"))
		return
	}
	p.extended = st.Extended
	if sc.plan(p) {
		sc.steps = append(sc.steps, step{plan: true, print: func() string { return p.text + "\n" }})
	}
}

// show adds SHOW.
func (sc *script) show(st *sql.Show) {
	c := sc.catalog.clone()
	sc.steps = append(sc.steps, step{print: func() string {
		var lines []string
		switch st.Kind {
		case sql.ShowQueries:
			for _, q := range sc.s.Queries() {
				lines = append(lines, q.Name()+"\t"+q.Status().State)
			}
		case sql.ShowSources:
			lines = c.names(func(k string) bool { return c.sources[k] != nil && c.sources[k].streaming })
		case sql.ShowTables:
			lines = c.names(func(k string) bool { return c.sources[k] != nil && !c.sources[k].streaming })
		case sql.ShowSinks:
			lines = c.names(func(k string) bool { return c.sinks[k] != nil })
		case sql.ShowViews:
			lines = c.names(func(k string) bool { return c.views[k] != nil })
		case sql.ShowFunctions:
			lines = expr.Builtins().Names()
		}
		return strings.Join(append(lines, ""), "\n")
	}})
}

// describe adds DESCRIBE: columns and types of a source, table, view or sink.
func (sc *script) describe(st *sql.Describe) {
	name := st.Name.String()
	if d := sc.catalog.sinks[key(name)]; d != nil && (st.Kind == sql.SinkObject || !sc.catalog.taken(name)) {
		text := fmt.Sprintf("sink %s\tconnector %s\n", d.name, d.connectorName())
		sc.steps = append(sc.steps, step{print: func() string { return text }})
		return
	}
	n, errs := plan.FromSelect(selectAll(st.Name), sc.plans(), plan.Options{})
	if len(errs) > 0 {
		for _, e := range errs { // they are about a SELECT that is not in the script
			e.Span = st.Name.Span
		}
		sc.fail(errs...)
		return
	}
	var b strings.Builder
	for _, f := range plan.Schema(n).Fields {
		fmt.Fprintf(&b, "%s\t%s\n", f.Name, f.Type)
	}
	if d := sc.catalog.sources[key(name)]; d != nil && d.watermark != nil {
		fmt.Fprintf(&b, "# watermark for %s, delay %s\n", d.watermark.Column, d.watermark.Delay)
	}
	sc.steps = append(sc.steps, step{print: b.String})
}

func (d *definition) connectorName() string {
	if d.sink != nil || d.source != nil {
		return "(Go)"
	}
	return d.connector.Name
}

// selectAll is SELECT * FROM name.
func selectAll(n sql.Name) *sql.Query {
	st, err := sql.ParseStatement("SELECT * FROM " + Col(n.String()).text)
	if err != nil {
		return &sql.Query{Span: n.Span} // cannot be: the name was parsed before
	}
	q, _ := st.(*sql.SelectStatement)
	return q.Query
}
