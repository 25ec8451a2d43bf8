package connectors

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var numbers = messages.NewSchema(messages.Field{Name: "n", Type: messages.T(messages.BigInt)}, messages.Field{Name: "src", Type: messages.T(messages.String)})

// digits decodes a payload of digits into one row per digit; it leaves a row
// behind when it fails.
type digits struct{}

func (digits) Decode(dst *messages.Builder, payload []byte, fill func(*messages.Builder)) error {
	for _, c := range payload {
		if c == '!' {
			return errors.New("not classified")
		}
		if c < '0' || c > '9' {
			dst.Column(0).AppendInt64(-1)
			return fault.New(fault.BadRow, "%q is no digit", c)
		}
		dst.Column(0).AppendInt64(int64(c - '0'))
		if fill != nil {
			fill(dst)
		}
		dst.EndRow()
	}
	return nil
}

func record(t *testing.T, r *Rows, offset uint64, payload string) error {
	t.Helper()
	return r.Record([]byte(payload), &Meta{
		Offset: offset, Arrival: messages.EventTime(100 + offset),
		Fill:   func(b *messages.Builder) { b.Column(1).AppendString("meta") },
		Origin: func() string { return fmt.Sprintf("stream S sequence %d", offset) },
	})
}

func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy string
		rows   [][]any
		bad    []BadRecord
	}{
		{"drop", [][]any{{int64(1), "meta"}, {int64(2), "meta"}, {int64(3), "meta"}}, []BadRecord{{Origin: "stream S sequence 8", Offset: 8, Arrival: 108}}},
		{"dead_letter", [][]any{{int64(1), "meta"}, {int64(2), "meta"}, {int64(3), "meta"}}, []BadRecord{{Origin: "stream S sequence 8", Offset: 8, Arrival: 108, Payload: []byte("4x")}}},
		{"null", [][]any{{int64(1), "meta"}, {int64(2), "meta"}, {nil, "meta"}, {int64(3), "meta"}}, []BadRecord{{Origin: "stream S sequence 8", Offset: 8, Arrival: 108}}},
	} {
		t.Run(tc.policy, func(t *testing.T) {
			p, err := ParseOnError(tc.policy)
			if err != nil {
				t.Fatal(err)
			}
			r := NewRows(numbers, digits{}, p)
			for i, payload := range []string{"12", "4x", "3"} {
				if err := record(t, r, uint64(7+i), payload); err != nil {
					t.Fatal(err)
				}
			}
			if r.Payloads != 3 || r.PayloadBytes != 5 {
				t.Errorf("got %d payloads of %d bytes, want 3 of 5", r.Payloads, r.PayloadBytes)
			}
			for i := range r.Bad {
				if r.Bad[i].Cause == nil {
					t.Error("a bad record has no cause")
				}
				r.Bad[i].Cause = nil
			}
			if diff := cmp.Diff(r.Bad, tc.bad); diff != "" {
				t.Errorf("bad records: got (-) differs from want (+):\n%s", diff)
			}
			b := r.Finish()
			var rows [][]any
			for i := range b.Len() {
				rows = append(rows, format.RowAt(b, i))
			}
			if diff := cmp.Diff(rows, tc.rows); diff != "" {
				t.Errorf("rows: got (-) differs from want (+):\n%s", diff)
			}
			if l := b.Lineage(); len(l.A) != len(rows) || l.A[0] != 7 || l.A[1] != 7 || l.B[1] != 1 {
				t.Errorf("got lineage %+v, want offset 7 for the first two rows, paths 0 and 1", l)
			}
			r.Reset()
			if r.Payloads != 0 || r.PayloadBytes != 0 || len(r.Bad) != 0 || r.Finish() != nil {
				t.Error("Reset left something behind")
			}
		})
	}
	t.Run("fail", func(t *testing.T) {
		r := NewRows(numbers, digits{}, FailOnError)
		err := record(t, r, 8, "4x"+strings.Repeat("y", 200))
		if fault.KindOf(err) != fault.BadRow || !strings.Contains(err.Error(), "stream S sequence 8: bad record") ||
			!strings.Contains(err.Error(), "'x' is no digit") || !strings.Contains(err.Error(), "(202 bytes)") || !strings.Contains(err.Error(), "on_error") {
			t.Errorf("got error %v, want a bad row error with origin, cause, size and what to do", err)
		}
		if r.Len() != 0 {
			t.Errorf("the bad record left %d rows", r.Len())
		}
	})
	t.Run("no policy for what is not the record's fault", func(t *testing.T) {
		r := NewRows(numbers, digits{}, DropOnError)
		if err := record(t, r, 1, "!"); fault.KindOf(err) != fault.Internal || err == nil {
			t.Errorf("got error %v, want an internal one", err)
		}
		r = NewRows(numbers, nil, DropOnError)
		if err := record(t, r, 1, "1"); fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "no format") {
			t.Errorf("without a decoder: got error %v, want a config error", err)
		}
	})
	if _, err := ParseOnError("ignore"); fault.KindOf(err) != fault.Config || err == nil {
		t.Errorf("an unknown policy: got error %v, want a config error", err)
	}
}

func TestRefuse(t *testing.T) {
	r := NewRows(numbers, digits{}, DeadLetter)
	cause := fault.New(fault.BadRow, "too long")
	if err := r.Refuse([]byte("begin"), cause, &Meta{Offset: 3}); err != nil {
		t.Fatal(err)
	}
	if len(r.Bad) != 1 || string(r.Bad[0].Payload) != "begin" || r.Payloads != 1 {
		t.Errorf("got %+v and %d payloads, want the beginning of the record and 1", r.Bad, r.Payloads)
	}
}

func TestFull(t *testing.T) {
	r := NewRows(numbers, digits{}, DropOnError)
	for i := range 3 {
		if r.Full(3) {
			t.Errorf("full after %d of 3 bad records", i)
		}
		if err := record(t, r, uint64(i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if !r.Full(3) {
		t.Error("bad records do not count")
	}
	r.Reset()
	if err := record(t, r, 1, strings.Repeat("1", 10)); err != nil {
		t.Fatal(err)
	}
	if !r.Full(3) {
		t.Error("rows do not count")
	}
	r.Reset()
	r.Finish().Release()
	r.PayloadBytes = 5 << 20
	if !r.Full(1 << 20) {
		t.Error("bytes do not count")
	}
}

func TestRegistry(t *testing.T) {
	cs := []Connector{{Name: "nats"}, {Name: "file"}}
	reg, err := NewRegistry(cs, []format.Format{{Name: "json"}})
	if err != nil {
		t.Fatal(err)
	}
	cs[0].Name = "changed"
	if c, err := reg.Connector("NATS"); err != nil || c.Name != "nats" {
		t.Errorf("got %v, %v, want nats whatever its case, and a list of its own", c.Name, err)
	}
	if _, err := reg.Connector("nast"); fault.KindOf(err) != fault.Config || err.Error() != `unknown connector "nast" (did you mean nats?)` {
		t.Errorf("got error %v", err)
	}
	if _, err := reg.Format("protobuf"); fault.KindOf(err) != fault.Config || err.Error() != `unknown format "protobuf" (known: json)` {
		t.Errorf("got error %v", err)
	}
	if _, err := NewRegistry([]Connector{{Name: "a_b"}, {Name: "AB"}}, nil); fault.KindOf(err) != fault.Config || err == nil {
		t.Errorf("two names that look alike: got error %v, want a config error", err)
	}
	if _, err := NewRegistry(nil, []format.Format{{Name: "x"}, {Name: "x"}}); err == nil {
		t.Error("a format was registered twice")
	}
}
