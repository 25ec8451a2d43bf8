package sql

import (
	"strings"
	"testing"
	"time"
)

func TestParseIntervalReadsCalendarIntervals(t *testing.T) {
	const second = int64(1_000_000)
	tests := []struct {
		text string
		want Interval
	}{
		{"10 seconds", Interval{Micros: 10 * second}},
		{"1 second", Interval{Micros: second}},
		{"-5 seconds", Interval{Micros: -5 * second}},
		{"- 5 seconds", Interval{Micros: -5 * second}},
		{"+5 seconds", Interval{Micros: 5 * second}},
		{"0 second", Interval{}},
		{"200 milliseconds", Interval{Micros: 200_000}},
		{"interval 3 minutes", Interval{Micros: 180 * second}},
		{"INTERVAL 3 minutes", Interval{Micros: 180 * second}},
		{"1 day 2 hours", Interval{Days: 1, Micros: 7200 * second}},
		{"1 day 2 hours 3 minutes 4 seconds", Interval{Days: 1, Micros: (7200 + 184) * second}},
		{" 1 year 2 months", Interval{Months: 14}},
		{"1 year -13 months", Interval{Months: -1}},
		{"2 weeks", Interval{Days: 14}},
		{"1.5 seconds", Interval{Micros: 1_500_000}},
		{"-1.000001 seconds", Interval{Micros: -1_000_001}},
		{"1.123456789 seconds", Interval{Micros: 1_123_456}},
		{"1999 nanoseconds", Interval{Micros: 1}},
		{"7 microseconds", Interval{Micros: 7}},
		{"100ms", Interval{Micros: 100_000}},
		{"30s", Interval{Micros: 30 * second}},
		{"5m", Interval{Micros: 300 * second}},
		{"1h30m", Interval{Micros: 5400 * second}},
		{"interval '8' minute", Interval{Micros: 480 * second}},
		{"inTerval '3' day", Interval{Micros: 3 * 86400 * second}},
		{"interval '1' year", Interval{Months: 12}},
		{"-9223372036854775808 microseconds", Interval{Micros: -1 << 63}},
		{"2147483647 months", Interval{Months: 1<<31 - 1}},
	}
	for _, tt := range tests {
		got, err := ParseInterval(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseInterval(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
}

func TestParseIntervalNamesWhatIsWrong(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "has no value"},
		{"interval", "has no value"},
		{"10", "has no unit: write for example '10 seconds'"},
		{"ten seconds", `expected a number before "ten"`},
		{"1 foo", `unknown unit "foo": units are years,`},
		{"10 secnds", "did you mean seconds?"},
		{"interva 2 day", `expected a number before "interva"`},
		{"interval 4 foo", `unknown unit "foo"`},
		{"1.5 days", "only seconds have a fraction"},
		{"1..5 seconds", "is not a number"},
		{"9223372036854775808 microseconds", "out of range"},
		{"2147483648 months", "out of range"},
		{"1.0000000001 seconds", "more than 9 digits"},
		{"interval '1 2:3:4' day to hour", "does not have the form 'day hour'"},
		{"interval '1 2' year to month", "does not have the form 'year-month'"},
		{"1 day day", `expected a number before "day"`},
	}
	for _, tt := range tests {
		_, err := ParseInterval(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseInterval(%q): error %v, want one with %q", tt.text, err, tt.want)
		}
	}
}

func TestIntervalLiteralsHaveOneKindOfFields(t *testing.T) {
	tests := []struct {
		text     string
		want     Interval
		from, to IntervalUnit
	}{
		{"INTERVAL 10 SECONDS", Interval{Micros: 10_000_000}, SecondUnit, SecondUnit},
		{"INTERVAL '1 10:00:00' DAY TO SECOND", Interval{Micros: 34 * 3600 * 1_000_000}, DayUnit, SecondUnit},
		{"INTERVAL '-1 10:00:00' DAY TO SECOND", Interval{Micros: -34 * 3600 * 1_000_000}, DayUnit, SecondUnit},
		{"INTERVAL 1 HOUR 30 MINUTES", Interval{Micros: 5400 * 1_000_000}, HourUnit, MinuteUnit},
		{"INTERVAL '1-2' YEAR TO MONTH", Interval{Months: 14}, YearUnit, MonthUnit},
		{"INTERVAL 2 WEEKS", Interval{Micros: 14 * 86400 * 1_000_000}, DayUnit, DayUnit},
	}
	for _, tt := range tests {
		e, err := ParseExpr(tt.text)
		if err != nil {
			t.Errorf("parse of %s: %v", tt.text, err)
			continue
		}
		lit, ok := e.(*IntervalLit)
		if !ok || lit.Value != tt.want || lit.From != tt.from || lit.To != tt.to || lit.Text != tt.text {
			t.Errorf("%s: got %+v, want %+v %s to %s", tt.text, e, tt.want, tt.from, tt.to)
		}
	}
}

func TestTotalMicrosAddsDaysAndReportsOverflow(t *testing.T) {
	tests := []struct {
		v    Interval
		want int64
		ok   bool
	}{
		{Interval{Days: 2, Micros: -5}, 2*86400*1_000_000 - 5, true},
		{Interval{Months: 1}, 0, false},
		{Interval{Days: 1, Micros: 1<<63 - 1}, 0, false},
		{Interval{Days: -1, Micros: -1 << 63}, 0, false},
		{Interval{Micros: -1 << 63}, -1 << 63, true},
	}
	for _, tt := range tests {
		got, ok := tt.v.TotalMicros()
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%+v: got %d, %t, want %d, %t", tt.v, got, ok, tt.want, tt.ok)
		}
	}
}

// TestIntervalsAgreeWithDurations compares with the standard library, which knows
// the abbreviations.
func TestIntervalsAgreeWithDurations(t *testing.T) {
	for _, text := range []string{"1h2m3s", "5ms", "17us", "36h", "1.5s", "2m0.25s"} {
		want, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		v, err := ParseInterval(text)
		got, _ := v.TotalMicros()
		if err != nil || got != want.Microseconds() {
			t.Errorf("ParseInterval(%q) = %d microseconds, %v, want %d", text, got, err, want.Microseconds())
		}
	}
}

func FuzzInterval(f *testing.F) {
	for _, s := range []string{"10 seconds", "1 day -2 hours", "interval '1-2' year to month", "'3:30' minute to second", "1h30m", "-9223372036854775808 us"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseInterval(text); err == nil {
			if got, ok := v.TotalMicros(); ok && v.Days == 0 && got != v.Micros {
				t.Errorf("the length of %+v = %d microseconds, want %d", v, got, v.Micros)
			}
		}
		e, err := ParseExpr("INTERVAL " + text)
		if err != nil {
			return
		}
		lit, ok := e.(*IntervalLit)
		if !ok {
			return
		}
		again, err := ParseExpr(Format(lit))
		if err != nil {
			t.Fatalf("parse of the printed literal %s: %v", Format(lit), err)
		}
		got, ok := again.(*IntervalLit)
		if !ok || got.Value != lit.Value || got.From != lit.From || got.To != lit.To {
			t.Fatalf("INTERVAL %s is printed as %s, which is %+v, want %+v", text, Format(lit), again, lit)
		}
	})
}
