package nats

import (
	"context"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// Retains implements connectors.Retainer: the stream must be the one of the
// offset, hold everything behind it, and not be of a kind that forgets what has
// been acknowledged.
func (s *source) Retains(ctx context.Context, partition string, from connectors.Offset) error {
	strict := *s
	strict.warn, strict.stream.create = false, false // it is only looked at
	opened, err := strict.Open(ctx, connectors.ReadRequest{Partition: partition, From: from})
	if err != nil {
		return err
	}
	r, ok := opened.(*reader)
	if !ok {
		return fault.New(fault.Config, "messages without a stream cannot be read again")
	}
	l, err := s.conn.dial(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	info, err := l.info(ctx, &strict.stream)
	switch {
	case err != nil:
		return err
	case forgets(info):
		return fault.New(fault.Config, "stream %s forgets what has been acknowledged", s.stream.name)
	case r.pos.NextSeq == 0 && info.State.FirstSeq > 1:
		return fault.New(fault.Config, "stream %s no longer holds its first messages; it begins with %d", s.stream.name, info.State.FirstSeq)
	}
	return r.place(info, nil)
}
