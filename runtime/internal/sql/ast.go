package sql

// Span is a half-open range of byte offsets in the parsed text.
type Span struct {
	Start int
	End   int
}

// Loc returns the span itself; embedding Span makes a node out of a struct.
func (s Span) Loc() Span { return s }

// To returns the range from the start of s to the end of o.
func (s Span) To(o Span) Span { return Span{Start: s.Start, End: o.End} }

// In returns the part of src the span covers, clipped to src.
func (s Span) In(src string) string {
	start, end := max(0, min(s.Start, len(src))), max(0, min(s.End, len(src)))
	if start >= end {
		return ""
	}
	return src[start:end]
}

// Node is anything in the tree that has a position.
type Node interface {
	// Loc returns where the node stands in the parsed text.
	Loc() Span
}

// Ident is one name. The text has no back quotes; letter case is kept as
// written, and comparing without regard to case is up to the reader.
type Ident struct {
	Span
	Name string
}

// Name is a possibly qualified name such as db.t; it has at least one part.
type Name struct {
	Span
	Parts []Ident
}

// String returns the parts joined by dots, without quoting.
func (n Name) String() string {
	if len(n.Parts) == 1 {
		return n.Parts[0].Name
	}
	s := ""
	for i, p := range n.Parts {
		if i > 0 {
			s += "."
		}
		s += p.Name
	}
	return s
}

// Base returns the last part.
func (n Name) Base() string {
	if len(n.Parts) == 0 {
		return ""
	}
	return n.Parts[len(n.Parts)-1].Name
}
