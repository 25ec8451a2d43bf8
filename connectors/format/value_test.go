package format

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestGoValues(t *testing.T) {
	bigint, str := messages.T(messages.BigInt), messages.T(messages.String)
	noon := time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	pair := messages.StructType(messages.Field{Name: "a", Type: bigint}, messages.Field{Name: "b", Type: str})
	for _, tc := range []struct {
		typ  messages.Type
		in   any
		want any
	}{
		{messages.T(messages.Boolean), true, true},
		{messages.T(messages.TinyInt), int64(-128), int8(-128)},
		{messages.T(messages.SmallInt), uint8(255), int16(255)},
		{messages.T(messages.Int), 7, int32(7)},
		{bigint, uint64(math.MaxInt64), int64(math.MaxInt64)},
		{messages.T(messages.Float), 0.5, float32(0.5)},
		{messages.T(messages.Double), 3, 3.0},
		{messages.DecimalType(10, 2), "12.345", "12.35"},
		{messages.DecimalType(10, 2), -3, "-3.00"},
		{messages.DecimalType(10, 2), big.NewRat(1, 3), "0.33"},
		{messages.DecimalType(10, 2), messages.Decimal128{Lo: 5}, "0.05"},
		{str, []byte("x"), "x"},
		{messages.T(messages.Binary), "x", []byte("x")},
		{messages.T(messages.Date), noon, day},
		{messages.T(messages.Date), "2026-05-01", day},
		{messages.T(messages.Timestamp), noon.In(time.FixedZone("", 3600)), noon},
		{messages.T(messages.Timestamp), messages.EventTimeOf(noon), noon},
		{messages.T(messages.TimestampNTZ), "2026-05-01T12:00:00.123456", noon},
		{messages.T(messages.Interval), 2 * time.Second, messages.IntervalValue{Nanos: 2e9}},
		{messages.ArrayType(bigint), []int{1, 2}, []any{int64(1), int64(2)}},
		{messages.ArrayType(bigint), []any{nil}, []any{nil}},
		{messages.MapType(str, bigint), map[string]int{"a": 1}, map[any]any{"a": int64(1)}},
		{messages.MapType(messages.T(messages.Binary), bigint), map[string]any{"a": nil}, map[any]any{"a": nil}},
		{pair, []any{1, nil}, map[string]any{"a": int64(1), "b": nil}},
		{pair, map[string]any{"b": "x"}, map[string]any{"a": nil, "b": "x"}},
		{messages.T(messages.Null), nil, nil},
	} {
		var c messages.Column
		c.Reset(tc.typ)
		if err := AppendValue(&c, tc.in); err != nil {
			t.Errorf("%s from %v: %v", tc.typ, tc.in, err)
			continue
		}
		if diff := cmp.Diff(ValueAt(&c, 0), tc.want); diff != "" {
			t.Errorf("%s from %v: got (-) differs from want (+):\n%s", tc.typ, tc.in, diff)
		}
	}
	for _, tc := range []struct {
		typ messages.Type
		in  any
	}{
		{bigint, "1"},
		{bigint, 1.0},
		{bigint, uint64(1 << 63)},
		{messages.T(messages.TinyInt), 128},
		{messages.T(messages.Boolean), 1},
		{str, 1},
		{messages.DecimalType(2, 0), 100},
		{messages.DecimalType(2, 0), 1.5},
		{messages.T(messages.Date), "2026-02-30"},
		{messages.T(messages.Timestamp), 1},
		{messages.T(messages.TimestampNTZ), "2026-05-01T12:00:00Z"},
		{messages.ArrayType(bigint), 1},
		{messages.ArrayType(pair), []any{[]any{1, "x"}, []any{1, 2}}},
		{messages.MapType(str, bigint), map[string]any{"a": 1, "b": "x"}},
		{pair, []any{1}},
		{pair, map[string]any{"a": 1, "c": 2}},
		{pair, "x"},
	} {
		var c messages.Column
		c.Reset(tc.typ)
		c.AppendNull()
		err := AppendValue(&c, tc.in)
		if fault.KindOf(err) != fault.Config || err == nil {
			t.Errorf("%s from %v: got error %v, want a config error", tc.typ, tc.in, err)
		}
		if err := c.Check(); err != nil || c.Len() != 1 {
			t.Errorf("%s from %v: the column has %d values and the fault %v, want 1 and none", tc.typ, tc.in, c.Len(), err)
		}
	}
}

func TestScalarTextRoundTrips(t *testing.T) {
	for _, tc := range []struct {
		typ  messages.Type
		text string
	}{
		{messages.T(messages.Boolean), "true"},
		{messages.T(messages.TinyInt), "-128"},
		{messages.T(messages.BigInt), "9223372036854775807"},
		{messages.T(messages.Float), "0.1"},
		{messages.T(messages.Double), "1e+21"},
		{messages.T(messages.Double), "-Infinity"},
		{messages.T(messages.Double), "NaN"},
		{messages.DecimalType(38, 3), "12345678901234567890123456789012345.678"},
		{messages.T(messages.String), "x y"},
		{messages.T(messages.Binary), "AP8="},
		{messages.T(messages.Date), "-0001-12-31"},
		{messages.T(messages.Timestamp), "+12026-05-01T12:00:00.000001Z"},
		{messages.T(messages.TimestampNTZ), "1969-12-31T23:59:59.999999"},
	} {
		var c messages.Column
		c.Reset(tc.typ)
		if !AppendText(&c, []byte(tc.text)) {
			t.Errorf("%s: %q is refused", tc.typ, tc.text)
			continue
		}
		if got, ok := AppendScalar(nil, &c, 0); !ok || string(got) != tc.text {
			t.Errorf("%s: %q came back as %q, %v", tc.typ, tc.text, got, ok)
		}
	}
	for _, tc := range []struct {
		typ  messages.Type
		text string
	}{
		{messages.T(messages.Boolean), "1"},
		{messages.T(messages.Int), "2147483648"},
		{messages.T(messages.Int), ""},
		{messages.T(messages.Int), "1.0"},
		{messages.T(messages.Double), "inf"},
		{messages.T(messages.Double), "0x1p4"},
		{messages.T(messages.Double), "1e400"},
		{messages.T(messages.String), "\xff"},
		{messages.T(messages.Binary), "A"},
		{messages.WindowType(), "x"},
	} {
		var c messages.Column
		c.Reset(tc.typ)
		if AppendText(&c, []byte(tc.text)) || c.Len() != 0 {
			t.Errorf("%s: %q is accepted", tc.typ, tc.text)
		}
	}
}
