package nats

import (
	"bytes"
	"crypto/sha256"
	stdjson "encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestTemplate(t *testing.T) {
	schema := messages.NewSchema(
		messages.Field{Name: "s", Type: messages.T(messages.String)},
		messages.Field{Name: "i", Type: messages.T(messages.Int)},
		messages.Field{Name: "d", Type: messages.DecimalType(10, 2)},
		messages.Field{Name: "f", Type: messages.T(messages.Double)},
		messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)},
		messages.Field{Name: "b", Type: messages.T(messages.Boolean)},
		messages.Field{Name: "x", Type: messages.T(messages.Binary)},
		messages.Field{Name: "w", Type: messages.WindowType()},
	)
	at := time.Date(2026, 1, 31, 12, 0, 0, 500_000_000, time.UTC)
	row := func(s any) []any {
		return []any{s, -7, "12.50", 0.5, at, true, []byte{0xab, 1}, []any{at, nil}}
	}
	tests := []struct {
		template, want, filter string
		s                      any
	}{
		{"a.b", "a.b", "a.b", ""},
		{"a.{s}.b", "a.x.b", "a.*.b", "x"},
		{"a.{S}", "a.x", "a.*", "x"},
		{"a.{s}", "a._null", "a.*", nil},
		{"a.{s}", "a.%5Fnull", "a.*", "_null"},
		{"a.{s}", "a._empty", "a.*", ""},
		{"a.{s}", "a.1%2E5%20%2A%3E%25%24", "a.*", "1.5 *>%$"},
		{"a.{s}", "a.müde", "a.*", "müde"},
		{"a.{s}", "a.%FF", "a.*", "\xff"},
		{"a.{s:raw}.z", "a.x.y.z", "a.>", "x.y"},
		{"a.p-{s}-{i}", "a.p-x--7", "a.*", "x"},
		{"{i}.{d}.{f}.{b}.{x}", "-7.12%2E50.0%2E5.true.ab01", "*.*.*.*.*", ""},
		{"{ts}", "2026-01-31T12:00:00%2E500000Z", "*", ""},
		{"{w.start}.{w.end}", "2026-01-31T12:00:00%2E500000Z._null", "*.*", ""},
	}
	for _, tt := range tests {
		t.Run(tt.template, func(t *testing.T) {
			tpl, err := parseTemplate(tt.template, schema)
			if err != nil {
				t.Fatal(err)
			}
			b := messages.NewBuilder(schema)
			if err := format.AppendRow(b, row(tt.s)); err != nil {
				t.Fatal(err)
			}
			got, err := tpl.append(nil, b.Finish(), 0)
			if err != nil || string(got) != tt.want {
				t.Errorf("subject = %q, %v, want %q", got, err, tt.want)
			}
			if f := tpl.filter(); f != tt.filter {
				t.Errorf("filter = %q, want %q", f, tt.filter)
			}
		})
	}
	for _, raw := range []string{"", "a..b", "*", "a b", ".", strings.Repeat("x", 300)} {
		tpl, err := parseTemplate("a.{s:raw}", schema)
		if err != nil {
			t.Fatal(err)
		}
		b := messages.NewBuilder(schema)
		if err := format.AppendRow(b, row(raw)); err != nil {
			t.Fatal(err)
		}
		if got, err := tpl.append(nil, b.Finish(), 0); fault.KindOf(err) != fault.BadRow {
			t.Errorf("raw %q: subject = %q, %v, want a bad row", raw, got, err)
		}
	}
	if _, err := parseTemplate("{w}", schema); err == nil {
		t.Error("a struct was taken as a value")
	}
}

// FuzzEscape: any value becomes one valid token that reads back.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a.b", "_null", "_empty", "%5Fnull", "ü \x00\xff", "\xc5%\x9d"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		got := string(escapeToken(append([]byte("a."), v...), 2))
		if len(got) <= 255 {
			if err := checkSubject(got, false); err != nil {
				t.Fatalf("%q: %v", v, err)
			}
		}
		token := got[2:]
		if strings.Count(got, ".") != 1 {
			t.Fatalf("%q became %q", v, got)
		}
		back, err := url.PathUnescape(token)
		if token == "_empty" {
			back = ""
		}
		if err != nil || back != string(v) || token == "_null" {
			t.Fatalf("%q became %q, which reads as %q, %v", v, token, back, err)
		}
	})
}

// FuzzTemplate: what parses makes a valid subject from a harmless row.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"a.{n}", "{n:raw}.x", "{", "}", "{n}{n}", "a..{n}", "{n.x}", "{n:}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := parseTemplate(text, numbers())
		if err != nil {
			if fault.KindOf(err) != fault.Config {
				t.Fatalf("%q: %v is not a Config error", text, err)
			}
			return
		}
		b := messages.NewBuilder(numbers())
		b.Column(0).AppendInt64(7)
		b.EndRow()
		got, err := tpl.append(nil, b.Finish(), 0)
		if err == nil {
			err = checkSubject(string(got), false)
		}
		if err != nil || !covers(tpl.filter(), string(got)) {
			t.Fatalf("%q made %q, %v; filter %q", text, got, err, tpl.filter())
		}
	})
}

func TestTokenRoundTrip(t *testing.T) {
	for _, tok := range []token{
		{Created: time.Unix(1, 5).UTC(), ScanFrom: 1},
		{Created: time.Unix(1, 5).UTC(), ScanFrom: 100, Own: ranges{{100, 100}, {105, 300}}, Adoption: []messages.ID128{{Hi: 1, Lo: 2}, {Hi: math.MaxUint64, Lo: 0}}},
	} {
		b, err := tok.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeToken(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tok, *got, cmp.AllowUnexported(span{})); diff != "" {
			t.Error(diff)
		}
	}
}

// FuzzToken is about the tokens of all modes of a stream: decoding never panics,
// allocates what the input pays for, and what decodes is stable.
func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"v":1,"created":"2026-01-01T00:00:00Z","scan_from":5,"own":"BQI","adoption":""}`))
	f.Add([]byte(`{"v":1,"scan_from":5,"own":"////////////////"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var tok *anyToken
		var err error
		alloctest.Within(t, 256, len(b), func() { tok, err = decodeAnyToken(b) })
		if err != nil {
			if fault.KindOf(err) != fault.Config {
				t.Fatalf("%q: %v is not a Config error", b, err)
			}
			return
		}
		if tok == nil {
			if len(b) > 0 {
				t.Fatalf("%q is no token", b)
			}
			return
		}
		again, err := encodeAny(tok)
		if err != nil {
			return // a year that JSON cannot write
		}
		back, err := decodeAnyToken(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tok, back, cmp.AllowUnexported(anyToken{}, span{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func encodeAny(t *anyToken) (connectors.Token, error) {
	if t.epoch != nil {
		return t.epoch.encode()
	}
	return t.atOnce.encode()
}

// FuzzKVToken is the same for tokens of a bucket.
func FuzzKVToken(f *testing.F) {
	f.Add([]byte(`{"v":1,"bucket":"HOT","created":"2026-01-01T00:00:00Z","rows":[{"epoch":7,"rows":3,"parts":[0]}]}`))
	f.Add([]byte(`{"v":1,"created":"2026-01-01T00:00:00Z","scan_from":5}`))
	c := &kvCommitter{exact: true, sink: &kvSink{bucket: bucketSpec{name: "HOT"}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var tok *kvToken
		var err error
		alloctest.Within(t, 256, len(b), func() { tok, err = c.decode(b) })
		if err != nil {
			if fault.KindOf(err) != fault.Config {
				t.Fatalf("%q: %v is not a Config error", b, err)
			}
			return
		}
		if tok == nil {
			return
		}
		again, err := stdjson.Marshal(tok)
		if err != nil {
			return // a year that JSON cannot write
		}
		back, err := c.decode(again)
		if diff := cmp.Diff(tok, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
	})
}

// FuzzMarker is about what lies under the subject of a marker, which anybody may
// have published: it is read again as it was.
func FuzzMarker(f *testing.F) {
	f.Add([]byte(`{"v":1,"incarnation":"00112233445566778899aabbccddeeff","attempt":3,"nonce":"n","epoch":7,"publishing":8,"stream":"OUT","created":"2026-01-01T00:00:00Z","scan_from":5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, back marker
		var err error
		alloctest.Within(t, 64, len(b), func() { err = stdjson.Unmarshal(b, &m) })
		if err != nil {
			return
		}
		again, err := stdjson.Marshal(&m)
		if err != nil {
			return // a year that JSON cannot write
		}
		if err := stdjson.Unmarshal(again, &back); err != nil || !cmp.Equal(m, back) {
			t.Fatalf("%s: %v\n%s", again, err, cmp.Diff(m, back))
		}
	})
}

// FuzzRanges: what decodes as a set of sequences is one, and is written in the
// same way, whatever the lengths of its numbers.
func FuzzRanges(f *testing.F) {
	f.Add(ranges{{100, 100}, {105, 300}, {1 << 40, math.MaxUint64}}.encode())
	f.Add(bytes.Repeat([]byte{0xff}, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again ranges
		var err error
		alloctest.Within(t, 64, len(b), func() { r, err = decodeRanges(b) })
		if err != nil {
			return
		}
		for i, s := range r {
			if s.to < s.from || i > 0 && s.from <= r[i-1].to {
				t.Fatalf("%x: %v is not a set", b, r)
			}
			if !r.has(s.from) || !r.has(s.to) {
				t.Fatalf("%x: %v does not hold an end of %v", b, r, s)
			}
		}
		if again, err = decodeRanges(r.encode()); err != nil || !slices.Equal(again, r) {
			t.Fatalf("%x: %v is written and read as %v, %v", b, r, again, err)
		}
	})
}

// FuzzRowID: what is taken for the identity of a row is what is written for it, in
// either case.
func FuzzRowID(f *testing.F) {
	f.Add("00112233445566778899aabbccddeeff")
	f.Add("00112233445566778899AABBCCDDEEFG")
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseHexID(s)
		if got := string(appendHexID(nil, id)); ok && got != strings.ToLower(s) {
			t.Fatalf("%q is written as %q", s, got)
		}
	})
}

// FuzzPosition is about the offsets of streams and of subjects without one.
func FuzzPosition(f *testing.F) {
	f.Add([]byte(`{"stream":"IN","created":"2026-01-02T03:04:05.000000678Z","filter":"a.>","next_seq":42}`))
	f.Add([]byte(`{"subject":"a.b","count":5}`))
	s := &source{}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p position
		var err error
		alloctest.Within(t, 64, len(b), func() { p, err = parsePosition(b) })
		if err == nil {
			prefix, err := p.prefix()
			if err != nil {
				return // a year that JSON cannot write
			}
			back, err := parsePosition(appendOffset(nil, prefix, p.NextSeq))
			if err != nil || !cmp.Equal(p, back) || p.origin() != back.origin() {
				t.Fatalf("%q is read again as %+v, %v, was %+v", b, back, err, p)
			}
		} else if fault.KindOf(err) != fault.Config {
			t.Fatalf("%q: %v is not a Config error", b, err)
		}
		if _, err := s.openCore(connectors.ReadRequest{Partition: "a.b", From: b}); err != nil && fault.KindOf(err) != fault.Config {
			t.Fatalf("%q: %v is not a Config error", b, err)
		}
	})
}

// TestRanges compares with a map.
func TestRanges(t *testing.T) {
	var r ranges
	set := map[uint64]bool{}
	x := uint64(12345)
	for range 2000 {
		x = x*6364136223846793005 + 1442695040888963407
		seq := x >> 33 % 500
		r, set[seq] = r.add(seq), true
	}
	const from = 50
	n := r.normal(from)
	decoded, err := decodeRanges(n.encode())
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(600) {
		if got, want := decoded.has(seq), set[seq] && seq >= from; got != want {
			t.Errorf("has(%d) = %v, want %v", seq, got, want)
		}
	}
	if !slices.IsSortedFunc(n, func(a, b span) int { return int(a.from) - int(b.from) }) {
		t.Error("spans are not sorted")
	}
}

// FuzzDelivery compares with nats.go's parser.
func FuzzDelivery(f *testing.F) {
	f.Add("$JS.ACK.IN.c.1.17.3.1700000000000000000.5")
	f.Add("$JS.ACK.hub.acc.IN.c.1.17.3.1700000000000000000.5.tok")
	f.Add("$JS.ACK.hub.acc.IN.c.1.17.3.1700000000000000000.5")
	f.Add("$JS.ACK.......")
	f.Fuzz(func(t *testing.T, reply string) {
		var d delivery
		ok := parseDelivery(reply, &d)
		m := &nats.Msg{Reply: reply, Sub: &nats.Subscription{}}
		want, err := m.Metadata()
		if !ok || err != nil {
			return // nats.go is lenient about what is not a number
		}
		if d.seq != want.Sequence.Stream || d.consumer != want.Sequence.Consumer || d.pending != want.NumPending {
			t.Fatalf("%q: %+v, want %+v", reply, d, want)
		}
	})
}

func TestDelivery(t *testing.T) {
	want := delivery{seq: 17, consumer: 3, time: 1700000000000000000, pending: 5}
	for _, reply := range []string{
		"$JS.ACK.IN.c.1.17.3.1700000000000000000.5",
		"$JS.ACK.hub.acc.IN.c.1.17.3.1700000000000000000.5",
		"$JS.ACK.hub.acc.IN.c.1.17.3.1700000000000000000.5.tok",
	} {
		var d delivery
		if !parseDelivery(reply, &d) || d != want {
			t.Errorf("%s: %+v", reply, d)
		}
		if n := testing.AllocsPerRun(100, func() { parseDelivery(reply, &d) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// FuzzAck: the quick way and the slow way agree.
func FuzzAck(f *testing.F) {
	for _, s := range []string{
		`{"stream":"OUT","seq":17}`, `{"stream":"OUT","seq":17,"duplicate": true}`, `{"stream":"OUT","domain":"hub","seq":5}`,
		`{"stream":"O\"UT","seq":17}`, `{"error":{"code":400,"err_code":10071,"description":"x"},"stream":"OUT","seq":0}`, `{}`, ``, `{"stream":"","seq":1}`,
		`{"stream":"a","x":"b,"seq":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var quick, slow ack
		parseAck(&nats.Msg{Data: data}, &quick)
		parseAckSlowly(&nats.Msg{Data: data}, &slow)
		if !stdjson.Valid(data) || !utf8.Valid(data) {
			return // the quick way looks only at what it needs
		}
		if (quick.err == nil) != (slow.err == nil) || quick.err == nil && (quick.seq != slow.seq || !bytes.Equal(quick.stream, slow.stream)) {
			t.Fatalf("%s: %+v, want %+v", data, quick, slow)
		}
	})
}

// TestAcksOfTheServer: the usual answers take the quick way.
func TestAcksOfTheServer(t *testing.T) {
	b := newBroker(t)
	js, nc := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out"}})
	for i := range 2 {
		msg := nats.NewMsg("out")
		msg.Header.Set(headerID, "same")
		m, err := nc.RequestMsg(msg, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var a ack
		if n := testing.AllocsPerRun(10, func() { parseAck(m, &a) }); n != 0 || a.err != nil || a.seq != 1 || string(a.stream) != "OUT" {
			t.Errorf("answer %d %s: %+v, %v allocations", i, m.Data, a, n)
		}
	}
}

func TestPositions(t *testing.T) {
	p := position{Stream: "IN", Created: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), Filter: "a.>"}
	prefix, err := p.prefix()
	if err != nil {
		t.Fatal(err)
	}
	o := appendOffset(nil, prefix, 42)
	want := `{"stream":"IN","created":"2026-01-02T03:04:05.000000678Z","filter":"a.>","next_seq":42}`
	var x, y any
	if stdjson.Unmarshal(o, &x) != nil || stdjson.Unmarshal([]byte(want), &y) != nil || !cmp.Equal(x, y) {
		t.Errorf("offset = %s, want %s", o, want)
	}
	back, err := parsePosition(o)
	p.NextSeq = 42
	if err != nil || !cmp.Equal(p, back) {
		t.Errorf("read back %+v, %v", back, err)
	}
	for _, bad := range []string{"", "{}", "x", `{"stream":"IN"}`} {
		if _, err := parsePosition([]byte(bad)); fault.KindOf(err) != fault.Config {
			t.Errorf("offset %q: %v, want a Config error", bad, err)
		}
	}
	// The identity must stay what it is: rows in users' streams carry it.
	text := "\x00\x00\x00\x00\x00\x00\x00\x0dnats source 1" + "\x00\x00\x00\x00\x00\x00\x00\x02IN" +
		"\x00\x00\x00\x00\x00\x00\x00\x1e2026-01-02T03:04:05.000000678Z" + "\x00\x00\x00\x00\x00\x00\x00\x03a.>"
	want = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:32]
	if got := fmt.Sprintf("%016x%016x", p.origin().Hi, p.origin().Lo); got != want {
		t.Errorf("origin = %s, want %s", got, want)
	}
	q := p
	q.Filter = "a.b"
	if q.origin() == p.origin() {
		t.Error("two filters have one origin")
	}
}
