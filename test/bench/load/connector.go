package load

import (
	"context"
	"sync"

	"github.com/streamd-io/streamd/connectors"
)

// Ends is the load and the measuring sink of SQL statements that say
// connector = 'load'. Formats are those of the statements, so that rows are
// decoded and encoded exactly as with other connectors. Safe for concurrent use.
type Ends struct {
	Gate   *Gate
	source SourceConfig
	sink   SinkConfig

	// mu guards the lists below.
	mu      sync.Mutex
	sources []*Source
	sinks   []*Sink
}

// NewEnds returns ends with which sources and sinks are made, all behind one
// gate.
func NewEnds(source SourceConfig, sink SinkConfig) *Ends {
	g := NewGate()
	source.Gate, sink.Gate = g, g
	return &Ends{Gate: g, source: source, sink: sink}
}

// Connector returns the connector named load.
func (e *Ends) Connector() connectors.Connector {
	return connectors.Connector{
		Name: "load",
		Doc:  "Rows made for a benchmark, and a sink that measures.",
		Source: func(_ context.Context, c connectors.SourceConfig) (connectors.Source, error) {
			cfg := e.source
			cfg.Schema = c.Schema
			s := NewSource(cfg)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.sources = append(e.sources, s)
			return s, nil
		},
		Sink: func(_ context.Context, c connectors.SinkConfig) (connectors.Sink, error) {
			cfg := e.sink
			cfg.Encoder = c.Encoder
			k := NewSink(cfg)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.sinks = append(e.sinks, k)
			return k, nil
		},
	}
}

// Made is how many events all readers have made so far.
func (e *Ends) Made() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := uint64(0)
	for _, s := range e.sources {
		n += s.Made()
	}
	return n
}

// Stop ends all sources.
func (e *Ends) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sources {
		s.Stop()
	}
}

// Rows is how many rows have arrived in all sinks.
func (e *Ends) Rows() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := uint64(0)
	for _, s := range e.sinks {
		n += s.Rows()
	}
	return n
}

// Result merges what all sinks have measured. No query may be running.
func (e *Ends) Result() (*Recorder, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := NewRecorder(0)
	for _, s := range e.sinks {
		r, err := s.Result()
		if err != nil {
			return nil, err
		}
		if err := all.Merge(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}
