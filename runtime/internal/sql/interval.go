package sql

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Interval is a length of calendar time. The three parts are kept apart because
// neither a month nor, with daylight saving, a day has a fixed length.
type Interval struct {
	Months int32
	Days   int32
	Micros int64 // microseconds
}

// TotalMicros returns the length in microseconds with days of 24 hours. It is
// false for an interval with months or one too long for an int64.
func (v Interval) TotalMicros() (int64, bool) {
	if v.Months != 0 {
		return 0, false
	}
	days, _ := multiply(int64(v.Days), microsPerDay)
	return add(days, v.Micros)
}

// IntervalUnit is a field of an interval, from large to small.
type IntervalUnit uint8

// The fields of an interval.
const (
	YearUnit IntervalUnit = iota + 1
	MonthUnit
	DayUnit
	HourUnit
	MinuteUnit
	SecondUnit
)

// String returns the field's word.
func (u IntervalUnit) String() string {
	return [...]string{"", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"}[u]
}

const (
	microsPerSecond = 1_000_000
	microsPerMinute = 60 * microsPerSecond
	microsPerHour   = 60 * microsPerMinute
	microsPerDay    = 24 * microsPerHour
)

// unit is a unit of time as people write it: a multiple of months, days or
// microseconds.
type unit struct {
	field  IntervalUnit
	months int64
	days   int64
	micros int64
	nanos  bool // a thousandth of a microsecond
}

// unitNames are the full names of units, for hints.
var unitNames = strings.Fields("years months weeks days hours minutes seconds milliseconds microseconds")

// unitByName returns a unit by its name in any letter case, singular or plural.
func unitByName(name string) (unit, bool) {
	if len(name) > len("microseconds") {
		return unit{}, false
	}
	switch strings.TrimSuffix(strings.ToLower(name), "s") {
	case "year":
		return unit{field: YearUnit, months: 12}, true
	case "month":
		return unit{field: MonthUnit, months: 1}, true
	case "week":
		return unit{field: DayUnit, days: 7}, true
	case "day":
		return unit{field: DayUnit, days: 1}, true
	case "hour":
		return unit{field: HourUnit, micros: microsPerHour}, true
	case "minute":
		return unit{field: MinuteUnit, micros: microsPerMinute}, true
	case "second":
		return unit{field: SecondUnit, micros: microsPerSecond}, true
	case "millisecond":
		return unit{field: SecondUnit, micros: 1000}, true
	case "microsecond":
		return unit{field: SecondUnit, micros: 1}, true
	case "nanosecond":
		return unit{field: SecondUnit, nanos: true}, true
	}
	return unit{}, false
}

// shortUnit returns a unit by its abbreviation, which only text intervals take.
func shortUnit(name string) (unit, bool) {
	full := map[string]string{
		"us": "microsecond", "µs": "microsecond", "ms": "millisecond", "s": "second",
		"sec": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day",
	}[strings.ToLower(name)]
	return unitByName(full)
}

// fieldByName returns a field of an interval, which has no plural.
func fieldByName(name string) (IntervalUnit, bool) {
	for u := YearUnit; u <= SecondUnit; u++ {
		if strings.EqualFold(name, u.String()) {
			return u, true
		}
	}
	return 0, false
}

// ParseInterval parses a text such as '10 seconds', '1 day 2 hours', '-5 seconds',
// '1.5 seconds' or 'interval 3 minutes'. Units are year, month, week, day, hour,
// minute, second, millisecond, microsecond and nanosecond (cut to microseconds),
// singular or plural; h, m, min, s, ms and us are taken too, and the space before
// a unit may be missing. The quoted forms of an INTERVAL literal are taken as well.
func ParseInterval(text string) (Interval, error) {
	if trimmed := strings.TrimSpace(text); strings.Contains(text, "'") && hasIntervalPrefix(trimmed) {
		e, err := ParseExpr(trimmed)
		if err != nil {
			return Interval{}, fmt.Errorf("interval %q: %w", text, err)
		}
		if lit, ok := e.(*IntervalLit); ok {
			return lit.Value, nil
		}
		return Interval{}, fmt.Errorf("interval %q is not an interval literal", text)
	}
	var sum intervalSum
	if err := sum.addText(text, false); err != nil {
		return Interval{}, err
	}
	return sum.calendar()
}

// intervalSum adds the parts of an interval. From and to are the largest and
// smallest field seen.
type intervalSum struct {
	months int64
	days   int64
	micros int64
	from   IntervalUnit
	to     IntervalUnit
}

var errIntervalRange = errors.New("interval is out of range")

// calendar returns the sum with its parts as they were written.
func (s *intervalSum) calendar() (Interval, error) {
	if !fits32(s.months) || !fits32(s.days) {
		return Interval{}, errIntervalRange
	}
	return Interval{Months: int32(s.months), Days: int32(s.days), Micros: s.micros}, nil
}

// literal returns the sum as an INTERVAL literal has it: days are 24 hours.
func (s *intervalSum) literal() (Interval, error) {
	days, ok1 := multiply(s.days, microsPerDay)
	micros, ok2 := add(days, s.micros)
	if !ok1 || !ok2 || !fits32(s.months) {
		return Interval{}, errIntervalRange
	}
	return Interval{Months: int32(s.months), Micros: micros}, nil
}

func fits32(n int64) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// addText adds the parts of a text.
func (s *intervalSum) addText(text string, negative bool) error {
	rest := strings.TrimSpace(text)
	if hasIntervalPrefix(rest) {
		rest = strings.TrimSpace(rest[8:])
	}
	if rest == "" {
		return fmt.Errorf("interval %q has no value: write a number and a unit such as '10 seconds'", text)
	}
	for rest != "" {
		minus := negative
		if rest[0] == '-' || rest[0] == '+' {
			minus = minus != (rest[0] == '-')
			rest = strings.TrimSpace(rest[1:])
		}
		n := 0
		for n < len(rest) && (isDigit(rest[n]) || rest[n] == '.') {
			n++
		}
		number := rest[:n]
		rest = strings.TrimSpace(rest[n:])
		if number == "" {
			return fmt.Errorf("interval %q: expected a number before %q", text, firstWord(rest))
		}
		word := firstWord(rest)
		u, ok := unitByName(word)
		if !ok {
			u, ok = shortUnit(word)
		}
		if !ok {
			return unitError(text, number, word)
		}
		rest = strings.TrimSpace(rest[len(word):])
		if err := s.addNumber(number, minus, u); err != nil {
			return fmt.Errorf("interval %q: %w", text, err)
		}
	}
	return nil
}

func hasIntervalPrefix(s string) bool {
	return len(s) >= 8 && strings.EqualFold(s[:8], "interval")
}

// firstWord returns the letters at the start of s, or its first field.
func firstWord(s string) string {
	if i := strings.IndexFunc(s, func(r rune) bool {
		return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '-' || r == '+' || '0' <= r && r <= '9'
	}); i > 0 {
		return s[:i]
	}
	return s
}

func unitError(text, number, word string) error {
	if word == "" {
		return fmt.Errorf("interval %q: %s has no unit: write for example '%s seconds'", text, number, number)
	}
	if u, ok := Nearest(word, unitNames); ok {
		return fmt.Errorf("interval %q: unknown unit %q: did you mean %s?", text, word, u)
	}
	return fmt.Errorf("interval %q: unknown unit %q: units are %s", text, word, strings.Join(unitNames, ", "))
}

// addNumber adds a number of a unit. The number may have a sign; only seconds may
// have a fraction.
func (s *intervalSum) addNumber(number string, negative bool, u unit) error {
	text := number
	if text != "" && (text[0] == '-' || text[0] == '+') {
		negative = negative != (text[0] == '-')
		text = strings.TrimSpace(text[1:])
	}
	whole, fraction, hasPoint := strings.Cut(text, ".")
	if whole == "" && (!hasPoint || fraction == "") || !allDigits(whole) || !allDigits(fraction) {
		return fmt.Errorf("%q is not a number", number)
	}
	if hasPoint && (u.field != SecondUnit || u.micros != microsPerSecond) {
		return fmt.Errorf("%s must be a whole number: only seconds have a fraction", number)
	}
	micros, err := fractionMicros(fraction)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint("0"+whole, 10, 64)
	if err != nil || n > 1<<63 || n == 1<<63 && !negative {
		return errIntervalRange
	}
	v := int64(n) // 1<<63 becomes the smallest value, which is its own negative
	if negative {
		v, micros = -v, -micros
	}
	return s.add(v, micros, u)
}

// add adds v units and some microseconds.
func (s *intervalSum) add(v, micros int64, u unit) error {
	if u.nanos {
		v, micros = 0, v/1000
	}
	months, ok1 := multiply(v, u.months)
	days, ok2 := multiply(v, u.days)
	length, ok3 := multiply(v, u.micros)
	length, ok4 := add(length, micros)
	var ok5, ok6, ok7 bool
	s.months, ok5 = add(s.months, months)
	s.days, ok6 = add(s.days, days)
	s.micros, ok7 = add(s.micros, length)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !ok7 {
		return errIntervalRange
	}
	if s.from == 0 || u.field < s.from {
		s.from = u.field
	}
	s.to = max(s.to, u.field)
	return nil
}

// fractionMicros returns the digits behind the point of seconds in microseconds;
// digits behind the sixth are dropped.
func fractionMicros(digits string) (int64, error) {
	if len(digits) > 9 {
		return 0, fmt.Errorf("fraction .%s has more than 9 digits", digits)
	}
	n, err := strconv.ParseInt("0"+(digits + "000000")[:6], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fraction .%s is not a number", digits)
	}
	return n, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// addFields adds a text such as '1-2' or '1 10:00:00' with fields from..to. The
// sign in front is for all of them; all fields but the first are bounded.
func (s *intervalSum) addFields(text string, negative bool, from, to IntervalUnit) error {
	rest := text
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		negative = negative != (rest[0] == '-')
		rest = strings.TrimSpace(rest[1:])
	}
	bad := func() error {
		return fmt.Errorf("interval %q does not have the form %s", text, fieldsForm(from, to))
	}
	for f := from; f <= to; f++ {
		n := 0
		for n < len(rest) && (isDigit(rest[n]) || rest[n] == '.' && f == SecondUnit) {
			n++
		}
		number := rest[:n]
		if n == 0 || number[0] == '.' {
			return bad()
		}
		rest = rest[n:]
		u, _ := unitByName(f.String())
		if f > from && !withinField(number, f) {
			return fmt.Errorf("interval %q: %s %s is out of range", text, strings.ToLower(f.String()), number)
		}
		if err := s.addNumber(number, negative, u); err != nil {
			return fmt.Errorf("interval %q: %w", text, err)
		}
		if f == to {
			break
		}
		separator := fieldSeparator(f)
		if !strings.HasPrefix(rest, separator) {
			return bad()
		}
		rest = rest[1:]
		if f == DayUnit {
			rest = strings.TrimLeft(rest, " ")
		}
	}
	if rest != "" {
		return bad()
	}
	return nil
}

// fieldSeparator returns what stands behind a field.
func fieldSeparator(f IntervalUnit) string {
	switch f {
	case YearUnit:
		return "-"
	case DayUnit:
		return " "
	default:
		return ":"
	}
}

// fieldsForm shows how an interval with fields from..to is written.
func fieldsForm(from, to IntervalUnit) string {
	form := ""
	for f := from; f <= to; f++ {
		form += strings.ToLower(f.String())
		if f < to {
			form += fieldSeparator(f)
		}
	}
	return "'" + form + "'"
}

// withinField checks a field that is not the first one.
func withinField(number string, f IntervalUnit) bool {
	whole, _, _ := strings.Cut(number, ".")
	var limit int
	switch f {
	case MonthUnit:
		limit = 11
	case HourUnit:
		limit = 23
	default:
		limit = 59
	}
	n, err := strconv.Atoi(whole)
	return err == nil && n <= limit
}

// multiply and add report overflow in their second result.
func multiply(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	c := a * b
	return c, c/b == a && !(a == math.MinInt64 && b == -1) && !(b == math.MinInt64 && a == -1)
}

func add(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}
