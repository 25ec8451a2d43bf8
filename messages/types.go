package messages

import (
	"fmt"
	"strings"
)

// Kind is the family of a Type.
type Kind uint8

// The kinds, in the order used by the wire format. The order never changes.
const (
	Null         Kind = iota // the type of a bare NULL
	Boolean                  // bit-packed, least significant bit first
	TinyInt                  // int8
	SmallInt                 // int16
	Int                      // int32
	BigInt                   // int64
	Float                    // float32
	Double                   // float64
	Decimal                  // 128-bit two's complement, scaled by 10^Scale
	String                   // UTF-8 bytes with int32 offsets
	Binary                   // bytes with int32 offsets
	Date                     // int32 days since 1970-01-01
	Timestamp                // int64 microseconds since the Unix epoch, UTC
	TimestampNTZ             // int64 microseconds, wall clock without zone
	Interval                 // months int32, days int32, nanoseconds int64
	Array                    // int32 offsets into one child
	Map                      // int32 offsets into a struct child (key, value)
	Struct                   // one child per field
)

// Type is a data type. Values are compared with Equal, not ==.
type Type struct {
	Kind      Kind
	Precision uint8   // Decimal: total digits, 1..38
	Scale     uint8   // Decimal: digits after the point, 0..Precision
	Elem      *Type   // Array: element; Map: value
	Key       *Type   // Map: key
	Fields    []Field // Struct
}

// Field is a named column of a schema or a named member of a struct. Every
// field may be NULL.
type Field struct {
	Name string
	Type Type
}

// T returns the plain type of kind k, which must not need parameters.
func T(k Kind) Type { return Type{Kind: k} }

// DecimalType returns decimal(precision, scale).
func DecimalType(precision, scale uint8) Type {
	return Type{Kind: Decimal, Precision: precision, Scale: scale}
}

// ArrayType returns array<elem>.
func ArrayType(elem Type) Type { return Type{Kind: Array, Elem: &elem} }

// MapType returns map<key, value>.
func MapType(key, value Type) Type { return Type{Kind: Map, Key: &key, Elem: &value} }

// StructType returns struct<fields...>.
func StructType(fields ...Field) Type { return Type{Kind: Struct, Fields: fields} }

// WindowType is the type of the window() function: struct<start, end>.
func WindowType() Type {
	return StructType(Field{"start", T(Timestamp)}, Field{"end", T(Timestamp)})
}

// Equal reports whether t and o are the same type, field names included.
func (t Type) Equal(o Type) bool {
	if t.Kind != o.Kind || t.Precision != o.Precision || t.Scale != o.Scale || len(t.Fields) != len(o.Fields) {
		return false
	}
	if !equalPtr(t.Elem, o.Elem) || !equalPtr(t.Key, o.Key) {
		return false
	}
	for i := range t.Fields {
		if t.Fields[i].Name != o.Fields[i].Name || !t.Fields[i].Type.Equal(o.Fields[i].Type) {
			return false
		}
	}
	return true
}

func equalPtr(a, b *Type) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

var kindNames = [...]string{
	"void", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string",
	"binary", "date", "timestamp", "timestamp_ntz", "interval", "array", "map", "struct",
}

// String names the kind as SQL does.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// String writes t as SQL does, for instance "array<struct<a:int,b:string>>".
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Array:
		return "array<" + t.Elem.String() + ">"
	case Map:
		return "map<" + t.Key.String() + "," + t.Elem.String() + ">"
	case Struct:
		var b strings.Builder
		b.WriteString("struct<")
		for i, f := range t.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(f.Name + ":" + f.Type.String())
		}
		b.WriteByte('>')
		return b.String()
	default:
		return t.Kind.String()
	}
}

// Width is the number of bytes one value takes in the fixed-width buffer: 0 for
// kinds that have none (Null, Boolean, variable-size and nested kinds).
func (k Kind) Width() int {
	switch k {
	case TinyInt:
		return 1
	case SmallInt:
		return 2
	case Int, Float, Date:
		return 4
	case BigInt, Double, Timestamp, TimestampNTZ:
		return 8
	case Decimal, Interval:
		return 16
	default:
		return 0
	}
}

// IsInteger reports whether k is one of the four integer kinds.
func (k Kind) IsInteger() bool { return k >= TinyInt && k <= BigInt }

// IsNumeric reports whether k is an integer, a float or a decimal.
func (k Kind) IsNumeric() bool { return k >= TinyInt && k <= Decimal }

// HasOffsets reports whether columns of kind k have an offsets buffer.
func (k Kind) HasOffsets() bool { return k == String || k == Binary || k == Array || k == Map }
