// Package text reads and writes lines: one string column that holds the payload
// as it is.
package text

import (
	"unicode/utf8"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Format returns the record of the format.
func Format() format.Format {
	return format.Format{
		Name:      "text",
		Doc:       "One string column, usually named value, that holds the whole record. A record must be valid UTF-8.",
		Extension: ".txt",
		Decoder:   newDecoder,
		Encoder:   newEncoder,
	}
}

// only returns the one string column, beside those from outside the payload.
func only(c format.Config) (int, error) {
	found := -1
	for i, f := range c.Schema.Fields {
		if i < len(c.Metadata) && c.Metadata[i] || c.Metadata == nil && f.Type.Kind != messages.String && i < len(c.Skip) && c.Skip[i] {
			continue
		}
		if found >= 0 || f.Type.Kind != messages.String {
			return 0, fault.New(fault.Config, "format text: it takes exactly one column of type string, not (%s)", c.Schema)
		}
		found = i
	}
	if found < 0 {
		return 0, fault.New(fault.Config, "format text: it needs one column of type string, for instance value STRING")
	}
	return found, nil
}

type decoder struct {
	column int
	skip   bool
}

func newDecoder(c format.Config) (format.Decoder, error) {
	i, err := only(c)
	return decoder{i, i < len(c.Skip) && c.Skip[i]}, err
}

// Decode implements format.Decoder.
func (d decoder) Decode(dst *messages.Builder, payload []byte, fill func(*messages.Builder)) error {
	if !utf8.Valid(payload) {
		return fault.New(fault.BadRow, "the text is not valid UTF-8")
	}
	if !d.skip {
		dst.Column(d.column).AppendBytes(payload)
	}
	if fill != nil {
		fill(dst)
	}
	dst.EndRow()
	return nil
}

type encoder int

func newEncoder(c format.Config) (format.Encoder, error) {
	i, err := only(c)
	return encoder(i), err
}

// Encode implements format.Encoder. NULL is an empty text.
func (e encoder) Encode(dst []byte, b *messages.Batch, i int) ([]byte, error) {
	c := b.Column(int(e))
	if c.IsNull(i) {
		return dst, nil
	}
	return append(dst, c.Bytes(i)...), nil
}
