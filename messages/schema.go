package messages

import "strings"

// Schema is an ordered list of named columns. It is immutable once shared.
type Schema struct {
	Fields []Field
}

// NewSchema returns a schema of the given fields.
func NewSchema(fields ...Field) *Schema { return &Schema{Fields: fields} }

// Len is the number of columns.
func (s *Schema) Len() int { return len(s.Fields) }

// Index returns the position of the column called name, compared without
// regard to case as SQL does, or -1. When several match, the first wins.
func (s *Schema) Index(name string) int {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	for i := range s.Fields {
		if strings.EqualFold(s.Fields[i].Name, name) {
			return i
		}
	}
	return -1
}

// Equal reports whether both schemas have the same names and types in order.
func (s *Schema) Equal(o *Schema) bool {
	return StructType(s.Fields...).Equal(StructType(o.Fields...))
}

// String writes the schema as "a int, b string".
func (s *Schema) String() string {
	var b strings.Builder
	for i, f := range s.Fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Name + " " + f.Type.String())
	}
	return b.String()
}
