package json_test

import (
	"bytes"
	stdjson "encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/valyala/fastjson"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
)

var fuzzSchema = messages.NewSchema(
	messages.Field{Name: "n", Type: bigint}, messages.Field{Name: "s", Type: str},
	messages.Field{Name: "d", Type: messages.T(messages.Double)}, messages.Field{Name: "b", Type: messages.T(messages.Boolean)},
	messages.Field{Name: "l", Type: messages.ArrayType(messages.T(messages.Int))},
	messages.Field{Name: "o", Type: messages.StructType(messages.Field{Name: "x", Type: bigint}, messages.Field{Name: "y", Type: str})},
	messages.Field{Name: "m", Type: messages.MapType(str, bigint)},
	messages.Field{Name: "dec", Type: messages.DecimalType(20, 3)},
)

// member is a name and value of an object, as encoding/json sees them.
type member struct {
	name  string
	value stdjson.RawMessage
}

func membersOf(raw []byte) ([]member, bool) {
	d := stdjson.NewDecoder(bytes.NewReader(raw))
	if tok, err := d.Token(); err != nil || tok != stdjson.Delim('{') {
		return nil, false
	}
	var ms []member
	for d.More() {
		tok, err := d.Token()
		name, ok := tok.(string)
		var v stdjson.RawMessage
		if err != nil || !ok || d.Decode(&v) != nil {
			return nil, false
		}
		ms = append(ms, member{name, v})
	}
	return ms, true
}

// pick returns the member for a field by the documented rule.
func pick(ms []member, fields []messages.Field, k int) stdjson.RawMessage {
	var found stdjson.RawMessage
	exact := false
	for _, m := range ms {
		switch {
		case m.name == fields[k].Name:
			found, exact = m.value, true
		case !exact && asciiFold(m.name) == asciiFold(fields[k].Name):
			found = m.value
		}
	}
	return found
}

func asciiFold(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// oracle decodes a value with encoding/json.
func oracle(t messages.Type, raw stdjson.RawMessage) (any, bool) {
	if raw == nil || string(raw) == "null" {
		return nil, true
	}
	switch t.Kind {
	case messages.BigInt, messages.Int:
		bits := 64
		if t.Kind == messages.Int {
			bits = 32
		}
		v, err := strconv.ParseInt(string(raw), 10, bits)
		if bits == 32 {
			return int32(v), err == nil
		}
		return v, err == nil
	case messages.String:
		var s string
		if raw[0] != '"' {
			return string(raw), true
		}
		return s, stdjson.Unmarshal(raw, &s) == nil && set(&s, raw)
	case messages.Double:
		return oracleDouble(raw)
	case messages.Boolean:
		return string(raw) == "true", string(raw) == "true" || string(raw) == "false"
	case messages.Decimal:
		text := string(raw)
		if raw[0] == '"' && stdjson.Unmarshal(raw, &text) != nil || raw[0] == '{' || raw[0] == '[' || raw[0] == 't' || raw[0] == 'f' {
			return nil, false
		}
		return oracleDecimal(text, t)
	}
	return oracleNested(t, raw)
}

func set(dst *string, raw []byte) bool { return stdjson.Unmarshal(raw, dst) == nil }

func oracleDouble(raw []byte) (any, bool) {
	if raw[0] == '"' {
		var s string
		if stdjson.Unmarshal(raw, &s) != nil {
			return nil, false
		}
		switch s {
		case "NaN":
			return math.NaN(), true
		case "Infinity", "+Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
		return nil, false
	}
	var v float64
	return v, stdjson.Unmarshal(raw, &v) == nil
}

func oracleDecimal(text string, t messages.Type) (any, bool) {
	for _, c := range text {
		if !strings.ContainsRune("0123456789+-.eE", c) {
			return nil, false
		}
	}
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(text), "e")
	if scientific {
		e, ok := new(big.Int).SetString(exponent, 10)
		if !ok {
			return nil, false
		}
		// Beyond what the digits of the mantissa can make up for, the exponent does not matter.
		limit := int64(len(text)) + 100
		if e.CmpAbs(big.NewInt(limit)) > 0 {
			e.SetInt64(limit * int64(e.Sign()))
		}
		text = mantissa + "e" + e.String()
	}
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, false
	}
	v := x.FloatString(int(t.Scale)) // rounds half away from zero
	return v, len(strings.NewReplacer("-", "", ".", "").Replace(strings.TrimLeft(v, "-0"))) <= int(t.Precision)
}

func oracleNested(t messages.Type, raw []byte) (any, bool) {
	switch t.Kind {
	case messages.Array:
		var l []stdjson.RawMessage
		if raw[0] != '[' || stdjson.Unmarshal(raw, &l) != nil {
			return nil, false
		}
		out := []any{}
		for _, r := range l {
			v, ok := oracle(*t.Elem, r)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	case messages.Map:
		ms, ok := membersOf(raw)
		out := map[any]any{}
		for _, m := range ms {
			v, good := oracle(*t.Elem, m.value)
			if _, dup := out[m.name]; dup || !good {
				return nil, false
			}
			out[m.name] = v
		}
		return out, ok
	default:
		ms, ok := membersOf(raw)
		out := map[string]any{}
		return out, ok && oracleFields(t.Fields, ms, func(f messages.Field, v any) { out[f.Name] = v })
	}
}

// oracleFields decodes every member that the decoder looks at, so that a bad
// value that a later one replaces makes the record bad too.
func oracleFields(fields []messages.Field, ms []member, put func(messages.Field, any)) bool {
	exact := map[string]bool{}
	for _, m := range ms {
		for _, f := range fields {
			if m.name == f.Name || asciiFold(m.name) == f.Name && !exact[f.Name] {
				exact[f.Name] = exact[f.Name] || m.name == f.Name
				if _, ok := oracle(f.Type, m.value); !ok {
					return false
				}
			}
		}
	}
	for k, f := range fields {
		v, _ := oracle(f.Type, pick(ms, fields, k))
		put(f, v)
	}
	return true
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"n":1,"s":"x","d":1.5,"b":true,"l":[1,2],"o":{"x":1,"y":"z"},"m":{"a":1},"dec":"1.23"}`,
		`{"N":9223372036854775807,"n":-1,"S":{"a":[1,2,{}]},"s":"\ud83d\ude00\u0000"}`,
		`[{"n":1},{"n":null}]`, `{}`, `[]`, `{"l":[1,[2]]}`, `{"o":{"x":1,"X":"a"}}`, `{"m":{"a":1,"a":2}}`, `{"dec":1e3,"d":"NaN"}`,
		"{\"a\":\"\x7f\u2028\"}", `{"d":-0.0e-0}`, `{"l":[`, `{"s":"\u12"}`, ` {"n" : 1 } x`, `{"dec":".5"}`, `{"dec":9.9995e16}`,
		`{"dec":1e0020}`, `{"dec":0e999999999999999999999}`, `{"dec":7e-99999999999}`, `{"dec":1e99999999999}`,
	} {
		f.Add([]byte(s))
	}
	c := config(f, fuzzSchema, nil)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if !utf8.Valid(payload) || bytes.HasPrefix(payload, []byte("\xef\xbb\xbf")) {
			return // documented differences
		}
		var got [][]any
		var err error
		alloctest.Within(t, 512, len(payload), func() { got, err = decode(t, c, string(payload)) }) // a row of 8 values from {}
		if err != nil && strings.Contains(err.Error(), "max_depth") {
			return
		}
		docs := []stdjson.RawMessage{bytes.TrimSpace(payload)}
		valid := stdjson.Valid(payload)
		if valid && docs[0][0] == '[' {
			valid = stdjson.Unmarshal(docs[0], &docs) == nil
		}
		want := [][]any{}
		for _, doc := range docs {
			if !valid {
				break
			}
			ms, ok := membersOf(doc)
			var row []any
			valid = ok && oracleFields(fuzzSchema.Fields, ms, func(_ messages.Field, v any) { row = append(row, v) })
			want = append(want, row)
		}
		if valid != (err == nil) {
			t.Fatalf("decode(%q): got error %v, the oracle says valid = %v", payload, err, valid)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(got, want, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("decode(%q): got (-) differs from want (+):\n%s", payload, diff)
		}
		roundTrip(t, got)
	})
}

// roundTrip encodes rows and decodes them again.
func roundTrip(t *testing.T, rows [][]any) {
	c := config(t, fuzzSchema, nil)
	e, err := json.Format().Encoder(c)
	if err != nil {
		t.Fatal(err)
	}
	b := messages.NewBuilder(fuzzSchema)
	for _, r := range rows {
		if err := format.AppendRow(b, r); err != nil {
			t.Fatal(err)
		}
	}
	batch := b.Finish()
	for i, r := range rows {
		text, err := e.Encode(nil, batch, i)
		if err != nil || !stdjson.Valid(text) {
			t.Fatalf("encode(%v) = %q, %v, want valid JSON", r, text, err)
		}
		back, err := decode(t, c, string(text))
		if diff := cmp.Diff(back, [][]any{r}, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Fatalf("decode(%s): error %v, got (-) differs from want (+):\n%s", text, err, diff)
		}
	}
}

func TestNestedValuesDoNotAllocate(t *testing.T) {
	pair := messages.StructType(messages.Field{Name: "a", Type: bigint}, messages.Field{Name: "b", Type: str})
	s := messages.NewSchema(
		messages.Field{Name: "l", Type: messages.ArrayType(pair)}, messages.Field{Name: "m", Type: messages.MapType(str, bigint)},
		messages.Field{Name: "dec", Type: messages.DecimalType(20, 2)}, messages.Field{Name: "d", Type: messages.T(messages.Double)},
		messages.Field{Name: "bin", Type: messages.T(messages.Binary)}, messages.Field{Name: "S", Type: str},
	)
	payload := []byte(`{"l":[{"a":1,"b":"x"},{"B":"y"}],"m":{"k1":1,"k2":2,"k3":3},"dec":"1.25","d":1.5e3,"bin":"AP8=","s":"a\n\u00e9","\u0064ec2":1}`)
	d := decoder(t, config(t, s, nil))
	b := messages.NewBuilder(s)
	step := func() {
		if err := d.Decode(b, payload, nil); err != nil {
			t.Fatal(err)
		}
		b.AbortUnit()
	}
	step()
	if got := testing.AllocsPerRun(100, step); got != 0 {
		t.Errorf("decoding allocates %v times per record, want 0", got)
	}
}

const bid = `{"auction":1007,"bidder":20344,"price":1934221,"channel":"channel-1733","url":"https://www.nexmark.example/item.htm?query=1&channel_id=1733","ts":"2026-05-01T12:00:00.123Z","extra":"abcdefghijklmnop"}`

var bidSchema = messages.NewSchema(
	messages.Field{Name: "auction", Type: bigint}, messages.Field{Name: "bidder", Type: bigint}, messages.Field{Name: "price", Type: bigint},
	messages.Field{Name: "channel", Type: str}, messages.Field{Name: "url", Type: str}, messages.Field{Name: "ts", Type: timestamp},
)

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	c := config(t, bidSchema, nil)
	d := decoder(t, c)
	e, err := json.Format().Encoder(c)
	if err != nil {
		t.Fatal(err)
	}
	b := messages.NewBuilder(c.Schema)
	payload := []byte(bid)
	step := func() {
		if err := d.Decode(b, payload, nil); err != nil {
			t.Fatal(err)
		}
		b.AbortUnit()
	}
	step()
	if got := testing.AllocsPerRun(100, step); got != 0 {
		t.Errorf("decoding allocates %v times per record, want 0", got)
	}
	if err := d.Decode(b, payload, nil); err != nil {
		t.Fatal(err)
	}
	batch := b.Finish()
	buf := make([]byte, 0, 4096)
	if got := testing.AllocsPerRun(100, func() {
		if buf, err = e.Encode(buf[:0], batch, 0); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("encoding allocates %v times per row, want 0", got)
	}
}

func BenchmarkDecode(b *testing.B) {
	c := config(b, bidSchema, nil)
	d := decoder(b, c)
	bl := messages.NewBuilder(c.Schema)
	payload := []byte(bid)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := d.Decode(bl, payload, nil); err != nil {
			b.Fatal(err)
		}
		if i&1023 == 1023 {
			bl.AbortUnit()
		}
	}
}

// BenchmarkFastjson is the same work with a tree built by fastjson, checked
// for validity first, since its parser does not check everything.
func BenchmarkFastjson(b *testing.B) {
	bl := messages.NewBuilder(bidSchema)
	var p fastjson.Parser
	payload := []byte(bid)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := fastjson.ValidateBytes(payload); err != nil {
			b.Fatal(err)
		}
		v, err := p.ParseBytes(payload)
		if err != nil {
			b.Fatal(err)
		}
		for k := range 3 {
			bl.Column(k).AppendInt64(v.GetInt64(bidSchema.Fields[k].Name))
		}
		bl.Column(3).AppendBytes(v.GetStringBytes("channel"))
		bl.Column(4).AppendBytes(v.GetStringBytes("url"))
		ts, err := time.Parse(time.RFC3339Nano, string(v.GetStringBytes("ts")))
		if err != nil {
			b.Fatal(err)
		}
		bl.Column(5).AppendInt64(ts.UnixMicro())
		bl.EndRow()
		if i&1023 == 1023 {
			bl.AbortUnit()
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	c := config(b, bidSchema, nil)
	bl := messages.NewBuilder(c.Schema)
	if err := decoder(b, c).Decode(bl, []byte(bid), nil); err != nil {
		b.Fatal(err)
	}
	batch := bl.Finish()
	e, err := json.Format().Encoder(c)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = e.Encode(buf[:0], batch, 0); err != nil {
			b.Fatal(err)
		}
	}
}
