package file

import (
	"context"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// Retains implements connectors.Retainer. Files that have been read since are
// not known, so a source that removes them cannot tell.
func (s *source) Retains(ctx context.Context, partition string, from connectors.Offset) error {
	if s.clean != "off" {
		return fault.New(fault.Config, "file source: clean_source = '%s' removes files that have been read", s.clean)
	}
	r, err := s.Open(ctx, connectors.ReadRequest{Partition: partition, From: from, Bounded: true})
	if err != nil {
		return err
	}
	return r.Close()
}
