package load

import "time"

// Schedule says when events are due. All instants are in microseconds since the
// Unix epoch.
type Schedule struct {
	Start int64
	// Rate is how many events are due per second, at most 1,000,000.
	Rate int64
}

// StartingIn returns a schedule whose event 0 is due after d.
func StartingIn(d time.Duration, rate int64) Schedule {
	return Schedule{Start: time.Now().Add(d).UnixMicro(), Rate: rate}
}

// Due returns when event i is due.
func (s Schedule) Due(i uint64) int64 {
	sec, rest := i/uint64(s.Rate), i%uint64(s.Rate)
	return s.Start + int64(sec)*1_000_000 + int64(rest)*1_000_000/s.Rate
}

// Passed returns how many events are due at an instant.
func (s Schedule) Passed(now int64) uint64 {
	if now < s.Start {
		return 0
	}
	d := now - s.Start
	sec, rest := d/1_000_000, d%1_000_000
	// Event k of a second is due at k*1e6/rate rounded down, which is at most rest
	// exactly if k*1e6 < (rest+1)*rate.
	k := ((rest+1)*s.Rate + 999_999) / 1_000_000
	return uint64(sec*s.Rate + min(k, s.Rate))
}

// FirstFrom returns when the first event is due that is due at t or later.
func (s Schedule) FirstFrom(t int64) int64 {
	if t <= s.Start {
		return s.Start
	}
	return s.Due(s.Passed(t - 1))
}

// At returns the instant of an event as a time.
func (s Schedule) At(i uint64) time.Time { return time.UnixMicro(s.Due(i)) }

// Hash spreads the bits of i: the k-th output of the generator splitmix64
// whose state began at 0. Rows made from it are random and repeatable.
func Hash(i uint64) uint64 {
	z := (i + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
