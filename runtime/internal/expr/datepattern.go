package expr

import (
	"bytes"
	"strconv"

	"github.com/streamd-io/streamd/messages/fault"
)

// datePattern is a pattern of letters as java.time has them, such as
// yyyy-MM-dd'T'HH:mm:ss.SSSXXX. The letters are
//
//	y u year      M L month   d day    D day of year   E day of week   q Q quarter
//	H hour 0-23   h 1-12      k 1-24   K 0-11          a AM or PM
//	m minute      s second    S fraction of a second
//	z v zone name V zone id   X x Z O offset
//
// Text in quotes stands for itself (” is a quote), and parts in [ ] are optional.
type datePattern []patternPart

type patternPart struct {
	letter byte // 0: text; '[': optional part
	count  int
	text   string
	inner  datePattern
}

func parsePattern(s string) (datePattern, error) {
	p, rest, err := patternParts(s, false)
	if err == nil && rest != "" {
		err = badPattern(s, "a ] has no [")
	}
	return p, err
}

func badPattern(s, why string) error {
	return fault.WithClass(fault.New(fault.Config, "the date pattern %q is not valid: %s", s, why), "INVALID_DATETIME_PATTERN")
}

func patternParts(s string, inside bool) (p datePattern, rest string, err error) {
	whole := s
	for len(s) > 0 {
		c := s[0]
		switch {
		case c == ']':
			if inside {
				return p, s[1:], nil
			}
			return p, s, nil
		case c == '[':
			var inner datePattern
			if inner, s, err = patternParts(s[1:], true); err != nil {
				return nil, "", err
			}
			p = append(p, patternPart{letter: '[', inner: inner})
		case c == '\'':
			text, n := quoted(s)
			if n < 0 {
				return nil, "", badPattern(whole, "a quote is not closed")
			}
			p = append(p, patternPart{text: text})
			s = s[n:]
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			n := 1
			for n < len(s) && s[n] == c {
				n++
			}
			if bytes.IndexByte([]byte("yuMLdDEqQHhkKamsSzvVXxZO"), c) < 0 || n > 9 {
				return nil, "", badPattern(whole, "the letters "+s[:n]+" have no meaning")
			}
			p = append(p, patternPart{letter: c, count: n})
			s = s[n:]
		default:
			p = append(p, patternPart{text: s[:1]})
			s = s[1:]
		}
	}
	if inside {
		return nil, "", badPattern(whole, "a [ is not closed")
	}
	return p, "", nil
}

// quoted reads a text in quotes at the start of s; n is -1 when it has no end.
func quoted(s string) (text string, n int) {
	if len(s) > 1 && s[1] == '\'' {
		return "'", 2
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			text += s[i : i+1]
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			text += "'"
			i++
			continue
		}
		return text, i + 1
	}
	return "", -1
}

// append writes a wall clock time; micros is the instant, for the zone.
func (p datePattern) append(dst []byte, micros int64, z zone) []byte {
	days, ofDay := split(z.local(micros))
	c := civilOf(days)
	for _, f := range p {
		switch f.letter {
		case 0:
			dst = append(dst, f.text...)
		case '[':
			dst = f.inner.append(dst, micros, z)
		case 'S':
			frac := int(ofDay % microsPerSecond)
			text := strconv.AppendInt(nil, int64(1_000_000_000+frac*1000), 10)
			dst = append(dst, text[1:1+f.count]...)
		case 'z', 'v', 'V', 'X', 'x', 'Z', 'O':
			dst = f.appendZone(dst, micros, z)
		case 'E', 'a', 'M', 'L':
			dst = f.appendName(dst, c, days, ofDay)
		default:
			dst = f.appendNumber(dst, c, days, ofDay)
		}
	}
	return dst
}

func (f patternPart) appendNumber(dst []byte, c civil, days int32, ofDay int64) []byte {
	hour := int(ofDay / microsPerHour)
	v := 0
	switch f.letter {
	case 'y', 'u':
		if f.count == 2 {
			return pad(dst, ((c.year%100)+100)%100, 2)
		}
		if c.year > 9999 && f.count >= 4 {
			dst = append(dst, '+')
		}
		v = c.year
	case 'd':
		v = c.day
	case 'D':
		v = dayOfYear(days)
	case 'q', 'Q':
		v = (c.month + 2) / 3
	case 'H':
		v = hour
	case 'h':
		v = (hour+11)%12 + 1
	case 'k':
		v = (hour+23)%24 + 1
	case 'K':
		v = hour % 12
	case 'm':
		v = int(ofDay / microsPerMinute % 60)
	case 's':
		v = int(ofDay / microsPerSecond % 60)
	}
	return pad(dst, v, f.count)
}

func (f patternPart) appendName(dst []byte, c civil, days int32, ofDay int64) []byte {
	name := ""
	switch f.letter {
	case 'E':
		name = dayNames[dayOfWeek(days)]
	case 'a':
		if ofDay < 12*microsPerHour {
			return append(dst, "AM"...)
		}
		return append(dst, "PM"...)
	default:
		if f.count < 3 {
			return pad(dst, c.month, f.count)
		}
		name = monthNames[c.month-1]
	}
	if f.count < 4 {
		name = name[:3]
	}
	return append(dst, name...)
}

func (f patternPart) appendZone(dst []byte, micros int64, z zone) []byte {
	seconds := int(z.offset(micros) / microsPerSecond)
	switch f.letter {
	case 'V':
		if z.loc == nil {
			return append(dst, 'Z')
		}
		return append(dst, z.loc.String()...)
	case 'z', 'v':
		if z.loc == nil {
			return append(dst, "UTC"...)
		}
		return append(dst, zoneName(micros, z)...)
	case 'X':
		if seconds == 0 {
			return append(dst, 'Z')
		}
	case 'O':
		dst = append(dst, "GMT"...)
		if seconds == 0 {
			return dst
		}
	}
	sign := byte('+')
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	dst = pad(append(dst, sign), seconds/3600, 2)
	if f.letter|0x20 == 'x' && f.count == 1 && seconds%3600 == 0 {
		return dst
	}
	if f.letter == 'O' || f.letter == 'Z' && f.count == 5 || f.letter|0x20 == 'x' && (f.count == 3 || f.count == 5) {
		dst = append(dst, ':')
	}
	return pad(dst, seconds/60%60, 2)
}

// fieldsRead is what parsing has found.
type fieldsRead struct {
	c        civil
	dayYear  int
	hour     int
	pm       int // -1: not given
	minute   int
	second   int
	micros   int64
	zone     zone
	zoned    bool
	twelve   bool // the hour is one of a half day
	weekSeen bool
}

// parse reads a text as a whole. The result is an instant in z unless the text names
// a zone.
func (p datePattern) parse(s []byte, z zone) (int64, bool) {
	f := fieldsRead{c: civil{1970, 1, 1}, pm: -1}
	rest, ok := p.read(s, &f)
	if !ok || len(rest) > 0 {
		return 0, false
	}
	if f.dayYear > 0 {
		limit := 365
		if leap(f.c.year) {
			limit++
		}
		if f.dayYear > limit {
			return 0, false
		}
		f.c = civilOf(int32(civil{f.c.year, 1, 1}.days()) + int32(f.dayYear) - 1)
	}
	if f.twelve {
		f.hour %= 12
		if f.pm == 1 {
			f.hour += 12
		}
	}
	if !f.c.valid() || f.hour > 23 || f.minute > 59 || f.second > 59 {
		return 0, false
	}
	local, ok := mulInt64(f.c.days(), microsPerDay)
	if !ok {
		return 0, false
	}
	ofDay := int64(f.hour)*microsPerHour + int64(f.minute)*microsPerMinute + int64(f.second)*microsPerSecond + f.micros
	if local, ok = addInt64(local, ofDay); !ok {
		return 0, false
	}
	if f.zoned {
		z = f.zone
	}
	return z.instant(local), true
}

func (p datePattern) read(s []byte, f *fieldsRead) (rest []byte, ok bool) {
	for i, part := range p {
		switch part.letter {
		case 0:
			if !bytes.HasPrefix(s, raw(part.text)) {
				return nil, false
			}
			s = s[len(part.text):]
		case '[':
			saved := *f
			if rest, ok := part.inner.read(s, f); ok {
				s = rest
			} else {
				*f = saved
			}
		default:
			next := i+1 < len(p) && p[i+1].numeric()
			if s, ok = part.read(s, f, next); !ok {
				return nil, false
			}
		}
	}
	return s, true
}

// numeric reports whether the part is digits, so that a number before it must have
// a fixed width.
func (f patternPart) numeric() bool {
	switch f.letter {
	case 0, '[', 'E', 'a', 'z', 'v', 'V', 'X', 'x', 'Z', 'O':
		return false
	case 'M', 'L':
		return f.count < 3
	}
	return true
}

func (f patternPart) read(s []byte, to *fieldsRead, adjacent bool) ([]byte, bool) {
	switch f.letter {
	case 'S':
		return readFraction(s, to, f.count)
	case 'z', 'v', 'V', 'X', 'x', 'Z', 'O':
		return readZone(s, to, f.letter)
	case 'E':
		return readName(s, dayNames[:], f.count < 4, func(int) { to.weekSeen = true })
	case 'a':
		return readName(s, []string{"AM", "PM"}, false, func(i int) { to.pm = i })
	case 'M', 'L':
		if f.count >= 3 {
			return readName(s, monthNames[:], f.count < 4, func(i int) { to.c.month = i + 1 })
		}
	}
	neg := false
	if (f.letter == 'y' || f.letter == 'u') && len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	low, high := f.count, f.count
	if !adjacent {
		if f.count == 1 {
			high = 9
		} else if (f.letter == 'y' || f.letter == 'u') && f.count >= 4 {
			high = 7
		}
	}
	v, n, _ := digitsOf(s, low, high)
	if n < low {
		return nil, false
	}
	if neg {
		v = -v
	}
	return s[n:], f.set(v, to)
}

func (f patternPart) set(v int, to *fieldsRead) bool {
	switch f.letter {
	case 'y', 'u':
		if f.count == 2 {
			v += 2000
		}
		to.c.year = v
	case 'M', 'L':
		to.c.month = v
	case 'd':
		to.c.day = v
	case 'D':
		to.dayYear = v
		return v > 0
	case 'H':
		to.hour = v
	case 'k':
		to.hour = v % 24
		return v >= 1 && v <= 24
	case 'h', 'K':
		to.hour, to.twelve = v, true
		return v <= 12
	case 'm':
		to.minute = v
	case 's':
		to.second = v
	case 'q', 'Q':
		return v >= 1 && v <= 4
	}
	return true
}

func readFraction(s []byte, to *fieldsRead, maximum int) ([]byte, bool) {
	n, unit := 0, int64(microsPerSecond/10)
	to.micros = 0
	for n < len(s) && n < maximum && s[n] >= '0' && s[n] <= '9' {
		to.micros += int64(s[n]-'0') * unit
		unit /= 10
		n++
	}
	return s[n:], n > 0
}

func readName(s []byte, names []string, short bool, set func(i int)) ([]byte, bool) {
	for i, name := range names {
		if short {
			name = name[:3]
		}
		if len(s) >= len(name) && bytes.EqualFold(s[:len(name)], raw(name)) {
			set(i)
			return s[len(name):], true
		}
	}
	return nil, false
}

func readZone(s []byte, to *fieldsRead, letter byte) ([]byte, bool) {
	n := 0
	for n < len(s) && (s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || s[n] >= '0' && s[n] <= '9' || bytes.IndexByte([]byte("+-:/_"), s[n]) >= 0) {
		n++
	}
	if n == 0 || letter != 'z' && letter != 'v' && letter != 'V' && s[0] != '+' && s[0] != '-' && (letter != 'X' || s[0] != 'Z') && letter != 'O' {
		return nil, false
	}
	z, ok := parseZone(view(s[:n]))
	to.zone, to.zoned = z, true
	return s[n:], ok
}
