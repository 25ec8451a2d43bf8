package load

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram's range in microseconds, and its precision.
const (
	shortest = 1
	longest  = 120_000_000
	digits   = 3
)

// Recorder collects the latencies of rows that were due at From or later, in
// microseconds. It is used by one goroutine at a time.
type Recorder struct {
	from    int64
	hist    *hdrhistogram.Histogram
	seconds []int64 // greatest latency per second of the due time
}

// NewRecorder returns a recorder that leaves out rows due before from, which are
// the warm-up.
func NewRecorder(from int64) *Recorder {
	return &Recorder{from: from, hist: hdrhistogram.New(shortest, longest, digits)}
}

// Record notes that the result of an event due at one instant was there at another.
func (r *Recorder) Record(due, now int64) {
	if due < r.from {
		return
	}
	late := min(max(now-due, shortest), longest)
	_ = r.hist.RecordValue(late) // within the range
	s := int((due - r.from) / 1_000_000)
	for len(r.seconds) <= s {
		r.seconds = append(r.seconds, 0)
	}
	r.seconds[s] = max(r.seconds[s], late)
}

// Merge adds what another recorder has collected.
func (r *Recorder) Merge(o *Recorder) error {
	if lost := r.hist.Merge(o.hist); lost > 0 {
		return fmt.Errorf("%d latencies are outside the range of the histogram", lost)
	}
	for i, v := range o.seconds {
		if i == len(r.seconds) {
			r.seconds = append(r.seconds, 0)
		}
		r.seconds[i] = max(r.seconds[i], v)
	}
	return nil
}

// Count is the number of latencies.
func (r *Recorder) Count() int64 { return r.hist.TotalCount() }

// Millis returns a quantile (0 to 100) in milliseconds.
func (r *Recorder) Millis(quantile float64) float64 {
	return float64(r.hist.ValueAtQuantile(quantile)) / 1000
}

// MaxMillis returns the greatest latency in milliseconds.
func (r *Recorder) MaxMillis() float64 { return float64(r.hist.Max()) / 1000 }

// SecondsMillis returns the greatest latency of each second, in milliseconds.
func (r *Recorder) SecondsMillis() []float64 {
	out := make([]float64, len(r.seconds))
	for i, v := range r.seconds {
		out[i] = float64(v) / 1000
	}
	return out
}
