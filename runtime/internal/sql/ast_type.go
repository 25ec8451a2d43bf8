package sql

// TypeName is a data type as written, with aliases resolved.
//
//sumtype:decl
type TypeName interface {
	Node
	typeName()
}

// TypeKind is a type without parameters.
type TypeKind uint8

// The types without parameters.
const (
	BooleanType TypeKind = iota + 1
	TinyIntType
	SmallIntType
	IntType
	BigIntType
	FloatType
	DoubleType
	StringType
	BinaryType
	DateType
	TimestampType
	TimestampNTZType
	VoidType
)

// String returns the type's name in lower case.
func (k TypeKind) String() string {
	return [...]string{
		"", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double",
		"string", "binary", "date", "timestamp", "timestamp_ntz", "void",
	}[k]
}

// SimpleType is a type without parameters.
type SimpleType struct {
	Span
	Kind TypeKind
	// Length is n of varchar(n) and char(n), which are read as string; else 0.
	Length int
}

// DecimalType is decimal(precision, scale); decimal alone is decimal(10,0).
type DecimalType struct {
	Span
	Precision int
	Scale     int
}

// IntervalType is interval, or a year-month or day-time interval with the
// fields it keeps. From and To are zero for plain interval.
type IntervalType struct {
	Span
	From IntervalUnit
	To   IntervalUnit
}

// ArrayType is array<element>.
type ArrayType struct {
	Span
	Element TypeName
}

// MapType is map<key, value>.
type MapType struct {
	Span
	Key   TypeName
	Value TypeName
}

// StructField is one field of a struct type.
type StructField struct {
	Span
	Name    Ident
	Type    TypeName
	NotNull bool
	Comment string
}

// StructType is struct<name: type, ...>.
type StructType struct {
	Span
	Fields []StructField
}

func (*SimpleType) typeName()   {}
func (*DecimalType) typeName()  {}
func (*IntervalType) typeName() {}
func (*ArrayType) typeName()    {}
func (*MapType) typeName()      {}
func (*StructType) typeName()   {}
