package connectors

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/connectors/option"
)

// Reference returns the reference page of all connectors and formats of a
// registry as Markdown. It is made from the same records that check what users
// write, so it cannot be wrong about names, kinds and defaults.
func Reference(r *Registry) string {
	var b strings.Builder
	b.WriteString("# Connectors and formats\n\nThis page is generated from the connectors; do not edit it.\n" +
		"Options go into `WITH (...)`; case and underscores in their names do not matter.\n\n## Connectors\n")
	for _, c := range r.connectors {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", c.Name, c.Doc)
		if c.Source != nil {
			options(&b, "Source options", c.SourceOptions)
		}
		if len(c.Metadata) > 0 {
			b.WriteString("\nMetadata columns (`name TYPE METADATA FROM '...'`):\n\n| metadata | type | meaning |\n|---|---|---|\n")
			for _, m := range c.Metadata {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name, strings.ToUpper(m.Type.String()), cell(m.Doc))
			}
		}
		if c.Sink != nil {
			options(&b, "Sink options", c.SinkOptions)
		}
	}
	b.WriteString("\n## Formats\n")
	for _, f := range r.formats {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", f.Name, f.Doc)
		switch {
		case f.Encoder == nil:
			b.WriteString("\nSources only.\n")
		case f.Decoder == nil:
			b.WriteString("\nSinks only.\n")
		}
		options(&b, "Options", f.Options)
	}
	return b.String()
}

func options(b *strings.Builder, title string, opts []option.Option) {
	if len(opts) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n\n| option | value | default | meaning |\n|---|---|---|---|\n", title)
	for _, o := range opts {
		def := ""
		switch {
		case o.Required:
			def = "required"
		case o.Default != "":
			def = "`" + o.Default + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", o.Name, cell(kindOf(o)), cell(def), cell(o.Doc))
	}
}

func kindOf(o option.Option) string {
	switch {
	case o.Kind == option.Enum:
		return "`" + strings.Join(o.Values, "`, `") + "`"
	case o.Kind == option.Int && o.Max != 0:
		return fmt.Sprintf("whole number, %d to %d", o.Min, o.Max)
	case o.Kind == option.Int && o.Min != 0:
		return fmt.Sprintf("whole number, at least %d", o.Min)
	}
	return o.Kind.String()
}

// cell escapes what would end a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}
