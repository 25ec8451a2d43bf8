package expr

import (
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// textTimeFunctions convert between times and text by a pattern.
func textTimeFunctions() []*Function {
	var out []*Function
	for _, f := range []struct {
		name, doc string
		kind      messages.Kind
		try       bool
	}{
		{"to_timestamp", "the timestamp a text stands for, by a pattern if one is given", messages.Timestamp, false},
		{"try_to_timestamp", "to_timestamp that is NULL for a text it cannot read", messages.Timestamp, true},
		{"to_date", "the date a text stands for, by a pattern if one is given", messages.Date, false},
		{"try_to_date", "to_date that is NULL for a text it cannot read", messages.Date, true},
		{"to_unix_timestamp", "the seconds since 1970-01-01 UTC of a time, or of a text by a pattern", messages.BigInt, false},
	} {
		out = append(out, &Function{
			Name: f.name, Family: "time", Usage: f.name + "(a[, pattern])", Signature: "any, string -> " + f.kind.String(), Doc: f.doc,
			fails: true, try: f.try, bind: bindToTime(f.kind), make: makeToTime,
		})
	}
	return append(out,
		&Function{
			Name: "unix_timestamp", Family: "time", Usage: "unix_timestamp([a[, pattern]])", Signature: "any, string -> bigint",
			Doc: "the seconds since 1970-01-01 UTC of a time, or of a text by a pattern, or now", fails: true, bind: func(b *binding) (Node, *sql.Error) {
				if len(b.args) > 0 {
					return b.call("to_unix_timestamp", b.args...)
				}
				now, err := b.call("current_timestamp")
				if err != nil {
					return nil, err
				}
				return b.call("unix_seconds", now)
			},
		},
		&Function{
			Name: "date_format", Family: "time", Usage: "date_format(time, pattern)", Signature: "timestamp, string -> string | timestamp_ntz, string -> string",
			Doc: "the time as text", fails: true, make: makeDateFormat,
		},
		&Function{
			Name: "from_unixtime", Family: "time", Usage: "from_unixtime(seconds[, pattern])", Signature: "bigint, [string] -> string",
			Doc: "the time that many seconds after 1970-01-01 UTC as text", fails: true, make: makeDateFormat,
		},
	)
}

const defaultPattern = "yyyy-MM-dd HH:mm:ss"

// bindToTime is a cast without a pattern or for what is a time already.
func bindToTime(kind messages.Kind) func(b *binding) (Node, *sql.Error) {
	return func(b *binding) (Node, *sql.Error) {
		if err := b.count(1, 2); err != nil {
			return nil, err
		}
		k := b.kind(0)
		if k == messages.String && (len(b.args) == 2 || kind == messages.BigInt) {
			if len(b.args) == 1 {
				b.args = append(b.args, String(defaultPattern))
			}
			b.coerce(1, messages.T(messages.String))
			return b.result(messages.T(kind))
		}
		if !isTime(k) && k != messages.String && k != messages.Null && (kind != messages.Timestamp || !k.IsNumeric()) {
			return nil, b.mismatch()
		}
		if kind == messages.BigInt {
			return b.call("unix_seconds", convert(b.args[0], messages.T(messages.Timestamp)))
		}
		return NewCast(b.args[0], messages.T(kind), b.fn.try)
	}
}

// patterns keeps the pattern of the last row, which is nearly always that of the next.
type patterns struct {
	text string
	p    datePattern
	err  error
	set  bool
}

// newPatterns compiles a constant pattern at once, so that a mistake in it is found
// before the query runs.
func newPatterns(n Node) (*patterns, error) {
	ps := &patterns{}
	if text, ok := constText(n); ok {
		_, err := ps.get(text)
		return ps, err
	}
	return ps, nil
}

func (ps *patterns) get(text string) (datePattern, error) {
	if !ps.set || ps.text != text {
		ps.text = strings.Clone(text)
		ps.p, ps.err = parsePattern(ps.text)
		ps.set = true
	}
	return ps.p, ps.err
}

func makeToTime(_ *compiler, n *FuncCall) (kernel, error) {
	ps, err := newPatterns(n.Args[1])
	if err != nil {
		return nil, err
	}
	return perRow(func(x *exec) error {
		p, err := ps.get(x.str(1))
		if err != nil {
			return err
		}
		v, ok := p.parse(x.bytes(0), x.zone)
		if !ok {
			return x.fail("CANNOT_PARSE_TIMESTAMP", "cannot parse the text %q by the pattern %q; use try_to_timestamp to get NULL", x.bytes(0), ps.text)
		}
		switch x.out.Type().Kind {
		case messages.Date:
			days, _ := split(x.zone.local(v))
			x.setInt32(days)
		case messages.BigInt:
			x.setInt64(floorDiv(v, int64(microsPerSecond)))
		default:
			x.setInt64(v)
		}
		return nil
	}), nil
}

// makeDateFormat writes a timestamp, a wall clock time or seconds.
func makeDateFormat(_ *compiler, n *FuncCall) (kernel, error) {
	pattern := Node(String(defaultPattern))
	if len(n.Args) == 2 {
		pattern = n.Args[1]
	}
	ps, err := newPatterns(pattern)
	if err != nil {
		return nil, err
	}
	kind := n.Args[0].Type().Kind
	fixedPattern := len(n.Args) == 1
	return perRowText(func(x *exec) error {
		p, err := ps.p, ps.err
		if !fixedPattern {
			p, err = ps.get(x.str(1))
		}
		if err != nil {
			return err
		}
		v, z, ok := x.int64(0), x.zone, true
		switch kind {
		case messages.BigInt:
			v, ok = mulInt64(v, microsPerSecond)
		case messages.TimestampNTZ:
			z = utcZone()
		}
		if !ok {
			return x.failWith(overflow)
		}
		x.buf = p.append(x.buf, v, z)
		return nil
	}), nil
}
