// Package format defines how bytes become rows and rows become bytes. Each
// format is one folder below this one and exports a Format record.
//
// Decoders and encoders belong to one goroutine each; the engine makes one per
// reader or writer.
package format

import (
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
)

// Decoder turns a payload into rows.
type Decoder interface {
	// Decode appends the payload's rows to dst and ends each with EndRow, after
	// calling fill (if not nil) for the columns the payload does not hold. A
	// payload that is not valid gives an error of kind fault.BadRow that says
	// where and why; the caller drops what was appended. Decode keeps no
	// reference to payload.
	Decode(dst *messages.Builder, payload []byte, fill func(*messages.Builder)) error
}

// HeaderDecoder is implemented by decoders of formats whose files may begin
// with a line that names the columns.
type HeaderDecoder interface {
	Decoder
	// Header takes the first line of a file, without its newline. It reports
	// whether the line was a header (then it is not decoded); an error is of kind
	// fault.Config. It is called before the file's records are decoded, whatever
	// record comes first.
	Header(line []byte) (bool, error)
}

// LineJoiner is implemented by decoders of formats in which a record may hold
// line breaks.
type LineJoiner interface {
	Decoder
	// Continues reports whether the record goes on behind line (without its
	// newline). open is the answer for the record's previous line, false for its
	// first.
	Continues(line []byte, open bool) bool
}

// BlankSkipper is implemented by decoders of formats in which a blank line
// between records means nothing.
type BlankSkipper interface {
	Decoder
	SkipsBlankLines()
}

// Encoder turns rows into bytes.
type Encoder interface {
	// Encode appends row i (a physical index) of b to dst and returns it. An
	// error is of kind fault.BadRow.
	Encode(dst []byte, b *messages.Batch, i int) ([]byte, error)
}

// Format is what a format folder exports, by a function.
type Format struct {
	Name    string
	Doc     string
	Options []option.Option // options of sources and sinks that use this format
	// Extension is the usual file name ending, with the dot.
	Extension string
	// Decoder makes a decoder for the columns of schema that are not metadata.
	Decoder func(c Config) (Decoder, error)
	// Encoder makes an encoder for rows of schema.
	Encoder func(c Config) (Encoder, error)
	// Header, if not nil, returns what stands at the head of a file written with
	// this format and these options (CSV column names), without newline.
	Header func(c Config) ([]byte, error)
}

// Config configures a decoder or encoder.
type Config struct {
	Schema *messages.Schema
	// Skip tells, per column of Schema, which ones the payload does not hold
	// (metadata columns, columns the query does not read); nil means none.
	Skip []bool
	// Metadata tells, per column of Schema, which ones come from outside the
	// payload, so that formats without names can count fields; nil means none.
	Metadata []bool
	Options  option.Values
}
