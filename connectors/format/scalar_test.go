package format

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/messages"
)

func TestParseTimestampAgreesWithTheStandardLibrary(t *testing.T) {
	layouts := []struct {
		layout string
		zoned  bool
	}{
		{"2006-01-02T15:04:05.999999999Z07:00", true},
		{"2006-01-02 15:04:05.000", false},
		{"2006-01-02T15:04:05.000000000-0700", true},
		{"2006-01-02T15:04", false},
		{"2006-01-02", false},
		{"2006-01-02T15:04:05-07", true},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		l := layouts[r.IntN(len(layouts))]
		zone := time.FixedZone("", (r.IntN(29)-14)*3600)
		if l.layout != "2006-01-02T15:04:05-07" {
			zone = time.FixedZone("", (r.IntN(57)-28)*1800)
		}
		sec := r.Int64N(253402300799+62135596800) - 62135596800
		text := time.Unix(sec, r.Int64N(1e9)).In(zone).Format(l.layout)
		want, err := time.Parse(l.layout, text)
		if err != nil {
			continue // a year outside 0..9999 after the shift of the zone
		}
		got, zoned, ok := ParseTimestamp([]byte(text))
		if !ok || got != want.UnixMicro() || zoned != l.zoned {
			t.Fatalf("ParseTimestamp(%q) = %d, %v, %v, want %d, %v", text, got, zoned, ok, want.UnixMicro(), l.zoned)
		}
		back := string(AppendTimestamp(nil, got, true))
		if w := want.UTC().Format("2006-01-02T15:04:05.000000Z"); back != w && want.UTC().Year() <= 9999 && want.UTC().Year() >= 0 {
			t.Fatalf("AppendTimestamp(%d) = %s, want %s", got, back, w)
		}
	}
}

func TestParseTimestampRefuses(t *testing.T) {
	for _, s := range []string{
		"", "2026", "2026-1-1", "2026-13-01", "2026-02-29", "2026-01-01T", "2026-01-01T24:00:00", "2026-01-01T10", "2026-01-01T10:60:00",
		"2026-01-01T10:00:60", "2026-01-01T10:00:00.", "2026-01-01T10:00:00.1234567890", "2026-01-01T10:00:00X", "2026-01-01T10:00:00+1", "2026-01-01T10:00:00+19:00",
		"2026-01-01T10:00:00+01:60", "2026-01-01X10:00:00", "999-01-01", "99999999-01-01", "2026-01-01T10:00:00ZZ", "5000000-01-01T00:00:00Z", "20260-101",
	} {
		if got, _, ok := ParseTimestamp([]byte(s)); ok {
			t.Errorf("ParseTimestamp(%q) = %d, want a refusal", s, got)
		}
	}
}

func TestDatesRoundTripOverTheWholeRange(t *testing.T) {
	for d := int64(-1 << 31); d < 1<<31; d += 99_991 {
		text := AppendDate(nil, int32(d))
		got, ok := ParseDate(text)
		if !ok || got != int32(d) {
			t.Fatalf("ParseDate(%s) = %d, %v, want %d", text, got, ok, d)
		}
	}
	for _, d := range []int32{0, -1, 59, 365, -719162, 2932896} {
		want := time.Unix(int64(d)*86400, 0).UTC().Format("2006-01-02")
		if got := string(AppendDate(nil, d)); got != want {
			t.Errorf("AppendDate(%d) = %s, want %s", d, got, want)
		}
	}
}

// bigDecimal is the second implementation of ParseDecimal: exact rationals.
func bigDecimal(s string, precision, scale uint8) (*big.Int, bool) {
	x, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, false
	}
	x.Mul(x, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
	neg := x.Sign() < 0
	x.Abs(x)
	x.Add(x, big.NewRat(1, 2))
	v := new(big.Int).Quo(x.Num(), x.Denom())
	if v.Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)) >= 0 {
		return nil, false
	}
	if neg {
		v.Neg(v)
	}
	return v, true
}

func bigOf(d messages.Decimal128) *big.Int {
	v := new(big.Int).Lsh(big.NewInt(d.Hi), 64)
	return v.Add(v, new(big.Int).SetUint64(d.Lo))
}

func TestParseDecimalAgreesWithRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	digits := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "00123456789"[r.IntN(11)]
		}
		return string(b)
	}
	for range 50_000 {
		s := strings.Repeat("-", r.IntN(2)) + digits(1+r.IntN(40))
		if r.IntN(2) == 0 {
			s += "." + digits(1+r.IntN(40))
		}
		if r.IntN(3) == 0 {
			s += []string{"e", "E", "e+", "e-"}[r.IntN(4)] + digits(1+r.IntN(2))
		}
		precision := uint8(1 + r.IntN(38))
		scale := uint8(r.IntN(int(precision) + 1))
		want, wantOK := bigDecimal(s, precision, scale)
		got, ok := ParseDecimal([]byte(s), precision, scale)
		if ok != wantOK || ok && bigOf(got).Cmp(want) != 0 {
			t.Fatalf("ParseDecimal(%q, %d, %d) = %v, %v, want %v, %v", s, precision, scale, bigOf(got), ok, want, wantOK)
		}
		if !ok {
			continue
		}
		text := string(AppendDecimal(nil, got, scale))
		back, _ := new(big.Rat).SetString(text)
		exact := new(big.Rat).SetFrac(want, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
		if back == nil || back.Cmp(exact) != 0 {
			t.Fatalf("AppendDecimal(%v, %d) = %q, want %s", want, scale, text, exact.FloatString(int(scale)))
		}
	}
}

func TestParseDecimalRefusesWhatIsNoNumber(t *testing.T) {
	for _, s := range []string{"", "-", ".", "1.2.3", "1e", "1e+", "0x10", "1 ", "NaN", "1_000"} {
		if got, ok := ParseDecimal([]byte(s), 38, 2); ok {
			t.Errorf("ParseDecimal(%q) = %v, want a refusal", s, got)
		}
	}
	if _, ok := ParseDecimal([]byte("1e999999999999999999"), 38, 0); ok {
		t.Error("a huge exponent was accepted")
	}
	if v, ok := ParseDecimal([]byte("1e-999999999999999999"), 38, 0); !ok || v != (messages.Decimal128{}) {
		t.Errorf("a tiny number gave %v, %v, want 0", v, ok)
	}
}
