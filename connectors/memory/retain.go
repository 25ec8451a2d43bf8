package memory

import (
	"context"

	"github.com/streamd-io/streamd/connectors"
)

// Retains implements connectors.Retainer.
func (s *Source) Retains(ctx context.Context, partition string, from connectors.Offset) error {
	r, err := s.Open(ctx, connectors.ReadRequest{Partition: partition, From: from})
	if err != nil {
		return err
	}
	return r.Close()
}
