package sim

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// The columns of the input.
const (
	colPartition = iota
	colOffset
	colKey
	colTime
	colValue
)

var inputSchema = messages.NewSchema(
	messages.Field{Name: "p", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "o", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "k", Type: messages.T(messages.BigInt)},
	messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)},
	messages.Field{Name: "v", Type: messages.T(messages.BigInt)},
)

// row is a row of the input or, with columns of another meaning, of the output.
type row [5]int64

// partition is a replayable part of a source: a log to which rows are added as
// time passes.
type partition struct {
	r      *run
	source string
	number int // in the whole run, the value of column p
	rows   []row
	arrive []time.Duration // ascending
	acked  int             // highest offset that the engine said is durable
	reader *reader         // the open one
	flaky  bool            // it is not listed in all attempts
	listed bool            // in this attempt
	gone   int             // of a work queue: how many rows have been acknowledged and are no more
	known  bool            // it has been listed
}

// here is how many rows have arrived.
func (p *partition) here() int {
	n, _ := slices.BinarySearch(p.arrive, p.r.w.now+1)
	return n
}

func (p *partition) name() string { return fmt.Sprint("p", p.number) }

// generate fills the partition: event times mostly rise, some rows are late
// within the delay, some beyond.
func (p *partition) generate(n int, delay, span time.Duration) {
	r := p.r.rng
	at := time.Duration(r.IntN(5000)) * time.Microsecond
	step := span / time.Duration(n+1)
	speed := 1 + r.IntN(4)
	event := int64(1000 + r.IntN(int(delay.Microseconds())+1))
	for o := range n {
		event += int64(r.IntN(40 * speed))
		ts := event
		switch r.IntN(10) {
		case 0, 1:
			ts -= int64(r.IntN(int(delay.Microseconds()) + 1))
		case 2:
			ts -= delay.Microseconds() + int64(r.IntN(300))
		}
		ts -= ts % p.r.grain
		p.rows = append(p.rows, row{int64(p.number), int64(o), int64(r.IntN(p.r.keys)), ts, int64(r.IntN(1000))})
		if r.IntN(4) == 0 {
			at += time.Duration(r.Int64N(int64(2*step) + 1))
		}
		p.arrive = append(p.arrive, at)
	}
}

// watermarks returns, for each row, the partition's watermark before it, and the
// one behind the last row.
func (p *partition) watermarks(delay time.Duration) (before []int64, last int64) {
	last = int64(messages.NoEventTime)
	for _, in := range p.rows {
		before = append(before, last)
		if !p.r.bad(in) {
			last = max(last, in[colTime]-delay.Microseconds())
		}
	}
	return before, last
}

// bad tells whether a record of the input cannot be decoded.
func (r *run) bad(in row) bool { return r.plan.letters && in[colValue]%5 == 0 }

// good is the number of rows among the first n records of a partition.
func (p *partition) good(n int) (rows uint64) {
	for _, in := range p.rows[:n] {
		if !p.r.bad(in) {
			rows++
		}
	}
	return rows
}

// payload is the text of a record that cannot be decoded, which keeps its columns.
func payload(in row) string { return strings.Trim(fmt.Sprint(in), "[]") }

func parsePayload(text string) (out row) {
	for i, f := range strings.Fields(text) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			panic(err)
		}
		out[i] = n
	}
	return out
}

// source is a set of partitions (connectors.Source).
type source struct {
	r     *run
	name  string
	parts []*partition
	// queue: records are deleted when they are acknowledged, and delivered again
	// when they are not.
	queue bool
}

func (s *source) Schema() *messages.Schema { return inputSchema }

func (s *source) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true}
}

func (s *source) Partitions(context.Context) ([]string, error) {
	if err := s.r.point("src/partitions"); err != nil {
		return nil, err
	}
	var names []string
	for _, p := range s.parts {
		p.listed = !p.flaky || s.r.rng.IntN(2) == 0
		p.known = p.known || p.listed
		if p.listed {
			names = append(names, p.name())
		}
	}
	return names, nil
}

func (s *source) Open(ctx context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	if err := s.r.point("src/open"); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.parts, func(p *partition) bool { return p.name() == q.Partition })
	p := s.parts[i]
	pos := 0
	if q.From != nil {
		var err error
		if pos, err = strconv.Atoi(string(q.From)); err != nil || pos > len(p.rows) {
			return nil, fmt.Errorf("offset %q of %s", q.From, q.Partition)
		}
	}
	if pos < p.gone {
		s.r.fail("%s is to be read from %d, but up to %d it was told to forget", p.name(), pos, p.gone)
	}
	rd := &reader{p: p, ctx: ctx, pos: pos, most: q.MaxRows, attempt: s.r.attempt}
	if s.queue {
		rd.queue, rd.deliver = true, p.gone
	}
	p.reader = rd
	s.r.opened++
	s.r.w.ready["read of "+s.name+"/"+q.Partition] = rd.ready
	return rd, nil
}

// reader reads one partition in one attempt.
type reader struct {
	p       *partition
	ctx     context.Context
	pos     int
	most    int
	attempt uint64
	told    bool // that it is caught up
	closed  bool

	queue   bool
	deliver int // of a work queue: what comes next; before pos it has come already
}

// ready reports whether Read has something to return: a simulated one must not
// block.
func (rd *reader) ready() bool {
	return rd.ctx.Err() != nil || rd.pos < rd.p.here() || !rd.told
}

func (rd *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	if rd.closed {
		return fmt.Errorf("read of a closed reader")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := rd.p.r
	if err := r.point("src/read"); err != nil {
		return err
	}
	dst.SetOrigin(messages.ID128{Hi: 77, Lo: uint64(rd.p.number)})
	n := min(rd.p.here()-rd.pos, rd.most, 1+r.rng.IntN(rd.most))
	if rd.queue {
		n = rd.received(n)
	}
	if n == 0 {
		rd.told = true
		dst.Status = connectors.Status{State: connectors.CaughtUp}
		if rd.pos == len(rd.p.rows) && r.bounded {
			return io.EOF
		}
		return nil
	}
	for _, in := range rd.p.rows[rd.pos : rd.pos+n] {
		if err := r.decode(in, dst); err != nil {
			return err
		}
	}
	rd.pos += n
	dst.Next = strconv.AppendInt(dst.Next[:0], int64(rd.pos), 10)
	rd.told = rd.pos == rd.p.here() && r.rng.IntN(2) == 0
	if rd.told {
		dst.Status = connectors.Status{State: connectors.CaughtUp}
	}
	if rd.pos == len(rd.p.rows) && r.bounded {
		return io.EOF
	}
	return nil
}

// decode makes a row of a record, or says that it cannot be done.
func (r *run) decode(in row, dst *connectors.Rows) error {
	at := messages.EventTime(in[colTime])
	if r.bad(in) {
		return dst.Refuse([]byte(payload(in)), fault.New(fault.BadRow, "not a row"), &connectors.Meta{Offset: uint64(in[colOffset]), Arrival: at})
	}
	b := dst.Builder()
	for c, v := range in {
		b.Column(c).AppendInt64(v)
	}
	b.EndRow()
	b.EndUnit(uint64(in[colOffset]), at)
	dst.Payloads++
	return nil
}

// received says how many of n records that a work queue delivers are new: from
// time to time it delivers again what has not been acknowledged.
func (rd *reader) received(n int) int {
	r := rd.p.r
	if rd.p.gone < rd.pos && r.rng.IntN(16) == 0 {
		rd.deliver = rd.p.gone + r.rng.IntN(rd.pos-rd.p.gone)
	}
	rd.deliver = max(rd.deliver, rd.p.gone)
	if rd.deliver < rd.pos {
		r.count("duplicate at src/read")
		rd.deliver = rd.pos // all that came again is dropped
	}
	rd.deliver += n
	return n
}

// Committed checks that the engine only gives away what is durable.
func (rd *reader) Committed(_ context.Context, next connectors.Offset) error {
	if err := rd.p.r.point("src/ack"); err != nil {
		return err
	}
	off, err := strconv.Atoi(string(next))
	if err != nil {
		return err
	}
	if durable := rd.p.r.durable(rd.p); off > durable {
		rd.p.r.fail("source %s was told that %d is durable, the newest record says %d", rd.p.name(), off, durable)
	}
	if off < rd.p.acked && rd.attempt == rd.p.r.attempt {
		rd.p.r.fail("source %s was told %d after %d", rd.p.name(), off, rd.p.acked)
	}
	rd.p.acked = max(rd.p.acked, off)
	if rd.queue {
		if off <= rd.p.gone && off > 0 {
			rd.p.r.count("duplicate at src/ack")
		}
		rd.p.gone = max(rd.p.gone, off)
	}
	return nil
}

func (rd *reader) Close() error {
	if rd.closed {
		rd.p.r.fail("reader of %s closed twice", rd.p.name())
	}
	rd.closed = true
	rd.p.r.opened--
	return nil
}
