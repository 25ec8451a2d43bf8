// Package memory connects queries to a Go program: sources whose rows the
// program adds, and sinks that keep the result for the program to look at. The
// tests of the engine run on it.
//
// Nothing here survives the process. Within a process both ends keep what a
// restarted query needs: a source replays from its own buffer, and a sink drops
// rows whose identity it has seen.
package memory

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// SourceOptions are what can be chosen about a source. The zero value works.
type SourceOptions struct {
	// Partitions is how many partitions the source has; 0 means 1.
	Partitions int
	// DropCommitted frees rows once an epoch that holds them has committed. A
	// source that lives long needs it; then only one query may read the source,
	// and that query cannot be started afresh.
	DropCommitted bool
	// Now gives the arrival time of added rows; nil means time.Now. It is kept with
	// the rows, so that a replay sees the same time.
	Now func() time.Time
}

// Source is a source whose rows come from Add. It is safe for concurrent use.
type Source struct {
	schema *messages.Schema
	opts   SourceOptions

	// mu guards the fields below.
	mu      sync.Mutex
	parts   []partition
	builder *messages.Builder
	ended   bool
	// changed is closed and replaced whenever a blocked reader should look again.
	changed chan struct{}
}

// partition is a run of units; the first one has offset base.
type partition struct {
	base  uint64
	units []unit
}

type unit struct {
	rows *messages.Batch // nil for a unit without rows
	at   messages.EventTime
}

func (p *partition) end() uint64 { return p.base + uint64(len(p.units)) }

// NewSource returns a source of one partition.
func NewSource(s *messages.Schema) *Source { return NewSourceWith(s, SourceOptions{}) }

// NewSourceWith returns a source made to measure.
func NewSourceWith(s *messages.Schema, o SourceOptions) *Source {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{
		schema: s, opts: o,
		parts:   make([]partition, max(o.Partitions, 1)),
		builder: messages.NewBuilder(s),
		changed: make(chan struct{}),
	}
}

// Add adds rows to partition 0 as one unit; see format.AppendValue for what
// a value may be. The rows are copied. When it fails nothing was added.
func (s *Source) Add(rows ...[]any) error { return s.AddTo(0, rows...) }

// AddTo is Add for a given partition.
func (s *Source) AddTo(partition int, rows ...[]any) error {
	return s.AddAt(partition, messages.EventTimeOf(s.opts.Now()), rows...)
}

// AddAt is AddTo with the arrival time of the rows.
func (s *Source) AddAt(partition int, at messages.EventTime, rows ...[]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return fault.New(fault.Config, "memory source: rows were added after End")
	}
	if partition < 0 || partition >= len(s.parts) {
		return fault.New(fault.Config, "memory source: there is no partition %d (there are %d)", partition, len(s.parts))
	}
	for _, r := range rows {
		if err := format.AppendRow(s.builder, r); err != nil {
			s.builder.AbortUnit()
			return err
		}
	}
	u := unit{at: at}
	if len(rows) > 0 {
		s.builder.EndUnit(0, at)
		u.rows = s.builder.Finish()
	}
	s.parts[partition].units = append(s.parts[partition].units, u)
	s.wake()
	return nil
}

// End ends all partitions behind the rows added so far, which ends a query that
// reads them. Further Adds are errors.
func (s *Source) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

func (s *Source) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Schema implements connectors.Source.
func (s *Source) Schema() *messages.Schema { return s.schema }

// Traits implements connectors.Source.
func (s *Source) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true}
}

// Partitions implements connectors.Source. The names are 0, 1, and so on.
func (s *Source) Partitions(context.Context) ([]string, error) {
	names := make([]string, len(s.parts))
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names, nil
}

// Open implements connectors.Source.
func (s *Source) Open(_ context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := strconv.Atoi(q.Partition)
	if err != nil || i < 0 || i >= len(s.parts) {
		return nil, fault.New(fault.Config, "memory source: there is no partition %q", q.Partition)
	}
	p := &s.parts[i]
	r := &reader{source: s, part: i, next: p.base, maxRows: max(q.MaxRows, 1), end: ^uint64(0)}
	if q.From != nil {
		var at position
		if err := json.Unmarshal(q.From, &at); err != nil {
			return nil, fault.Wrap(fault.Config, err, "memory source: partition %d: offset %q", i, q.From)
		}
		r.next = at.Next
	}
	if r.next < p.base || r.next > p.end() {
		return nil, fault.New(fault.Config, "memory source: partition %d: offset %d is outside the rows held, %d to %d; memory does not survive the process", i, r.next, p.base, p.end())
	}
	if q.Bounded {
		r.end = p.end()
	}
	return r, nil
}

// position is the JSON form of an offset.
type position struct {
	Next uint64 `json:"next"` // number of the next unit
}

type reader struct {
	source   *Source
	part     int
	next     uint64
	end      uint64
	maxRows  int
	reported bool // that it is caught up
}

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: 0x6d656d6f7279, Lo: uint64(r.part)})
	for {
		took, changed, err := r.take(dst)
		dst.Next = strconv.AppendUint(append(dst.Next[:0], `{"next":`...), r.next, 10)
		dst.Next = append(dst.Next, '}')
		if took || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// take moves what is there into dst. It reports whether Read has something to
// return; if not, the channel tells when to look again.
func (r *reader) take(dst *connectors.Rows) (bool, <-chan struct{}, error) {
	s := r.source
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.parts[r.part]
	if r.next < p.base {
		return false, nil, fault.New(fault.Config, "memory source: partition %d: unit %d was dropped because another query committed it", r.part, r.next)
	}
	limit := min(p.end(), r.end)
	took := false
	for r.next < limit && !dst.Full(r.maxRows) {
		u := p.units[r.next-p.base]
		b := dst.Builder()
		for i := 0; u.rows != nil && i < u.rows.Len(); i++ {
			for c := range u.rows.Columns() {
				b.Column(c).AppendFrom(u.rows.Column(c), i)
			}
			b.EndRow()
		}
		b.EndUnit(r.next, u.at)
		dst.Payloads++
		r.next++
		took = true
	}
	if r.next < limit {
		r.reported = false
		dst.Status = connectors.Status{State: connectors.Reading, Lag: int64(limit - r.next)}
		return took, s.changed, nil
	}
	dst.Status = connectors.Status{State: connectors.CaughtUp}
	if r.next >= r.end || s.ended {
		return took, nil, io.EOF
	}
	took = took || !r.reported
	r.reported = true
	return took, s.changed, nil
}

// Committed implements connectors.Reader.
func (r *reader) Committed(_ context.Context, next connectors.Offset) error {
	if !r.source.opts.DropCommitted {
		return nil
	}
	var at position
	if err := json.Unmarshal(next, &at); err != nil {
		return fault.Wrap(fault.Internal, err, "memory source: partition %d: offset %q", r.part, next)
	}
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	p := &r.source.parts[r.part]
	if at.Next > p.base {
		n := min(at.Next-p.base, uint64(len(p.units)))
		rest := copy(p.units, p.units[n:])
		clear(p.units[rest:])
		p.units = p.units[:rest]
		p.base += n
	}
	return nil
}

// Close implements connectors.Reader.
func (r *reader) Close() error { return nil }
