package expr

import (
	"errors"
	"strings"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Lambda is an argument of a higher-order function: an expression with parameters,
// evaluated for every element of an array.
type Lambda struct {
	Params []string
	Types  []messages.Type
	// Level tells lambdas inside one another apart, from 1 for the outermost.
	Level int
	Body  Node
}

// Variable is parameter Index of the lambda at Level.
type Variable struct {
	Name  string
	Of    messages.Type
	Level int
	Index int
}

// Type returns the type of the body.
func (n *Lambda) Type() messages.Type { return n.Body.Type() }

// Type returns the type of the parameter.
func (n *Variable) Type() messages.Type { return n.Of }

// String writes the lambda as SQL.
func (n *Lambda) String() string {
	if len(n.Params) == 1 {
		return n.Params[0] + " -> " + n.Body.String()
	}
	return "(" + strings.Join(n.Params, ", ") + ") -> " + n.Body.String()
}

// String returns the parameter's name.
func (n *Variable) String() string { return n.Name }

func (*Lambda) node()   {}
func (*Variable) node() {}

// lambdaScope holds the parameters of a lambda being resolved.
type lambdaScope struct {
	params []sql.Ident
	types  []messages.Type
}

// parameter returns the lambda parameter a name stands for, or nil. Inner lambdas
// hide outer ones, and both hide columns.
func (r *resolver) parameter(e *sql.ColumnRef) Node {
	for level := len(r.lambdas); level > 0; level-- {
		l := r.lambdas[level-1]
		for i, p := range l.params {
			if strings.EqualFold(p.Name, e.Parts[0].Name) {
				return &Variable{Name: p.Name, Of: l.types[i], Level: level, Index: i}
			}
		}
	}
	return nil
}

// lambda resolves an argument that is a lambda, whose parameters have the types the
// function gives them.
func (r *resolver) lambda(f *Function, l *sql.Lambda, before []Node) (Node, *sql.Error) {
	types, ok := f.lambda(before, len(l.Params))
	if !ok {
		return nil, &sql.Error{Class: ClassMismatch, Msg: f.Name + " does not take this lambda here", Hint: "usage: " + f.Usage, Span: l.Span}
	}
	r.lambdas = append(r.lambdas, lambdaScope{l.Params, types})
	level := len(r.lambdas)
	body, err := r.expr(l.Body)
	r.lambdas = r.lambdas[:level-1]
	if err != nil {
		return nil, err
	}
	if chance := seededCall(body); chance != "" {
		return nil, &sql.Error{Class: ClassUnsupported, Msg: chance + " cannot be used inside a lambda", Span: l.Span}
	}
	names := make([]string, len(l.Params))
	for i, p := range l.Params {
		names[i] = p.Name
	}
	return &Lambda{Params: names, Types: types, Level: level, Body: body}, nil
}

// seededCall is the name of a function in n that depends on chance.
func seededCall(n Node) (name string) {
	Walk(n, func(n Node) bool {
		if c, ok := n.(*FuncCall); ok && c.Func.seeded {
			name = c.Func.Name
		}
		return name == ""
	})
	return name
}

func lambdaFunctions() []*Function {
	// The element, and with a second parameter its index.
	params := func(before []Node, n int) ([]messages.Type, bool) {
		if len(before) != 1 || before[0].Type().Kind != messages.Array || n < 1 || n > 2 {
			return nil, false
		}
		return []messages.Type{*before[0].Type().Elem, messages.T(messages.Int)}[:n], true
	}
	test := func(name, doc string, result func(array messages.Type) messages.Type, finish func(x *exec, h *higher) error) *Function {
		return &Function{
			Name: name, Family: "collection", Usage: name + "(array, x -> condition)", Signature: "array, lambda -> " + name, Doc: doc,
			costly: true, fails: true, lambda: params, bind: bindHigher(messages.T(messages.Boolean), result), special: makeHigher(finish),
		}
	}
	same := func(t messages.Type) messages.Type { return t }
	truth := func(messages.Type) messages.Type { return messages.T(messages.Boolean) }
	return []*Function{
		{
			Name: "transform", Family: "collection", Usage: "transform(array, x -> expr) or transform(array, (x, i) -> expr)", Signature: "array, lambda -> array",
			Doc: "the array of the results for all elements", costly: true, fails: true, lambda: params, bind: bindHigher(messages.Type{}, nil), special: makeHigher(transformRow),
		},
		test("filter", "the array of the elements for which the condition is true", same, filterRow),
		test("exists", "whether the condition is true for an element; NULL if for none but NULL for one", truth, quantifier(true)),
		test("forall", "whether the condition is true for all elements; NULL if false for none but NULL for one", truth, quantifier(false)),
	}
}

// bindHigher checks the lambda's type, if one is asked for, and sets the result type;
// a nil result means an array of the lambda's values.
func bindHigher(body messages.Type, result func(array messages.Type) messages.Type) func(b *binding) (Node, *sql.Error) {
	return func(b *binding) (Node, *sql.Error) {
		if err := b.count(2, 2); err != nil {
			return nil, err
		}
		l, ok := b.args[1].(*Lambda)
		if !ok || b.kind(0) != messages.Array {
			return nil, b.mismatch()
		}
		if result == nil {
			return b.result(messages.ArrayType(l.Type()))
		}
		if k := l.Type().Kind; k != body.Kind && k != messages.Null {
			return nil, b.mismatch()
		}
		b.args[1] = &Lambda{Params: l.Params, Types: l.Types, Level: l.Level, Body: convert(l.Body, body)}
		return b.result(result(b.typ(0)))
	}
}

// higher is a function of an array and a lambda. The elements of all rows are put
// into columns, over which the body is evaluated once.
type higher struct {
	array  program
	body   program
	level  int
	types  []messages.Type
	typ    messages.Type
	finish func(x *exec, h *higher) error
	k      kernel
	x      exec
	out    messages.Column
	null   *constant

	f     frame
	rows  []int32 // row of each element
	start []int32 // first element of each row
	elems []messages.Column
	vals  vec // of the body
	at    int // of the row in work: its first element
	n     int // and how many it has
}

func makeHigher(finish func(x *exec, h *higher) error) func(*compiler, *FuncCall) (program, error) {
	return func(c *compiler, n *FuncCall) (program, error) {
		l, ok := n.Args[1].(*Lambda)
		if !ok {
			return nil, internalError("%s has no lambda", n.Func.Name)
		}
		array, err := c.compile(n.Args[0])
		if err != nil {
			return nil, err
		}
		body, err := c.compile(l.Body)
		if err != nil {
			return nil, err
		}
		h := &higher{array: array, body: body, level: l.Level, types: l.Types, typ: n.Of, finish: finish, null: nullConst(n.Of)}
		h.elems = make([]messages.Column, len(l.Types))
		h.x.args = make([]vec, 1)
		h.k = perRowFor(n.Of, h.row)
		return h, nil
	}
}

func (h *higher) eval(f *frame) (vec, error) {
	v, err := h.array.eval(f)
	if err != nil {
		return vec{}, err
	}
	if v.isConst() && v.col.IsNull(0) {
		return h.null.v, nil
	}
	h.gather(f, v)
	h.f = frame{b: f.b, n: len(h.rows), parent: f, rows: h.rows, params: h.elems, level: h.level}
	if h.f.n > 0 {
		if h.vals, err = h.body.eval(&h.f); err != nil {
			if at, ok := errors.AsType[*operator.RowError](err); ok {
				err = &operator.RowError{Row: int(h.rows[at.Row]), Err: at.Err}
			}
			return vec{}, err
		}
	}
	h.out.Reset(h.typ)
	h.out.Resize(f.n)
	h.x.args[0] = v
	h.x.f, h.x.out = f, &h.out
	if v.col.Validity() != nil && !v.isConst() {
		mergeNulls(&h.out, v)
	}
	if err := h.k(&h.x); err != nil {
		return vec{}, err
	}
	return column(&h.out), nil
}

// gather lists the elements of the selected rows.
func (h *higher) gather(f *frame, v vec) {
	h.rows = h.rows[:0]
	h.start = room(h.start, f.n)
	for i := range h.elems {
		h.elems[i].Reset(h.types[i])
	}
	put := func(i int) {
		h.start[i] = int32(len(h.rows))
		if v.null(i) {
			return
		}
		from, to := span(v.col, i&v.mask)
		for j := from; j < to; j++ {
			h.rows = append(h.rows, int32(i))
			h.elems[0].AppendFrom(v.col.Child(0), j)
			if len(h.elems) > 1 {
				h.elems[1].AppendInt32(int32(j - from))
			}
		}
	}
	if f.sel == nil {
		for i := range f.n {
			put(i)
		}
		return
	}
	for _, i := range f.sel {
		put(int(i))
	}
}

func (h *higher) row(x *exec) error {
	v := x.args[0]
	from, to := span(v.col, x.i&v.mask)
	h.at, h.n = int(h.start[x.i]), to-from
	return h.finish(x, h)
}

func transformRow(x *exec, h *higher) error {
	for j := h.at; j < h.at+h.n; j++ {
		x.out.Child(0).AppendFrom(h.vals.col, j&h.vals.mask)
	}
	return nil
}

func filterRow(x *exec, h *higher) error {
	for j := h.at; j < h.at+h.n; j++ {
		if !h.vals.null(j) && h.vals.col.Bool(j&h.vals.mask) {
			x.out.Child(0).AppendFrom(&h.elems[0], j)
		}
	}
	return nil
}

// quantifier ends at the first element for which the condition is as wanted.
func quantifier(want bool) func(x *exec, h *higher) error {
	return func(x *exec, h *higher) error {
		for j := h.at; j < h.at+h.n; j++ {
			if h.vals.null(j) {
				x.isNull = true
			} else if h.vals.col.Bool(j&h.vals.mask) == want {
				x.isNull = false
				x.setBool(want)
				return nil
			}
		}
		x.setBool(!want)
		return nil
	}
}

// variableProgram is a lambda parameter.
type variableProgram struct {
	v   *Variable
	out messages.Column
	idx []int32
}

func (p *variableProgram) eval(f *frame) (vec, error) {
	g := f
	for g.level != p.v.Level {
		if g = g.parent; g == nil {
			return vec{}, internalError("the parameter %s is used outside its lambda", p.v.Name)
		}
	}
	src := column(&g.params[p.v.Index])
	if g == f {
		return src, nil
	}
	p.idx = f.rowsIn(g, p.idx)
	return gatherRows(&p.out, src, p.idx), nil
}

// top is the frame of the batch.
func (f *frame) top() *frame {
	for f.parent != nil {
		f = f.parent
	}
	return f
}

// rowsIn maps the rows of f to those of an enclosing frame g.
func (f *frame) rowsIn(g *frame, idx []int32) []int32 {
	idx = append(idx[:0], f.rows...)
	for h := f.parent; h != g; h = h.parent {
		for i, r := range idx {
			idx[i] = h.rows[r]
		}
	}
	return idx
}

func gatherRows(out *messages.Column, src vec, idx []int32) vec {
	out.Reset(src.col.Type())
	for _, i := range idx {
		out.AppendFrom(src.col, int(i)&src.mask)
	}
	return column(out)
}
