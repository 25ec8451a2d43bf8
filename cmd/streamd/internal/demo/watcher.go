package demo

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go/jetstream"
)

// watcher subscribes to a result stream and measures, for each new result, the
// time since the moment it was due.
type watcher struct {
	query, stream string
	due           func(payload []byte) (time.Time, bool)
	consume       jetstream.ConsumeContext
	since         time.Time

	// mu guards the fields below.
	mu    sync.Mutex
	total *hdrhistogram.Histogram // microseconds, since the start
	last  *hdrhistogram.Histogram // since the last look
	rows  int64
	first time.Time // of the first result caused in this run
}

// histogram covers 1 µs to 10 minutes with three digits.
func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)
}

func newWatcher(query, stream string, due func([]byte) (time.Time, bool)) *watcher {
	return &watcher{query: query, stream: stream, due: due, since: time.Now(), total: histogram(), last: histogram()}
}

func (w *watcher) start(ctx context.Context, js jetstream.JetStream) error {
	c, err := js.OrderedConsumer(ctx, w.stream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
	if err != nil {
		return fmt.Errorf("watch stream %s: %w", w.stream, err)
	}
	w.consume, err = c.Consume(func(m jetstream.Msg) { w.take(m.Data()) })
	return err
}

func (w *watcher) stop() {
	if w.consume != nil {
		w.consume.Stop()
	}
}

func (w *watcher) take(payload []byte) {
	now := time.Now()
	due, ok := w.due(payload)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows++
	if !ok || due.Before(w.since) {
		return // caused by an event of an earlier run
	}
	if w.first.IsZero() {
		w.first = now
	}
	v := min(max(now.Sub(due).Microseconds(), 1), (10 * time.Minute).Microseconds())
	for _, h := range []*hdrhistogram.Histogram{w.total, w.last} {
		if err := h.RecordValue(v); err != nil {
			continue // cannot be: v is inside the range
		}
	}
}

// Latency are quantiles in milliseconds, nil where nothing was measured.
type Latency struct {
	P50  *float64 `json:"p50"`
	P90  *float64 `json:"p90"`
	P99  *float64 `json:"p99"`
	P999 *float64 `json:"p999"`
	Max  *float64 `json:"max"`
}

func quantiles(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	q := func(p float64) *float64 { return new(float64(h.ValueAtQuantile(p)) / 1000) }
	return Latency{P50: q(50), P90: q(90), P99: q(99), P999: q(99.9), Max: new(float64(h.Max()) / 1000)}
}

// lately returns rows so far and the latency since the last call.
func (w *watcher) lately() (int64, Latency) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := quantiles(w.last)
	w.last.Reset()
	return w.rows, l
}

// firstAfter returns how many milliseconds after start the first result came, nil
// if none has.
func (w *watcher) firstAfter(start time.Time) *float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first.IsZero() {
		return nil
	}
	return new(w.first.Sub(start).Seconds() * 1000)
}

func (w *watcher) all() (int64, Latency) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows, quantiles(w.total)
}

// expensiveDue reads the time of the bid out of a result of expensive_bids.
func expensiveDue(payload []byte) (time.Time, bool) { return field(payload, `"ts":"`) }

// hotDue is when a window could close at the earliest: when the event that
// brings the watermark to its end was due.
func hotDue(payload []byte) (time.Time, bool) {
	t, ok := field(payload, `"closed":"`)
	return t.Add(watermarkDelay), ok
}

// field finds a timestamp in a JSON object without decoding the rest.
func field(payload []byte, key string) (time.Time, bool) {
	_, rest, ok := bytes.Cut(payload, []byte(key))
	if !ok {
		return time.Time{}, false
	}
	text, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	return t, err == nil
}

// ms writes milliseconds, a dash where nothing was measured.
func ms(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 2, 64)
}
