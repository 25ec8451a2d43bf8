package messages

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// compareModel is Compare for the model of a column, with integers of any size.
func compareModel(t *testing.T, a, b any) int {
	switch {
	case a == nil || b == nil:
		return boolInt(a != nil) - boolInt(b != nil)
	}
	switch a := a.(type) {
	case bool:
		return boolInt(a) - boolInt(b.(bool))
	case int8:
		return cmp.Compare(a, b.(int8))
	case int16:
		return cmp.Compare(a, b.(int16))
	case int32:
		return cmp.Compare(a, b.(int32))
	case int64:
		return cmp.Compare(a, b.(int64))
	case float32:
		return cmp.Compare(a, b.(float32)) // random ones are never NaN
	case float64:
		return cmp.Compare(a, b.(float64))
	case string:
		return strings.Compare(a, b.(string))
	case Decimal128:
		return bigDecimal(a).Cmp(bigDecimal(b.(Decimal128)))
	case IntervalValue:
		b := b.(IntervalValue)
		return cmp.Or(cmp.Compare(a.Months, b.Months), bigMicros(a).Cmp(bigMicros(b)))
	case []any:
		b := b.([]any)
		for i := range min(len(a), len(b)) {
			if r := compareModel(t, a[i], b[i]); r != 0 {
				return r
			}
		}
		return cmp.Compare(len(a), len(b))
	default:
		t.Fatalf("value %T", a)
		return 0
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func bigDecimal(d Decimal128) *big.Int {
	v := new(big.Int).Lsh(big.NewInt(d.Hi), 64)
	return v.Add(v, new(big.Int).SetUint64(d.Lo))
}

func bigMicros(v IntervalValue) *big.Int {
	days := new(big.Int).Mul(big.NewInt(int64(v.Days)), big.NewInt(24*60*60*1_000_000))
	return days.Add(days, big.NewInt(v.Nanos/1000))
}

func TestCompareOrdersLikeTheModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		typ := randomType(r, 2)
		a, b := newPair(r, typ, 6), newPair(r, typ, 6)
		for i := range 6 {
			for j := range 6 {
				got, want := Compare(a.col, i, b.col, j), compareModel(t, a.model[i], b.model[j])
				if got != want {
					t.Fatalf("seed %d: %s: Compare(%v, %v) = %d, want %d", seed, typ, a.model[i], b.model[j], got, want)
				}
			}
			if got := Compare(a.col, i, a.col, i); got != 0 {
				t.Fatalf("seed %d: %s: Compare(%v, itself) = %d, want 0", seed, typ, a.model[i], got)
			}
		}
	}
}

func TestCompareIntervalsCountsADayAs24Hours(t *testing.T) {
	const day = 24 * 60 * 60 * 1_000_000_000
	for _, tc := range []struct {
		a, b IntervalValue
		want int
	}{
		{IntervalValue{Days: 1}, IntervalValue{Nanos: day}, 0},
		{IntervalValue{Days: 1, Nanos: -1000}, IntervalValue{Nanos: day}, -1},
		{IntervalValue{Days: -1, Nanos: day}, IntervalValue{}, 0},
		{IntervalValue{Months: 1}, IntervalValue{Days: 40}, 1},
		{IntervalValue{Days: math.MaxInt32}, IntervalValue{Days: math.MinInt32}, 1}, // more microseconds than an int64 holds
	} {
		var c Column
		c.Reset(T(Interval))
		c.AppendInterval(tc.a)
		c.AppendInterval(tc.b)
		if got := Compare(&c, 0, &c, 1); got != tc.want {
			t.Errorf("Compare(%+v, %+v) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestCompareFloatsTakesNaNAsTheLargest(t *testing.T) {
	order := []float64{math.Inf(-1), -1, 0, 1, math.Inf(1), math.NaN()}
	for i, a := range order {
		for j, b := range order {
			t.Run(fmt.Sprint(a, " and ", b), func(t *testing.T) {
				if got, want := CompareFloats(a, b), cmp.Compare(i, j); got != want {
					t.Errorf("got %d, want %d", got, want)
				}
			})
		}
	}
	if got := CompareFloats(math.Copysign(0, -1), 0); got != 0 {
		t.Errorf("CompareFloats(-0, 0) = %d, want 0", got)
	}
}
