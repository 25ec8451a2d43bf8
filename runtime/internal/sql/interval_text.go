package sql

import (
	"fmt"
	"strings"
)

// Fields returns the interval as the text of a literal with the given fields, such
// as "1-2" for YEAR TO MONTH or "1 10:00:00" for DAY TO SECOND: what stands between
// the quotes of INTERVAL '...' and what a cast to string shows there. Days and
// Micros are added up, a day being 24 hours; what is smaller than the last field
// is left out.
func (v Interval) Fields(from, to IntervalUnit) string {
	if from <= MonthUnit {
		return yearMonthText(int64(v.Months), from, to)
	}
	micros := int64(v.Days)*microsPerDay + v.Micros
	rest, sign := uint64(micros), ""
	if micros < 0 {
		rest, sign = -rest, "-"
	}
	var b strings.Builder
	b.WriteString(sign)
	for f := from; f <= to; f++ {
		size := fieldMicros(f)
		n := rest / size
		rest %= size
		if f == DayUnit {
			fmt.Fprintf(&b, "%d", n)
		} else {
			fmt.Fprintf(&b, "%02d", n)
		}
		switch {
		case f == SecondUnit && rest > 0:
			b.WriteString(strings.TrimRight(fmt.Sprintf(".%06d", rest), "0"))
		case f < to:
			b.WriteString(fieldSeparator(f))
		}
	}
	return b.String()
}

func fieldMicros(f IntervalUnit) uint64 {
	return [...]uint64{DayUnit: microsPerDay, HourUnit: microsPerHour, MinuteUnit: microsPerMinute, SecondUnit: microsPerSecond}[f]
}

func yearMonthText(months int64, from, to IntervalUnit) string {
	sign := ""
	if months < 0 {
		months, sign = -months, "-"
	}
	switch {
	case from == MonthUnit:
		return fmt.Sprintf("%s%d", sign, months)
	case to == YearUnit:
		return fmt.Sprintf("%s%d", sign, months/12)
	}
	return fmt.Sprintf("%s%d-%d", sign, months/12, months%12)
}
