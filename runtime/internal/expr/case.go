package expr

import (
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// choice puts a column together from several, each taken for some of the rows.
type choice struct {
	typ  messages.Type
	vecs []vec
	sels [][]int32 // rows of each; filled anew for every batch
	rest [2][]int32
	pick []int32
	f    frame
	out  messages.Column
	null *constant
}

func newChoice(t messages.Type, n int) choice {
	return choice{typ: t, vecs: make([]vec, n), sels: make([][]int32, n), null: nullConst(t)}
}

// caseProgram is CASE: each condition is evaluated for the rows no earlier one took,
// each result for the rows that take it.
type caseProgram struct {
	choice
	conds   []program
	results []program // the last is ELSE
	truth   truth
}

func (c *compiler) caseOf(n *Case) (program, error) {
	p := &caseProgram{choice: newChoice(n.Of, len(n.Whens)+1)}
	for _, w := range n.Whens {
		cond, err := c.compile(w.Cond)
		if err != nil {
			return nil, err
		}
		result, err := c.compile(w.Result)
		if err != nil {
			return nil, err
		}
		p.conds, p.results = append(p.conds, cond), append(p.results, result)
	}
	last, err := c.compile(n.Else)
	if err != nil {
		return nil, err
	}
	p.results = append(p.results, last)
	return c.settle(n, p), nil
}

func (p *caseProgram) eval(f *frame) (vec, error) {
	rest := *f
	for k := range p.results {
		p.sels[k] = p.sels[k][:0]
	}
	for k, cond := range p.conds {
		if rest.first() < 0 {
			break
		}
		p.f = rest
		v, err := cond.eval(&p.f)
		if err != nil {
			return vec{}, err
		}
		p.truth.load(v, f.n)
		p.split(&rest, k, p.truth.yes)
		if err := p.result(f, k); err != nil {
			return vec{}, err
		}
	}
	k := len(p.conds)
	if rest.sel == nil && f.sel == nil { // nothing was split off
		return p.results[k].eval(f)
	}
	p.sels[k] = append(p.sels[k], rest.sel...)
	if err := p.result(f, k); err != nil {
		return vec{}, err
	}
	return p.blend(f), nil
}

// result evaluates branch k for its rows.
func (p *caseProgram) result(f *frame, k int) (err error) {
	if len(p.sels[k]) == 0 {
		return nil
	}
	p.f = f.narrowed(p.sels[k])
	p.vecs[k], err = p.results[k].eval(&p.f)
	return err
}

// split moves the rows of rest whose bit is set to branch k.
func (p *choice) split(rest *frame, k int, bits []byte) {
	taken, left := p.sels[k], p.rest[k&1][:0]
	if left == nil {
		left = make([]int32, 0, max(64, rest.n)) // empty must not mean all
	}
	if rest.sel == nil {
		for i := range rest.n {
			if messages.BitSet(bits, i) {
				taken = append(taken, int32(i))
			} else {
				left = append(left, int32(i))
			}
		}
	} else {
		for _, i := range rest.sel {
			if messages.BitSet(bits, int(i)) {
				taken = append(taken, i)
			} else {
				left = append(left, i)
			}
		}
	}
	p.sels[k], p.rest[k&1] = taken, left
	rest.sel = left
}

// blend builds the result. When all rows come from one branch it is that one.
func (p *choice) blend(f *frame) vec {
	used, only := 0, 0
	for k := range p.sels {
		if len(p.sels[k]) > 0 {
			used++
			only = k
		}
	}
	switch used {
	case 0:
		return p.null.v
	case 1:
		return p.vecs[only]
	}
	p.out.Reset(p.typ)
	switch {
	case p.typ.Kind == messages.Boolean:
		p.out.Resize(f.n)
		p.blendBits()
		p.blendNulls()
	case p.typ.Kind.Width() > 0:
		p.out.Resize(f.n)
		p.blendFixed()
		p.blendNulls()
	default:
		p.blendOrdered(f)
	}
	return column(&p.out)
}

func (p *choice) blendBits() {
	bits := p.out.Bits()
	for k, sel := range p.sels {
		v := p.vecs[k]
		for _, i := range sel {
			putBit(bits, int(i), v.col.Bool(int(i)&v.mask))
		}
	}
}

func (p *choice) blendFixed() {
	for k, sel := range p.sels {
		if len(sel) == 0 {
			continue
		}
		v := p.vecs[k]
		switch p.typ.Kind.Width() {
		case 1:
			copyRows[int8](&p.out, v, sel)
		case 2:
			copyRows[int16](&p.out, v, sel)
		case 4:
			copyRows[int32](&p.out, v, sel)
		case 8:
			copyRows[int64](&p.out, v, sel)
		case 16:
			copyRows[messages.Decimal128](&p.out, v, sel)
		}
	}
}

func copyRows[T any](out *messages.Column, v vec, sel []int32) {
	dst, src := values[T](out), values[T](v.col)
	if v.isConst() {
		c := src[0]
		for _, i := range sel {
			dst[i] = c
		}
		return
	}
	for _, i := range sel {
		dst[i] = src[i]
	}
}

func (p *choice) blendNulls() {
	for k, sel := range p.sels {
		v := p.vecs[k]
		if len(sel) == 0 || v.col.Validity() == nil {
			continue
		}
		for _, i := range sel {
			if v.null(int(i)) {
				p.out.SetNull(int(i))
			}
		}
	}
}

// blendOrdered appends row by row, for types whose values have no fixed place.
func (p *choice) blendOrdered(f *frame) {
	p.pick = room(p.pick, f.n)
	for i := range p.pick {
		p.pick[i] = -1
	}
	for k, sel := range p.sels {
		for _, i := range sel {
			p.pick[i] = int32(k)
		}
	}
	if p.typ.Kind == messages.String || p.typ.Kind == messages.Binary {
		p.blendText(f.n)
		return
	}
	for i, k := range p.pick {
		if k < 0 {
			p.out.AppendNull()
			continue
		}
		p.out.AppendFrom(p.vecs[k].col, i&p.vecs[k].mask)
	}
}

func (p *choice) blendText(n int) {
	p.out.Resize(n)
	off, data := p.out.Offsets(), p.out.Data()[:0]
	for i, k := range p.pick {
		if k >= 0 {
			v := p.vecs[k]
			if v.null(i) {
				p.out.SetNull(i)
			} else {
				data = append(data, v.col.Bytes(i&v.mask)...)
			}
		}
		off[i+1] = int32(len(data))
	}
	p.out.SetData(data)
}

// coalesceProgram evaluates each argument for the rows where all earlier ones are
// NULL.
type coalesceProgram struct {
	choice
	args []program
}

func makeCoalesce(c *compiler, n *FuncCall) (program, error) {
	args, err := c.compileAll(n.Args)
	if err != nil {
		return nil, err
	}
	return &coalesceProgram{choice: newChoice(n.Of, len(args)), args: args}, nil
}

func (p *coalesceProgram) eval(f *frame) (vec, error) {
	rest := *f
	for k := range p.sels {
		p.sels[k] = p.sels[k][:0]
	}
	for k, a := range p.args {
		if rest.first() < 0 {
			break
		}
		p.f = rest
		v, err := a.eval(&p.f)
		if err != nil {
			return vec{}, err
		}
		p.vecs[k] = v
		last := k == len(p.args)-1
		if v.col.Validity() == nil || last {
			if rest.sel == nil {
				return v, nil
			}
			p.sels[k] = append(p.sels[k], rest.sel...)
			break
		}
		if v.isConst() { // a NULL
			continue
		}
		p.split(&rest, k, v.col.Validity())
	}
	return p.blend(f), nil
}

func conditionalFunctions() []*Function {
	return []*Function{
		{
			Name: "coalesce", Family: "conditional", Usage: "coalesce(a, ...)", Signature: "any, ... -> $0",
			Doc: "the first argument that is not NULL", bind: bindCommon(1), special: makeCoalesce,
		},
		{
			Name: "ifnull", Aliases: []string{"nvl"}, Family: "conditional", Usage: "ifnull(a, b)", Signature: "any, any -> $0",
			Doc: "a, or b where a is NULL", bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(2, 2); err != nil {
					return nil, err
				}
				return b.call("coalesce", b.args...)
			},
		},
		{
			Name: "nvl2", Family: "conditional", Usage: "nvl2(a, b, c)", Signature: "any, any, any -> $1",
			Doc: "b where a is not NULL, else c", bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(3, 3); err != nil {
					return nil, err
				}
				cond, err := b.call("is not null", b.args[0])
				if err != nil {
					return nil, err
				}
				return b.caseOf([]When{{cond, b.args[1]}}, b.args[2])
			},
		},
		{
			Name: "nullif", Family: "conditional", Usage: "nullif(a, b)", Signature: "any, any -> $0",
			Doc: "NULL where a equals b, else a", bind: bindNullIf,
		},
		{
			Name: "nullifzero", Family: "conditional", Usage: "nullifzero(a)", Signature: "number -> $0",
			Doc: "NULL where a is 0, else a", bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(1, 1); err != nil {
					return nil, err
				}
				return b.call("nullif", b.args[0], Int(0))
			},
		},
		{
			Name: "zeroifnull", Family: "conditional", Usage: "zeroifnull(a)", Signature: "number -> $0",
			Doc: "0 where a is NULL, else a", bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(1, 1); err != nil {
					return nil, err
				}
				return b.call("coalesce", b.args[0], Int(0))
			},
		},
		{
			Name: "if", Aliases: []string{"iff"}, Family: "conditional", Usage: "if(cond, a, b)", Signature: "boolean, any, any -> $1",
			Doc: "a where cond is true, else b; only the one needed is evaluated", bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(3, 3); err != nil {
					return nil, err
				}
				return b.caseOf([]When{{b.args[0], b.args[1]}}, b.args[2])
			},
		},
	}
}

func bindNullIf(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	cond, err := b.call("=", b.args[0], b.args[1])
	if err != nil {
		return nil, err
	}
	return b.caseOf([]When{{cond, NullOf(b.typ(0))}}, b.args[0])
}

// bindCommon gives all arguments their common type.
func bindCommon(minimum int) func(b *binding) (Node, *sql.Error) {
	return func(b *binding) (Node, *sql.Error) {
		if err := b.count(minimum, -1); err != nil {
			return nil, err
		}
		t, ok := b.commonOf(b.args)
		if !ok {
			return nil, b.mismatch()
		}
		for i := range b.args {
			b.coerce(i, t)
		}
		return b.result(t)
	}
}

// caseOf builds a CASE with checked conditions and a common type of the results.
func (b *binding) caseOf(whens []When, last Node) (Node, *sql.Error) {
	results := []Node{last}
	for _, w := range whens {
		results = append(results, w.Result)
		if k := w.Cond.Type().Kind; k != messages.Boolean && k != messages.Null && k != messages.String {
			return nil, &sql.Error{Class: ClassMismatch, Msg: "the condition " + w.Cond.String() + " is " + w.Cond.Type().String() + ", not boolean"}
		}
	}
	t, ok := b.commonOf(results)
	if !ok {
		types := ""
		for i, r := range results {
			if i > 0 {
				types += ", "
			}
			types += r.Type().String()
		}
		return nil, &sql.Error{Class: ClassMismatch, Msg: "the results have no common type: " + types, Hint: "cast them to one type"}
	}
	c := &Case{Else: convert(last, t), Of: t}
	for _, w := range whens {
		c.Whens = append(c.Whens, When{convert(w.Cond, messages.T(messages.Boolean)), convert(w.Result, t)})
	}
	return c, nil
}
