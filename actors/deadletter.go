package actors

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
)

// DeadLetterSchema is the schema of the rows on a BadRecords edge. payload is the
// record's bytes as text if they are valid UTF-8 (encoding "utf8"), else in
// base64 ("base64"); for a row that an expression failed on it is the row as a
// JSON object ("row"). ts is the record's broker or arrival time.
func DeadLetterSchema() *messages.Schema {
	text := messages.T(messages.String)
	return messages.NewSchema(
		messages.Field{Name: "query", Type: text}, messages.Field{Name: "source", Type: text}, messages.Field{Name: "partition", Type: text},
		messages.Field{Name: "origin", Type: text}, messages.Field{Name: "error", Type: text},
		messages.Field{Name: "payload", Type: text}, messages.Field{Name: "encoding", Type: text},
		messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)},
	)
}

// BadRecords links the records that a source kept out of its rows, and the rows
// that the stateless operators behind it dropped, with a sink for them. The rows
// have DeadLetterSchema and travel with the markers like all others.
func BadRecords(source *Node) Edge { return Edge{from: source, kind: ForwardEdge, side: true} }

// deadLetters collects bad records of one source subtask.
type deadLetters struct {
	out    *messages.Builder
	origin messages.ID128
}

func newDeadLetters(query string, src *sourceHalf, node string) *deadLetters {
	return &deadLetters{
		out:    messages.NewBuilder(DeadLetterSchema()),
		origin: operator.HashID([]byte("dead letter"), []byte(query), []byte(node), []byte(src.partition)),
	}
}

// letter is one bad record or row.
type letter struct {
	origin, err, payload, encoding string
	offset                         uint64
	at                             messages.EventTime
}

func (s *subtask) addLetter(l *letter) {
	d := s.letters
	if d.out.Empty() {
		d.out.SetOrigin(d.origin)
	}
	for i, v := range []string{s.cfg.Query, s.stage.source.name, s.source.partition, l.origin, l.err, l.payload, l.encoding} {
		d.out.Column(i).AppendString(v)
	}
	d.out.Column(7).AppendInt64(int64(l.at))
	d.out.EndRow()
	d.out.EndUnit(l.offset, l.at)
}

// sendLetters sends what has been collected.
func (s *subtask) sendLetters() {
	if s.letters == nil || s.letters.out.Empty() {
		return
	}
	b := s.letters.out.Finish()
	for _, f := range s.outs {
		if f.link.side && f.link.late == nil {
			b.Retain(1)
			f.emit(b)
		}
	}
	b.Release()
}

// badRecords reports the records that the policy kept out of the rows.
func (s *subtask) badRecords(slot *connectors.Rows) {
	for i := range slot.Bad {
		r := &slot.Bad[i]
		if f := s.source.spec.OnBadRecord; f != nil {
			f(r)
		}
		if s.letters == nil || r.Payload == nil {
			continue
		}
		l := &letter{origin: r.Origin, err: r.Cause.Error(), payload: string(r.Payload), encoding: "utf8", offset: r.Offset, at: r.Arrival}
		if !utf8.Valid(r.Payload) {
			l.payload, l.encoding = base64.StdEncoding.EncodeToString(r.Payload), "base64"
		}
		s.addLetter(l)
	}
	s.sendLetters()
}

// badRow is the Report of the row error policy of operators fused with a source
// that has a dead-letter sink.
func (s *subtask) badRow(next func(*messages.Batch, int, error)) func(*messages.Batch, int, error) {
	return func(b *messages.Batch, row int, err error) {
		if next != nil {
			next(b, row, err)
		}
		l := &letter{err: err.Error(), payload: rowJSON(b, row), encoding: "row"}
		if lin := b.Lineage(); lin.A != nil {
			l.offset = lin.A[row]
			if lin.B != nil && lin.B[row] != 0 {
				l.offset = rowOfUnit(l.offset, lin.B[row])
			}
		}
		if at := b.Arrivals(); at != nil {
			l.at = at[row]
		}
		s.addLetter(l)
	}
}

// rowOfUnit stands for the offset of a row that is not the only one of its unit:
// each letter has an identity of its own.
func rowOfUnit(offset, path uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], offset)
	binary.LittleEndian.PutUint64(b[8:], path)
	return xxh3.Hash(b[:])
}

// rowJSON shows a row as a JSON object; it is for people and may lose the
// distinction between types.
func rowJSON(b *messages.Batch, row int) string {
	m := map[string]any{}
	for i, f := range b.Schema().Fields {
		m[f.Name] = format.ValueAt(b.Column(i), row)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
