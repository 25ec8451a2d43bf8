package expr

import (
	"errors"
	"fmt"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Options say how expressions behave. The zero value is ANSI mode in UTC.
type Options struct {
	// NonANSI turns off ANSI mode: casts and arithmetic that fail give NULL, and
	// integers wrap around.
	NonANSI bool
	// Zone is the session time zone; nil is UTC.
	Zone *time.Location
	// Now is the clock for batches that carry no arrival times. It is asked once per
	// evaluation. Without it current_timestamp is NULL for such batches.
	Now func() messages.EventTime
	// Seed is the query's share of the randomness of rand and uuid. Runs with the
	// same seed over the same row identities give the same values.
	Seed uint64
}

// Compile turns n into an expression for one operator instance.
func Compile(n Node, opts Options) (operator.Expr, error) {
	if c, ok := n.(*Column); ok {
		return operator.ColumnRef{Index: c.Index, Of: c.Of}, nil
	}
	c := &compiler{opts: opts, zone: newZone(opts.Zone)}
	p, err := c.compile(n)
	if err != nil {
		return nil, err
	}
	return &compiled{typ: n.Type(), p: p, text: n.String()}, nil
}

// compiled is the operator.Expr of a node.
type compiled struct {
	typ  messages.Type
	p    program
	f    frame
	full messages.Column // a constant, repeated
	text string
}

// Type returns the type of the result.
func (e *compiled) Type() messages.Type { return e.typ }

// String describes the expression.
func (e *compiled) String() string { return e.text }

// Eval evaluates the expression for the selected rows of b.
func (e *compiled) Eval(b *messages.Batch) (*messages.Column, error) {
	e.f = frame{b: b, n: b.Len(), sel: b.Selection()}
	v, err := e.p.eval(&e.f)
	if err != nil {
		return nil, err
	}
	if !v.isConst() {
		return v.col, nil
	}
	e.full.Reset(e.typ)
	repeat(&e.full, v.col, e.f.n)
	return &e.full, nil
}

// repeat appends the only value of c n times to out.
func repeat(out, c *messages.Column, n int) {
	if c.IsNull(0) || out.Type().Kind.Width() == 0 {
		for range n {
			out.AppendFrom(c, 0)
		}
		return
	}
	out.Resize(n)
	src, dst := c.FixedBytes(), out.FixedBytes()
	for i := 0; i < len(dst); i += len(src) {
		copy(dst[i:], src)
	}
}

// compiler turns nodes into programs.
type compiler struct {
	opts Options
	zone zone
}

func (c *compiler) mode() mode {
	if c.opts.NonANSI {
		return legacy
	}
	return raise
}

func (c *compiler) compile(n Node) (program, error) {
	switch n := n.(type) {
	case *Column:
		return &columnProgram{index: n.Index}, nil
	case *Literal:
		return constOf(n.value), nil
	case *FuncCall:
		return c.call(n)
	case *Cast:
		return c.cast(n)
	case *Case:
		return c.caseOf(n)
	case *Field:
		return c.field(n)
	case *Variable:
		return &variableProgram{v: n}, nil
	case *Lambda:
		return nil, internalError("a lambda stands where a value is needed")
	}
	return nil, fault.New(fault.Internal, "compile expression: unknown node %T", n)
}

func (c *compiler) compileAll(nodes []Node) ([]program, error) {
	out := make([]program, len(nodes))
	for i, n := range nodes {
		p, err := c.compile(n)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

func (c *compiler) call(n *FuncCall) (program, error) {
	if n.Func.special != nil {
		p, err := n.Func.special(c, n)
		if err != nil {
			return nil, err
		}
		return c.settle(n, p), nil
	}
	for _, a := range n.Args {
		if a.Type().Kind == messages.Null && !n.Func.lenient {
			return nullConst(n.Of), nil
		}
	}
	args, err := c.compileAll(n.Args)
	if err != nil {
		return nil, err
	}
	if n.Func.make == nil {
		return nil, fault.New(fault.Internal, "compile expression: function %s cannot be evaluated", n.Func.Name)
	}
	k, err := n.Func.make(c, n)
	if err != nil {
		return nil, err
	}
	return c.settle(n, c.kernelCall(args, n.Of, k, n.Func)), nil
}

// kernelCall is the program that computes arguments and applies a kernel.
func (c *compiler) kernelCall(args []program, t messages.Type, k kernel, f *Function) *call {
	p := &call{args: args, typ: t, k: k, null: nullConst(t)}
	p.x.args = make([]vec, len(args))
	p.x.mode, p.x.zone = c.mode(), c.zone
	if f != nil {
		p.lenient = f.lenient
		if f.try {
			p.x.mode = toNull
		}
	}
	return p
}

// settle computes a program that depends on nothing once and for all. An error is
// kept for the first row that asks for the value.
func (c *compiler) settle(n Node, p program) program {
	if _, ok := p.(*constant); ok || !fixed(n) {
		return p
	}
	v, err := p.eval(&frame{n: 1})
	if err != nil {
		var at *operator.RowError
		if errors.As(err, &at) {
			err = at.Err
		}
		return &failing{typ: n.Type(), err: err}
	}
	return constOf(NewLiteral(v.col, 0).value)
}

// fixed reports whether n depends on no row.
func fixed(n Node) bool {
	ok := true
	Walk(n, func(n Node) bool {
		switch n := n.(type) {
		case *Column, *Lambda, *Variable:
			ok = false
		case *FuncCall:
			ok = ok && !n.Func.volatile
		default: // as what is below it
		}
		return ok
	})
	return ok
}

// Fold replaces the parts of n that depend on no row by their values. Parts that
// cannot be evaluated stay, so that the error comes only for a row that needs them;
// branches of CASE that are never taken go.
func Fold(n Node, opts Options) Node {
	c := &compiler{opts: opts, zone: newZone(opts.Zone)}
	return Transform(n, func(n Node) Node { return c.fold(n) })
}

func (c *compiler) fold(n Node) Node {
	switch n := n.(type) {
	case *Column, *Literal, *Lambda, *Variable:
		return n
	case *Case:
		if s := simplerCase(n); s != nil {
			return s
		}
	case *Cast, *Field, *FuncCall:
	}
	if !fixed(n) {
		return n
	}
	p, err := c.compile(n)
	if err != nil {
		return n
	}
	if k, ok := p.(*constant); ok {
		return &Literal{value: k.v.col}
	}
	return n
}

// simplerCase drops branches whose condition is a constant; nil when there is none.
func simplerCase(n *Case) Node {
	out := &Case{Else: n.Else, Of: n.Of}
	for _, w := range n.Whens {
		lit, ok := w.Cond.(*Literal)
		if !ok {
			out.Whens = append(out.Whens, w)
			continue
		}
		if yes, _ := lit.Truth(); yes {
			out.Else = w.Result
			break
		}
	}
	switch len(out.Whens) {
	case len(n.Whens):
		return nil
	case 0:
		return out.Else
	}
	return out
}

// columnProgram is a column of the batch; inside a lambda, its value for the row each
// element belongs to.
type columnProgram struct {
	index int
	out   messages.Column
	idx   []int32
}

func (p *columnProgram) eval(f *frame) (vec, error) {
	c := column(f.b.Column(p.index))
	if f.parent == nil {
		return c, nil
	}
	p.idx = f.rowsIn(f.top(), p.idx)
	return gatherRows(&p.out, c, p.idx), nil
}

// fieldProgram is a field of a struct.
type fieldProgram struct {
	x     program
	index int
	out   messages.Column
	typ   messages.Type
}

func (c *compiler) field(n *Field) (program, error) {
	x, err := c.compile(n.X)
	if err != nil {
		return nil, err
	}
	return c.settle(n, &fieldProgram{x: x, index: n.Index, typ: n.Type()}), nil
}

func (p *fieldProgram) eval(f *frame) (vec, error) {
	v, err := p.x.eval(f)
	if err != nil {
		return vec{}, err
	}
	child := v.col.Child(p.index)
	if v.col.Validity() == nil {
		return vec{child, v.mask}, nil
	}
	// A field of a NULL struct is NULL whatever its slot holds.
	p.out.Reset(p.typ)
	n := child.Len()
	for i := range n {
		if v.col.IsNull(i) {
			p.out.AppendNull()
		} else {
			p.out.AppendFrom(child, i)
		}
	}
	return vec{&p.out, v.mask}, nil
}

// risky reports whether evaluating n can fail for a row or is worth avoiding, so
// that it must be limited to the rows that need it.
func risky(n Node) bool {
	found := false
	Walk(n, func(n Node) bool {
		switch n := n.(type) {
		case *FuncCall:
			found = found || n.Func.fails && !n.Func.try && !(n.Func.safeFloat && isFloat(n.Of.Kind)) || n.Func.costly
		case *Cast:
			found = found || castFails(n.X.Type(), n.To) || n.To.Kind == messages.String
		default: // no more than what is below it
		}
		return !found
	})
	return found
}

func internalError(format string, args ...any) error {
	return fault.New(fault.Internal, "expression: %s", fmt.Sprintf(format, args...))
}
