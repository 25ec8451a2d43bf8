package json_test

import (
	stdjson "encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func config(t testing.TB, s *messages.Schema, skip []bool, options ...string) format.Config {
	t.Helper()
	var given []option.Given
	for i := 0; i < len(options); i += 2 {
		given = append(given, option.Given{Key: options[i], Value: options[i+1]})
	}
	v, errs := option.Parse("json", json.Format().Options, given)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return format.Config{Schema: s, Skip: skip, Options: v}
}

func decoder(t testing.TB, c format.Config) format.Decoder {
	t.Helper()
	d, err := json.Format().Decoder(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// decode decodes one payload and returns its rows.
func decode(t testing.TB, c format.Config, payload string) ([][]any, error) {
	t.Helper()
	b := messages.NewBuilder(c.Schema)
	err := decoder(t, c).Decode(b, []byte(payload), nil)
	if err != nil {
		b.AbortUnit()
	} else {
		b.EndUnit(1, 0)
	}
	batch := b.Finish()
	for i := range batch.Columns() {
		if err := batch.Column(i).Check(); err != nil {
			t.Fatalf("decoding %q left a broken column: %v", payload, err)
		}
		if got := batch.Column(i).Len(); got != batch.Len() {
			t.Fatalf("decoding %q left %d values in column %d, want %d", payload, got, i, batch.Len())
		}
	}
	rows := [][]any{}
	for i := range batch.Len() {
		rows = append(rows, format.RowAt(batch, i))
	}
	return rows, err
}

func column(name string, t messages.Type) *messages.Schema {
	return messages.NewSchema(messages.Field{Name: name, Type: t})
}

var (
	bigint    = messages.T(messages.BigInt)
	str       = messages.T(messages.String)
	timestamp = messages.T(messages.Timestamp)
)

func TestDecodeValues(t *testing.T) {
	pair := messages.StructType(messages.Field{Name: "a", Type: bigint}, messages.Field{Name: "b", Type: str})
	noon := time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)
	for _, tc := range []struct {
		name    string
		typ     messages.Type
		payload string
		want    any
		options []string
	}{
		{name: "an integer beyond 2^53 is exact", typ: bigint, payload: `9007199254740993`, want: int64(9007199254740993)},
		{name: "the largest bigint", typ: bigint, payload: `9223372036854775807`, want: int64(math.MaxInt64)},
		{name: "the smallest bigint", typ: bigint, payload: `-9223372036854775808`, want: int64(math.MinInt64)},
		{name: "a tinyint at its limit", typ: messages.T(messages.TinyInt), payload: `-128`, want: int8(-128)},
		{name: "a smallint", typ: messages.T(messages.SmallInt), payload: `32767`, want: int16(32767)},
		{name: "an int", typ: messages.T(messages.Int), payload: `-0`, want: int32(0)},
		{name: "null", typ: bigint, payload: `null`, want: nil},
		{name: "a double", typ: messages.T(messages.Double), payload: `-1.5e3`, want: -1500.0},
		{name: "an infinite double", typ: messages.T(messages.Double), payload: `"-Infinity"`, want: math.Inf(-1)},
		{name: "a float", typ: messages.T(messages.Float), payload: `0.1`, want: float32(0.1)},
		{name: "a boolean", typ: messages.T(messages.Boolean), payload: `true`, want: true},
		{name: "a decimal from a number", typ: messages.DecimalType(20, 2), payload: `123456789012345678.905`, want: "123456789012345678.91"},
		{name: "a decimal from a string", typ: messages.DecimalType(38, 0), payload: `"12345678901234567890123456789012345678"`, want: "12345678901234567890123456789012345678"},
		{name: "a string with escapes", typ: str, payload: `"a\"\\\/\b\f\n\r\té\ud83d\ude00"`, want: "a\"\\/\b\f\n\r\té😀"},
		{name: "a lone surrogate", typ: str, payload: `"\ud800x\udc00"`, want: "\ufffdx\ufffd"},
		{name: "a number for a string", typ: str, payload: `1.50`, want: "1.50"},
		{name: "an object for a string", typ: str, payload: `{"a": [1, null]}`, want: `{"a": [1, null]}`},
		{name: "binary", typ: messages.T(messages.Binary), payload: `"AP\/+"`, want: []byte{0, 0xff, 0xfe}},
		{name: "a date", typ: messages.T(messages.Date), payload: `"2024-02-29"`, want: time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{name: "a timestamp with zone", typ: timestamp, payload: `"2026-05-01T14:00:00.123456789+02:00"`, want: noon},
		{name: "a timestamp without zone is UTC", typ: timestamp, payload: `"2026-05-01 12:00:00.123456"`, want: noon},
		{name: "a timestamp without time", typ: timestamp, payload: `"2026-05-01"`, want: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)},
		{name: "seconds", typ: timestamp, payload: `-1`, want: time.Unix(-1, 0).UTC(), options: []string{"timestamp_format", "unix_s"}},
		{name: "milliseconds", typ: timestamp, payload: `1777636800123`, want: time.UnixMilli(1777636800123).UTC(), options: []string{"timestamp_format", "unix_ms"}},
		{name: "microseconds", typ: timestamp, payload: `1777636800123456`, want: noon, options: []string{"timestamp_format", "unix_us"}},
		{name: "an array", typ: messages.ArrayType(bigint), payload: ` [ 1 , null , 3 ] `, want: []any{int64(1), nil, int64(3)}},
		{name: "an empty array", typ: messages.ArrayType(bigint), payload: `[]`, want: []any{}},
		{name: "a map", typ: messages.MapType(str, bigint), payload: `{"x":1,"":2}`, want: map[any]any{"x": int64(1), "": int64(2)}},
		{name: "a map with integer keys", typ: messages.MapType(bigint, str), payload: `{"7":"x"}`, want: map[any]any{int64(7): "x"}},
		{name: "a struct, its missing field NULL", typ: pair, payload: `{"a":1,"c":{}}`, want: map[string]any{"a": int64(1), "b": nil}},
		{
			name: "structs in an array", typ: messages.ArrayType(pair), payload: `[{"b":"x","a":1},null,{}]`,
			want: []any{map[string]any{"a": int64(1), "b": "x"}, nil, map[string]any{"a": nil, "b": nil}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, err := decode(t, config(t, column("v", tc.typ), nil, tc.options...), `{"v":`+tc.payload+`}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rows, [][]any{{tc.want}}); diff != "" {
				t.Errorf("got (-) differs from want (+):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefusals(t *testing.T) {
	nested := messages.StructType(messages.Field{Name: "inner", Type: messages.ArrayType(bigint)})
	for _, tc := range []struct {
		name, payload, want string
		typ                 messages.Type
		options             []string
	}{
		{"an integer out of range", `{"v":9223372036854775808}`, "field v: 9223372036854775808 is out of the range of bigint", bigint, nil},
		{"a tinyint out of range", `{"v":128}`, "field v: 128 is out of the range of tinyint", messages.T(messages.TinyInt), nil},
		{"a fraction for an integer", `{"v":1.0}`, "field v: 1.0 is not a bigint", bigint, nil},
		{"a string for an integer", `{"v":"1"}`, `field v: "1" is not a bigint`, bigint, nil},
		{"an object for an integer", `{"v":{}}`, `field v: {} is not a bigint`, bigint, nil},
		{"a number for a boolean", `{"v":1}`, `field v: 1 is not a boolean`, messages.T(messages.Boolean), nil},
		{"a double that is too large", `{"v":1e400}`, `field v: 1e400 is not a double`, messages.T(messages.Double), nil},
		{"a string for a double", `{"v":"1"}`, `field v: "1" is not a double`, messages.T(messages.Double), nil},
		{"a decimal with too many digits", `{"v":1000}`, `field v: 1000 is out of the range of decimal(5,2)`, messages.DecimalType(5, 2), nil},
		{"a number for an ISO timestamp", `{"v":1}`, `timestamp_format`, timestamp, nil},
		{"a string for a unix timestamp", `{"v":"2026-01-01"}`, `field v: "2026-01-01" is not a timestamp`, timestamp, []string{"timestamp_format", "unix_s"}},
		{"seconds beyond the range", `{"v":9223372036855}`, `out of the range of timestamp`, timestamp, []string{"timestamp_format", "unix_s"}},
		{"a zone for a timestamp without", `{"v":"2026-01-01T00:00:00Z"}`, `is not a timestamp_ntz`, messages.T(messages.TimestampNTZ), nil},
		{"binary that is not base64", `{"v":"*"}`, `is not a binary`, messages.T(messages.Binary), nil},
		{"invalid UTF-8", "{\"v\":\"\xff\"}", `field v: a string is not valid UTF-8`, str, nil},
		{"a nested field", `{"v":{"inner":[1,"x"]}}`, `field v.inner: "x" is not a bigint`, nested, nil},
		{"a map with a name twice", `{"v":{"a":1,"b":2,"a":3}}`, `field v: a name occurs twice`, messages.MapType(str, bigint), nil},
		{"no object", `1`, `found 1 where an object is expected (byte 0)`, bigint, nil},
		{"nothing", ` `, `the document ends where an object is expected`, bigint, nil},
		{"a second document", `{} {}`, `where the end of the document is expected`, bigint, nil},
		{"a scalar in the array of rows", `[{},1]`, `where an object is expected`, bigint, nil},
		{"a truncated document", `{"v":1`, `document ends where a comma or the end of the object is expected`, bigint, nil},
		{"a control character", "{\"x\":\"\n\"}", `control character`, bigint, nil},
		{"a bad escape in an ignored field", `{"x":"\q"}`, `invalid escape`, bigint, nil},
		{"a leading zero in an ignored field", `{"x":01}`, `invalid number`, bigint, nil},
		{"a trailing comma", `{"v":1,}`, `a name in quotes is expected`, bigint, nil},
		{"too much nesting", `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `deeper than max_depth`, bigint, nil},
		{"a document that is too large", `{"v":1            }`, `larger than max_document_size (10)`, bigint, []string{"max_document_size", "10"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, err := decode(t, config(t, column("v", tc.typ), nil, tc.options...), tc.payload)
			if err == nil {
				t.Fatalf("got rows %v, want an error", rows)
			}
			if fault.KindOf(err) != fault.BadRow || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v error %q, want a bad row error with %q", fault.KindOf(err), err, tc.want)
			}
		})
	}
}

func TestDecodeNames(t *testing.T) {
	s := messages.NewSchema(messages.Field{Name: "id", Type: bigint}, messages.Field{Name: "Name", Type: str})
	for _, tc := range []struct {
		name, payload string
		want          []any
	}{
		{"exact names", `{"id":1,"Name":"x"}`, []any{int64(1), "x"}},
		{"another order and unknown members", `{"z":[{}],"Name":"x","y":null,"id":1}`, []any{int64(1), "x"}},
		{"other case", `{"ID":1,"name":"x"}`, []any{int64(1), "x"}},
		{"an exact name beats an earlier one", `{"ID":2,"id":1}`, []any{int64(1), nil}},
		{"an exact name beats a later one", `{"id":1,"Id":2}`, []any{int64(1), nil}},
		{"the last of several equal ones", `{"id":1,"id":null,"NAME":"x","name":"y"}`, []any{nil, "y"}},
		{"an escaped name", `{"\u0069d":1}`, []any{int64(1), nil}},
		{"missing fields", `{}`, []any{nil, nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, err := decode(t, config(t, s, nil), tc.payload)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rows, [][]any{tc.want}); diff != "" {
				t.Errorf("got (-) differs from want (+):\n%s", diff)
			}
		})
	}
	t.Run("columns that differ by case only take their own member", func(t *testing.T) {
		s := messages.NewSchema(messages.Field{Name: "id", Type: bigint}, messages.Field{Name: "ID", Type: bigint})
		rows, err := decode(t, config(t, s, nil), `{"ID":2}`)
		if diff := cmp.Diff(rows, [][]any{{nil, int64(2)}}); err != nil || diff != "" {
			t.Errorf("err %v, got (-) differs from want (+):\n%s", err, diff)
		}
	})
	t.Run("a skipped column keeps its member from others", func(t *testing.T) {
		s := messages.NewSchema(messages.Field{Name: "id", Type: bigint}, messages.Field{Name: "ID", Type: bigint})
		rows, err := decode(t, config(t, s, []bool{true, false}), `{"id":"not a number"}`)
		if diff := cmp.Diff(rows, [][]any{{nil, nil}}); err != nil || diff != "" {
			t.Errorf("err %v, got (-) differs from want (+):\n%s", err, diff)
		}
	})
}

func TestDecodeArrayOfRows(t *testing.T) {
	c := config(t, column("v", bigint), nil)
	b := messages.NewBuilder(c.Schema)
	d := decoder(t, c)
	fills := 0
	if err := d.Decode(b, []byte("\xef\xbb\xbf [ {\"v\":1} , {} ]"), func(*messages.Builder) { fills++ }); err != nil {
		t.Fatal(err)
	}
	if b.Rows() != 2 || fills != 2 {
		t.Errorf("got %d rows and %d calls of fill, want 2 and 2", b.Rows(), fills)
	}
	if err := d.Decode(b, []byte(`[{"v":1},{"v":""}]`), nil); err == nil {
		t.Error("a bad row inside an array was accepted")
	}
	if err := d.Decode(b, []byte(`[]`), nil); err != nil {
		t.Errorf("an empty array is not a bad record: %v", err)
	}
}

func TestEncode(t *testing.T) {
	s := messages.NewSchema(
		messages.Field{Name: "n", Type: bigint}, messages.Field{Name: `q"`, Type: str},
		messages.Field{Name: "d", Type: messages.T(messages.Double)}, messages.Field{Name: "dec", Type: messages.DecimalType(10, 2)},
		messages.Field{Name: "ts", Type: timestamp}, messages.Field{Name: "w", Type: messages.WindowType()},
		messages.Field{Name: "m", Type: messages.MapType(bigint, messages.T(messages.Binary))}, messages.Field{Name: "day", Type: messages.T(messages.Date)},
		messages.Field{Name: "l", Type: messages.ArrayType(messages.T(messages.Boolean))}, messages.Field{Name: "ntz", Type: messages.T(messages.TimestampNTZ)},
	)
	t0 := time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)
	row := []any{int64(math.MaxInt64), "a\"\x01\n\xffé", math.NaN(), "-0.05", t0, []any{t0, nil}, map[any]any{int64(1): []byte{255}}, t0, []any{true, nil}, t0}
	nulls := make([]any, s.Len())
	b := messages.NewBuilder(s)
	for _, r := range [][]any{row, nulls} {
		if err := format.AppendRow(b, r); err != nil {
			t.Fatal(err)
		}
	}
	batch := b.Finish()
	for _, tc := range []struct {
		name, want string
		row        int
		options    []string
	}{
		{"all types", `{"n":9223372036854775807,"q\"":"a\"\u0001\n` + "\ufffd" + `é","d":"NaN","dec":-0.05,"ts":"1969-12-31T23:59:59.999999Z",` +
			`"w":{"start":"1969-12-31T23:59:59.999999Z","end":null},"m":{"1":"/w=="},"day":"1969-12-31","l":[true,null],"ntz":"1969-12-31T23:59:59.999999"}`, 0, nil},
		{"null fields written", `{"n":null,"q\"":null,"d":null,"dec":null,"ts":null,"w":null,"m":null,"day":null,"l":null,"ntz":null}`, 1, nil},
		{"null fields left out", `{}`, 1, []string{"null_fields", "omit"}},
		{"milliseconds, nulls left out inside too", `{"n":9223372036854775807,"q\"":"a\"\u0001\n` + "\ufffd" + `é","d":"NaN","dec":-0.05,"ts":-1,` +
			`"w":{"start":-1},"m":{"1":"/w=="},"day":"1969-12-31","l":[true,null],"ntz":"1969-12-31T23:59:59.999999"}`, 0, []string{"null_fields", "omit", "timestamp_format", "unix_ms"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := json.Format().Encoder(config(t, s, nil, tc.options...))
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Encode([]byte("x"), batch, tc.row)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got[1:]), tc.want); diff != "" {
				t.Errorf("got (-) differs from want (+):\n%s", diff)
			}
			if !stdjson.Valid(got[1:]) {
				t.Errorf("%s is not valid JSON", got[1:])
			}
		})
	}
}

func TestTypesWithoutJSONFormAreRefused(t *testing.T) {
	for _, typ := range []messages.Type{
		messages.T(messages.Interval), messages.ArrayType(messages.T(messages.Interval)),
		messages.MapType(messages.ArrayType(bigint), str), messages.MapType(messages.T(messages.Double), str),
	} {
		c := config(t, column("v", typ), nil)
		if _, err := json.Format().Decoder(c); fault.KindOf(err) != fault.Config || err == nil {
			t.Errorf("decoder for %s: got error %v, want a config error", typ, err)
		}
		if _, err := json.Format().Encoder(c); fault.KindOf(err) != fault.Config || err == nil {
			t.Errorf("encoder for %s: got error %v, want a config error", typ, err)
		}
	}
}
