package messages

import (
	"math"
	"time"
)

// Epoch numbers the rows between two markers: 1, 2, ... Numbers are never
// reused, not even after recovery. 0 means "before the first epoch".
type Epoch uint64

// EventTime is an instant in microseconds since the Unix epoch, UTC.
type EventTime int64

const (
	// NoEventTime is the watermark "none": nothing has been seen yet.
	// It is smaller than every instant a row can carry.
	NoEventTime EventTime = math.MinInt64
	// MaxEventTime is later than every instant a row can carry. It stands for
	// "no deadline" and for the watermark of an input that has ended and holds
	// nothing back.
	MaxEventTime EventTime = math.MaxInt64
)

// EventTimeOf converts t, dropping what is finer than a microsecond.
func EventTimeOf(t time.Time) EventTime { return EventTime(t.UnixMicro()) }

// Time converts e to UTC. It must not be called on NoEventTime or MaxEventTime.
func (e EventTime) Time() time.Time { return time.UnixMicro(int64(e)).UTC() }

// String formats e as RFC 3339 in UTC, or "none" and "max" for the two limits.
func (e EventTime) String() string {
	switch e {
	case NoEventTime:
		return "none"
	case MaxEventTime:
		return "max"
	}
	return e.Time().Format("2006-01-02T15:04:05.999999Z07:00")
}

// Minus returns e-d, without reaching or passing the limits, which it leaves
// alone.
func (e EventTime) Minus(d time.Duration) EventTime {
	if e == NoEventTime || e == MaxEventTime {
		return e
	}
	r := e - EventTime(d.Microseconds())
	switch {
	case d > 0 && (r > e || r == NoEventTime):
		return NoEventTime + 1
	case d < 0 && (r < e || r == MaxEventTime):
		return MaxEventTime - 1
	}
	return r
}
