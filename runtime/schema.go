package runtime

import (
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// ParseSchema reads a list of columns as CREATE SOURCE has it, for instance
// "auction BIGINT, price BIGINT, tags ARRAY<STRING>, ts TIMESTAMP".
func ParseSchema(ddl string) (*messages.Schema, error) {
	t, err := sql.ParseDataType("struct<" + ddl + ">")
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "schema %q", ddl)
	}
	typ, serr := expr.TypeOf(t)
	if serr != nil {
		return nil, fault.Wrap(fault.Config, serr, "schema %q", ddl)
	}
	return messages.NewSchema(typ.Fields...), nil
}
