package rate

import (
	"context"
	"io"
	"sort"
	"strconv"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

type reader struct {
	s         *source
	partition uint64
	at        offset
	end       uint64 // for a bounded read: the first row not to read
	maxRows   int
	prefix    []byte // of the offset's JSON, up to the number
	reported  bool   // that it is caught up
}

func (r *reader) now() int64 { return r.s.clock.Now().UnixMicro() }

func (r *reader) value(n uint64) uint64 { return n*r.s.partitions + r.partition }

// due is the time at which row n of the partition is due.
func (r *reader) due(n uint64) int64 { return r.at.Start + r.s.schedule.due(r.value(n)) }

// firstAfter is the first row from the current one on that is due after t.
func (r *reader) firstAfter(t int64) uint64 {
	low, step := r.at.Next, uint64(1)
	for r.due(low+step) <= t {
		step *= 2
	}
	n := sort.Search(int(step), func(i int) bool { return r.due(low+uint64(i)) > t })
	return low + uint64(n)
}

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(messages.ID128{Hi: uint64(r.at.Start), Lo: r.partition<<32 | r.s.partitions})
	for {
		took := r.take(dst)
		dst.Next = append(append(dst.Next[:0], r.prefix...), strconv.FormatUint(r.at.Next, 10)...)
		dst.Next = append(dst.Next, '}')
		if r.at.Next >= r.end {
			dst.Status = connectors.Status{State: connectors.CaughtUp}
			return io.EOF
		}
		if took {
			return nil
		}
		dst.Status = connectors.Status{State: connectors.CaughtUp}
		if !r.reported {
			r.reported = true
			return nil
		}
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
}

// take makes the rows that are due.
func (r *reader) take(dst *connectors.Rows) bool {
	now := r.now()
	took := false
	b := dst.Builder()
	for r.at.Next < r.end && !dst.Full(r.maxRows) {
		due := r.due(r.at.Next)
		if due > now {
			break
		}
		if r.s.timestamp >= 0 {
			b.Column(r.s.timestamp).AppendInt64(due)
		}
		if r.s.value >= 0 {
			b.Column(r.s.value).AppendInt64(int64(r.value(r.at.Next)))
		}
		b.EndRow()
		b.EndUnit(r.at.Next, messages.EventTime(due))
		dst.Payloads++
		r.at.Next++
		took = true
	}
	if took {
		r.reported = false
	}
	return took
}

// wait returns when the next row is due.
func (r *reader) wait(ctx context.Context) error {
	d := time.Duration(r.due(r.at.Next)-r.now()) * time.Microsecond
	ready := make(chan struct{})
	stop := r.s.clock.AfterFunc(max(d, 0), func() { close(ready) })
	defer stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ready:
		return nil
	}
}

// Committed implements connectors.Reader.
func (r *reader) Committed(context.Context, connectors.Offset) error { return nil }

// Close implements connectors.Reader.
func (r *reader) Close() error { return nil }
