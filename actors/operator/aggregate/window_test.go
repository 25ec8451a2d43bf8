package aggregate

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSlicesBelongToTheirWindows checks the arithmetic against the definition of
// windows: [k*slide+offset, k*slide+offset+size).
func TestSlicesBelongToTheirWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]int64{1, 7, 1_000_000}).Draw(t, "unit")
		size := unit * rapid.Int64Range(1, 60).Draw(t, "size")
		w := &Window{Size: size, Slide: unit * rapid.Int64Range(1, size/unit).Draw(t, "slide"), Offset: rapid.Int64Range(-2*size, 2*size).Draw(t, "offset")}
		s := newSlicing(w)
		at := rapid.Int64Range(-1<<52, 1<<52).Draw(t, "time")
		slice := s.sliceOf(at)
		if slice > at || slice+s.slice <= at {
			t.Fatalf("slice [%d, %d) does not hold %d", slice, slice+s.slice, at)
		}
		isStart := func(x int64) bool { return floorMod(x-w.Offset, w.Slide) == 0 }
		first, last := s.firstStart(slice), s.lastStart(slice)
		if !isStart(first) || !isStart(last) {
			t.Fatalf("%d or %d is not the start of a window", first, last)
		}
		// Both hold the whole slice, their outer neighbours do not even hold the time.
		if first > slice || first+size < slice+s.slice || last > slice || last+size < slice+s.slice {
			t.Fatalf("windows at %d and %d do not hold the slice at %d", first, last, slice)
		}
		if first-w.Slide+size > at || last+w.Slide <= at {
			t.Fatalf("windows at %d to %d are not all that hold %d", first, last, at)
		}
		closed := s.closedBy(at)
		if !isStart(closed) || closed+size > at || closed+w.Slide+size <= at {
			t.Fatalf("watermark %d closes windows up to %d", at, closed)
		}
	})
}
