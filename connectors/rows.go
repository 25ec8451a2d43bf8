package connectors

import (
	"fmt"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// OnError is the policy for records that cannot be decoded and for row errors
// in the stateless part of a query.
type OnError uint8

// The policies. Every record is either a row or counted.
const (
	FailOnError OnError = iota // end the query, naming record and cause
	NullOnError                // a row whose payload columns are NULL
	DropOnError                // count it and go on
	DeadLetter                 // count it and hand it to the dead-letter sink
)

// ParseOnError parses an on_error option.
func ParseOnError(s string) (OnError, error) {
	switch s {
	case "", "fail":
		return FailOnError, nil
	case "null":
		return NullOnError, nil
	case "drop":
		return DropOnError, nil
	case "dead_letter":
		return DeadLetter, nil
	}
	return 0, fault.New(fault.Config, "on_error: %q is not one of fail, null, drop, dead_letter", s)
}

// BadRecord is a record that could not become a row.
type BadRecord struct {
	Payload []byte // raw bytes, owned by the record
	Origin  string // where it came from, for instance "stream BIDS sequence 17"
	Cause   error
	Offset  uint64
	Arrival messages.EventTime
}

// Rows collects what one Read produced. The engine recycles it; a Reader fills
// it and keeps no reference. It is used by one goroutine at a time.
type Rows struct {
	// Next is the offset behind the last record, appended by the Reader into
	// the buffer it finds here (Next = append(Next[:0], ...)).
	Next Offset
	// Status is set when it changed; the zero value means Reading.
	Status Status
	// Bad are the records that could not become rows, under every policy but
	// FailOnError. Their payloads are kept for DeadLetter only.
	Bad []BadRecord
	// Lost is how many records are gone that the outside system had for this
	// partition and cannot give again, as far as the Reader knows. They are counted
	// and never read.
	Lost int
	// Payloads is the number of records read, good or bad, and PayloadBytes
	// their size.
	Payloads, PayloadBytes int

	builder *messages.Builder
	decoder format.Decoder
	policy  OnError
	source  messages.ID128
}

// NewRows returns a collector that builds rows of schema s and decodes payloads
// with d, which may be nil for sources that make their own rows.
func NewRows(s *messages.Schema, d format.Decoder, policy OnError) *Rows {
	return &Rows{builder: messages.NewBuilder(s), decoder: d, policy: policy}
}

// SetOrigin sets the identity of partition and stream incarnation for lineage.
// A Reader calls it first in Read whenever it may have changed; it must come
// before the first row of a Read.
func (r *Rows) SetOrigin(id messages.ID128) {
	r.builder.SetOrigin(messages.ID128{Hi: id.Hi ^ r.source.Hi, Lo: id.Lo ^ r.source.Lo})
}

// SetSource makes a hash of the source's name within the query part of the rows'
// identity, so that two sources of a query, or two readers of the same outside
// stream, never give rows the same one. The engine calls it once, before the first
// Read.
func (r *Rows) SetSource(id messages.ID128) { r.source = id }

// Builder gives direct access for sources that make their own rows: append
// values, EndRow, then EndUnit with the unit's offset.
func (r *Rows) Builder() *messages.Builder { return r.builder }

// Len is the number of rows collected.
func (r *Rows) Len() int { return r.builder.Rows() }

// Meta describes one record for Record.
type Meta struct {
	Offset  uint64             // position of the record in its partition, for lineage
	Arrival messages.EventTime // broker time, else arrival time
	// Fill appends the metadata columns of the current row, before EndRow; it is
	// called once for each row the payload decodes to. May be nil.
	Fill func(b *messages.Builder)
	// Origin describes the record for people; called only for bad records.
	Origin func() string
}

// Record decodes payload into rows as one unit and applies the policy when it
// cannot. The error, if any, is a fault.BadRow naming the record and ends the
// attempt. Record keeps no reference to payload.
func (r *Rows) Record(payload []byte, m *Meta) error {
	r.Payloads++
	r.PayloadBytes += len(payload)
	err := r.decode(payload, m)
	if err == nil {
		r.builder.EndUnit(m.Offset, m.Arrival)
		return nil
	}
	r.builder.AbortUnit()
	return r.refuse(payload, err, m)
}

// Refuse applies the policy to a record that cannot be handed to the decoder,
// for instance because it is too large. payload may be a prefix of it.
func (r *Rows) Refuse(payload []byte, cause error, m *Meta) error {
	r.Payloads++
	r.PayloadBytes += len(payload)
	return r.refuse(payload, cause, m)
}

func (r *Rows) refuse(payload []byte, err error, m *Meta) error {
	if k := fault.KindOf(err); k != fault.BadRow {
		return fault.Wrap(k, err, "decode a record") // not the record's fault: no policy applies
	}
	origin := ""
	if m.Origin != nil {
		origin = m.Origin()
	}
	switch r.policy {
	case NullOnError:
		if m.Fill != nil {
			m.Fill(r.builder)
		}
		r.builder.EndRow()
		r.builder.EndUnit(m.Offset, m.Arrival)
		r.Bad = append(r.Bad, BadRecord{Origin: origin, Cause: err, Offset: m.Offset, Arrival: m.Arrival})
		return nil
	case DropOnError, DeadLetter:
		bad := BadRecord{Origin: origin, Cause: err, Offset: m.Offset, Arrival: m.Arrival}
		if r.policy == DeadLetter {
			bad.Payload = append([]byte(nil), payload...)
		}
		r.Bad = append(r.Bad, bad)
		return nil
	default:
		return fault.Wrap(fault.BadRow, err, "%s: bad record %s (on_error = 'drop', 'null' or 'dead_letter' goes on without it)", origin, preview(payload))
	}
}

func (r *Rows) decode(payload []byte, m *Meta) error {
	if r.decoder == nil {
		return fault.New(fault.Config, "the source has no format; add format = '...'")
	}
	return r.decoder.Decode(r.builder, payload, m.Fill)
}

func preview(p []byte) string {
	const limit = 120
	if len(p) > limit {
		return fmt.Sprintf("%q... (%d bytes)", p[:limit], len(p))
	}
	return fmt.Sprintf("%q", p)
}

// Full reports whether a Read that may add maxRows records should return: it
// counts good and bad records and their bytes, so that neither a run of bad
// records nor one of huge ones makes a Read unbounded.
func (r *Rows) Full(maxRows int) bool {
	const maxBytes = 4 << 20
	return r.builder.Rows() >= maxRows || r.Payloads >= maxRows || r.PayloadBytes >= maxBytes
}

// Header offers the first line of a file to the decoder, which may take it as
// the names of the columns. It reports whether the line was a header and is
// done with. It must come before the records of the file, also when reading
// starts in its middle.
func (r *Rows) Header(line []byte) (bool, error) {
	h, ok := r.decoder.(format.HeaderDecoder)
	if !ok {
		return false, nil
	}
	return h.Header(line)
}

// Continues tells whether a record goes on behind the end of a line; open is
// the answer for its previous line, false for its first one.
func (r *Rows) Continues(line []byte, open bool) bool {
	j, ok := r.decoder.(format.LineJoiner)
	return ok && j.Continues(line, open)
}

// SkipsBlank reports whether a blank line between two records is to be passed
// over without decoding it.
func (r *Rows) SkipsBlank() bool {
	_, ok := r.decoder.(format.BlankSkipper)
	return ok
}

// Finish returns the collected rows as a batch owned by the caller, or nil when
// there are none, and makes r ready for the next Read. Next and Bad keep their
// content until Reset.
func (r *Rows) Finish() *messages.Batch {
	if r.builder.Empty() {
		return nil
	}
	return r.builder.Finish()
}

// Reset forgets offset, status and bad records.
func (r *Rows) Reset() {
	r.Next = r.Next[:0]
	r.Status = Status{}
	clear(r.Bad)
	r.Bad = r.Bad[:0]
	r.Payloads, r.PayloadBytes, r.Lost = 0, 0, 0
}
