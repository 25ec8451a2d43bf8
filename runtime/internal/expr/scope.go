package expr

import (
	"slices"
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Scope is what names mean: the columns of the input, in any number of tables.
type Scope struct {
	Columns []ScopeColumn
}

// ScopeColumn is one column that a name can mean.
type ScopeColumn struct {
	// Qualifier is the table's name or alias; empty where there is none.
	Qualifier string
	Name      string
	Type      messages.Type
	// Index is the column's position in the input.
	Index int
}

// NewScope returns the scope of one input whose columns have a common qualifier,
// which may be empty.
func NewScope(qualifier string, s *messages.Schema) Scope { return Scope{}.With(qualifier, s) }

// With returns the scope that also has the columns of s, whose positions follow those
// already there.
func (s Scope) With(qualifier string, schema *messages.Schema) Scope {
	at := 0
	for _, c := range s.Columns {
		at = max(at, c.Index+1)
	}
	out := Scope{Columns: slices.Clone(s.Columns)}
	for i, f := range schema.Fields {
		out.Columns = append(out.Columns, ScopeColumn{Qualifier: qualifier, Name: f.Name, Type: f.Type, Index: at + i})
	}
	return out
}

// Lookup resolves a name of one or more parts: [qualifier.]column[.field...].
func (s Scope) Lookup(parts []sql.Ident) (Node, *sql.Error) { return s.lookup(builtin, parts) }

func (s Scope) lookup(reg *Registry, parts []sql.Ident) (Node, *sql.Error) {
	span := parts[0].Span.To(parts[len(parts)-1].Span)
	var found []ScopeColumn
	rest := parts[1:]
	if len(parts) > 1 {
		found = s.named(parts[0].Name, parts[1].Name)
		rest = parts[2:]
	}
	if len(found) == 0 {
		found = s.named("", parts[0].Name)
		rest = parts[1:]
	}
	switch len(found) {
	case 0:
		return nil, s.unknown(parts, span)
	case 1:
	default:
		e := &sql.Error{Class: ClassAmbiguous, Msg: "the name " + join(parts) + " could mean several columns", Span: span}
		if q := found[0].Qualifier; q != "" {
			e.Hint = "write " + q + "." + found[0].Name
		}
		return nil, e
	}
	var n Node = NewColumn(found[0].Index, found[0].Name, found[0].Type)
	for _, f := range rest {
		var err *sql.Error
		if n, err = fieldOf(reg, n, f); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// named returns the columns of that name; an empty qualifier means any. Several
// entries for one position are one column.
func (s Scope) named(qualifier, name string) []ScopeColumn {
	var out []ScopeColumn
	for _, c := range s.Columns {
		if !strings.EqualFold(c.Name, name) || qualifier != "" && !strings.EqualFold(c.Qualifier, qualifier) {
			continue
		}
		if !slices.ContainsFunc(out, func(o ScopeColumn) bool { return o.Index == c.Index }) {
			out = append(out, c)
		}
	}
	return out
}

func (s Scope) unknown(parts []sql.Ident, span sql.Span) *sql.Error {
	var names, qualified []string
	for _, c := range s.Columns {
		names = append(names, c.Name)
		if c.Qualifier != "" {
			qualified = append(qualified, c.Qualifier+"."+c.Name)
		}
	}
	e := &sql.Error{Class: ClassUnresolvedColumn, Msg: "there is no column " + join(parts), Span: span}
	candidates := names
	if len(parts) > 1 {
		candidates = append(qualified, names...)
	}
	if near, ok := sql.Nearest(join(parts), candidates); ok {
		e.Hint = "did you mean " + sql.FormatName(near) + "?"
		if strings.Contains(near, ".") {
			e.Hint = "did you mean " + near + "?"
		}
	} else if len(names) > 0 {
		e.Hint = "the columns are " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	return e
}

func join(parts []sql.Ident) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Name
	}
	return strings.Join(names, ".")
}

// fieldOf is x.field: a field of a struct, or the value of a map under that key.
func fieldOf(reg *Registry, n Node, field sql.Ident) (Node, *sql.Error) {
	t := n.Type()
	switch t.Kind {
	case messages.Struct:
		if i := messages.NewSchema(t.Fields...).Index(field.Name); i >= 0 {
			return &Field{X: n, Index: i}, nil
		}
		names := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			names[i] = f.Name
		}
		e := &sql.Error{
			Class: ClassFieldNotFound, Msg: n.String() + " has no field " + field.Name, Span: field.Span,
			Hint: "the fields are " + strings.Join(names, ", "),
		}
		if near, ok := sql.Nearest(field.Name, names); ok {
			e.Hint = "did you mean " + near + "?"
		}
		return nil, e
	case messages.Map:
		if t.Key.Kind == messages.String {
			r, err := reg.call("[]", []Node{n, String(field.Name)})
			return r, placed(err, field.Span)
		}
	}
	return nil, &sql.Error{Class: "INVALID_EXTRACT_BASE_FIELD_TYPE", Msg: n.String() + " is " + t.String() + " and has no fields", Span: field.Span}
}

// placed gives an error without a place the given one.
func placed(e *sql.Error, at sql.Span) *sql.Error {
	if e != nil && e.Span == (sql.Span{}) {
		e.Span = at
	}
	return e
}
