package option

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages/fault"
)

func (o *Option) check(text string) error {
	if o.Required && strings.TrimSpace(text) == "" {
		return errors.New("it is empty; " + o.Doc)
	}
	switch o.Kind {
	case Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 && o.Min == 1 && o.Max == 0 {
			return fmt.Errorf("%q is not a %s", text, o.integer())
		}
		return o.checkRange(n)
	case Bool:
		if _, err := ParseBool(text); err != nil {
			return err
		}
	case Duration:
		if _, err := ParseDuration(text); err != nil {
			return err
		}
	case Bytes:
		if _, err := ParseBytes(text); err != nil {
			return err
		}
	case Enum:
		for _, v := range o.Values {
			if strings.EqualFold(v, text) {
				return nil
			}
		}
		hint := "one of " + strings.Join(o.Values, ", ")
		if n, ok := Nearest(text, o.Values); ok {
			hint = "did you mean " + n + "?"
		}
		return fmt.Errorf("%q is not allowed (%s)", text, hint)
	case String, Secret: // any text will do
	}
	return nil
}

// integer says what an Int takes.
func (o *Option) integer() string {
	if o.Min == 1 {
		return "positive integer"
	}
	return "whole number"
}

// checkRange holds an Int to Min and Max.
func (o *Option) checkRange(n int64) error {
	switch {
	case o.Min == 0 && o.Max == 0:
		return nil
	case o.Max == 0 && n < o.Min:
		return fmt.Errorf("%d is too small; give at least %d", n, o.Min)
	case o.Max != 0 && (n < o.Min || n > o.Max):
		return fmt.Errorf("%d is out of range; give a number from %d to %d", n, o.Min, o.Max)
	}
	return nil
}

// ParseBool reads true or false, in any case.
func ParseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

var durationUnits = map[string]time.Duration{
	"microsecond": time.Microsecond, "us": time.Microsecond,
	"millisecond": time.Millisecond, "ms": time.Millisecond,
	"second": time.Second, "sec": time.Second, "s": time.Second,
	"minute": time.Minute, "min": time.Minute, "m": time.Minute,
	"hour": time.Hour, "h": time.Hour,
	"day": 24 * time.Hour, "d": 24 * time.Hour,
	"week": 7 * 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// ParseDuration reads a Go duration such as 1h30m or 500ms, or number and unit
// as in an interval: "10 seconds", "1 day 2 hours". Negative durations are
// refused.
func ParseDuration(text string) (time.Duration, error) {
	s := strings.TrimSpace(strings.ToLower(text))
	if d, err := time.ParseDuration(s); err == nil {
		if d < 0 {
			return 0, fmt.Errorf("%q is negative", text)
		}
		return d, nil
	}
	fields := strings.Fields(strings.TrimPrefix(s, "interval "))
	if len(fields) == 0 || len(fields)%2 != 0 {
		return 0, badDuration(text)
	}
	var total time.Duration
	for i := 0; i < len(fields); i += 2 {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		// The unit as written comes first: "ms" is not the plural of "m".
		unit, ok := durationUnits[fields[i+1]]
		if !ok {
			unit, ok = durationUnits[strings.TrimSuffix(fields[i+1], "s")]
		}
		if err != nil || !ok || n < 0 || n > (math.MaxInt64-int64(total))/int64(unit) {
			return 0, badDuration(text)
		}
		total += time.Duration(n) * unit
	}
	return total, nil
}

func badDuration(text string) error {
	return fmt.Errorf("%q is not a duration (write 500ms, 10s, 1h30m or '10 seconds')", text)
}

var byteUnits = []struct {
	suffix string
	size   int64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"kb", 1000},
	{"mb", 1000_000},
	{"gb", 1000_000_000},
	{"k", 1 << 10},
	{"m", 1 << 20},
	{"g", 1 << 30},
	{"b", 1},
}

// ParseBytes reads a size such as 64MB (powers of 1000), 64MiB or 64m (powers
// of 1024) or a plain number of bytes.
func ParseBytes(text string) (int64, error) {
	s := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), " ", ""))
	mult := int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, mult = rest, u.size
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/mult {
		return 0, fmt.Errorf("%q is not a size (write 4096, 64MB or 1GiB)", text)
	}
	return n * mult, nil
}

// Has reports whether the user gave the option a value.
func (v Values) Has(name string) bool { return v.byName[name].given }

// Declared reports whether the option is among those the values were parsed
// for. All other methods but Has panic for options that are not.
func (v Values) Declared(name string) bool { _, ok := v.byName[name]; return ok }

// String returns the text of an option, "" when unset.
func (v Values) String(name string) string { return v.get(name).text }

// Secret returns the value of a Secret option.
func (v Values) Secret(name string) fault.Secret { return v.get(name).secret }

// Enum returns the value of an Enum option in lower case.
func (v Values) Enum(name string) string { return strings.ToLower(v.get(name).text) }

// Int returns the value of an Int option, 0 when unset.
func (v Values) Int(name string) int64 {
	n, _ := strconv.ParseInt(v.get(name).text, 10, 64) // checked by Parse; unset reads as 0
	return n
}

// Bool returns the value of a Bool option, false when unset.
func (v Values) Bool(name string) bool { return strings.EqualFold(v.get(name).text, "true") }

// Duration returns the value of a Duration option, 0 when unset.
func (v Values) Duration(name string) time.Duration {
	text := v.get(name).text
	if text == "" {
		return 0
	}
	d, _ := ParseDuration(text) // checked by Parse
	return d
}

// Bytes returns the value of a Bytes option, 0 when unset.
func (v Values) Bytes(name string) int64 {
	text := v.get(name).text
	if text == "" {
		return 0
	}
	n, _ := ParseBytes(text) // checked by Parse
	return n
}

// get panics on names that were not declared: that is a bug of the connector.
func (v Values) get(name string) value {
	x, ok := v.byName[name]
	if !ok {
		panic("option: " + name + " was not declared")
	}
	return x
}
