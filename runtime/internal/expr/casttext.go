package expr

import (
	"errors"
	"sort"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// castToText writes values as strings.
func castToText(from messages.Type) kernel {
	if from.Kind == messages.Binary {
		return perRowText(func(x *exec) error { x.buf = append(x.buf, x.bytes(0)...); return nil })
	}
	return perRowText(func(x *exec) error {
		v := x.args[0]
		x.buf = appendValue(x.buf, v.col, x.i&v.mask, x.zone)
		return nil
	})
}

// castFromText reads strings as values.
func castFromText(to messages.Type) kernel {
	if to.Kind == messages.Binary {
		return perRowText(func(x *exec) error { x.buf = append(x.buf, x.bytes(0)...); return nil })
	}
	return perRow(func(x *exec) error {
		s := x.bytes(0)
		ok, tooLarge := x.readText(&to, s)
		switch {
		case ok:
			return nil
		case tooLarge:
			return x.failWith(func() error { return outOfRange(to) })
		}
		return x.failWith(func() error { return castInvalid(s, to) })
	})
}

// readText reads a string into the row in work, whose type is to. It says whether that
// worked and, for decimals, whether only the range was exceeded.
func (x *exec) readText(to *messages.Type, s []byte) (ok, tooLarge bool) {
	switch to.Kind {
	case messages.Boolean:
		v, ok := parseBool(s)
		x.setBool(v)
		return ok, false
	case messages.Float:
		v, ok := parseFloat(s, 32)
		x.out.Float32s()[x.i] = float32(v)
		return ok, false
	case messages.Double:
		v, ok := parseFloat(s, 64)
		x.setFloat64(v)
		return ok, false
	case messages.Decimal:
		p, scale, ok := parseDecimal(trimAll(s))
		if !ok {
			return false, false
		}
		v, fit := p.at(scale, *to)
		x.setDecimal(v)
		return fit, !fit
	case messages.Date:
		v, ok := parseDate(s)
		x.setInt32(v)
		return ok, false
	case messages.Timestamp:
		v, ok := parseTimestamp(s, x.zone)
		x.setInt64(v)
		return ok, false
	case messages.TimestampNTZ:
		v, ok := parseLocalTimestamp(s)
		x.setInt64(v)
		return ok, false
	case messages.Interval:
		v, err := sql.ParseInterval(string(s))
		if err == nil {
			r := dayTime(v.Micros)
			r.Months, r.Days = v.Months, r.Days+v.Days
			x.out.Intervals()[x.i] = r
		}
		return err == nil, false
	}
	bits := 8 * to.Kind.Width()
	v, ok := parseInt(s, x.mode == legacy)
	if v<<(64-bits)>>(64-bits) != v {
		return false, false
	}
	x.putInteger(v)
	return ok, false
}

// castTime converts between date, timestamp and timestamp_ntz.
func castTime(from, to messages.Kind) kernel {
	if from == messages.Date {
		return perRow(func(x *exec) error {
			local := int64(x.int32(0)) * microsPerDay
			if to == messages.Timestamp {
				local = x.zone.instant(local)
			}
			x.setInt64(local)
			return nil
		})
	}
	return perRow(func(x *exec) error {
		v := x.int64(0)
		switch {
		case from == messages.Timestamp:
			v = x.zone.local(v)
		case to == messages.Timestamp:
			v = x.zone.instant(v)
		}
		if to == messages.Date {
			days, _ := split(v)
			x.setInt32(days)
			return nil
		}
		x.setInt64(v)
		return nil
	})
}

// castFromTimestamp gives the seconds since the Unix epoch.
func castFromTimestamp(to messages.Type) kernel {
	return perRow(func(x *exec) error {
		v := x.int64(0)
		switch to.Kind {
		case messages.Float:
			x.out.Float32s()[x.i] = float32(float64(v) / microsPerSecond)
		case messages.Double:
			x.setFloat64(float64(v) / microsPerSecond)
		case messages.Decimal:
			return x.putDecimal(decInt(v), 6, to)
		default:
			n := floorDiv(v, int64(microsPerSecond))
			bits := 8 * to.Kind.Width()
			shifted := n << (64 - bits) >> (64 - bits)
			if shifted != n && x.mode != legacy {
				return x.failWith(func() error { return castOverflow(to) })
			}
			x.putInteger(shifted)
		}
		return nil
	})
}

// castNested converts arrays, maps and structs part by part.
func (c *compiler) castNested(from, to messages.Type) (kernel, error) {
	switch from.Kind {
	case messages.Array:
		return c.castParts([]messages.Type{*from.Elem}, []messages.Type{*to.Elem})
	case messages.Map:
		return c.castParts([]messages.Type{messages.StructType(messages.Field{Name: "key", Type: *from.Key}, messages.Field{Name: "value", Type: *from.Elem})},
			[]messages.Type{messages.StructType(messages.Field{Name: "key", Type: *to.Key}, messages.Field{Name: "value", Type: *to.Elem})})
	}
	var f, t []messages.Type
	for i := range from.Fields {
		f, t = append(f, from.Fields[i].Type), append(t, to.Fields[i].Type)
	}
	return c.castParts(f, t)
}

// castParts casts the children of the argument into the children of the result.
func (c *compiler) castParts(from, to []messages.Type) (kernel, error) {
	p := &nestedCast{to: to, parts: make([]*call, len(from))}
	for i := range from {
		var k kernel = copyKernel
		if !from[i].Equal(to[i]) && from[i].Kind != messages.Null {
			var err error
			if k, err = c.castKernel(from[i], to[i]); err != nil {
				return nil, err
			}
		}
		p.parts[i] = c.kernelCall([]program{&slot{}}, to[i], k, nil)
		p.parts[i].lenient = from[i].Equal(to[i])
	}
	return p.run, nil
}

// nestedCast casts each child of a nested value.
type nestedCast struct {
	to    []messages.Type
	parts []*call
	f     frame
	sel   []int32
}

func (p *nestedCast) run(x *exec) error {
	in := x.args[0].col
	if x.args[0].isConst() && x.f.n != 1 {
		return internalError("cast of a constant %s was not computed beforehand", in.Type())
	}
	lists := in.Type().Kind != messages.Struct
	if lists {
		copy(x.out.Offsets(), in.Offsets())
	}
	p.sel = p.sel[:0]
	err := x.each(func(x *exec) error {
		if !lists {
			p.sel = append(p.sel, int32(x.i))
			return nil
		}
		for j, to := span(in, x.i); j < to; j++ {
			p.sel = append(p.sel, int32(j))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range p.parts {
		if err := p.part(x, in.Child(i), i); err != nil {
			return rowOf(err, in, lists)
		}
	}
	return nil
}

func (p *nestedCast) part(x *exec, child *messages.Column, i int) error {
	part := p.parts[i]
	part.args[0].(*slot).v = column(child)
	part.x.mode, part.x.zone = x.mode, x.zone
	p.f = frame{n: child.Len(), sel: p.sel}
	if len(p.sel) == 0 {
		p.f.sel = []int32{}
	}
	v, err := part.eval(&p.f)
	if err != nil {
		return err
	}
	if v.isConst() {
		x.out.Child(i).Reset(p.to[i])
		repeat(x.out.Child(i), v.col, child.Len())
		return nil
	}
	x.out.Child(i).Swap(v.col)
	return nil
}

// rowOf turns the place of an error among list elements into a row.
func rowOf(err error, in *messages.Column, lists bool) error {
	var at *operator.RowError
	if !lists || !errors.As(err, &at) {
		return err
	}
	off := in.Offsets()
	row := sort.Search(in.Len(), func(i int) bool { return int(off[i+1]) > at.Row })
	return &operator.RowError{Row: row, Err: at.Err}
}

// slot is a program whose value is put in from outside.
type slot struct{ v vec }

func (p *slot) eval(*frame) (vec, error) { return p.v, nil }

// copyKernel copies the argument, NULLs included.
func copyKernel(x *exec) error {
	v := x.args[0]
	x.out.Truncate(0)
	for i := range x.f.n {
		x.out.AppendFrom(v.col, i&v.mask)
	}
	return nil
}
