package runtime

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/runtime/internal/expr"
)

// Reference is the reference page: query options, the options of connectors and
// formats, and the SQL functions, in Markdown. It is made from the records that
// check the options, so it says what is true.
func Reference(cs []connectors.Connector, fs []format.Format) (string, error) {
	reg, err := connectors.NewRegistry(cs, fs)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Reference\n\nMade from the records in the code by `make docs`; edit those instead. Option keys are compared without regard to\ncase and `_`.\n")
	b.WriteString("\n## Query options\n\nIn `CREATE QUERY name WITH (...)`, or as a default with `SET key = 'value'` or `streamd run --set key=value`.\n\n")
	b.WriteString(optionTable(QueryOptions()))
	b.WriteString("\n## Options of every source\n\n" + optionTable(commonSource))
	b.WriteString("\n## Options of every sink\n\n" + optionTable(commonSink))
	b.WriteString("\n" + strings.TrimSpace(connectors.Reference(reg)) + "\n")
	b.WriteString("\n## Functions\n\n| function | types | result |\n|---|---|---|\n")
	for _, f := range expr.Builtins().Functions() {
		if f.Usage != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(f.Usage), cell(f.Signature), cell(f.Doc))
		}
	}
	b.WriteString("\nAggregates: `count(*)`, `count`, `sum`, `min`, `max`, `avg` and others; see [sql.md](sql.md).\n")
	return b.String(), nil
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func optionTable(opts []option.Option) string {
	var b strings.Builder
	b.WriteString("| option | default | meaning |\n|---|---|---|\n")
	for _, o := range opts {
		doc := o.Doc
		if o.Kind == option.Enum {
			doc += " One of `" + strings.Join(o.Values, "`, `") + "`."
		}
		def := o.Default
		if o.Required {
			def = "required"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.Name, def, cell(doc))
	}
	return b.String()
}
