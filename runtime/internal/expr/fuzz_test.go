package expr

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/streamd-io/streamd/messages"
)

// likeOracle translates a LIKE pattern to a regular expression; ok is false where
// the escape is misplaced.
func likeOracle(pattern string) (re *regexp.Regexp, ok bool) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	escaped := false
	for _, r := range pattern {
		switch {
		case escaped:
			if r != '%' && r != '_' && r != '\\' {
				return nil, false
			}
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '%':
			b.WriteString(`.*`)
		case r == '_':
			b.WriteString(`.`)
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile(b.String() + `\z`), !escaped
}

// evalLike evaluates s LIKE pattern for three rows, with the pattern constant or not.
func evalLike(t *testing.T, s, pattern string, constant bool) (string, error) {
	t.Helper()
	schema := schemaOf(t, "s string, p string")
	b := batchOf(t, schema, [][]any{{"", pattern}, {s, pattern}, {s + s, pattern}})
	p := Node(NewColumn(1, "p", messages.T(messages.String)))
	if constant {
		p = String(pattern)
	}
	n, err := Call("like", NewColumn(0, "s", messages.T(messages.String)), p)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Compile(n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Eval(b)
	if err != nil {
		return "", err
	}
	return valueText(c, 0) + valueText(c, 1) + valueText(c, 2), nil
}

func FuzzLike(f *testing.F) {
	for _, s := range [][2]string{{"abc", "a%"}, {"abc", "%c"}, {"abc", "%b%"}, {"a_c", `a\_c`}, {"日本", "_本"}, {"aab", "%a_"}, {"x", `\`}, {"aXbXc", "%X%X%"}, {"", ""}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, s, pattern string) {
		if !utf8.ValidString(s) || !utf8.ValidString(pattern) || len(pattern) > 200 || len(s) > 1000 {
			t.Skip()
		}
		re, ok := likeOracle(pattern)
		for _, constant := range []bool{true, false} {
			got, err := evalLike(t, s, pattern, constant)
			if !ok {
				if err == nil {
					t.Errorf("%q LIKE %q: no error for a misplaced escape", s, pattern)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%q LIKE %q: %v", s, pattern, err)
			}
			want := strconv.FormatBool(re.MatchString("")) + strconv.FormatBool(re.MatchString(s)) + strconv.FormatBool(re.MatchString(s+s))
			if got != want {
				t.Errorf("%q LIKE %q (constant %v): %s, want %s", s, pattern, constant, got, want)
			}
		}
	})
}

func FuzzCastNumbers(f *testing.F) {
	for _, s := range []string{"1", "-1.5", " 12 ", "1e3", "9223372036854775808", "-9223372036854775808", "NaN", "1.", ".5", "+7", "1e-400", "00000000000000000000000000000000000000000001.1", "1e2147483648", "0x10", "1_000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		trimmed := string(trimAll([]byte(s)))
		want, werr := strconv.ParseInt(trimmed, 10, 64)
		if got, ok := parseInt([]byte(s), false); ok != (werr == nil) || ok && got != want {
			t.Errorf("integer %q: %d %v, want %d %v", s, got, ok, want, werr)
		}
		if v, ok := parseFloat([]byte(s), 64); ok {
			back, ok2 := parseFloat(appendFloat(nil, v, 64), 64)
			if !ok2 || back != v && !(math.IsNaN(back) && math.IsNaN(v)) {
				t.Errorf("double %q: %v is read back as %v", s, v, back)
			}
		}
		typ := messages.DecimalType(38, 10)
		p, scale, ok := parseDecimal([]byte(trimmed))
		plain := regexp.MustCompile(`\A[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\z`).MatchString(trimmed)
		if plain && !ok {
			t.Errorf("decimal %q is not read", s)
		}
		if !ok || !plain {
			return
		}
		exact, _ := new(big.Rat).SetString(strings.TrimSuffix(trimmed, "."))
		if exact == nil {
			return
		}
		v, fitsType := p.at(scale, typ)
		inRange := new(big.Rat).Abs(exact).Cmp(new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(28), nil))) < 0
		if fitsType != inRange {
			// Rounding may carry a value just below the limit over it.
			if text := exact.FloatString(10); len(strings.TrimLeft(text, "-")) != 28+1+10+1 {
				t.Errorf("decimal %q: in range %v, want %v", s, fitsType, inRange)
			}
			return
		}
		if !fitsType {
			return
		}
		if got, want := string(appendDecimal(nil, v, 10)), exact.FloatString(10); got != want && want != "-0.0000000000" {
			t.Errorf("decimal %q: %s, want %s", s, got, want)
		}
	})
}

func FuzzCastTimes(f *testing.F) {
	for _, s := range []string{"2024-02-29", "2024-2-9 1:2:3.5", "1969-12-31T23:59:59.999999Z", "0001-01-01", "+12345-01-01 00:00", "2024-01-01 00:00:00+02:00", "2024-01-01 00:00 Europe/Paris", "2024-13-01", "-0044-03-15", "2021", "2024-01-01 24:00:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := parseTimestamp([]byte(s), utcZone()); ok {
			text := appendLocal(nil, v)
			if back, ok := parseTimestamp(text, utcZone()); !ok || back != v {
				t.Errorf("timestamp %q: %s is read back as %d, want %d", s, text, back, v)
			}
		}
		if d, ok := parseDate([]byte(s)); ok {
			text := appendDate(nil, d)
			if back, ok := parseDate(text); !ok || back != d {
				t.Errorf("date %q: %s is read back as %d, want %d", s, text, back, d)
			}
		}
		if want, err := time.Parse("2006-01-02 15:04:05.999999", s); err == nil {
			if got, ok := parseTimestamp([]byte(s), utcZone()); !ok || got != want.UnixMicro() {
				t.Errorf("timestamp %q: %d %v, want %d", s, got, ok, want.UnixMicro())
			}
		}
		p, err := parsePattern(s)
		if err == nil && len(s) < 100 {
			p.parse(p.append(nil, 1_700_000_000_123_456, utcZone()), utcZone())
		}
	})
}

func FuzzCalendar(f *testing.F) {
	f.Add(int64(0), int64(1))
	f.Add(int64(-719528), int64(12))
	f.Add(int64(19782), int64(-13))
	f.Fuzz(func(t *testing.T, day, months int64) {
		d := int32(day % 3_000_000)
		want := time.Unix(int64(d)*86400, 0).UTC()
		c := civilOf(d)
		if c.year != want.Year() || c.month != int(want.Month()) || c.day != want.Day() {
			t.Errorf("day %d: %v, want %v", d, c, want)
		}
		if c.days() != int64(d) {
			t.Errorf("day %d: %v has day number %d", d, c, c.days())
		}
		if got := dayOfYear(d); got != want.YearDay() {
			t.Errorf("day %d: day of year %d, want %d", d, got, want.YearDay())
		}
		y, w := isoWeek(d)
		if wy, ww := want.ISOWeek(); y != wy || w != ww {
			t.Errorf("day %d: week %d of %d, want %d of %d", d, w, y, ww, wy)
		}
		if got := dayOfWeek(d); got != (int(want.Weekday())+6)%7 {
			t.Errorf("day %d: day of week %d, want %v", d, got, want.Weekday())
		}
		m := months % 10_000
		first := time.Date(want.Year(), want.Month()+time.Month(m), 1, 0, 0, 0, 0, time.UTC)
		moved := first.AddDate(0, 0, min(want.Day(), first.AddDate(0, 1, -1).Day())-1)
		if got, ok := addMonths(d, m); !ok || int64(got) != moved.Unix()/86400 {
			t.Errorf("day %d plus %d months: %d, want %v", d, m, got, moved)
		}
	})
}
