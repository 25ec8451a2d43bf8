package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/streamd-io/streamd/messages"
)

const schemaVersion = 1

// maxTypeDepth bounds the nesting of types in a schema that is read.
const maxTypeDepth = 64

// EncodeSchema appends a schema to dst and returns the result:
//
//	version 1, number of fields, then each field: name, type
//	type: kind 1; decimal: precision 1, scale 1; array: type; map: key type, value
//	type; struct: number of fields, then each field: name, type
//
// Numbers are unsigned varints, names are a length and bytes. Equal schemas have
// equal encodings.
func EncodeSchema(dst []byte, s *messages.Schema) []byte {
	dst = append(dst, schemaVersion)
	return appendFields(dst, s.Fields)
}

func appendFields(dst []byte, fields []messages.Field) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(fields)))
	for i := range fields {
		dst = binary.AppendUvarint(dst, uint64(len(fields[i].Name)))
		dst = append(dst, fields[i].Name...)
		dst = appendType(dst, &fields[i].Type)
	}
	return dst
}

func appendType(dst []byte, t *messages.Type) []byte {
	dst = append(dst, byte(t.Kind))
	switch t.Kind {
	case messages.Decimal:
		dst = append(dst, t.Precision, t.Scale)
	case messages.Array:
		dst = appendType(dst, t.Elem)
	case messages.Map:
		dst = appendType(dst, t.Key)
		dst = appendType(dst, t.Elem)
	case messages.Struct:
		dst = appendFields(dst, t.Fields)
	}
	return dst
}

// DecodeSchema reads a schema that EncodeSchema has written from all of data.
// Other bytes give an error, never a panic.
func DecodeSchema(data []byte) (*messages.Schema, error) {
	r := schemaReader{data}
	v, err := r.byte()
	if err == nil && v != schemaVersion {
		err = fmt.Errorf("format version %d, this build reads %d", v, schemaVersion)
	}
	var fields []messages.Field
	if err == nil {
		fields, err = r.fields(0)
	}
	if err == nil && len(r.data) > 0 {
		err = fmt.Errorf("%d bytes are left over", len(r.data))
	}
	if err != nil {
		return nil, fmt.Errorf("wire: schema: %w", err)
	}
	return &messages.Schema{Fields: fields}, nil
}

type schemaReader struct{ data []byte }

var errShort = errors.New("ends too early")

func (r *schemaReader) byte() (byte, error) {
	if len(r.data) == 0 {
		return 0, errShort
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b, nil
}

// size reads a number of things that take at least least bytes each.
func (r *schemaReader) size(least int) (int, error) {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		return 0, errShort
	}
	if n > 1 && r.data[n-1] == 0 {
		return 0, errors.New("a number is not in its shortest form")
	}
	r.data = r.data[n:]
	if v > uint64(len(r.data)/least) {
		return 0, errShort
	}
	return int(v), nil
}

func (r *schemaReader) fields(depth int) ([]messages.Field, error) {
	n, err := r.size(2) // a field is at least a name's length and a kind
	if err != nil || n == 0 {
		return nil, err
	}
	fields := make([]messages.Field, 0, min(n, 64))
	for range n {
		size, err := r.size(1)
		if err != nil {
			return nil, err
		}
		name := string(r.data[:size])
		r.data = r.data[size:]
		t, err := r.typ(depth)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		fields = append(fields, messages.Field{Name: name, Type: t})
	}
	return fields, nil
}

func (r *schemaReader) typ(depth int) (messages.Type, error) {
	if depth == maxTypeDepth {
		return messages.Type{}, fmt.Errorf("types are nested more than %d deep", maxTypeDepth)
	}
	k, err := r.byte()
	if err != nil {
		return messages.Type{}, err
	}
	t := messages.Type{Kind: messages.Kind(k)}
	switch t.Kind {
	case messages.Decimal:
		return r.decimal()
	case messages.Array:
		t.Elem, err = r.pointer(depth)
	case messages.Map:
		if t.Key, err = r.pointer(depth); err == nil {
			t.Elem, err = r.pointer(depth)
		}
	case messages.Struct:
		t.Fields, err = r.fields(depth + 1)
	default:
		if t.Kind > messages.Struct {
			err = fmt.Errorf("unknown type kind %d", k)
		}
	}
	return t, err
}

func (r *schemaReader) pointer(depth int) (*messages.Type, error) {
	t, err := r.typ(depth + 1)
	return &t, err
}

func (r *schemaReader) decimal() (messages.Type, error) {
	precision, err := r.byte()
	if err != nil {
		return messages.Type{}, err
	}
	scale, err := r.byte()
	if err != nil {
		return messages.Type{}, err
	}
	if precision < 1 || precision > 38 || scale > precision {
		return messages.Type{}, fmt.Errorf("decimal(%d,%d) does not exist", precision, scale)
	}
	return messages.DecimalType(precision, scale), nil
}
