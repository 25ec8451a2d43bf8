package expr

import (
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func logicFunctions() []*Function {
	boolean := "boolean, boolean -> boolean"
	fs := []*Function{
		{
			Name: "and", Family: "logic", Usage: "a AND b", Signature: boolean, infix: true,
			Doc: "false where an operand is false, else NULL where one is NULL", special: makeAndOr,
		},
		{
			Name: "or", Family: "logic", Usage: "a OR b", Signature: boolean, infix: true,
			Doc: "true where an operand is true, else NULL where one is NULL", special: makeAndOr,
		},
		{
			Name: "not", Aliases: []string{"!"}, Family: "logic", Usage: "NOT a", Signature: "boolean -> boolean", infix: true,
			Doc: "the opposite; NULL of NULL", make: makeNot,
		},
	}
	tests := []struct {
		name, doc string
		onNull    bool // the result for NULL
		onTrue    bool // the result for true (booleans) or for any value
		onFalse   bool
		boolean   bool
	}{
		{"is null", "whether the value is NULL", true, false, false, false},
		{"is not null", "whether the value is not NULL", false, true, true, false},
		{"is true", "whether the value is true, false for NULL", false, true, false, true},
		{"is not true", "whether the value is false or NULL", true, false, true, true},
		{"is false", "whether the value is false, false for NULL", false, false, true, true},
		{"is not false", "whether the value is true or NULL", true, true, false, true},
	}
	for _, t := range tests {
		sig := "any -> boolean"
		if t.boolean {
			sig = "boolean -> boolean"
		}
		fs = append(fs, &Function{
			Name: t.name, Family: "logic", Usage: "a " + t.name, Signature: sig, Doc: t.doc,
			infix: true, lenient: true,
			make: func(*compiler, *FuncCall) (kernel, error) { return testKernel(t.onNull, t.onTrue, t.onFalse), nil },
		})
	}
	for name, to := range map[string]string{"isnull": "is null", "isnotnull": "is not null"} {
		fs = append(fs, &Function{
			Name: name, Family: "logic", Usage: name + "(a)", Signature: "any -> boolean", Doc: "the same as a " + to,
			bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(1, 1); err != nil {
					return nil, err
				}
				return b.call(to, b.args[0])
			},
		})
	}
	return fs
}

// testKernel gives one of three results for NULL, true (or any other value) and
// false.
func testKernel(onNull, onTrue, onFalse bool) kernel {
	return func(x *exec) error {
		v := x.args[0]
		if v.isConst() || v.col.Type().Kind == messages.Null {
			for i := range x.f.n {
				x.i = i
				switch {
				case v.null(i):
					x.setBool(onNull)
				case onTrue == onFalse:
					x.setBool(onTrue)
				default:
					x.setBool(v.col.Bool(i&v.mask) == onTrue)
				}
			}
			return nil
		}
		bits := x.out.Bits()
		fillTest(bits, v.col, onTrue, onFalse)
		if valid := v.col.Validity(); valid != nil {
			for i := range bits {
				if onNull {
					bits[i] |= ^valid[i]
				} else {
					bits[i] &= valid[i]
				}
			}
		}
		return nil
	}
}

func fillTest(bits []byte, c *messages.Column, onTrue, onFalse bool) {
	switch {
	case onTrue && onFalse:
		for i := range bits {
			bits[i] = 0xff
		}
	case !onTrue && !onFalse:
		clear(bits)
	default:
		copy(bits, c.Bits())
		negate(bits, onFalse)
	}
}

func makeNot(*compiler, *FuncCall) (kernel, error) {
	return func(x *exec) error {
		if x.args[0].isConst() {
			return x.each(func(x *exec) error { x.setBool(!x.boolean(0)); return nil })
		}
		bits := x.out.Bits()
		copy(bits, x.args[0].col.Bits())
		negate(bits, true)
		return nil
	}, nil
}

// andOr is AND, or OR as the AND of opposites. If the right operand can fail or is
// costly it is evaluated only for the rows the left one leaves open.
type andOr struct {
	left, right program
	or          bool
	narrow      bool
	f           frame
	sel         []int32
	out         messages.Column
	leftBits    truth
}

// truth holds, per row, whether a value is true and whether it is false; NULL is
// neither.
type truth struct{ yes, no []byte }

func makeAndOr(c *compiler, n *FuncCall) (program, error) {
	ps, err := c.compileAll(n.Args)
	if err != nil {
		return nil, err
	}
	return &andOr{left: ps[0], right: ps[1], or: n.Func.Name == "or", narrow: risky(n.Args[1])}, nil
}

func (p *andOr) eval(f *frame) (vec, error) {
	v, err := p.left.eval(f)
	if err != nil {
		return vec{}, err
	}
	p.leftBits.load(v, f.n)
	g := f
	if p.narrow {
		open := p.leftBits.no // rows that decide an AND
		if p.or {
			open = p.leftBits.yes
		}
		p.sel = appendUnset(p.sel[:0], f, open)
		p.f = f.narrowed(p.sel)
		g = &p.f
	}
	var w vec
	if g == f || len(p.sel) > 0 {
		if w, err = p.right.eval(g); err != nil {
			return vec{}, err
		}
	}
	p.out.Reset(messages.T(messages.Boolean))
	p.out.Resize(f.n)
	p.combine(w)
	return column(&p.out), nil
}

// combine writes the result from leftBits and the right operand, whose column is nil
// when the left one has decided every row.
func (p *andOr) combine(w vec) {
	l := &p.leftBits
	bits := p.out.Bits()
	var constYes, constNo byte
	var vals, valid []byte
	switch {
	case w.col == nil:
	case w.isConst() || w.col.Type().Kind == messages.Null:
		if !w.col.IsNull(0) {
			constYes = 0xff * bit(w.col.Bool(0))
			constNo = ^constYes
		}
	default:
		vals, valid = w.col.Bits(), w.col.Validity()
	}
	nulls := false
	var out []byte
	for i := range bits {
		ry, rn := constYes, constNo
		if vals != nil {
			ry, rn = vals[i], ^vals[i]
			if valid != nil {
				ry &= valid[i]
				rn &= valid[i]
			}
		}
		yes, no := l.yes[i]&ry, l.no[i]|rn
		if p.or {
			yes, no = l.yes[i]|ry, l.no[i]&rn
		}
		// Rows the right operand was not evaluated for hold garbage on its side;
		// the left one must win there.
		if p.narrow {
			if p.or {
				no &^= l.yes[i]
			} else {
				yes &^= l.no[i]
			}
		}
		bits[i] = yes
		if known := yes | no; known != 0xff {
			if !nulls {
				nulls = true
				out = p.out.EnsureValidity()
			}
			out[i] = known
		}
	}
}

// load splits a boolean vector into its two truth bitmaps.
func (t *truth) load(v vec, n int) {
	size := messages.BitmapLen(n)
	t.yes, t.no = room(t.yes, size), room(t.no, size)
	if v.isConst() || v.col.Type().Kind == messages.Null {
		yes, no := byte(0), byte(0)
		if !v.col.IsNull(0) {
			yes = 0xff * bit(v.col.Bool(0))
			no = ^yes
		}
		for i := range t.yes {
			t.yes[i], t.no[i] = yes, no
		}
		return
	}
	vals, valid := v.col.Bits(), v.col.Validity()
	if valid == nil {
		for i := range t.yes {
			t.yes[i], t.no[i] = vals[i], ^vals[i]
		}
		return
	}
	for i := range t.yes {
		t.yes[i], t.no[i] = vals[i]&valid[i], ^vals[i]&valid[i]
	}
}

// room returns s with length n and unspecified content.
func room[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 2*cap(s), 64))
	}
	return s[:n]
}

// appendUnset appends the selected rows whose bit is not set.
func appendUnset(dst []int32, f *frame, bits []byte) []int32 {
	if f.sel == nil {
		for i := range f.n {
			if !messages.BitSet(bits, i) {
				dst = append(dst, int32(i))
			}
		}
		return dst
	}
	for _, i := range f.sel {
		if !messages.BitSet(bits, int(i)) {
			dst = append(dst, i)
		}
	}
	return dst
}
