package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Node is a typed expression whose columns are bound to positions of its input.
// Nodes are immutable.
//
//sumtype:decl
type Node interface {
	// Type is the type of the value.
	Type() messages.Type
	// String writes the expression as SQL, with the names of its columns.
	String() string
	node()
}

// Column is column Index of the input.
type Column struct {
	Index int
	Name  string
	Of    messages.Type
}

// NewColumn returns a reference to a column of the input.
func NewColumn(index int, name string, of messages.Type) *Column {
	return &Column{Index: index, Name: name, Of: of}
}

// Literal is a constant.
type Literal struct {
	value *messages.Column // exactly one value; never written
	// from and to are the fields an interval literal was written with.
	from, to sql.IntervalUnit
}

// FuncCall applies a function or an operator.
type FuncCall struct {
	Func *Function
	Args []Node
	Of   messages.Type
}

// Cast is CAST(X AS To), or TRY_CAST with Try.
type Cast struct {
	X   Node
	To  messages.Type
	Try bool
}

// When is one branch of a Case.
type When struct{ Cond, Result Node }

// Case is CASE WHEN ... ELSE ... END; all results have its type.
type Case struct {
	Whens []When
	Else  Node
	Of    messages.Type
}

// Field is a field of a struct.
type Field struct {
	X     Node
	Index int
}

// Type returns the type of the column.
func (n *Column) Type() messages.Type { return n.Of }

// Type returns the type of the constant.
func (n *Literal) Type() messages.Type { return n.value.Type() }

// Type returns the type of the function's result.
func (n *FuncCall) Type() messages.Type { return n.Of }

// Type returns the target type.
func (n *Cast) Type() messages.Type { return n.To }

// Type returns the common type of the branches.
func (n *Case) Type() messages.Type { return n.Of }

// Type returns the type of the field.
func (n *Field) Type() messages.Type { return n.X.Type().Fields[n.Index].Type }

func (*Column) node()   {}
func (*Literal) node()  {}
func (*FuncCall) node() {}
func (*Cast) node()     {}
func (*Case) node()     {}
func (*Field) node()    {}

// String returns the column's name.
func (n *Column) String() string { return n.Name }

// String writes the constant as SQL.
func (n *Literal) String() string {
	if n.IsNull() {
		return "NULL"
	}
	text := string(appendValue(nil, n.value, 0, utcZone()))
	switch n.Type().Kind {
	case messages.Date:
		return "DATE '" + text + "'"
	case messages.Timestamp:
		return "TIMESTAMP '" + text + "'"
	case messages.TimestampNTZ:
		return "TIMESTAMP_NTZ '" + text + "'"
	case messages.Binary:
		return "X'" + strings.ToUpper(text) + "'"
	}
	return text
}

// String writes the call as SQL.
func (n *FuncCall) String() string { return n.Func.format(n.Args) }

// String writes the cast as SQL.
func (n *Cast) String() string {
	word := "CAST("
	if n.Try {
		word = "TRY_CAST("
	}
	return word + n.X.String() + " AS " + strings.ToUpper(n.To.String()) + ")"
}

// String writes the case as SQL.
func (n *Case) String() string {
	var b strings.Builder
	b.WriteString("CASE")
	for _, w := range n.Whens {
		b.WriteString(" WHEN " + w.Cond.String() + " THEN " + w.Result.String())
	}
	b.WriteString(" ELSE " + n.Else.String() + " END")
	return b.String()
}

// String writes the access as SQL.
func (n *Field) String() string { return n.X.String() + "." + n.X.Type().Fields[n.Index].Name }

// Children returns the direct operands of n in a new slice.
func Children(n Node) []Node {
	switch n := n.(type) {
	case *FuncCall:
		return slices.Clone(n.Args)
	case *Cast:
		return []Node{n.X}
	case *Field:
		return []Node{n.X}
	case *Lambda:
		return []Node{n.Body}
	case *Case:
		var out []Node
		for _, w := range n.Whens {
			out = append(out, w.Cond, w.Result)
		}
		return append(out, n.Else)
	case *Column, *Literal, *Variable:
	}
	return nil
}

// WithChildren returns n with other operands, in the order of Children and of the
// same types.
func WithChildren(n Node, children []Node) Node {
	switch n := n.(type) {
	case *FuncCall:
		return &FuncCall{Func: n.Func, Args: children, Of: n.Of}
	case *Cast:
		return &Cast{X: children[0], To: n.To, Try: n.Try}
	case *Field:
		return &Field{X: children[0], Index: n.Index}
	case *Lambda:
		return &Lambda{Params: n.Params, Types: n.Types, Level: n.Level, Body: children[0]}
	case *Case:
		c := &Case{Whens: make([]When, len(n.Whens)), Else: children[len(children)-1], Of: n.Of}
		for i := range c.Whens {
			c.Whens[i] = When{children[2*i], children[2*i+1]}
		}
		return c
	case *Column, *Literal, *Variable:
	}
	return n
}

// Transform rebuilds the tree from the leaves up: f is given each node with its
// operands already transformed and returns what takes its place, of the same type.
func Transform(n Node, f func(Node) Node) Node {
	children := Children(n)
	changed := false
	for i, c := range children {
		t := Transform(c, f)
		changed = changed || t != c
		children[i] = t
	}
	if changed {
		n = WithChildren(n, children)
	}
	return f(n)
}

// Walk calls f for n and everything below it, parents first, until f returns false
// for a node, whose operands are then left out.
func Walk(n Node, f func(Node) bool) {
	if !f(n) {
		return
	}
	for _, c := range Children(n) {
		Walk(c, f)
	}
}

// Columns returns the positions of the input columns that n reads, ascending.
func Columns(n Node) []int {
	var out []int
	Walk(n, func(n Node) bool {
		if c, ok := n.(*Column); ok {
			out = append(out, c.Index)
		}
		return true
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// Deterministic reports whether n depends on nothing but its columns: no clock, no
// random numbers, no row identity.
func Deterministic(n Node) bool {
	ok := true
	Walk(n, func(n Node) bool {
		if c, is := n.(*FuncCall); is && c.Func.volatile {
			ok = false
		}
		return ok
	})
	return ok
}

// Equal reports whether a and b are the same expression over the same columns; the
// names of columns do not count.
func Equal(a, b Node) bool { return a == b || Key(a) == Key(b) }

// Key returns a text that two nodes share exactly if they are Equal, for finding
// grouping expressions and common parts.
func Key(n Node) string { return string(appendKey(nil, n)) }

func appendKey(dst []byte, n Node) []byte {
	switch n := n.(type) {
	case *Column:
		return strconv.AppendInt(append(dst, '#'), int64(n.Index), 10)
	case *Literal:
		dst = append(append(dst, n.Type().String()...), ':')
		if n.IsNull() {
			return append(dst, "null"...)
		}
		return strconv.AppendQuote(dst, string(appendValue(nil, n.value, 0, utcZone())))
	case *FuncCall:
		dst = append(append(dst, n.Func.Name...), '(')
	case *Cast:
		dst = append(append(dst, "cast "...), n.To.String()...)
		if n.Try {
			dst = append(dst, " try"...)
		}
		dst = append(dst, '(')
	case *Field:
		dst = append(strconv.AppendInt(append(dst, "field "...), int64(n.Index), 10), '(')
	case *Case:
		dst = append(dst, "case("...)
	case *Variable:
		return strconv.AppendInt(append(strconv.AppendInt(append(dst, '$'), int64(n.Level), 10), '.'), int64(n.Index), 10)
	case *Lambda:
		dst = append(strconv.AppendInt(append(dst, "lambda "...), int64(len(n.Params)), 10), '(')
	}
	for i, c := range Children(n) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendKey(dst, c)
	}
	return append(dst, ')')
}
