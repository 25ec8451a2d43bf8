package plan

import (
	"errors"
	"slices"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// asSQL returns an error of package expr, which is a *sql.Error.
func asSQL(err error) *sql.Error {
	if e, ok := errors.AsType[*sql.Error](err); ok {
		return e
	}
	return fail(ClassAnalysis, sql.Span{}, err.Error())
}

// generators are the functions that make rows.
func generatorOf(name string) (kind GeneratorKind, outer, ok bool) {
	switch name {
	case "explode":
		return Explode, false, true
	case "explode_outer":
		return Explode, true, true
	case "posexplode":
		return PosExplode, false, true
	case "posexplode_outer":
		return PosExplode, true, true
	}
	return 0, false, false
}

func isGenerator(name string) bool {
	_, _, ok := generatorOf(name)
	return ok
}

// generated returns the columns a generator makes from its argument.
func generated(kind GeneratorKind, t messages.Type) ([]Column, bool) {
	var cols []Column
	if kind == PosExplode {
		cols = append(cols, Column{Name: "pos", Type: messages.T(messages.Int)})
	}
	switch t.Kind {
	case messages.Array:
		return append(cols, Column{Name: "col", Type: *t.Elem}), true
	case messages.Map:
		return append(cols, Column{Name: "key", Type: *t.Key}, Column{Name: "value", Type: *t.Elem}), true
	}
	return nil, false
}

// renamed gives columns the names of an alias list.
func renamed(cols []Column, names []sql.Ident) []Column {
	out := slices.Clone(cols)
	for i, n := range names {
		out[i].Name = n.Name
	}
	return out
}

// hasMap reports whether values of type t have no order and no equality.
func hasMap(t messages.Type) bool {
	switch t.Kind {
	case messages.Map:
		return true
	case messages.Array:
		return hasMap(*t.Elem)
	case messages.Struct:
		return slices.ContainsFunc(t.Fields, func(f messages.Field) bool { return hasMap(f.Type) })
	}
	return false
}
