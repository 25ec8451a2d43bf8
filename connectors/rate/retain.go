package rate

import (
	"context"

	"github.com/streamd-io/streamd/connectors"
)

// Retains implements connectors.Retainer: rows are made, so none is ever gone.
func (s *source) Retains(context.Context, string, connectors.Offset) error { return nil }
