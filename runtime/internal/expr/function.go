package expr

import (
	"slices"
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Error classes of resolving.
const (
	ClassUnresolvedColumn  = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
	ClassUnresolvedRoutine = "UNRESOLVED_ROUTINE"
	ClassAmbiguous         = "AMBIGUOUS_REFERENCE"
	ClassMismatch          = "DATATYPE_MISMATCH"
	ClassWrongNumArgs      = "WRONG_NUM_ARGS"
	ClassFieldNotFound     = "FIELD_NOT_FOUND"
	ClassUnsupported       = "UNSUPPORTED_EXPRESSION"
	ClassTypedLiteral      = "INVALID_TYPED_LITERAL"
)

// Function is a scalar function or operator: what documentation says of it, how
// arguments are matched, and how a call is compiled. Functions are immutable.
type Function struct {
	// Name is the name printed; Aliases are other names for the same.
	Name    string
	Aliases []string
	// Family groups functions in the reference: string, math, time, ...
	Family string
	// Usage is a call with named arguments, such as "left(str, len)".
	Usage string
	// Signature has the types: "string, int -> string"; alternatives are separated
	// by " | ", optional arguments stand in brackets, the last may repeat (...).
	Signature string
	// Doc says what the function returns.
	Doc string

	overloads []overload
	bind      func(b *binding) (Node, *sql.Error)
	make      func(c *compiler, n *FuncCall) (kernel, error)
	special   func(c *compiler, n *FuncCall) (program, error)
	infix     bool
	lenient   bool // looks at NULL arguments itself
	volatile  bool // depends on clock, row identity or chance
	fails     bool // may raise an error for a row
	try       bool // gives NULL where it would fail
	costly    bool // worth leaving out for rows that do not need it
	seeded    bool // takes a seed that a call without arguments gets from its place
	unitFirst bool // the first of three arguments is a unit of time
	safeFloat bool // cannot fail for floating-point results
	lambda    func(args []Node, i int) ([]messages.Type, bool)
}

// Registry is an immutable set of functions.
type Registry struct {
	byName map[string]*Function
	list   []*Function
}

// builtin holds all functions of this package.
var builtin = newRegistry(builtinFunctions())

// Builtins returns the registry of the functions built in.
func Builtins() *Registry { return builtin }

func newRegistry(functions []*Function) *Registry {
	r := &Registry{byName: make(map[string]*Function, 2*len(functions)), list: functions}
	for _, f := range functions {
		r.byName[f.Name] = f
		for _, a := range f.Aliases {
			r.byName[a] = f
		}
	}
	return r
}

// With returns a registry that also has the given functions; they take precedence.
func (r *Registry) With(functions ...*Function) *Registry {
	list := slices.Clone(r.list)
	for _, f := range functions {
		list = slices.DeleteFunc(list, func(o *Function) bool { return o.Name == f.Name })
	}
	return newRegistry(append(list, functions...))
}

// Lookup finds a function by name, without regard to case.
func (r *Registry) Lookup(name string) (*Function, bool) {
	f, ok := r.byName[strings.ToLower(name)]
	return f, ok
}

// Functions returns the functions that have a name one can write, sorted by name.
func (r *Registry) Functions() []*Function {
	out := slices.DeleteFunc(slices.Clone(r.list), func(f *Function) bool { return !isWord(f.Name) })
	slices.SortFunc(out, func(a, b *Function) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Names returns all names and aliases one can write, sorted.
func (r *Registry) Names() []string {
	var out []string
	for name := range r.byName {
		if isWord(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func isWord(name string) bool {
	return name[0] >= 'a' && name[0] <= 'z' && !strings.Contains(name, " ")
}

// Call resolves a call of a function or operator ("+", "and", "is null") by name,
// with arguments already typed: it picks the overload, adds casts and fixes the type.
// The error is a *sql.Error without position.
func (r *Registry) Call(name string, args ...Node) (Node, error) {
	n, err := r.call(name, args)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Call is Builtins().Call.
func Call(name string, args ...Node) (Node, error) { return builtin.Call(name, args...) }

func (r *Registry) call(name string, args []Node) (Node, *sql.Error) {
	f, ok := r.Lookup(name)
	if !ok {
		return nil, r.unknown(name, nil)
	}
	b := &binding{reg: r, fn: f, args: slices.Clone(args)}
	if f.bind != nil {
		return f.bind(b)
	}
	return b.matchOverload()
}

func (r *Registry) unknown(name string, more []string) *sql.Error {
	e := &sql.Error{Class: ClassUnresolvedRoutine, Msg: "there is no function " + name}
	if near, ok := sql.Nearest(name, append(r.Names(), more...)); ok {
		e.Hint = "did you mean " + near + "?"
	}
	return e
}

// format writes a call of f.
func (f *Function) format(args []Node) string {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.String()
	}
	switch word := strings.ToUpper(f.Name); {
	case f.infix && len(texts) == 2:
		return "(" + texts[0] + " " + word + " " + texts[1] + ")"
	case f.infix && strings.HasPrefix(f.Name, "is "):
		return "(" + texts[0] + " " + word + ")"
	case f.Name == "not":
		return "(NOT " + texts[0] + ")"
	case f.infix && len(texts) == 1:
		return "(" + word + " " + texts[0] + ")"
	case f.Name == "[]":
		return texts[0] + "[" + texts[1] + "]"
	case f.Name == "in":
		return "(" + texts[0] + " IN (" + strings.Join(texts[1:], ", ") + "))"
	}
	return f.Name + "(" + strings.Join(texts, ", ") + ")"
}

// binding is a call being resolved.
type binding struct {
	reg  *Registry
	fn   *Function
	args []Node
}

func (b *binding) typ(i int) messages.Type { return b.args[i].Type() }

func (b *binding) kind(i int) messages.Kind { return b.args[i].Type().Kind }

// result is the call with the arguments as they now are.
func (b *binding) result(t messages.Type) (Node, *sql.Error) {
	return &FuncCall{Func: b.fn, Args: b.args, Of: t}, nil
}

// coerce casts argument i to t where it has another type.
func (b *binding) coerce(i int, t messages.Type) { b.args[i] = convert(b.args[i], t) }

// convert casts n to t where it has another type.
func convert(n Node, t messages.Type) Node {
	if n.Type().Equal(t) {
		return n
	}
	if lit, ok := n.(*Literal); ok && lit.IsNull() {
		return NullOf(t)
	}
	return &Cast{X: n, To: t}
}

// call resolves another function for a rewriting.
func (b *binding) call(name string, args ...Node) (Node, *sql.Error) { return b.reg.call(name, args) }

func (b *binding) display() string {
	if !isWord(b.fn.Name) || b.fn.infix {
		return strings.ToUpper(b.fn.Name)
	}
	return b.fn.Name
}

// mismatch is the error for arguments of the wrong types.
func (b *binding) mismatch() *sql.Error {
	types := make([]string, len(b.args))
	for i, a := range b.args {
		types[i] = a.Type().String()
	}
	e := &sql.Error{Class: ClassMismatch, Msg: b.display() + " cannot be applied to (" + strings.Join(types, ", ") + ")"}
	if b.fn.Signature != "" {
		e.Hint = "it takes " + b.fn.Signature
	}
	return e
}

// count checks the number of arguments; maximum -1 means any.
func (b *binding) count(minimum, maximum int) *sql.Error {
	if n := len(b.args); n >= minimum && (maximum < 0 || n <= maximum) {
		return nil
	}
	return wrongCount(b.display(), b.fn.Usage, len(b.args), minimum, maximum)
}
