package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/internal/pacer"
	"github.com/streamd-io/streamd/messages"
)

// tick is how often a paced source delivers at most: at 10,000 rows/s every row
// comes alone and on time, at higher rates a few come together, up to 0.1 ms
// late, which counts as latency.
const tick = 100 * time.Microsecond

// SourceConfig describes a load. Exactly one of Fill and Payload is set.
type SourceConfig struct {
	Schema *messages.Schema
	// Gate says when the load begins and how it is paced.
	Gate *Gate
	// Prefill is how many events are made before the gate, as fast as they are
	// taken. They are due in 1970, so nothing measures them.
	Prefill uint64
	// Fill appends row i, due at the given instant, without EndRow. It is called
	// by several goroutines if several queries read the source.
	Fill func(b *messages.Builder, i uint64, due int64)
	// Payload appends the bytes of event i to dst; the engine's decoder makes the
	// rows. Such a source is declared in SQL, with the connector of this package.
	Payload func(dst []byte, i uint64, due int64) []byte
}

// Source is a source of one partition that makes its rows. It can be read again
// from any offset and then makes the same rows. Safe for concurrent use.
type Source struct {
	cfg     SourceConfig
	made    atomic.Uint64
	stop    chan struct{}
	stopped sync.Once
}

// NewSource returns a source that several queries can read, each from event 0.
func NewSource(c SourceConfig) *Source { return &Source{cfg: c, stop: make(chan struct{})} }

// Made is how many events readers have made so far.
func (s *Source) Made() uint64 { return s.made.Load() }

// Stop ends the source behind what has been read.
func (s *Source) Stop() { s.stopped.Do(func() { close(s.stop) }) }

// Schema implements connectors.Source.
func (s *Source) Schema() *messages.Schema { return s.cfg.Schema }

// Traits implements connectors.Source.
func (s *Source) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true}
}

// Partitions implements connectors.Source.
func (s *Source) Partitions(context.Context) ([]string, error) { return []string{"0"}, nil }

// position is the JSON form of an offset.
type position struct {
	Next uint64 `json:"next"`
}

// Open implements connectors.Source.
func (s *Source) Open(_ context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	r := &reader{s: s, maxRows: uint64(max(q.MaxRows, 1))}
	if q.From != nil {
		var at position
		if err := json.Unmarshal(q.From, &at); err != nil {
			return nil, fmt.Errorf("load source: offset %q: %w", q.From, err)
		}
		r.next = at.Next
	}
	return r, nil
}

type reader struct {
	s       *Source
	next    uint64
	maxRows uint64
	arrived bool // at the gate
	run     *Run // nil before the gate
	end     uint64
	pacer   *pacer.Pacer
	last    int64 // when the latest rows came
	payload []byte
	meta    connectors.Meta
}

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: 0x6c6f6164})
	dst.Status = connectors.Status{State: connectors.Reading, Lag: -1}
	n, err := r.due(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if merr := r.make(dst, n); merr != nil {
		return merr
	}
	dst.Next = strconv.AppendUint(append(dst.Next[:0], `{"next":`...), r.next, 10)
	dst.Next = append(dst.Next, '}')
	if n < r.maxRows && (r.run == nil || !r.run.FlatOut) {
		dst.Status = connectors.Status{State: connectors.CaughtUp}
	}
	return err
}

// make appends n events.
func (r *reader) make(dst *connectors.Rows, n uint64) error {
	cfg := &r.s.cfg
	b := dst.Builder()
	for i := r.next; i < r.next+n; i++ {
		due := int64(1)
		if i >= cfg.Prefill {
			due = r.run.Schedule.Due(i - cfg.Prefill)
		}
		if cfg.Fill != nil {
			cfg.Fill(b, i, due)
			b.EndRow()
			b.EndUnit(i, messages.EventTime(due))
			dst.Payloads++
			continue
		}
		r.payload = cfg.Payload(r.payload[:0], i, due)
		r.meta.Offset, r.meta.Arrival = i, messages.EventTime(due)
		if err := dst.Record(r.payload, &r.meta); err != nil {
			return err
		}
	}
	r.next += n
	r.s.made.Add(n)
	return nil
}

// due waits until at least one event is due and returns how many may be made.
// io.EOF comes with the last ones.
func (r *reader) due(ctx context.Context) (uint64, error) {
	cfg := &r.s.cfg
	select {
	case <-r.s.stop:
		return 0, io.EOF
	default:
	}
	if r.next < cfg.Prefill {
		return min(r.maxRows, cfg.Prefill-r.next), ctx.Err()
	}
	if r.run == nil {
		if !r.arrived { // the engine is told first that the reader has caught up
			r.arrived = true
			cfg.Gate.arrive()
			return 0, nil
		}
		if err := r.begin(ctx); err != nil {
			return 0, err
		}
	}
	if r.next >= r.end {
		return 0, io.EOF
	}
	if r.run.FlatOut {
		return min(r.maxRows, r.end-r.next), ctx.Err()
	}
	return r.paced(ctx)
}

func (r *reader) begin(ctx context.Context) (err error) {
	if r.run, err = r.s.cfg.Gate.wait(ctx); err != nil {
		return err
	}
	r.end = math.MaxUint64
	if r.run.FlatOut {
		if n := r.run.Count; n > 0 {
			r.end = r.s.cfg.Prefill + n
		}
		return nil
	}
	r.end = r.s.cfg.Prefill + r.run.Schedule.Passed(r.run.Until-1)
	r.pacer, err = pacer.New(ctx)
	return err
}

// paced waits for the next event of the schedule.
func (r *reader) paced(ctx context.Context) (uint64, error) {
	s, next := r.run.Schedule, r.next-r.s.cfg.Prefill
	limit := min(r.maxRows, r.end-r.next)
	now := time.Now().UnixMicro()
	if s.Passed(now) < next+limit { // not far behind
		wake := max(s.Due(next), r.last+tick.Microseconds())
		if err := r.pacer.Sleep(time.Until(time.UnixMicro(wake))); err != nil {
			return 0, err
		}
		now = time.Now().UnixMicro()
	}
	r.last = now
	n := min(limit, max(s.Passed(now), next+1)-next) // clocks round differently
	if r.next+n == r.end {
		return n, io.EOF
	}
	return n, ctx.Err()
}

// Committed implements connectors.Reader.
func (r *reader) Committed(context.Context, connectors.Offset) error { return nil }

// Close implements connectors.Reader.
func (r *reader) Close() error {
	if r.pacer == nil {
		return nil
	}
	return r.pacer.Close()
}
