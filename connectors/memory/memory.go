package memory

import (
	"context"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages/fault"
)

// Hub gives names to sources and sinks, so that SQL can reach them with
// connector = 'memory'. It is safe for concurrent use.
type Hub struct {
	mu      sync.Mutex
	sources map[string]*Source
	sinks   map[string]*Sink
}

// NewHub returns a hub without sources and sinks.
func NewHub() *Hub { return &Hub{sources: map[string]*Source{}, sinks: map[string]*Sink{}} }

// SetSource gives a source a name, in place of one that had it.
func (h *Hub) SetSource(name string, s *Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sources[name] = s
}

// SetSink gives a sink a name, in place of one that had it.
func (h *Hub) SetSink(name string, s *Sink) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sinks[name] = s
}

// Sink returns the sink of a name; ok is false when there is none.
func (h *Hub) Sink(name string) (s *Sink, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok = h.sinks[name]
	return s, ok
}

// Connector returns the record of the connector over this hub.
func (h *Hub) Connector() connectors.Connector {
	return connectors.Connector{
		Name: "memory",
		Doc: "Rows added by a Go program, and results kept for it. Sources must be set with Hub.SetSource before they are named in SQL; " +
			"a sink is made when it is first named and keeps the last max_rows rows. Nothing survives the process.",
		SourceOptions: []option.Option{{Name: "name", Required: true, Doc: "Name the Go program gave the source."}},
		SinkOptions: []option.Option{
			{Name: "name", Required: true, Doc: "Name under which the Go program finds the sink."},
			{
				Name: "max_rows", Kind: option.Int, Default: "100000", Min: 0,
				Doc: "How many rows a sink made by this statement keeps in append mode; older ones are dropped, 0 keeps all (default 100000).",
			},
		},
		Source: h.source,
		Sink:   h.sink,
	}
}

func (h *Hub) source(_ context.Context, c connectors.SourceConfig) (connectors.Source, error) {
	name := c.Options.String("name")
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.sources[name]
	if !ok {
		return nil, fault.New(fault.Config, "there is no memory source %q; a Go program sets it with Hub.SetSource before the statement runs", name)
	}
	if c.Schema != nil && !c.Schema.Equal(s.schema) {
		return nil, fault.New(fault.Config, "memory source %q has the columns (%s), not (%s)", name, s.schema, c.Schema)
	}
	return s, nil
}

func (h *Hub) sink(_ context.Context, c connectors.SinkConfig) (connectors.Sink, error) {
	name := c.Options.String("name")
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.sinks[name]
	if !ok {
		s = NewSink()
		s.maxRows = int(c.Options.Int("max_rows"))
		h.sinks[name] = s
	}
	return s, nil
}
