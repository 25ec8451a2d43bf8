package expr

import (
	"errors"
	"unsafe"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// frame is the set of rows an evaluation is for: those of a batch, or fewer where a
// branch is evaluated only for the rows that take it.
type frame struct {
	b   *messages.Batch // nil when a constant is computed
	n   int             // physical rows
	sel []int32         // selected rows, ascending; nil: all

	// Inside a lambda the rows are elements of arrays: rows has the row of parent
	// that each belongs to, params the lambda's parameters. Both are of the frame
	// that the innermost lambda at level made.
	parent *frame
	rows   []int32
	params []messages.Column
	level  int
}

// narrowed is f for fewer rows.
func (f *frame) narrowed(sel []int32) frame {
	g := *f
	g.sel = sel
	return g
}

// first is the first selected row, or -1.
func (f *frame) first() int {
	switch {
	case f.sel == nil && f.n > 0:
		return 0
	case len(f.sel) > 0:
		return int(f.sel[0])
	}
	return -1
}

// vec is a column, or a constant standing for a column: row i is value i&mask.
type vec struct {
	col  *messages.Column
	mask int // -1 for a column, 0 for a constant
}

func column(c *messages.Column) vec { return vec{c, -1} }

func (v vec) isConst() bool { return v.mask == 0 }

func (v vec) null(i int) bool { return v.col.IsNull(i & v.mask) }

// values are the fixed-width values of a column whose kind has the width of T.
func values[T any](c *messages.Column) []T {
	b := c.FixedBytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), c.Len())
}

// program evaluates one node. The result is frozen, a constant, or scratch of the
// program that the next eval overwrites.
type program interface {
	eval(f *frame) (vec, error)
}

// constant is a program whose value is known.
type constant struct{ v vec }

func (p *constant) eval(*frame) (vec, error) { return p.v, nil }

func constOf(c *messages.Column) *constant { return &constant{vec{c, 0}} }

func nullConst(t messages.Type) *constant { return constOf(NullOf(t).value) }

// failing is a constant expression that cannot be evaluated: an error for the first
// row that asks for it.
type failing struct {
	typ messages.Type
	err error
}

func (p *failing) eval(f *frame) (vec, error) {
	if i := f.first(); i >= 0 {
		return vec{}, &operator.RowError{Row: i, Err: p.err}
	}
	return nullConst(p.typ).v, nil
}

// mode is what an operation does about a row it cannot compute.
type mode uint8

const (
	raise  mode = iota // an error
	toNull             // NULL, as try_ functions do
	legacy             // integers wrap around, all else is NULL
)

// kernel computes a function for the rows of x into x.out.
type kernel func(x *exec) error

// exec is one call of a function: its arguments, its result and the row in work. It
// belongs to one compiled node and is reused for every batch.
type exec struct {
	f    *frame
	args []vec
	out  *messages.Column
	mode mode
	zone zone
	// i is the row in work; isNull is set to make its result NULL.
	i      int
	isNull bool
	buf    []byte // bytes of a string result so far
	tmp    []byte // scratch of functions
}

// call is the program of a function with ordinary arguments.
type call struct {
	args    []program
	x       exec
	out     messages.Column
	typ     messages.Type
	null    *constant
	k       kernel
	lenient bool // the kernel looks at NULLs itself
	single  frame
}

func (p *call) eval(f *frame) (vec, error) {
	x := &p.x
	constant := len(p.args) > 0
	for i, a := range p.args {
		v, err := a.eval(f)
		if err != nil {
			return vec{}, err
		}
		x.args[i] = v
		constant = constant && v.isConst()
	}
	if constant && f.n != 1 {
		return p.once(f)
	}
	return p.apply(f)
}

// once computes the function for one row because all arguments turned out to be the
// same for every row of this batch.
func (p *call) once(f *frame) (vec, error) {
	first := f.first()
	if first < 0 {
		return p.null.v, nil
	}
	p.single = frame{n: 1}
	v, err := p.apply(&p.single)
	if err != nil {
		if at, ok := errors.AsType[*operator.RowError](err); ok {
			err = &operator.RowError{Row: first, Err: at.Err}
		}
		return vec{}, err
	}
	v.mask = 0
	return v, nil
}

// apply runs the kernel on the arguments.
func (p *call) apply(f *frame) (vec, error) {
	x := &p.x
	x.f, x.out = f, &p.out
	p.out.Reset(p.typ)
	p.out.Resize(f.n)
	if !p.lenient {
		for _, v := range x.args {
			if v.col.Validity() == nil {
				continue
			}
			if v.isConst() {
				if v.col.IsNull(0) {
					return p.null.v, nil
				}
				continue
			}
			mergeNulls(&p.out, v)
		}
	}
	if err := p.k(x); err != nil {
		return vec{}, err
	}
	return column(&p.out), nil
}

// mergeNulls makes the rows of out NULL that are NULL in v.
func mergeNulls(out *messages.Column, v vec) {
	in := v.col.Validity()
	if out.Validity() == nil {
		copy(out.EnsureValidity(), in)
		return
	}
	valid := out.Validity()
	in = in[:len(valid)]
	for i := range valid {
		valid[i] &= in[i]
	}
}

// each calls fn for the selected rows whose result is not NULL yet.
func (x *exec) each(fn func(x *exec) error) error {
	valid := x.out.Validity()
	if x.f.sel == nil && valid == nil {
		for i := range x.f.n {
			x.i, x.isNull = i, false
			if err := fn(x); err != nil {
				return &operator.RowError{Row: i, Err: err}
			}
			if x.isNull {
				x.out.SetNull(i)
			}
		}
		return nil
	}
	if x.f.sel == nil {
		for i := range x.f.n {
			if messages.BitSet(valid, i) {
				if err := x.at(i, fn); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, i := range x.f.sel {
		if valid == nil || messages.BitSet(valid, int(i)) {
			if err := x.at(int(i), fn); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *exec) at(i int, fn func(x *exec) error) error {
	x.i, x.isNull = i, false
	if err := fn(x); err != nil {
		return &operator.RowError{Row: i, Err: err}
	}
	if x.isNull {
		x.out.SetNull(i)
	}
	return nil
}

// perRow is the kernel of a function with a fixed-width or boolean result that is
// computed row by row.
func perRow(fn func(x *exec) error) kernel {
	return func(x *exec) error { return x.each(fn) }
}

// maxBatchText bounds the bytes of one string column, whose offsets are 32 bits wide.
const maxBatchText = 1 << 30

// perRowText is perRow for string and binary results: fn appends the value to x.buf.
func perRowText(fn func(x *exec) error) kernel {
	return func(x *exec) error {
		off := x.out.Offsets()
		x.buf = x.out.Data()[:0]
		done := 0 // offsets up to this row are set
		err := x.each(func(x *exec) error {
			start := int32(len(x.buf))
			for ; done < x.i; done++ {
				off[done+1] = start
			}
			if err := fn(x); err != nil {
				return err
			}
			if x.isNull {
				x.buf = x.buf[:start]
			}
			if len(x.buf) > maxBatchText {
				return rowError("STRING_TOO_LONG", "the strings of one batch would exceed %d bytes", maxBatchText)
			}
			off[x.i+1] = int32(len(x.buf))
			done = x.i + 1
			return nil
		})
		for ; done < x.f.n; done++ {
			off[done+1] = int32(len(x.buf))
		}
		x.out.SetData(x.buf)
		x.buf = nil
		return err
	}
}

// perRowList is perRow for array and map results: fn appends the elements to the
// child column.
func perRowList(fn func(x *exec) error) kernel {
	return func(x *exec) error {
		off := x.out.Offsets()
		child := x.out.Child(0)
		done := 0
		err := x.each(func(x *exec) error {
			start := child.Len()
			for ; done < x.i; done++ {
				off[done+1] = int32(start)
			}
			if err := fn(x); err != nil {
				return err
			}
			if x.isNull {
				child.Truncate(start)
			}
			off[x.i+1] = int32(child.Len())
			done = x.i + 1
			return nil
		})
		for ; done < x.f.n; done++ {
			off[done+1] = int32(child.Len())
		}
		return err
	}
}

// fail ends the row in work: an error in ANSI mode, else NULL.
func (x *exec) fail(class, format string, args ...any) error {
	if x.mode != raise {
		x.isNull = true
		return nil
	}
	return rowError(class, format, args...)
}

// rowError is a failure of one row.
func rowError(class, format string, args ...any) error {
	return fault.WithClass(fault.New(fault.BadRow, format, args...), class)
}

// recheck is called after a kernel has computed all rows at once and found that some
// failed: bad tells which, and the rows that count fail as the mode says.
func (x *exec) recheck(bad func(i int) bool, fail func() error) error {
	return x.each(func(x *exec) error {
		if !bad(x.i) {
			return nil
		}
		if x.mode != raise {
			x.isNull = true
			return nil
		}
		return fail()
	})
}

// Accessors of argument k in the row in work.

func (x *exec) bytes(k int) []byte { v := x.args[k]; return v.col.Bytes(x.i & v.mask) }

func (x *exec) str(k int) string { return view(x.bytes(k)) }

func (x *exec) boolean(k int) bool { v := x.args[k]; return v.col.Bool(x.i & v.mask) }

func (x *exec) int32(k int) int32 { v := x.args[k]; return v.col.Int32s()[x.i&v.mask] }

func (x *exec) int64(k int) int64 { v := x.args[k]; return v.col.Int64s()[x.i&v.mask] }

func (x *exec) float64(k int) float64 { v := x.args[k]; return v.col.Float64s()[x.i&v.mask] }

func (x *exec) decimal(k int) dec { v := x.args[k]; return v.col.Decimals()[x.i&v.mask] }

func (x *exec) interval(k int) messages.IntervalValue {
	v := x.args[k]
	return v.col.Intervals()[x.i&v.mask]
}

// null reports whether argument k is NULL, for lenient functions.
func (x *exec) null(k int) bool { return x.args[k].null(x.i) }

// Setters of the result in the row in work.

func (x *exec) setBool(v bool) {
	if v {
		messages.SetBit(x.out.Bits(), x.i)
	} else {
		messages.ClearBit(x.out.Bits(), x.i)
	}
}

func (x *exec) setInt32(v int32) { x.out.Int32s()[x.i] = v }

func (x *exec) setInt64(v int64) { x.out.Int64s()[x.i] = v }

func (x *exec) setFloat64(v float64) { x.out.Float64s()[x.i] = v }

func (x *exec) setDecimal(v dec) { x.out.Decimals()[x.i] = v }
