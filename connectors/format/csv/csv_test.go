package csv_test

import (
	stdcsv "encoding/csv"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/csv"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/fault"
)

func config(t testing.TB, s *messages.Schema, keyValues ...string) format.Config {
	t.Helper()
	var given []option.Given
	for i := 0; i < len(keyValues); i += 2 {
		given = append(given, option.Given{Key: keyValues[i], Value: keyValues[i+1]})
	}
	v, errs := option.Parse("csv", csv.Format().Options, given)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return format.Config{Schema: s, Options: v}
}

func field(name string, k messages.Kind) messages.Field {
	return messages.Field{Name: name, Type: messages.T(k)}
}

var mixed = messages.NewSchema(field("s", messages.String), field("n", messages.BigInt), field("d", messages.Double), field("b", messages.Boolean),
	field("ts", messages.Timestamp), field("day", messages.Date), field("bin", messages.Binary), messages.Field{Name: "dec", Type: messages.DecimalType(12, 2)})

func decode(t testing.TB, c format.Config, lines ...string) ([][]any, error) {
	t.Helper()
	d, err := csv.Format().Decoder(c)
	if err != nil {
		t.Fatal(err)
	}
	b := messages.NewBuilder(c.Schema)
	for i, l := range lines {
		if h, ok := d.(format.HeaderDecoder); ok && i == 0 {
			isHeader, err := h.Header([]byte(l))
			if err != nil {
				return nil, err
			}
			if isHeader {
				continue
			}
		}
		if err := d.Decode(b, []byte(l), nil); err != nil {
			return nil, err
		}
	}
	b.EndUnit(0, 0)
	batch := b.Finish()
	rows := [][]any{}
	for i := range batch.Len() {
		rows = append(rows, format.RowAt(batch, i))
	}
	return rows, nil
}

func TestDecode(t *testing.T) {
	s := messages.NewSchema(field("a", messages.String), field("b", messages.Int))
	for _, tc := range []struct {
		name    string
		options []string
		lines   []string
		want    [][]any
	}{
		{"plain fields", nil, []string{"x,1", "y, 2 \r\n"}, [][]any{{"x", int32(1)}, {"y", int32(2)}}},
		{"quotes", nil, []string{`"a,""b""` + "\n" + `c","3"`}, [][]any{{"a,\"b\"\nc", int32(3)}}},
		{"NULL and the empty string", nil, []string{`,`, `"",1`}, [][]any{{nil, nil}, {"", int32(1)}}},
		{"a word for NULL", []string{"null_value", "NA"}, []string{`NA,NA`, `"NA",1`, `,1`}, [][]any{{nil, nil}, {"NA", int32(1)}, {"", int32(1)}}},
		{"an empty record is no row", nil, []string{"", "x,1", "\r\n"}, [][]any{{"x", int32(1)}}},
		{"another dialect", []string{"delimiter", `\t`, "quote", "'", "escape", `\`}, []string{`'it\'s \\ \n'` + "\t1"}, [][]any{{`it's \ \n`, int32(1)}}},
		{"a header gives the order", []string{"header", "true"}, []string{"\xef\xbb\xbfother,B,a", "x,1,y"}, [][]any{{"y", int32(1)}}},
		{"no header when there is none", nil, []string{"a,1"}, [][]any{{"a", int32(1)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode(t, config(t, s, tc.options...), tc.lines...)
			if diff := cmp.Diff(got, tc.want); err != nil || diff != "" {
				t.Errorf("error %v, got (-) differs from want (+):\n%s", err, diff)
			}
		})
	}
	for _, tc := range []struct{ name, line, want string }{
		{"too few fields", "x", "has 1 fields, 2 are expected"},
		{"too many fields", "x,1,2", "has 3 fields, 2 are expected"},
		{"a wrong type", "x,y", `field b: "y" is not a int`},
		{"a number out of range", "x,2147483648", "field b"},
		{"a bare quote", `x"y,1`, "field 1: a quote stands inside"},
		{"text behind a quote", `"x"y,1`, "field 1: text follows"},
		{"an open quote", `"x,1`, "closing quote is missing"},
		{"a bare line break", "x\ny,1", "line break"},
		{"invalid UTF-8", "\xff,1", "field a: the text is not valid UTF-8"},
	} {
		t.Run("bad record: "+tc.name, func(t *testing.T) {
			rows, err := decode(t, config(t, s), tc.line)
			if err == nil || fault.KindOf(err) != fault.BadRow || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, error %v, want a bad row error with %q", rows, err, tc.want)
			}
		})
	}
	if _, err := decode(t, config(t, s, "header", "true"), "a,c"); fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "no column b") {
		t.Errorf("a header without a column: got error %v, want a config error that names it", err)
	}
}

func TestMetadataAndPrunedColumns(t *testing.T) {
	s := messages.NewSchema(field("a", messages.Int), field("file", messages.String), field("b", messages.Int))
	c := config(t, s)
	c.Metadata = []bool{false, true, false}
	c.Skip = []bool{true, true, false}
	got, err := decode(t, c, "not read,7")
	if diff := cmp.Diff(got, [][]any{{nil, nil, int32(7)}}); err != nil || diff != "" {
		t.Errorf("error %v, got (-) differs from want (+):\n%s", err, diff)
	}
}

func TestBadOptionsAndTypes(t *testing.T) {
	s := messages.NewSchema(field("a", messages.String))
	for _, kv := range [][]string{{"delimiter", "ab"}, {"delimiter", "é"}, {"quote", ","}, {"escape", ","}, {"null_value", "a,b"}, {"quote", "\n"}} {
		if _, err := csv.Format().Decoder(config(t, s, kv...)); fault.KindOf(err) != fault.Config || err == nil {
			t.Errorf("%q: got error %v, want a config error", kv, err)
		}
	}
	nested := messages.NewSchema(messages.Field{Name: "w", Type: messages.WindowType()})
	if _, err := csv.Format().Encoder(config(t, nested)); fault.KindOf(err) != fault.Config || err == nil {
		t.Errorf("a struct: got error %v, want a config error", err)
	}
}

func encode(t testing.TB, c format.Config, rows ...[]any) []string {
	t.Helper()
	e, err := csv.Format().Encoder(c)
	if err != nil {
		t.Fatal(err)
	}
	b := messages.NewBuilder(c.Schema)
	for _, r := range rows {
		if err := format.AppendRow(b, r); err != nil {
			t.Fatal(err)
		}
	}
	batch := b.Finish()
	var lines []string
	for i := range batch.Len() {
		line, err := e.Encode(nil, batch, i)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

func TestRoundTripOfAllTypes(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)
	day := noon.Truncate(24 * time.Hour)
	rows := [][]any{
		{"a,\"b\"\r\nc", int64(math.MinInt64), 0.1, true, noon, day, []byte{0, 255}, "-0.05"},
		{"", int64(0), math.Inf(1), false, noon, day, []byte{}, "1234567890.12"},
		{nil, nil, nil, nil, nil, nil, nil, nil},
		{"NA", int64(1), math.NaN(), nil, nil, nil, nil, nil},
	}
	for _, kv := range [][]string{nil, {"null_value", "NA"}, {"delimiter", "|", "quote", "'", "escape", `\`}} {
		c := config(t, mixed, kv...)
		got, err := decode(t, c, encode(t, c, rows...)...)
		if diff := cmp.Diff(got, rows, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Errorf("%q: error %v, got (-) differs from want (+):\n%s", kv, err, diff)
		}
	}
}

func TestHeaderLine(t *testing.T) {
	s := messages.NewSchema(field("a,b", messages.String), field("c", messages.Int))
	got, err := csv.Format().Header(config(t, s, "header", "true"))
	if err != nil || string(got) != `"a,b",c` {
		t.Errorf("got %q, %v, want \"a,b\",c", got, err)
	}
	if got, err := csv.Format().Header(config(t, s)); err != nil || got != nil {
		t.Errorf("without the option: got %q, %v, want nothing", got, err)
	}
}

// join puts records together as the file source does.
func join(d format.LineJoiner, text string) []string {
	var records []string
	var cur []string
	open := false
	for _, l := range strings.Split(text, "\n") {
		cur = append(cur, l)
		if open = d.Continues([]byte(l), open); !open {
			records = append(records, strings.Join(cur, "\n"))
			cur = nil
		}
	}
	if cur != nil {
		records = append(records, strings.Join(cur, "\n"))
	}
	return records
}

// FuzzDecode compares whole files with the standard library's reader.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"a,b\nc,d\n", "\"a\nb\",\"c\"\"d\"\n", "\"a", "a\"b,c", ",\n", "\"a\"b,c", "x,y\r\n\"z\r\n\",w"} {
		f.Add(s)
	}
	s := messages.NewSchema(field("a", messages.String), field("b", messages.String))
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.Contains(text, "\r") { // the standard reader rewrites carriage returns
			return
		}
		r := stdcsv.NewReader(strings.NewReader(text))
		r.FieldsPerRecord = 2
		want, wantErr := r.ReadAll()
		c := config(t, s, "null_value", "\x01") // so that empty fields are strings
		d, err := csv.Format().Decoder(c)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]any
		alloctest.Within(t, 512, len(text), func() { got, err = decode(t, c, join(d.(format.LineJoiner), text)...) }) // a row of 2 values from a comma
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got error %v, the standard library says %v", text, err, wantErr)
		}
		if err != nil || strings.Contains(text, "\x01") {
			return
		}
		rows := [][]any{}
		for _, w := range want {
			rows = append(rows, []any{w[0], w[1]})
		}
		if diff := cmp.Diff(got, rows); diff != "" {
			t.Fatalf("%q: got (-) differs from want (+):\n%s", text, diff)
		}
		back, err := stdcsv.NewReader(strings.NewReader(strings.Join(encode(t, c, rows...), "\n"))).ReadAll()
		if diff := cmp.Diff(back, want, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%q: the standard library reads our records as error %v, got (-) differs from want (+):\n%s", text, err, diff)
		}
	})
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	c := config(t, mixed)
	line := []byte(`"a ""b""",12,1.5,true,2026-05-01T12:00:00Z,2026-05-01,AP8=,1.25`)
	d, err := csv.Format().Decoder(c)
	if err != nil {
		t.Fatal(err)
	}
	b := messages.NewBuilder(mixed)
	step := func() {
		if err := d.Decode(b, line, nil); err != nil {
			t.Fatal(err)
		}
		b.AbortUnit()
	}
	step()
	if got := testing.AllocsPerRun(100, step); got != 0 {
		t.Errorf("decoding allocates %v times per record, want 0", got)
	}
}
