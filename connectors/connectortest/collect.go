package connectortest

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
)

// Options parses option values as SQL would, failing the test on a fault.
// Options and values alternate.
func Options(t testing.TB, opts []option.Option, keyValues ...string) option.Values {
	t.Helper()
	var given []option.Given
	for i := 0; i+1 < len(keyValues); i += 2 {
		given = append(given, option.Given{Key: keyValues[i], Value: keyValues[i+1], Pos: -1})
	}
	v, errs := option.Parse("test", opts, given)
	for _, err := range errs {
		t.Fatal(err)
	}
	return v
}

// Record is a row with what travels beside it.
type Record struct {
	Row     []any // see format.ValueAt
	Base    messages.ID128
	A, B    uint64
	Arrival messages.EventTime
}

// Collector reads one partition as the engine does and keeps what came.
type Collector struct {
	Records []Record
	Bad     []connectors.BadRecord
	// Offsets has the offset behind each Read, Counts the number of records up to
	// it.
	Offsets []connectors.Offset
	Counts  []int
	Status  connectors.Status

	reader connectors.Reader
	rows   *connectors.Rows
}

// Open opens a partition. The decoder may be nil.
func Open(ctx context.Context, s connectors.Source, q connectors.ReadRequest, d format.Decoder, policy connectors.OnError) (*Collector, error) {
	r, err := s.Open(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Collector{reader: r, rows: connectors.NewRows(s.Schema(), d, policy)}, nil
}

// Read reads once. The error is that of the reader, io.EOF included.
func (c *Collector) Read(ctx context.Context) error {
	c.rows.Reset()
	err := c.reader.Read(ctx, c.rows)
	c.Status = c.rows.Status
	c.Bad = append(c.Bad, c.rows.Bad...)
	if b := c.rows.Finish(); b != nil {
		l := b.Lineage()
		for i := range b.Len() {
			r := Record{Row: format.RowAt(b, i), Base: l.Base, Arrival: messages.NoEventTime}
			if l.A != nil {
				r.A, r.Arrival = l.A[i], b.Arrivals()[i]
			}
			if l.B != nil {
				r.B = l.B[i]
			}
			c.Records = append(c.Records, r)
		}
		b.Release()
	}
	if err == nil || errors.Is(err, io.EOF) {
		c.Offsets = append(c.Offsets, append(connectors.Offset(nil), c.rows.Next...))
		c.Counts = append(c.Counts, len(c.Records))
	}
	return err
}

// ReadAll reads until the partition ends.
func (c *Collector) ReadAll(ctx context.Context) error {
	for {
		if err := c.Read(ctx); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// ReadUntil reads until done reports true or the partition ends.
func (c *Collector) ReadUntil(ctx context.Context, done func(*Collector) bool) error {
	for !done(c) {
		if err := c.Read(ctx); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Rows returns the rows read so far.
func (c *Collector) Rows() [][]any {
	rows := [][]any{}
	for _, r := range c.Records {
		rows = append(rows, r.Row)
	}
	return rows
}

// Reader is the reader the collector reads from.
func (c *Collector) Reader() connectors.Reader { return c.reader }

// Close closes the reader.
func (c *Collector) Close() error { return c.reader.Close() }
