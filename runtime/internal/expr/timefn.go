package expr

import (
	"math"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func zoneName(micros int64, z zone) string {
	name, _ := time.UnixMicro(micros).In(z.loc).Zone()
	return name
}

func timeFunctions() []*Function {
	clock := func(name, doc string, fn func(ofDay int64) int64) *Function {
		return &Function{
			Name: name, Family: "time", Usage: name + "(time)", Signature: "timestamp -> int | timestamp_ntz -> int", Doc: doc,
			make: rows(func(x *exec) error {
				_, ofDay := split(x.wall(0))
				x.setInt32(int32(fn(ofDay)))
				return nil
			}),
		}
	}
	since := func(name, doc string, unit int64) *Function {
		return &Function{
			Name: name, Family: "time", Usage: name + "(timestamp)", Signature: "timestamp -> bigint", Doc: doc + " since 1970-01-01 UTC, rounded down",
			make: rows(func(x *exec) error { x.setInt64(floorDiv(x.int64(0), unit)); return nil }),
		}
	}
	from := func(name string, unit int64) *Function {
		return &Function{
			Name: name, Family: "time", Usage: name + "(n)", Signature: "bigint -> timestamp", Doc: "the timestamp n units after 1970-01-01 UTC", fails: true,
			make: rows(func(x *exec) error {
				v, ok := mulInt64(x.int64(0), unit)
				if !ok {
					return x.failWith(overflow)
				}
				x.setInt64(v)
				return nil
			}),
		}
	}
	shift := func(name, doc string, fn func(z zone, v int64) int64) *Function {
		return &Function{
			Name: name, Family: "time", Usage: name + "(timestamp, zone)", Signature: "timestamp, string -> timestamp", Doc: doc, fails: true,
			make: func(_ *compiler, n *FuncCall) (kernel, error) { return zoneKernel(n.Args[1], fn), nil },
		}
	}
	return append([]*Function{
		clock("hour", "the hour, 0 to 23", func(t int64) int64 { return t / microsPerHour }),
		clock("minute", "the minute", func(t int64) int64 { return t / microsPerMinute % 60 }),
		clock("second", "the second", func(t int64) int64 { return t / microsPerSecond % 60 }),
		since("unix_seconds", "the seconds", microsPerSecond),
		since("unix_millis", "the milliseconds", microsPerMilli),
		since("unix_micros", "the microseconds", 1),
		from("timestamp_millis", microsPerMilli),
		from("timestamp_micros", 1),
		{
			Name: "timestamp_seconds", Family: "time", Usage: "timestamp_seconds(n)", Signature: "number -> timestamp",
			Doc: "the timestamp n seconds after 1970-01-01 UTC", fails: true, bind: bindTimestampSeconds, make: makeTimestampSeconds,
		},
		{
			Name: "date_trunc", Family: "time", Usage: "date_trunc(unit, timestamp)", Signature: "string, timestamp -> timestamp",
			Doc: "the start of the year, quarter, month, week, day, hour, minute, second, millisecond or microsecond; NULL for another unit", make: makeDateTrunc,
		},
		{
			Name: "date_part", Aliases: []string{"datepart"}, Family: "time", Usage: "date_part(field, time)", Signature: "string, date or timestamp or interval -> int or decimal(8,6)",
			Doc: "a field of a time or interval, as EXTRACT(field FROM time)", bind: bindDatePart,
		},
		shift("from_utc_timestamp", "the wall clock in the zone at that time, written as a timestamp", func(z zone, v int64) int64 { return z.local(v) }),
		shift("to_utc_timestamp", "the time at which the wall clock in the zone shows that time", func(z zone, v int64) int64 { return z.instant(v) }),
		{
			Name: "at time zone", Family: "time", Usage: "time AT TIME ZONE zone", Signature: "timestamp, string -> timestamp_ntz | timestamp_ntz, string -> timestamp", fails: true,
			Doc: "a timestamp as the wall clock in the zone, or the other way round", make: func(_ *compiler, n *FuncCall) (kernel, error) {
				if n.Of.Kind == messages.Timestamp {
					return zoneKernel(n.Args[1], func(z zone, v int64) int64 { return z.instant(v) }), nil
				}
				return zoneKernel(n.Args[1], func(z zone, v int64) int64 { return z.local(v) }), nil
			},
		},
		{
			Name: "make_timestamp", Family: "time", Usage: "make_timestamp(year, month, day, hour, minute, second[, zone])",
			Signature: "int, int, int, int, int, double, [string] -> timestamp", Doc: "the timestamp in the zone, or else in the session time zone", fails: true, make: rows(makeTimestamp),
		},
		{
			Name: "make_interval", Family: "time", Usage: "make_interval(years, months, weeks, days, hours, minutes, seconds)",
			Signature: "[int, int, int, int, int, int, double] -> interval", Doc: "the interval; parts left out are 0", fails: true, make: rows(makeInterval),
		},
	}, textTimeFunctions()...)
}

// wall is argument k as a wall clock time.
func (x *exec) wall(k int) int64 {
	if x.args[k].col.Type().Kind == messages.Timestamp {
		return x.zone.local(x.int64(k))
	}
	return x.int64(k)
}

// zoneKernel applies fn with the zone named by the second argument.
func zoneKernel(name Node, fn func(z zone, v int64) int64) kernel {
	known, valid := zone{}, false
	last := ""
	if text, ok := constText(name); ok {
		known, valid = parseZone(text)
		last = text
	}
	return perRow(func(x *exec) error {
		if s := x.str(1); s != last || !valid {
			if known, valid = parseZone(s); !valid {
				return x.fail("INVALID_TIMEZONE", "there is no time zone %q; write a region such as Europe/Paris or an offset such as +02:00", s)
			}
			last = strings.Clone(s)
		}
		x.setInt64(fn(known, x.int64(0)))
		return nil
	})
}

func bindTimestampSeconds(b *binding) (Node, *sql.Error) {
	if err := b.count(1, 1); err != nil {
		return nil, err
	}
	switch k := b.kind(0); {
	case k.IsInteger() || k == messages.Null:
		b.coerce(0, messages.T(messages.BigInt))
	case k == messages.Float || k == messages.String:
		b.coerce(0, messages.T(messages.Double))
	case !k.IsNumeric():
		return nil, b.mismatch()
	}
	return b.result(messages.T(messages.Timestamp))
}

func makeTimestampSeconds(_ *compiler, n *FuncCall) (kernel, error) {
	switch t := n.Args[0].Type(); t.Kind {
	case messages.Decimal:
		return perRow(func(x *exec) error {
			v, ok := rescaleDown(x.decimal(0), t.Scale, 6)
			if ok && t.Scale > 6 {
				back, _ := rescale(v, 6, t.Scale)
				if back != x.decimal(0) {
					return x.fail("ARITHMETIC_ERROR", "timestamp_seconds: the value has digits below a microsecond; rounding necessary")
				}
			}
			if !ok || !isInt64(v) {
				return x.failWith(overflow)
			}
			x.setInt64(int64(v.Lo))
			return nil
		}), nil
	case messages.Double:
		return perRow(func(x *exec) error {
			f := x.float64(0)
			if x.isNull = math.IsNaN(f) || math.IsInf(f, 0); x.isNull {
				return nil
			}
			return x.putSeconds(f, n.Of)
		}), nil
	}
	return perRow(func(x *exec) error {
		v, ok := mulInt64(x.int64(0), microsPerSecond)
		if !ok {
			return x.failWith(overflow)
		}
		x.setInt64(v)
		return nil
	}), nil
}

// makeDateTrunc truncates on the local clock. An hour that the clock shows twice has
// two beginnings; a day that begins twice begins with the first.
func makeDateTrunc(_ *compiler, n *FuncCall) (kernel, error) {
	return perRow(func(x *exec) error {
		v, unit := x.int64(1), x.bytes(0)
		local := x.zone.local(v)
		if size := sizeOnClock(unit); size > 0 {
			x.setInt64(x.zone.moved(local-floorMod(local, size), v))
			return nil
		}
		days, _ := split(local)
		if !isWordOf(unit, "DAY", "DD") {
			var ok bool
			days, ok = truncDays(days, unit)
			x.isNull = !ok
		}
		x.setInt64(x.zone.instant(int64(days) * microsPerDay))
		return nil
	}), nil
}

// sizeOnClock is the length of a unit below a day, 0 for others.
func sizeOnClock(unit []byte) int64 {
	switch {
	case isWordOf(unit, "MICROSECOND"):
		return 1
	case isWordOf(unit, "MILLISECOND"):
		return microsPerMilli
	case isWordOf(unit, "SECOND"):
		return microsPerSecond
	case isWordOf(unit, "MINUTE"):
		return microsPerMinute
	case isWordOf(unit, "HOUR"):
		return microsPerHour
	}
	return 0
}

// bindDatePart turns a constant field into the function for it.
func bindDatePart(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	field, ok := constText(b.args[0])
	if !ok {
		return nil, &sql.Error{Class: ClassMismatch + ".NON_FOLDABLE_INPUT", Msg: "date_part: the field must be a constant string"}
	}
	field = strings.ToUpper(field)
	if b.kind(1) == messages.Interval {
		return b.intervalPart(field)
	}
	names := map[string]string{
		"YEAR": "year", "Y": "year", "YEARS": "year", "YR": "year", "YRS": "year", "QUARTER": "quarter", "QTR": "quarter",
		"MONTH": "month", "MON": "month", "MONS": "month", "MONTHS": "month", "WEEK": "weekofyear", "W": "weekofyear", "WEEKS": "weekofyear",
		"DAY": "day", "D": "day", "DAYS": "day", "DAYOFWEEK": "dayofweek", "DOW": "dayofweek", "DOY": "dayofyear", "DAYOFYEAR": "dayofyear",
		"HOUR": "hour", "H": "hour", "HOURS": "hour", "HR": "hour", "HRS": "hour", "MINUTE": "minute", "M": "minute", "MIN": "minute", "MINS": "minute", "MINUTES": "minute",
	}
	if name, ok := names[field]; ok {
		return b.call(name, b.args[1])
	}
	date := func(part func(days int32) int) (Node, *sql.Error) {
		if !castAllowed(b.typ(1), messages.T(messages.Date)) {
			return nil, b.mismatch()
		}
		b.coerce(1, messages.T(messages.Date))
		return b.timeCall(messages.T(messages.Int), func(x *exec) error { x.setInt32(int32(part(x.int32(1)))); return nil })
	}
	switch field {
	case "DAYOFWEEK_ISO", "DOW_ISO":
		return date(func(d int32) int { return dayOfWeek(d) + 1 })
	case "YEAROFWEEK":
		return date(func(d int32) int { y, _ := isoWeek(d); return y })
	case "SECOND", "S", "SEC", "SECS", "SECONDS":
		t := messages.T(messages.Timestamp)
		if b.kind(1) == messages.TimestampNTZ {
			t = b.typ(1)
		}
		if !castAllowed(b.typ(1), t) {
			return nil, b.mismatch()
		}
		b.coerce(1, t)
		return b.timeCall(messages.DecimalType(8, 6), func(x *exec) error {
			x.setDecimal(decInt(floorMod(x.wall(1), microsPerMinute)))
			return nil
		})
	}
	return nil, &sql.Error{Class: "INVALID_EXTRACT_FIELD", Msg: "a " + b.typ(1).String() + " has no field " + field}
}

func (b *binding) intervalPart(field string) (Node, *sql.Error) {
	get := func(fn func(v messages.IntervalValue, micros int64) int64) (Node, *sql.Error) {
		return b.timeCall(messages.T(messages.Int), func(x *exec) error {
			v := x.interval(1)
			m, _ := intervalMicros(v)
			x.setInt32(int32(fn(v, m)))
			return nil
		})
	}
	switch strings.TrimSuffix(field, "S") {
	case "YEAR":
		return get(func(v messages.IntervalValue, _ int64) int64 { return int64(v.Months / 12) })
	case "MONTH":
		return get(func(v messages.IntervalValue, _ int64) int64 { return int64(v.Months % 12) })
	case "DAY":
		return get(func(_ messages.IntervalValue, m int64) int64 { return m / microsPerDay })
	case "HOUR":
		return get(func(_ messages.IntervalValue, m int64) int64 { return m / microsPerHour % 24 })
	case "MINUTE":
		return get(func(_ messages.IntervalValue, m int64) int64 { return m / microsPerMinute % 60 })
	case "SECOND":
		return b.timeCall(messages.DecimalType(8, 6), func(x *exec) error {
			m, _ := intervalMicros(x.interval(1))
			x.setDecimal(decInt(m % microsPerMinute))
			return nil
		})
	}
	return nil, &sql.Error{Class: "INVALID_EXTRACT_FIELD", Msg: "an interval has no field " + field}
}

func makeTimestamp(x *exec) error {
	days, ok, err := x.checkDate(civil{int(x.int32(0)), int(x.int32(1)), int(x.int32(2))})
	if !ok {
		return err
	}
	h, m, s := x.int32(3), x.int32(4), x.float64(5)
	micros := math.Round(s * microsPerSecond)
	switch {
	case h < 0 || h > 23:
		return x.outOfBounds("hour %d: valid values are 0 to 23", h)
	case m < 0 || m > 59:
		return x.outOfBounds("minute %d: valid values are 0 to 59", m)
	case !(micros >= 0 && micros <= microsPerMinute):
		return x.outOfBounds("second %v: valid values are 0 to 60", s)
	}
	z := x.zone
	if len(x.args) == 7 {
		if z, ok = parseZone(x.str(6)); !ok {
			return x.fail("INVALID_TIMEZONE", "there is no time zone %q", x.str(6))
		}
	}
	local, ok := mulInt64(int64(days), microsPerDay)
	if !ok {
		return x.failWith(overflow)
	}
	x.setInt64(z.instant(local + int64(h)*microsPerHour + int64(m)*microsPerMinute + int64(micros)))
	return nil
}

func makeInterval(x *exec) error {
	var part [6]int64
	for k := range min(len(x.args), 6) {
		part[k] = int64(x.int32(k))
	}
	seconds := 0.0
	if len(x.args) == 7 {
		seconds = x.float64(6)
	}
	months := part[0]*12 + part[1]
	micros := float64(part[2]*7+part[3])*microsPerDay + float64(part[4])*microsPerHour + float64(part[5])*microsPerMinute + seconds*microsPerSecond
	if months != int64(int32(months)) || !(math.Abs(micros) < 1<<62) {
		return x.failWith(overflow)
	}
	exact := (part[2]*7+part[3])*microsPerDay + part[4]*microsPerHour + part[5]*microsPerMinute + int64(math.Round(seconds*microsPerSecond))
	v := dayTime(exact)
	v.Months = int32(months)
	x.out.Intervals()[x.i] = v
	return nil
}
