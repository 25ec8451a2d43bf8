package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// tick is how often a paced source delivers at most: at 10,000 rows/s every row
// comes alone and on time, at higher rates a few come together, up to 0.1 ms
// late, which counts as latency.
const tick = 100 * time.Microsecond

// SourceConfig describes a load. Exactly one of Fill and Payload is set.
type SourceConfig struct {
	Schema *messages.Schema
	// Schedule paces the rows and gives them their event time. With FlatOut rows
	// come as fast as they are taken and the schedule gives only their times.
	Schedule Schedule
	FlatOut  bool
	// Prefill is a number of events in front of event 0 of the schedule that are
	// due a microsecond before it, all at once. Fill counts them too.
	Prefill uint64
	// Count is the number of events, those of Prefill included; 0 means that Stop ends the source.
	Count uint64
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
	pacer   *Pacer
	last    int64 // when the latest rows came
	payload []byte
	meta    connectors.Meta
}

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: 0x6c6f6164})
	cfg := &r.s.cfg
	n, ended, err := r.due(ctx)
	if err != nil {
		return err
	}
	b := dst.Builder()
	for i := r.next; i < r.next+n; i++ {
		due := r.s.dueOf(i)
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
	dst.Next = strconv.AppendUint(append(dst.Next[:0], `{"next":`...), r.next, 10)
	dst.Next = append(dst.Next, '}')
	dst.Status = r.status(n)
	if ended || cfg.Count > 0 && r.next >= cfg.Count {
		return io.EOF
	}
	return nil
}

// status says whether more is due already.
func (r *reader) status(n uint64) connectors.Status {
	if r.s.cfg.FlatOut || n == r.maxRows {
		return connectors.Status{State: connectors.Reading, Lag: -1}
	}
	return connectors.Status{State: connectors.CaughtUp}
}

// due waits until at least one event is due and returns how many may be made.
func (r *reader) due(ctx context.Context) (n uint64, ended bool, err error) {
	cfg := &r.s.cfg
	select {
	case <-r.s.stop:
		return 0, true, nil
	default:
	}
	limit := r.maxRows
	if cfg.Count > 0 {
		limit = min(limit, cfg.Count-min(r.next, cfg.Count))
	}
	if r.next < cfg.Prefill {
		return min(limit, cfg.Prefill-r.next), false, ctx.Err()
	}
	if cfg.FlatOut || limit == 0 {
		return limit, false, ctx.Err()
	}
	next := r.next - cfg.Prefill // in the schedule
	if r.pacer == nil {
		if r.pacer, err = NewPacer(ctx); err != nil {
			return 0, false, err
		}
	}
	now := time.Now().UnixMicro()
	if cfg.Schedule.Passed(now) < next+limit { // not far behind
		wake := max(cfg.Schedule.Due(next), r.last+tick.Microseconds())
		if err := r.pacer.Sleep(time.Until(time.UnixMicro(wake))); err != nil {
			return 0, false, err
		}
		now = time.Now().UnixMicro()
	}
	r.last = now
	passed := max(cfg.Schedule.Passed(now), next+1) // clocks round differently
	return min(limit, passed-next), false, nil
}

// dueOf returns when event i is due.
func (s *Source) dueOf(i uint64) int64 {
	if i < s.cfg.Prefill {
		return s.cfg.Schedule.Start - 1
	}
	return s.cfg.Schedule.Due(i - s.cfg.Prefill)
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
