package expr

import (
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func clockFunctions() []*Function {
	clock := func(name, doc string, k messages.Kind, aliases ...string) *Function {
		return &Function{
			Name: name, Aliases: aliases, Family: "time", Usage: name + "()", Signature: "-> " + k.String(),
			Doc: doc + ": the time the row arrived at the broker or in the engine; above a stateful operator the time of emission", volatile: true, special: makeClock,
		}
	}
	return []*Function{
		clock("current_timestamp", "the current time", messages.Timestamp, "now"),
		clock("current_date", "the current date in the session time zone", messages.Date, "curdate"),
		clock("localtimestamp", "the current time on the wall clock of the session time zone", messages.TimestampNTZ),
		{
			Name: "current_timezone", Family: "time", Usage: "current_timezone()", Signature: "-> string", Doc: "the session time zone",
			make: func(c *compiler, _ *FuncCall) (kernel, error) {
				name := "UTC"
				if c.zone.loc != nil {
					name = c.zone.loc.String()
				}
				return perRowText(func(x *exec) error { x.buf = append(x.buf, name...); return nil }), nil
			},
		},
	}
}

// clockProgram gives each row its arrival time, so that the value is the same
// wherever it is used for that row and after a replay.
type clockProgram struct {
	typ  messages.Type
	now  func() messages.EventTime
	zone zone
	out  messages.Column
	null *constant
	// perElement and idx are for calls inside a lambda.
	perElement messages.Column
	idx        []int32
}

func makeClock(c *compiler, n *FuncCall) (program, error) {
	return &clockProgram{typ: n.Of, now: c.opts.Now, zone: c.zone, null: nullConst(n.Of)}, nil
}

func (p *clockProgram) eval(f *frame) (vec, error) {
	if f.parent != nil {
		v, err := p.eval(f.top())
		if err != nil || v.isConst() {
			return v, err
		}
		p.idx = f.rowsIn(f.top(), p.idx)
		return gatherRows(&p.perElement, v, p.idx), nil
	}
	var at []messages.EventTime
	if f.b != nil {
		at = f.b.Arrivals()
	}
	if at == nil && p.now == nil {
		return p.null.v, nil
	}
	p.out.Reset(p.typ)
	p.out.Resize(f.n)
	var same int64
	if at == nil {
		same = p.convert(int64(p.now()))
	}
	for i := range f.n {
		v := same
		if at != nil {
			v = p.convert(int64(at[i]))
		}
		if p.typ.Kind == messages.Date {
			p.out.Int32s()[i] = int32(v)
		} else {
			p.out.Int64s()[i] = v
		}
	}
	return column(&p.out), nil
}

func (p *clockProgram) convert(micros int64) int64 {
	switch p.typ.Kind {
	case messages.Date:
		days, _ := split(p.zone.local(micros))
		return int64(days)
	case messages.TimestampNTZ:
		return p.zone.local(micros)
	}
	return micros
}

// castFunctions are type names used as functions: int(a) is CAST(a AS INT).
func castFunctions() []*Function {
	var out []*Function
	for _, k := range []messages.Kind{
		messages.Boolean, messages.TinyInt, messages.SmallInt, messages.Int, messages.BigInt,
		messages.Float, messages.Double, messages.String, messages.Binary, messages.Date, messages.Timestamp,
	} {
		out = append(out, &Function{
			Name: k.String(), Family: "cast", Usage: k.String() + "(a)", Signature: "any -> " + k.String(), Doc: "a cast to " + k.String(),
			bind: func(b *binding) (Node, *sql.Error) {
				if err := b.count(1, 1); err != nil {
					return nil, err
				}
				return NewCast(b.args[0], messages.T(k), false)
			},
		})
	}
	return append(out, &Function{
		Name: "typeof", Family: "cast", Usage: "typeof(a)", Signature: "any -> string", Doc: "the type of a",
		bind: func(b *binding) (Node, *sql.Error) {
			if err := b.count(1, 1); err != nil {
				return nil, err
			}
			return String(b.typ(0).String()), nil
		},
	})
}
