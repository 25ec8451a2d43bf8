// Package rate is a source that makes numbered rows at a steady rate, for
// tests, demonstrations and benchmarks.
//
// Value n is due at a time computed from the start of the source alone, and the
// start is part of the offset. A replay therefore makes the same rows with the
// same timestamps, and a source that was stopped makes up for the pause at once.
// With P partitions, partition p makes the values p, p+P, p+2P and so on.
package rate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"sync"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Connector returns the record of the connector.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "rate",
		Doc:  "Rows made at a steady rate, with columns timestamp TIMESTAMP (when the row was due) and value BIGINT (counting from 0).",
		SourceOptions: []option.Option{
			{Name: "rows_per_second", Kind: option.Int, Default: "1", Min: 1, Max: 100_000_000, Doc: "Rows per second over all partitions (default 1)."},
			{Name: "ramp_up", Kind: option.Duration, Default: "0s", Doc: "Time over which the rate grows evenly from 0 to rows_per_second (default 0s)."},
			{Name: "partitions", Kind: option.Int, Default: "1", Min: 1, Max: 1024, Doc: "Number of partitions that share the rate (default 1)."},
		},
		Source: newSource,
	}
}

type source struct {
	schema          *messages.Schema
	timestamp       int // column indexes, -1 when not in the schema
	value           int
	schedule        schedule
	partitions      uint64
	clock           connectors.Clock
	startMu         sync.Mutex
	started         bool
	startedAtMicros int64 // the start all partitions without an offset share
}

func newSource(_ context.Context, c connectors.SourceConfig) (connectors.Source, error) {
	s := &source{
		schema: c.Schema, clock: c.Env.Clock, timestamp: -1, value: -1,
		partitions: uint64(c.Options.Int("partitions")),
		schedule:   newSchedule(uint64(c.Options.Int("rows_per_second")), c.Options.Duration("ramp_up")),
	}
	if s.schema == nil {
		s.schema = messages.NewSchema(messages.Field{Name: "timestamp", Type: messages.T(messages.Timestamp)}, messages.Field{Name: "value", Type: messages.T(messages.BigInt)})
	}
	for i, f := range s.schema.Fields {
		switch {
		case option.Fold(f.Name) == "timestamp" && f.Type.Kind == messages.Timestamp:
			s.timestamp = i
		case option.Fold(f.Name) == "value" && f.Type.Kind == messages.BigInt:
			s.value = i
		default:
			return nil, fault.New(fault.Config, "rate source: there is no column %s %s; the columns are timestamp TIMESTAMP and value BIGINT", f.Name, f.Type)
		}
	}
	return s, nil
}

func (s *source) Schema() *messages.Schema { return s.schema }

func (s *source) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true}
}

func (s *source) Partitions(context.Context) ([]string, error) {
	names := make([]string, s.partitions)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names, nil
}

// offset is the JSON form of an offset.
type offset struct {
	Start      int64  `json:"start"` // microseconds since 1970, when value 0 was due
	Next       uint64 `json:"next"`  // number of the partition's next row
	Partitions uint64 `json:"partitions"`
}

func (s *source) Open(_ context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	p, err := strconv.ParseUint(q.Partition, 10, 32)
	if err != nil || p >= s.partitions {
		return nil, fault.New(fault.Config, "rate source: there is no partition %q", q.Partition)
	}
	r := &reader{s: s, partition: p, maxRows: max(q.MaxRows, 1), end: math.MaxUint64, at: offset{Start: s.start(), Partitions: s.partitions}}
	if q.From != nil {
		if err := json.Unmarshal(q.From, &r.at); err != nil {
			return nil, fault.Wrap(fault.Config, err, "rate source: partition %d: offset %q", p, q.From)
		}
		if err := s.CheckOffset(q.Partition, q.From); err != nil {
			return nil, err
		}
		if r.at.Start < 0 || r.at.Start > math.MaxInt64/4 || r.at.Next > math.MaxInt64/s.partitions {
			return nil, fault.New(fault.Config, "rate source: partition %d: offset %q is beyond all times", p, q.From)
		}
	}
	r.prefix = fmt.Appendf(nil, `{"start":%d,"partitions":%d,"next":`, r.at.Start, s.partitions)
	if q.Bounded {
		r.end = r.firstAfter(r.now())
	}
	return r, nil
}

// CheckOffset implements connectors.OffsetChecker: with another number of partitions
// each has other rows.
func (s *source) CheckOffset(_ string, from connectors.Offset) error {
	var at offset
	if err := json.Unmarshal(from, &at); err != nil {
		return nil //nolint:nilerr // Open says what is wrong with the text
	}
	if at.Partitions != s.partitions {
		return connectors.Foreign("rate source: the checkpoint was made with partitions = %d, not %d; set it back", at.Partitions, s.partitions)
	}
	return nil
}

func (s *source) start() int64 {
	s.startMu.Lock()
	defer s.startMu.Unlock()
	if !s.started {
		s.started, s.startedAtMicros = true, s.clock.Now().UnixMicro()
	}
	return s.startedAtMicros
}

// schedule says when values are due, in microseconds after the start.
type schedule struct {
	rate float64
	perS uint64
	ramp float64 // seconds
	// inRamp is how many values are due during the ramp, half of what the full
	// rate would make.
	inRamp float64
}

func newSchedule(perSecond uint64, ramp time.Duration) schedule {
	r := float64(perSecond)
	return schedule{rate: r, perS: perSecond, ramp: ramp.Seconds(), inRamp: r * ramp.Seconds() / 2}
}

func (s schedule) due(n uint64) int64 {
	if s.ramp == 0 {
		hi, lo := bits.Mul64(n, 1_000_000)
		if hi >= s.perS {
			return math.MaxInt64 / 2
		}
		q, _ := bits.Div64(hi, lo, s.perS)
		return int64(min(q, math.MaxInt64/2))
	}
	// While the rate grows, rate*t*t/(2*ramp) values are due until t.
	v := float64(n)
	if v < s.inRamp {
		return int64(1e6 * math.Sqrt(2*s.ramp*v/s.rate))
	}
	return int64(min(1e6*(s.ramp+(v-s.inRamp)/s.rate), math.MaxInt64/2))
}
