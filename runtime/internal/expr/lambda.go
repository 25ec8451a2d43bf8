package expr

import (
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// lambdaScope holds the parameters of a lambda being resolved.
type lambdaScope struct {
	params []sql.Ident
	types  []messages.Type
}

// parameter returns the lambda parameter a name stands for, or nil.
func (r *resolver) parameter(*sql.ColumnRef) Node { return nil }

// lambda resolves an argument that is a lambda.
func (r *resolver) lambda(f *Function, l *sql.Lambda, _ []Node) (Node, *sql.Error) {
	return nil, &sql.Error{Class: ClassUnsupported, Msg: f.Name + " with a lambda is not supported", Span: l.Span}
}
