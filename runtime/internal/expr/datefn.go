package expr

import (
	"bytes"
	"math"
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func dateFunctions() []*Function {
	fs := []*Function{
		{
			Name: "date_add", Aliases: []string{"dateadd"}, Family: "time", Usage: "date_add(date, days) or date_add(unit, n, time)", Signature: "date, int -> date",
			Doc: "the date days later; with a unit first, the time n units later", fails: true, unitFirst: true, bind: bindDateAdd, make: rows(addDays(1)),
		},
		{
			Name: "timestampadd", Family: "time", Usage: "timestampadd(unit, n, time)", Signature: "string, bigint, timestamp -> timestamp",
			Doc: "the time n units later", fails: true, unitFirst: true, bind: bindUnitAdd,
		},
		{Name: "date_sub", Family: "time", Usage: "date_sub(date, days)", Signature: "date, int -> date", Doc: "the date days earlier", fails: true, make: rows(addDays(-1))},
		{
			Name: "datediff", Aliases: []string{"date_diff"}, Family: "time", Usage: "datediff(end, start) or datediff(unit, start, end)", Signature: "date, date -> int",
			Doc: "the days from start to end; with a unit first, the whole units", unitFirst: true, bind: bindDateDiff,
			make: rows(func(x *exec) error { x.setInt32(x.int32(0) - x.int32(1)); return nil }),
		},
		{
			Name: "timestampdiff", Family: "time", Usage: "timestampdiff(unit, start, end)", Signature: "string, timestamp, timestamp -> bigint",
			Doc: "the whole units from start to end", unitFirst: true, bind: bindUnitDiff,
		},
		{
			Name: "add_months", Family: "time", Usage: "add_months(date, months)", Signature: "date, int -> date", Doc: "the same day of month months later, or the last of that month",
			fails: true, make: rows(func(x *exec) error {
				d, ok := addMonths(x.int32(0), int64(x.int32(1)))
				if !ok {
					return x.failWith(overflow)
				}
				x.setInt32(d)
				return nil
			}),
		},
		{
			Name: "months_between", Family: "time", Usage: "months_between(end, start[, round])", Signature: "timestamp, timestamp, [boolean] -> double",
			Doc: "the months from start to end, a fraction counting 31 days a month; rounded to 8 digits unless round is false", make: rows(monthsBetween),
		},
		{
			Name: "last_day", Family: "time", Usage: "last_day(date)", Signature: "date -> date", Doc: "the last day of the month",
			make: rows(func(x *exec) error {
				c := civilOf(x.int32(0))
				x.setInt32(x.int32(0) + int32(monthLength(c.year, c.month)-c.day))
				return nil
			}),
		},
		{
			Name: "next_day", Family: "time", Usage: "next_day(date, day)", Signature: "date, string -> date", Doc: "the first date behind date on that day of the week",
			fails: true, make: rows(nextDay),
		},
		{
			Name: "trunc", Family: "time", Usage: "trunc(date, unit)", Signature: "date, string -> date", Doc: "the first day of the year, quarter, month or week; NULL for another unit",
			make: rows(truncDate),
		},
		{Name: "make_date", Family: "time", Usage: "make_date(year, month, day)", Signature: "int, int, int -> date", Doc: "the date", fails: true, make: rows(makeDate)},
		{
			Name: "unix_date", Family: "time", Usage: "unix_date(date)", Signature: "date -> int", Doc: "the days since 1970-01-01",
			make: rows(func(x *exec) error { x.setInt32(x.int32(0)); return nil }),
		},
		{
			Name: "date_from_unix_date", Family: "time", Usage: "date_from_unix_date(days)", Signature: "int -> date", Doc: "the date days after 1970-01-01",
			make: rows(func(x *exec) error { x.setInt32(x.int32(0)); return nil }),
		},
	}
	return append(fs, datePartFunctions()...)
}

func datePartFunctions() []*Function {
	var out []*Function
	for _, d := range []struct {
		name, alias, doc string
		part             func(days int32) int
	}{
		{"year", "", "the year", func(d int32) int { return civilOf(d).year }},
		{"quarter", "", "the quarter, 1 to 4", func(d int32) int { return (civilOf(d).month + 2) / 3 }},
		{"month", "", "the month, 1 to 12", func(d int32) int { return civilOf(d).month }},
		{"day", "dayofmonth", "the day of the month", func(d int32) int { return civilOf(d).day }},
		{"dayofweek", "", "the day of the week, 1 for Sunday to 7 for Saturday", func(d int32) int { return (dayOfWeek(d)+1)%7 + 1 }},
		{"weekday", "", "the day of the week, 0 for Monday to 6 for Sunday", dayOfWeek},
		{"dayofyear", "", "the day of the year", dayOfYear},
		{"weekofyear", "", "the week of the year as ISO 8601 counts", func(d int32) int { _, w := isoWeek(d); return w }},
	} {
		f := &Function{
			Name: d.name, Family: "time", Usage: d.name + "(date)", Signature: "date -> int", Doc: d.doc,
			make: rows(func(x *exec) error { x.setInt32(int32(d.part(x.int32(0)))); return nil }),
		}
		if d.alias != "" {
			f.Aliases = []string{d.alias}
		}
		out = append(out, f)
	}
	return append(out,
		&Function{
			Name: "dayname", Family: "time", Usage: "dayname(date)", Signature: "date -> string", Doc: "the day of the week, Mon to Sun",
			make: rows(func(x *exec) error { x.buf = append(x.buf, dayNames[dayOfWeek(x.int32(0))][:3]...); return nil }),
		},
		&Function{
			Name: "monthname", Family: "time", Usage: "monthname(date)", Signature: "date -> string", Doc: "the month, Jan to Dec",
			make: rows(func(x *exec) error { x.buf = append(x.buf, monthNames[civilOf(x.int32(0)).month-1][:3]...); return nil }),
		},
	)
}

var dayNames = [...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

var monthNames = [...]string{
	"January", "February", "March", "April", "May", "June", "July", "August", "September",
	"October", "November", "December",
}

func bindDateAdd(b *binding) (Node, *sql.Error) {
	if len(b.args) == 3 {
		return bindUnitAdd(b)
	}
	return b.matchOverload()
}

func bindDateDiff(b *binding) (Node, *sql.Error) {
	if len(b.args) == 3 {
		return bindUnitDiff(b)
	}
	return b.matchOverload()
}

// timeUnit is a unit as a number of months or microseconds.
func timeUnit(name string) (months, micros int64, ok bool) {
	switch strings.TrimSuffix(strings.ToUpper(name), "S") {
	case "YEAR":
		return 12, 0, true
	case "QUARTER":
		return 3, 0, true
	case "MONTH":
		return 1, 0, true
	case "WEEK":
		return 0, 7 * microsPerDay, true
	case "DAY", "DAYOFYEAR":
		return 0, microsPerDay, true
	case "HOUR":
		return 0, microsPerHour, true
	case "MINUTE":
		return 0, microsPerMinute, true
	case "SECOND":
		return 0, microsPerSecond, true
	case "MILLISECOND":
		return 0, microsPerMilli, true
	case "MICROSECOND":
		return 0, 1, true
	}
	return 0, 0, false
}

func (b *binding) unit() (months, micros int64, err *sql.Error) {
	if err := b.count(3, 3); err != nil {
		return 0, 0, err
	}
	name, ok := constText(b.args[0])
	if ok {
		months, micros, ok = timeUnit(name)
	}
	if !ok {
		e := &sql.Error{
			Class: "INVALID_PARAMETER_VALUE.DATETIME_UNIT", Msg: b.display() + ": " + b.args[0].String() + " is no unit of time",
			Hint: "the units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND",
		}
		return 0, 0, e
	}
	return months, micros, nil
}

// bindUnitAdd is timestampadd: a date becomes a timestamp.
func bindUnitAdd(b *binding) (Node, *sql.Error) {
	months, micros, err := b.unit()
	if err != nil {
		return nil, err
	}
	t := messages.T(messages.Timestamp)
	if b.kind(2) == messages.TimestampNTZ {
		t = b.typ(2)
	}
	if _, ok := implicitCost(b.args[1], messages.T(messages.BigInt)); !ok || !castAllowed(b.typ(2), t) {
		return nil, b.mismatch()
	}
	b.coerce(1, messages.T(messages.BigInt))
	b.coerce(2, t)
	return b.timeCall(t, func(x *exec) error {
		z, v := x.zone, x.int64(2)
		if t.Kind == messages.TimestampNTZ {
			z = utcZone()
		}
		n, ok := mulInt64(x.int64(1), months+micros)
		switch {
		case !ok:
		case months != 0:
			if ok = n == int64(int32(n)); ok {
				v, ok = addInterval(v, messages.IntervalValue{Months: int32(n)}, 1, z)
			}
		case micros >= microsPerDay: // a day is one on the calendar
			var local int64
			if local, ok = addInt64(z.local(v), n); ok {
				v = z.moved(local, v)
			}
		default:
			v, ok = addInt64(v, n)
		}
		if !ok {
			return x.failWith(overflow)
		}
		x.setInt64(v)
		return nil
	})
}

// bindUnitDiff is timestampdiff: whole units between two points of the calendar.
func bindUnitDiff(b *binding) (Node, *sql.Error) {
	months, micros, err := b.unit()
	if err != nil {
		return nil, err
	}
	for i := 1; i < 3; i++ {
		if !castAllowed(b.typ(i), messages.T(messages.Timestamp)) {
			return nil, b.mismatch()
		}
		b.coerce(i, messages.T(messages.Timestamp))
	}
	return b.timeCall(messages.T(messages.BigInt), func(x *exec) error {
		if months == 0 && micros < microsPerDay {
			x.setInt64((x.int64(2) - x.int64(1)) / micros)
			return nil
		}
		start, end := x.zone.local(x.int64(1)), x.zone.local(x.int64(2))
		if months == 0 {
			x.setInt64((end - start) / micros)
			return nil
		}
		x.setInt64(wholeMonths(start, end) / months)
		return nil
	})
}

// wholeMonths counts the months completed between two wall clock times.
func wholeMonths(start, end int64) int64 {
	if end < start {
		return -wholeMonths(end, start)
	}
	sd, st := split(start)
	ed, et := split(end)
	s, e := civilOf(sd), civilOf(ed)
	n := int64(e.year-s.year)*12 + int64(e.month-s.month)
	if e.day < s.day || e.day == s.day && et < st {
		n--
	}
	return n
}

func monthsBetween(x *exec) error {
	d1, t1 := split(x.zone.local(x.int64(0)))
	d2, t2 := split(x.zone.local(x.int64(1)))
	a, b := civilOf(d1), civilOf(d2)
	r := float64((a.year-b.year)*12 + a.month - b.month)
	lastA, lastB := a.day == monthLength(a.year, a.month), b.day == monthLength(b.year, b.month)
	if a.day != b.day && !(lastA && lastB) {
		seconds := int64(a.day-b.day)*86400 + t1/microsPerSecond - t2/microsPerSecond
		r += float64(seconds) / (31 * 86400)
		if len(x.args) < 3 || x.boolean(2) {
			r = math.Round(r*1e8) / 1e8
		}
	}
	x.setFloat64(r)
	return nil
}

// dayNumber reads a day of the week in two letters, three letters or in full.
func dayNumber(s []byte) (int, bool) {
	s = trimAll(s)
	for i, name := range dayNames {
		for _, n := range [...]int{2, 3, len(name)} {
			if bytes.EqualFold(s, raw(name[:n])) {
				return i, true
			}
		}
	}
	return 0, false
}

func nextDay(x *exec) error {
	want, ok := dayNumber(x.bytes(1))
	if !ok {
		return x.fail("ILLEGAL_DAY_OF_WEEK", "next_day: %q is no day of the week; write it as MO, MON or MONDAY", x.bytes(1))
	}
	d := x.int32(0)
	ahead := (want - dayOfWeek(d) + 6) % 7
	x.setInt32(d + int32(ahead) + 1)
	return nil
}

// truncDays is the first day of the unit the day lies in.
func truncDays(days int32, unit []byte) (int32, bool) {
	c := civilOf(days)
	c.day = 1
	switch {
	case isWordOf(unit, "YEAR", "YYYY", "YY"):
		c.month = 1
	case isWordOf(unit, "QUARTER"):
		c.month = (c.month-1)/3*3 + 1
	case isWordOf(unit, "MONTH", "MON", "MM"):
	case isWordOf(unit, "WEEK"):
		return days - int32(dayOfWeek(days)), true
	default:
		return 0, false
	}
	return toDays(c.days())
}

func isWordOf(s []byte, words ...string) bool {
	for _, w := range words {
		if bytes.EqualFold(s, raw(w)) {
			return true
		}
	}
	return false
}

func truncDate(x *exec) error {
	d, ok := truncDays(x.int32(0), x.bytes(1))
	x.isNull = !ok
	x.setInt32(d)
	return nil
}

// outOfBounds fails the row because a field of a date or time has no such value.
func (x *exec) outOfBounds(format string, args ...any) error {
	return x.fail("DATETIME_FIELD_OUT_OF_BOUNDS", "invalid "+format, args...)
}

func (x *exec) checkDate(c civil) (int32, bool, error) {
	d, ok := toDays(c.days())
	switch {
	case c.month < 1 || c.month > 12:
		return 0, false, x.outOfBounds("month %d: valid values are 1 to 12", c.month)
	case c.day < 1 || c.day > 31:
		return 0, false, x.outOfBounds("value for day of month %d: valid values are 1 to 31", c.day)
	case !c.valid() || !ok:
		return 0, false, x.outOfBounds("date: there is no day %d in month %d of year %d", c.day, c.month, c.year)
	}
	return d, true, nil
}

func makeDate(x *exec) error {
	d, ok, err := x.checkDate(civil{int(x.int32(0)), int(x.int32(1)), int(x.int32(2))})
	if ok {
		x.setInt32(d)
	}
	return err
}
