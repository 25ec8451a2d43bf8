package load

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecorderMatchesSortedLatencies compares percentiles with those of the
// sorted list, within the three digits of the histogram.
func TestRecorderMatchesSortedLatencies(t *testing.T) {
	a, b := NewRecorder(1_000_000), NewRecorder(1_000_000)
	var all []int64
	want := make([]float64, 5)
	for i := range uint64(50_000) {
		due := 1_000_000 + int64(i)*100
		late := int64(Hash(i) % 30_000 * (1 + Hash(i+1<<40)%7))
		rec := a
		if i%3 == 0 {
			rec = b
		}
		rec.Record(due, due+late)
		all = append(all, late)
		s := int((due - 1_000_000) / 1_000_000)
		want[s] = max(want[s], float64(late)/1000)
	}
	a.Record(999_999, 99_000_000) // warm-up
	if err := a.Merge(b); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	for _, q := range []float64{50, 90, 99, 99.9} {
		exact := float64(all[int(math.Ceil(q/100*float64(len(all))))-1]) / 1000
		if got := a.Millis(q); math.Abs(got-exact) > exact/500 {
			t.Errorf("got %.3f ms at %v %%, want %.3f", got, q, exact)
		}
	}
	if got := a.Count(); got != int64(len(all)) {
		t.Errorf("got %d latencies, want %d", got, len(all))
	}
	if d := cmp.Diff(want, a.SecondsMillis()); d != "" {
		t.Errorf("greatest latency per second (-want +got):\n%s", d)
	}
}
