package connectors

import (
	"context"
	"io"
	"log/slog"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
)

// Connector is the one thing a connector folder exports (by a function, so that
// there is no global state): its name, its options and how to make sources and
// sinks from them. From the options come checks, defaults, error messages and
// the reference page.
type Connector struct {
	Name string
	Doc  string // a paragraph for the reference page
	// SourceOptions and SinkOptions list what WITH (...) accepts beside the
	// common options.
	SourceOptions []option.Option
	SinkOptions   []option.Option
	// Metadata lists the metadata columns a source can add.
	Metadata []Metadata
	// Source makes a source; nil when the connector has none.
	Source func(ctx context.Context, r SourceConfig) (Source, error)
	// Sink makes a sink; nil when the connector has none.
	Sink func(ctx context.Context, r SinkConfig) (Sink, error)
}

// Metadata is a column that a source fills from outside the payload.
type Metadata struct {
	Name string
	Type messages.Type
	Doc  string
}

// SourceConfig is what a connector gets to make a source. Making a source does
// not connect: a plan can be checked without the outside system.
type SourceConfig struct {
	Options option.Values
	// Decoder makes a decoder of the source's format for one reader; nil when the
	// source takes no format.
	Decoder func() (format.Decoder, error)
	// OnError is the policy for bad records.
	OnError OnError
	// Schema is what CREATE SOURCE declares, metadata columns included; nil when
	// the statement has no column list.
	Schema *messages.Schema
	// MetadataColumns maps a column index of Schema to the metadata it takes.
	MetadataColumns map[int]string
	Env             Env
}

// SinkConfig is what a connector gets to make a sink.
type SinkConfig struct {
	Options option.Values
	Schema  *messages.Schema
	// Encoder makes an encoder of the sink's format for rows of the given schema;
	// nil when the sink takes no format. Format describes it.
	Encoder func(s *messages.Schema) (format.Encoder, error)
	Format  format.Format
	// FormatConfig is what Encoder was configured with, for Format.Header.
	FormatConfig format.Config
	Env          Env
}

// Env is what the session lends to connectors.
type Env struct {
	// Log and Clock are never nil in a session.
	Log   *slog.Logger
	Clock Clock
	// Stdout is where the console sink writes, one table per call. It must be safe
	// for concurrent use when several queries print; nil means there is none.
	Stdout io.Writer
	// BaseDir is what relative paths are relative to; "" is the working
	// directory.
	BaseDir string
}
