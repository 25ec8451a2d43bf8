package format

import "math"

// The largest distance from the epoch that is a whole day in microseconds.
const (
	microsPerSecond = 1_000_000
	microsPerDay    = 86_400 * microsPerSecond
	maxDays         = math.MaxInt64/microsPerDay - 1
)

// ParseTimestamp reads an ISO-8601 instant and returns microseconds since the
// Unix epoch, UTC: a date, optionally followed by T or a space and HH:MM, :SS, a
// fraction of 1 to 9 digits (what is finer than a microsecond is cut off), and a
// zone (Z, +HH, +HHMM or +HH:MM). zoned tells whether there was a zone; without
// one the time is taken as UTC. It does not allocate.
func ParseTimestamp(s []byte) (micros int64, zoned, ok bool) {
	days, n, ok := parseDate(s)
	if !ok || days > maxDays || days < -maxDays {
		return 0, false, false
	}
	s = s[n:]
	micros = days * microsPerDay
	if len(s) == 0 {
		return micros, false, true
	}
	if s[0] != 'T' && s[0] != 't' && s[0] != ' ' {
		return 0, false, false
	}
	t, n, ok := parseClock(s[1:])
	if !ok {
		return 0, false, false
	}
	s = s[1+n:]
	if len(s) == 0 {
		return micros + t, false, true
	}
	offset, ok := parseZone(s)
	return micros + t - offset, true, ok
}

// parseClock reads HH:MM[:SS[.fraction]] and returns microseconds of the day
// and how many bytes it took.
func parseClock(s []byte) (int64, int, bool) {
	if len(s) < 5 || s[2] != ':' {
		return 0, 0, false
	}
	h, ok1 := two(s)
	m, ok2 := two(s[3:])
	if !ok1 || !ok2 || h > 23 || m > 59 {
		return 0, 0, false
	}
	t := int64(h*3600+m*60) * microsPerSecond
	if len(s) < 6 || s[5] != ':' {
		return t, 5, true
	}
	if len(s) < 8 {
		return 0, 0, false
	}
	sec, ok := two(s[6:])
	if !ok || sec > 59 {
		return 0, 0, false
	}
	t += int64(sec) * microsPerSecond
	if len(s) < 9 || s[8] != '.' {
		return t, 8, true
	}
	frac, digits := int64(0), 0
	for _, c := range s[9:] {
		if c < '0' || c > '9' {
			break
		}
		if digits < 6 {
			frac = frac*10 + int64(c-'0')
		}
		digits++
	}
	if digits == 0 || digits > 9 {
		return 0, 0, false
	}
	for i := digits; i < 6; i++ {
		frac *= 10
	}
	return t + frac, 9 + digits, true
}

// parseZone reads a zone that fills s and returns its distance from UTC.
func parseZone(s []byte) (int64, bool) {
	if len(s) == 1 && (s[0] == 'Z' || s[0] == 'z') {
		return 0, true
	}
	if len(s) < 3 || (s[0] != '+' && s[0] != '-') {
		return 0, false
	}
	h, ok := two(s[1:])
	if !ok || h > 18 {
		return 0, false
	}
	m := 0
	switch rest := s[3:]; {
	case len(rest) == 0:
	case len(rest) == 2:
		m, ok = two(rest)
	case len(rest) == 3 && rest[0] == ':':
		m, ok = two(rest[1:])
	default:
		ok = false
	}
	if !ok || m > 59 {
		return 0, false
	}
	off := int64(h*3600+m*60) * microsPerSecond
	if s[0] == '-' {
		off = -off
	}
	return off, true
}

func two(s []byte) (int, bool) {
	if len(s) < 2 || s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
		return 0, false
	}
	return int(s[0]-'0')*10 + int(s[1]-'0'), true
}

// ParseDate reads an ISO-8601 date (YYYY-MM-DD) and returns days since
// 1970-01-01. It does not allocate.
func ParseDate(s []byte) (int32, bool) {
	days, n, ok := parseDate(s)
	if !ok || n != len(s) || days != int64(int32(days)) {
		return 0, false
	}
	return int32(days), true
}

// parseDate reads [sign]Y{4,7}-MM-DD at the start of s and returns days since
// 1970-01-01 and how many bytes it took.
func parseDate(s []byte) (int64, int, bool) {
	i, negative := 0, false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		i = 1
	}
	from, year := i, int64(0)
	for i < len(s) && i-from < 8 && s[i] >= '0' && s[i] <= '9' {
		year = year*10 + int64(s[i]-'0')
		i++
	}
	if i-from < 4 || i-from > 7 || len(s) < i+6 || s[i] != '-' || s[i+3] != '-' {
		return 0, 0, false
	}
	if negative {
		year = -year
	}
	m, ok1 := two(s[i+1:])
	d, ok2 := two(s[i+4:])
	if !ok1 || !ok2 || m < 1 || m > 12 || d < 1 || d > daysIn(year, m) {
		return 0, 0, false
	}
	return daysFromCivil(year, m, d), i + 6, true
}

func daysIn(year int64, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysFromCivil and civilFromDays count in eras of 400 years that begin on
// 1 March, so that the leap day is the last day of a year.
func daysFromCivil(y int64, m, d int) int64 {
	if m <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := int64((153*((m+9)%12)+2)/5 + d - 1)
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

func civilFromDays(z int64) (y int64, m, d int) {
	z += 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int(doy - (153*mp+2)/5 + 1)
	m = int(mp+2)%12 + 1
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// AppendTimestamp appends microseconds since the Unix epoch as
// 2006-01-02T15:04:05.000000, with Z behind it when zoned.
func AppendTimestamp(dst []byte, micros int64, zoned bool) []byte {
	dst = AppendClock(dst, micros, 'T', 6)
	if zoned {
		dst = append(dst, 'Z')
	}
	return dst
}

// AppendClock appends date and time separated by sep, with the given number of
// fraction digits (0 to 6; what does not fit is cut off).
func AppendClock(dst []byte, micros int64, sep byte, digits int) []byte {
	days := floorDiv(micros, microsPerDay)
	rest := micros - days*microsPerDay
	dst = appendDate(dst, days)
	sec := rest / microsPerSecond
	dst = append(dst, sep)
	dst = appendTwo(dst, int(sec/3600))
	dst = append(dst, ':')
	dst = appendTwo(dst, int(sec/60%60))
	dst = append(dst, ':')
	dst = appendTwo(dst, int(sec%60))
	if digits == 0 {
		return dst
	}
	dst = append(dst, '.', '0', '0', '0', '0', '0', '0')
	for f, i := rest%microsPerSecond, len(dst)-1; f > 0; f, i = f/10, i-1 {
		dst[i] = byte('0' + f%10)
	}
	return dst[:len(dst)-(6-digits)]
}

// AppendDate appends days since 1970-01-01 as 2006-01-02.
func AppendDate(dst []byte, days int32) []byte { return appendDate(dst, int64(days)) }

func appendDate(dst []byte, days int64) []byte {
	y, m, d := civilFromDays(days)
	switch {
	case y < 0:
		dst = append(dst, '-')
		y = -y
	case y > 9999:
		dst = append(dst, '+')
	}
	for limit := int64(10_000_000); limit > 10_000; limit /= 10 {
		if y >= limit/10 {
			dst = append(dst, byte('0'+y/(limit/10)%10))
		}
	}
	dst = appendTwo(dst, int(y/100%100))
	dst = appendTwo(dst, int(y%100))
	dst = append(dst, '-')
	dst = appendTwo(dst, m)
	dst = append(dst, '-')
	return appendTwo(dst, d)
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }
