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

// Minus returns e-d, saturating at NoEventTime, and leaves both limits alone.
func (e EventTime) Minus(d time.Duration) EventTime {
	if e == NoEventTime || e == MaxEventTime {
		return e
	}
	r := int64(e) - d.Microseconds()
	if d > 0 && r > int64(e) {
		return NoEventTime + 1
	}
	return EventTime(r)
}
