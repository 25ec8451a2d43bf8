package expr

import (
	"math"
	"time"
	_ "time/tzdata" // a static binary must know zones wherever it runs

	"github.com/streamd-io/streamd/messages"
)

// Lengths of time in microseconds.
const (
	microsPerMilli  = 1000
	microsPerSecond = 1000 * microsPerMilli
	microsPerMinute = 60 * microsPerSecond
	microsPerHour   = 60 * microsPerMinute
	microsPerDay    = 24 * microsPerHour
)

// zone is a time zone with the fixed offset of UTC taken out of the common path.
type zone struct {
	loc *time.Location // nil: UTC
}

func utcZone() zone { return zone{} }

func newZone(loc *time.Location) zone {
	if loc == nil || loc == time.UTC {
		return zone{}
	}
	return zone{loc}
}

// offset is what local time is ahead of UTC at an instant.
func (z zone) offset(micros int64) int64 {
	if z.loc == nil {
		return 0
	}
	_, s := time.Unix(floorDiv(micros, microsPerSecond), 0).In(z.loc).Zone()
	return int64(s) * microsPerSecond
}

// local is the wall clock at an instant, as microseconds of a clock without zone.
func (z zone) local(micros int64) int64 { return micros + z.offset(micros) }

// instant is the inverse of local. A wall clock that occurs twice means the earlier
// instant; one that is skipped is moved on by the length of the gap.
func (z zone) instant(local int64) int64 {
	if z.loc == nil {
		return local
	}
	before, after := z.offset(local-microsPerDay), z.offset(local+microsPerDay)
	if before != after && z.offset(local-before) != before && z.offset(local-after) == after {
		return local - after
	}
	return local - before
}

// moved is instant for a wall clock that was moved on from the one at micros: one
// that occurs twice keeps the offset of micros.
func (z zone) moved(local, micros int64) int64 {
	if at := local - z.offset(micros); z.local(at) == local {
		return at
	}
	return z.instant(local)
}

func floorDiv[T int32 | int64](a, b T) T {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod[T int32 | int64](a, b T) T { return a - floorDiv(a, b)*b }

// civil is a date in the proleptic Gregorian calendar.
type civil struct{ year, month, day int }

// civilOf splits days since 1970-01-01.
func civilOf(days int32) civil {
	z := int64(days) + 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d := doy - (153*mp+2)/5 + 1
	m := mp + 3
	if m > 12 {
		m -= 12
	}
	y := yoe + era*400
	if m <= 2 {
		y++
	}
	return civil{int(y), int(m), int(d)}
}

// days is the inverse of civilOf; the day of month may exceed the month.
func (c civil) days() int64 {
	y, m := int64(c.year), int64(c.month)
	if m <= 2 {
		y--
		m += 12
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + int64(c.day) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func monthLength(year, month int) int {
	switch month {
	case 2:
		if leap(year) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// valid reports whether the date exists and fits into 32 bits of days.
func (c civil) valid() bool {
	return c.month >= 1 && c.month <= 12 && c.day >= 1 && c.day <= monthLength(c.year, c.month)
}

// addMonths moves a date by months, keeping the day of month where it exists.
func addMonths(days int32, months int64) (int32, bool) {
	c := civilOf(days)
	m := int64(c.year)*12 + int64(c.month-1) + months
	y := floorDiv(m, 12)
	if y < -5_877_641 || y > 5_881_580 {
		return 0, false
	}
	c.year, c.month = int(y), int(m-y*12)+1
	c.day = min(c.day, monthLength(c.year, c.month))
	return toDays(c.days())
}

func toDays(d int64) (int32, bool) { return int32(d), d == int64(int32(d)) }

// dayOfWeek is 0 for Monday to 6 for Sunday.
func dayOfWeek(days int32) int { return int(floorMod(int64(days)+3, 7)) }

func dayOfYear(days int32) int {
	c := civilOf(days)
	return int(int64(days)-civil{c.year, 1, 1}.days()) + 1
}

// isoWeek returns the ISO year and week.
func isoWeek(days int32) (year, week int) {
	thursday := int64(days) - int64(dayOfWeek(days)) + 3
	y := civilOf(int32(thursday)).year
	return y, int(thursday-civil{y, 1, 1}.days())/7 + 1
}

// split divides local microseconds into days and the time of day.
func split(local int64) (days int32, ofDay int64) {
	d := floorDiv(local, microsPerDay)
	return int32(d), local - d*microsPerDay
}

// dayTime is the interval of a number of microseconds, in whole days and the rest,
// so that an interval between any two timestamps fits.
func dayTime(micros int64) messages.IntervalValue {
	return messages.IntervalValue{Days: int32(micros / microsPerDay), Nanos: micros % microsPerDay * 1000}
}

// intervalMicros is the length of the day and time part; ok is false on overflow.
func intervalMicros(v messages.IntervalValue) (int64, bool) {
	return addInt64(int64(v.Days)*microsPerDay, v.Nanos/1000)
}

func addInt64(a, b int64) (int64, bool) {
	r := a + b
	return r, (a^r)&(b^r) >= 0
}

func mulInt64(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	r := a * b
	return r, r/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64)
}

// addInterval moves an instant: months on the local calendar, the rest as a length.
func addInterval(micros int64, v messages.IntervalValue, sign int64, z zone) (int64, bool) {
	if v.Months != 0 {
		days, ofDay := split(z.local(micros))
		d, ok := addMonths(days, sign*int64(v.Months))
		if !ok {
			return 0, false
		}
		local, ok := mulInt64(int64(d), microsPerDay)
		if !ok {
			return 0, false
		}
		if local, ok = addInt64(local, ofDay); !ok {
			return 0, false
		}
		micros = z.moved(local, micros)
	}
	n, ok := intervalMicros(v)
	if !ok {
		return 0, false
	}
	return addInt64(micros, sign*n)
}
