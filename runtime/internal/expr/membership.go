package expr

import (
	"bytes"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func membershipFunctions() []*Function {
	return []*Function{{
		Name: "in", Family: "comparison", Usage: "x IN (a, ...)", Signature: "any, any, ... -> boolean",
		Doc: "whether x equals one of the values; NULL if it does not but x or one of them is NULL", costly: true,
		bind: bindIn, special: makeIn,
	}}
}

func bindIn(b *binding) (Node, *sql.Error) {
	if err := b.count(2, -1); err != nil {
		return nil, err
	}
	t, ok := b.commonOf(b.args)
	if !ok || !comparable(t) {
		return nil, b.mismatch()
	}
	for i := range b.args {
		b.coerce(i, t)
	}
	return b.result(messages.T(messages.Boolean))
}

// makeIn uses a set where the values are constants, and otherwise compares one after
// the other.
func makeIn(c *compiler, n *FuncCall) (program, error) {
	args, err := c.compileAll(n.Args)
	if err != nil {
		return nil, err
	}
	t := n.Args[0].Type()
	hasNull := false
	var consts []*messages.Column
	for _, a := range args[1:] {
		k, ok := a.(*constant)
		if !ok {
			return inChain(c, args), nil
		}
		if k.v.col.IsNull(0) {
			hasNull = true
		} else {
			consts = append(consts, k.v.col)
		}
	}
	k := setKernel(t, consts)
	if hasNull {
		k = nullUnlessTrue(k)
	}
	return c.kernelCall(args[:1], n.Of, k, nil), nil
}

// setKernel tests membership in a set of constants.
func setKernel(t messages.Type, consts []*messages.Column) kernel {
	switch t.Kind {
	case messages.String, messages.Binary:
		set := make(map[string]bool, len(consts))
		for _, c := range consts {
			set[string(c.Bytes(0))] = true
		}
		if len(consts) > 8 {
			return perRow(func(x *exec) error { x.setBool(set[x.str(0)]); return nil })
		}
		return perRow(func(x *exec) error {
			s, found := x.bytes(0), false
			for _, c := range consts {
				found = found || bytes.Equal(s, c.Bytes(0))
			}
			x.setBool(found)
			return nil
		})
	case messages.TinyInt:
		return intSet[int8](consts)
	case messages.SmallInt:
		return intSet[int16](consts)
	case messages.Int, messages.Date:
		return intSet[int32](consts)
	case messages.BigInt, messages.Timestamp, messages.TimestampNTZ:
		return intSet[int64](consts)
	}
	return perRow(func(x *exec) error {
		v := x.args[0]
		found := false
		for _, c := range consts {
			found = found || messages.Compare(v.col, x.i&v.mask, c, 0) == 0
		}
		x.setBool(found)
		return nil
	})
}

func intSet[T integer](consts []*messages.Column) kernel {
	set := make(map[T]bool, len(consts))
	list := make([]T, 0, len(consts))
	for _, c := range consts {
		set[values[T](c)[0]] = true
		list = append(list, values[T](c)[0])
	}
	return func(x *exec) error {
		v := x.args[0]
		a, bits := values[T](v.col), x.out.Bits()
		clear(bits)
		for i := range x.f.n {
			w := a[i&v.mask]
			found := false
			if len(list) <= 8 {
				for _, c := range list {
					found = found || c == w
				}
			} else {
				found = set[w]
			}
			bits[i>>3] |= bit(found) << (i & 7)
		}
		return nil
	}
}

// nullUnlessTrue is for a list with a NULL: what is not found is unknown.
func nullUnlessTrue(k kernel) kernel {
	return func(x *exec) error {
		if err := k(x); err != nil {
			return err
		}
		valid, bits := x.out.EnsureValidity(), x.out.Bits()
		for i := range bits {
			valid[i] &= bits[i]
		}
		return nil
	}
}

// inChain compares with computed values. All are evaluated: unlike OR, IN has no
// order of evaluation.
func inChain(c *compiler, args []program) program {
	f := &Function{lenient: true}
	p := c.kernelCall(args, messages.T(messages.Boolean), perRow(func(x *exec) error {
		v := x.args[0]
		if x.null(0) {
			x.isNull = true
			return nil
		}
		for _, w := range x.args[1:] {
			switch {
			case w.null(x.i):
				x.isNull = true
			case messages.Compare(v.col, x.i&v.mask, w.col, x.i&w.mask) == 0:
				x.isNull = false
				x.setBool(true)
				return nil
			}
		}
		x.setBool(false)
		return nil
	}), f)
	return p
}
