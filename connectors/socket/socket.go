// Package socket reads lines from a TCP server, for trying things out.
//
// A line is lost when the connection breaks while it travels, and nothing can be
// read again: the source is not replayable, and a restart of the query goes on
// with what the server sends next.
package socket

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Connector returns the record of the connector.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "socket",
		Doc: "UTF-8 lines from a TCP server, one row each, in column value STRING unless a format is given. For tests only: " +
			"rows are delivered at most once and cannot be read again. The source connects again, with growing pauses, when the connection is lost.",
		SourceOptions: []option.Option{
			{Name: "host", Required: true, Doc: "Name or address of the server."},
			{Name: "port", Kind: option.Int, Required: true, Min: 1, Max: 65535, Doc: "TCP port of the server."},
			{Name: "max_record_size", Kind: option.Bytes, Default: "1MiB", Doc: "Longest line, in bytes; a longer one is a bad record (default 1MiB)."},
		},
		Source: newSource,
	}
}

type source struct {
	schema    *messages.Schema
	address   string
	maxRecord int
	clock     connectors.Clock
	decodes   bool // with the format of the source; else lines go to the one column
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
}

// dialTimeout bounds one attempt to connect.
const dialTimeout = 10 * time.Second

func newSource(_ context.Context, c connectors.SourceConfig) (connectors.Source, error) {
	s := &source{
		schema: c.Schema, clock: c.Env.Clock, decodes: c.Decoder != nil, maxRecord: int(c.Options.Bytes("max_record_size")),
		address: net.JoinHostPort(c.Options.String("host"), strconv.FormatInt(c.Options.Int("port"), 10)),
		dial:    (&net.Dialer{Timeout: dialTimeout}).DialContext,
	}
	if s.maxRecord < 1 {
		return nil, fault.New(fault.Config, "socket source: max_record_size must be above 0")
	}
	if s.schema == nil {
		s.schema = messages.NewSchema(messages.Field{Name: "value", Type: messages.T(messages.String)})
	}
	if !s.decodes && (s.schema.Len() != 1 || s.schema.Fields[0].Type.Kind != messages.String) {
		return nil, fault.New(fault.Config, "socket source: without a format the only column is value STRING, not (%s); add format = 'json' or 'csv'", s.schema)
	}
	return s, nil
}

func (s *source) Schema() *messages.Schema { return s.schema }

func (s *source) Traits() connectors.Traits { return connectors.Traits{} }

func (s *source) Partitions(context.Context) ([]string, error) { return []string{s.address}, nil }

// Open implements connectors.Source. The offset counts lines, for progress
// reports and for identities within a run; it does not lead back to them.
func (s *source) Open(_ context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	if q.Bounded {
		return nil, fault.New(fault.Config, "socket source: a socket has no end, so it cannot be read with trigger = 'available_now'")
	}
	return newReader(s, q)
}
