package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/text"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/fault"
)

func schema(kinds ...messages.Kind) *messages.Schema {
	s := &messages.Schema{}
	for i, k := range kinds {
		s.Fields = append(s.Fields, messages.Field{Name: string(rune('a' + i)), Type: messages.T(k)})
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	c := format.Config{Schema: schema(messages.String, messages.BigInt), Metadata: []bool{false, true}, Skip: []bool{false, true}}
	d, err := text.Format().Decoder(c)
	if err != nil {
		t.Fatal(err)
	}
	e, err := text.Format().Encoder(c)
	if err != nil {
		t.Fatal(err)
	}
	payloads := []string{"a line", "", "öäü \x00 \"quoted\""}
	b := messages.NewBuilder(c.Schema)
	for i, p := range payloads {
		if err := d.Decode(b, []byte(p), func(b *messages.Builder) { b.Column(1).AppendInt64(int64(i)) }); err != nil {
			t.Fatal(err)
		}
	}
	batch := b.Finish()
	var got []string
	for i := range batch.Len() {
		line, err := e.Encode(nil, batch, i)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
		if row := format.RowAt(batch, i); row[1] != int64(i) {
			t.Errorf("row %d is %v, want the filled column to be %d", i, row, i)
		}
	}
	if diff := cmp.Diff(got, payloads); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
	if err := d.Decode(b, []byte("\xff"), nil); fault.KindOf(err) != fault.BadRow || err == nil {
		t.Errorf("invalid UTF-8: got error %v, want a bad row error", err)
	}
}

func TestOneStringColumnIsNeeded(t *testing.T) {
	for _, s := range []*messages.Schema{schema(), schema(messages.BigInt), schema(messages.String, messages.String)} {
		if _, err := text.Format().Decoder(format.Config{Schema: s}); fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "string") {
			t.Errorf("columns (%s): got error %v, want a config error", s, err)
		}
		if _, err := text.Format().Encoder(format.Config{Schema: s}); err == nil {
			t.Errorf("columns (%s): the encoder accepts them", s)
		}
	}
}

// FuzzDecode: a payload that is UTF-8 is the text, byte for byte, and any other is a
// bad row.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("a line"))
	f.Add([]byte("\xff"))
	d, err := text.Format().Decoder(format.Config{Schema: schema(messages.String)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		b := messages.NewBuilder(schema(messages.String))
		var err error
		alloctest.Within(t, 16, len(payload), func() { err = d.Decode(b, payload, nil) })
		if err != nil {
			if utf8.Valid(payload) || fault.KindOf(err) != fault.BadRow {
				t.Fatalf("%q: got error %v", payload, err)
			}
			return
		}
		if got := b.Finish().Column(0).Bytes(0); string(got) != string(payload) {
			t.Fatalf("%q is decoded as %q", payload, got)
		}
	})
}
