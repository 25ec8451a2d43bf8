package expr

import (
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
)

// pad writes v with at least width digits.
func pad(dst []byte, v, width int) []byte {
	if v < 0 {
		dst = append(dst, '-')
		v = -v
	}
	if width == 2 && v < 100 {
		return append(dst, byte('0'+v/10), byte('0'+v%10))
	}
	for p := 10; width > 1; width-- {
		if v < p {
			for range width - 1 {
				dst = append(dst, '0')
			}
			break
		}
		p *= 10
	}
	return strconv.AppendInt(dst, int64(v), 10)
}

func appendYear(dst []byte, year int) []byte {
	if year > 9999 {
		dst = append(dst, '+')
	}
	return pad(dst, year, 4)
}

func appendDate(dst []byte, days int32) []byte {
	c := civilOf(days)
	dst = append(appendYear(dst, c.year), '-')
	dst = append(pad(dst, c.month, 2), '-')
	return pad(dst, c.day, 2)
}

// appendClock writes hh:mm:ss and the fraction without trailing zeros.
func appendClock(dst []byte, ofDay int64) []byte {
	dst = append(pad(dst, int(ofDay/microsPerHour), 2), ':')
	dst = append(pad(dst, int(ofDay/microsPerMinute%60), 2), ':')
	dst = pad(dst, int(ofDay/microsPerSecond%60), 2)
	frac := int(ofDay % microsPerSecond)
	if frac == 0 {
		return dst
	}
	dst = pad(append(dst, '.'), frac, 6)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendLocal writes a wall clock as yyyy-mm-dd hh:mm:ss[.ffffff].
func appendLocal(dst []byte, local int64) []byte {
	days, ofDay := split(local)
	return appendClock(append(appendDate(dst, days), ' '), ofDay)
}

func appendInterval(dst []byte, v messages.IntervalValue) []byte {
	if v.Months != 0 && v.Days == 0 && v.Nanos == 0 {
		return appendMonths(append(dst, "INTERVAL '"...), int64(v.Months), "' YEAR TO MONTH")
	}
	if v.Months != 0 {
		dst = appendMonths(append(dst, "INTERVAL '"...), int64(v.Months), "' YEAR TO MONTH + ")
	}
	micros, _ := intervalMicros(v) // an interval that overflows cannot be built
	dst = append(dst, "INTERVAL '"...)
	if micros < 0 {
		dst = append(dst, '-')
	}
	m := uint64(micros)
	if micros < 0 {
		m = -m
	}
	dst = append(strconv.AppendUint(dst, m/microsPerDay, 10), ' ')
	dst = appendClock(dst, int64(m%microsPerDay))
	return append(dst, "' DAY TO SECOND"...)
}

func appendMonths(dst []byte, m int64, end string) []byte {
	if m < 0 {
		dst = append(dst, '-')
		m = -m
	}
	dst = append(strconv.AppendInt(dst, m/12, 10), '-')
	return append(strconv.AppendInt(dst, m%12, 10), end...)
}

// digitsOf reads min to max digits at the start of s.
func digitsOf(s []byte, minimum, maximum int) (v, n int, ok bool) {
	for n < len(s) && n < maximum && s[n] >= '0' && s[n] <= '9' {
		v = v*10 + int(s[n]-'0')
		n++
	}
	return v, n, n >= minimum && (n == len(s) || s[n] < '0' || s[n] > '9')
}

// datePart reads [+-]yyyy[yyy][-[m]m[-[d]d]] and returns what follows it.
func datePart(s []byte) (c civil, rest []byte, ok bool) {
	c = civil{0, 1, 1}
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	y, n, ok := digitsOf(s, 4, 7)
	if !ok {
		return c, nil, false
	}
	c.year, s = y, s[n:]
	if neg {
		c.year = -y
	}
	for _, part := range []*int{&c.month, &c.day} {
		if len(s) == 0 || s[0] != '-' {
			break
		}
		v, n, ok := digitsOf(s[1:], 1, 2)
		if !ok {
			return c, nil, false
		}
		*part, s = v, s[1+n:]
	}
	return c, s, c.valid()
}

// parseDate reads a date; what follows a blank or T after a full date is ignored.
func parseDate(s []byte) (int32, bool) {
	s = trimAll(s)
	c, rest, ok := datePart(s)
	if !ok {
		return 0, false
	}
	if len(rest) > 0 && (rest[0] != ' ' && rest[0] != 'T' || !fullDate(s[:len(s)-len(rest)])) {
		return 0, false
	}
	return toDays(c.days())
}

func fullDate(s []byte) bool { return strings.Count(view(s[1:]), "-") == 2 }

// wallClock is a timestamp text without and with its zone.
type wallClock struct {
	local int64
	zone  zone
	zoned bool
}

// parseTimestamp reads date[(T| )hh:mm[:ss[.f...]]][zone]. The result is an instant
// in the given zone unless the text names one.
func parseTimestamp(s []byte, z zone) (int64, bool) {
	w, ok := parseWallClock(trimAll(s))
	if !ok {
		return 0, false
	}
	if w.zoned {
		z = w.zone
	}
	return z.instant(w.local), true
}

// parseLocalTimestamp reads the same text as a wall clock and drops the zone.
func parseLocalTimestamp(s []byte) (int64, bool) {
	w, ok := parseWallClock(trimAll(s))
	return w.local, ok
}

func parseWallClock(s []byte) (w wallClock, ok bool) {
	c, rest, ok := datePart(s)
	if !ok {
		return w, false
	}
	days := c.days()
	ofDay := int64(0)
	if len(rest) > 0 {
		if rest[0] != ' ' && rest[0] != 'T' || !fullDate(s[:len(s)-len(rest)]) {
			return w, false
		}
		if ofDay, rest, ok = clockPart(rest[1:]); !ok {
			return w, false
		}
		if len(rest) > 0 {
			if w.zone, ok = parseZone(view(trimAll(rest))); !ok {
				return w, false
			}
			w.zoned = true
		}
	}
	local, ok := mulInt64(days, microsPerDay)
	if !ok {
		return w, false
	}
	w.local, ok = addInt64(local, ofDay)
	return w, ok
}

// clockPart reads [h]h[:[m]m[:[s]s[.f...]]]; digits below a microsecond are dropped.
func clockPart(s []byte) (ofDay int64, rest []byte, ok bool) {
	limits := [...]int{23, 59, 59}
	units := [...]int64{microsPerHour, microsPerMinute, microsPerSecond}
	for i := range limits {
		if i > 0 {
			if len(s) == 0 || s[0] != ':' {
				return ofDay, s, i >= 2 || len(s) == 0
			}
			s = s[1:]
		}
		v, n, ok := digitsOf(s, 1, 2)
		if !ok || v > limits[i] {
			return 0, nil, false
		}
		ofDay += int64(v) * units[i]
		s = s[n:]
	}
	if len(s) == 0 || s[0] != '.' {
		return ofDay, s, true
	}
	s = s[1:]
	for unit := int64(microsPerSecond / 10); len(s) > 0 && s[0] >= '0' && s[0] <= '9'; unit /= 10 {
		ofDay += int64(s[0]-'0') * unit
		s = s[1:]
	}
	return ofDay, s, true
}

// parseZone reads Z, an offset such as +02:00, +0200, +2 or UTC+2, or a region.
func parseZone(name string) (zone, bool) {
	switch name {
	case "Z", "UTC", "GMT", "UT":
		return zone{}, true
	case "":
		return zone{}, false
	}
	rest := name
	for _, p := range [...]string{"UTC", "GMT", "UT"} {
		if strings.HasPrefix(rest, p) && len(rest) > len(p) && (rest[len(p)] == '+' || rest[len(p)] == '-') {
			rest = rest[len(p):]
			break
		}
	}
	if rest[0] == '+' || rest[0] == '-' {
		return parseOffset(rest)
	}
	if name == "Local" || strings.ContainsAny(name, "\\.") {
		return zone{}, false
	}
	loc, err := time.LoadLocation(strings.Clone(name))
	if err != nil {
		return zone{}, false
	}
	return newZone(loc), true
}

// parseOffset reads a sign and h, hh, hhmm, h:mm, hh:mm or hh:mm:ss.
func parseOffset(s string) (zone, bool) {
	sign, body := 1, s[1:]
	if s[0] == '-' {
		sign = -1
	}
	var parts [3]int
	n := 0
	if len(body) == 4 && !strings.Contains(body, ":") {
		body = body[:2] + ":" + body[2:]
	}
	for p := range strings.SplitSeq(body, ":") {
		v, used, ok := digitsOf(raw(p), 1, 2)
		if !ok || used != len(p) || n == len(parts) {
			return zone{}, false
		}
		parts[n] = v
		n++
	}
	seconds := parts[0]*3600 + parts[1]*60 + parts[2]
	if parts[1] > 59 || parts[2] > 59 || seconds > 18*3600 {
		return zone{}, false
	}
	if seconds == 0 {
		return zone{}, true
	}
	return zone{time.FixedZone(s, sign*seconds)}, true
}
