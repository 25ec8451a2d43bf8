// Package json reads and writes rows as JSON documents (RFC 8259).
//
// Decoding is one strict pass over the payload that writes the values the query
// needs straight into the columns: no tree, no map, no float64 on the way of an
// integer or a decimal. A payload is one object, or an array of objects, which
// are the rows of one unit. It must be a valid document as a whole; in members
// that the query does not read only the syntax is checked.
//
// Rules of decoding:
//   - A member belongs to the column of exactly its name; if there is none, to
//     the first column whose name is equal without regard to the case of ASCII
//     letters. An exact name beats the other kind; of several equal ones the
//     last counts. Members without column are ignored, columns without member
//     are NULL. Fields of structs are found in the same way.
//   - A value of the wrong type is a bad record that names the field. Integers
//     are integer literals within the range of the column. Doubles are also
//     "NaN", "Infinity" and "-Infinity". Decimals are numbers or strings, rounded
//     half up to the column's scale.
//   - A string column takes strings; any other value but null is taken as its
//     JSON text, as Spark does.
//   - Timestamps are ISO-8601 strings or integers, as option timestamp_format
//     says; dates are ISO-8601; binary is base64.
//   - A string must be valid UTF-8, else the record is bad; an escaped lone
//     surrogate becomes U+FFFD.
//   - A map is an object; a name that occurs twice in it is a bad record.
//
// Rules of encoding: a row is one object without spaces, members in column
// order. Timestamps are written with six fraction digits and Z, bigint and
// decimals as numbers, binary as base64, NaN and infinities as strings.
//
// Decoders and encoders belong to one goroutine and do not allocate once their
// buffers have grown.
package json

import (
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Format returns the record of the format.
func Format() format.Format {
	return format.Format{
		Name:      "json",
		Doc:       "One JSON object per record, or an array of objects, which become several rows.",
		Extension: ".json",
		Options: []option.Option{
			{
				Name: "timestamp_format", Kind: option.Enum, Default: "iso", Values: []string{"iso", "unix_s", "unix_ms", "unix_us"},
				Doc: "How timestamps are written: ISO-8601 strings, or integers since 1970 in seconds, milliseconds or microseconds (default iso).",
			},
			{
				Name: "null_fields", Kind: option.Enum, Default: "write", Values: []string{"write", "omit"},
				Doc: "Whether a sink writes NULL fields as null or leaves them out (default write).",
			},
			{
				Name: "max_depth", Kind: option.Int, Default: "100", Min: 1, Max: 10_000,
				Doc: "How many levels of objects and arrays a document may nest (default 100).",
			},
			{
				Name: "max_document_size", Kind: option.Bytes, Default: "64MiB",
				Doc: "Largest document a source accepts, in bytes (default 64MiB).",
			},
		},
		Decoder: newDecoder,
		Encoder: newEncoder,
	}
}

// unit is how timestamps look.
type unit int64

// Except iso, a unit is its number of microseconds.
const (
	iso    unit = 0
	unixUS unit = 1
	unixMS unit = 1_000
	unixS  unit = 1_000_000
)

func unitOf(o option.Values) unit {
	switch o.Enum("timestamp_format") {
	case "unix_s":
		return unixS
	case "unix_ms":
		return unixMS
	case "unix_us":
		return unixUS
	}
	return iso
}

// check refuses types that have no JSON form.
func check(name string, t messages.Type) error {
	switch t.Kind {
	case messages.Interval:
		return fault.New(fault.Config, "format json: column %s: type interval has no JSON form; cast it to string or to a number", name)
	case messages.Array:
		return check(name, *t.Elem)
	case messages.Map:
		switch t.Key.Kind {
		case messages.Array, messages.Map, messages.Struct, messages.Binary, messages.Float, messages.Double, messages.Null:
			return fault.New(fault.Config, "format json: column %s: %s cannot be the key of a map in JSON; use string", name, *t.Key)
		}
		if err := check(name, *t.Key); err != nil {
			return err
		}
		return check(name, *t.Elem)
	case messages.Struct:
		for _, f := range t.Fields {
			if err := check(name+"."+f.Name, f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}
