package aggregate

import "math"

// slicing is the arithmetic of windows and slices. A slice is named by its
// start. All numbers are microseconds.
type slicing struct {
	size, slide, offset, slice int64
	// lo and hi bound the slice found last: most rows are near their predecessor.
	lo, hi int64
}

// noWindow is "before every window".
const noWindow = math.MinInt64

func newSlicing(w *Window) *slicing {
	slide := w.Slide
	if slide == 0 {
		slide = w.Size
	}
	a, b := w.Size, slide
	for b != 0 {
		a, b = b, a%b
	}
	return &slicing{size: w.Size, slide: slide, offset: floorMod(w.Offset, slide), slice: a}
}

// floor returns the largest k*step+offset that is at most t.
func floor(t, step, offset int64) int64 {
	return t - floorMod(floorMod(t, step)-offset, step)
}

func floorMod(t, step int64) int64 {
	m := t % step
	if m < 0 {
		m += step
	}
	return m
}

// sliceOf returns the slice that holds time t.
func (s *slicing) sliceOf(t int64) int64 {
	if t >= s.lo && t < s.hi {
		return s.lo
	}
	s.lo = floor(t, s.slice, s.offset)
	s.hi = s.lo + s.slice
	return s.lo
}

// lastStart returns the start of the last window that holds the slice.
func (s *slicing) lastStart(slice int64) int64 { return floor(slice, s.slide, s.offset) }

// firstStart returns the start of the first window that holds the slice.
func (s *slicing) firstStart(slice int64) int64 {
	return floor(slice+s.slice-s.size+s.slide-1, s.slide, s.offset)
}

// lastEnd returns the end of the last window that holds the slice.
func (s *slicing) lastEnd(slice int64) int64 { return s.lastStart(slice) + s.size }

// closedBy returns the start of the last window with end <= wm.
func (s *slicing) closedBy(wm int64) int64 {
	if wm < math.MinInt64+2*(s.size+s.slide) {
		return noWindow
	}
	return floor(wm-s.size, s.slide, s.offset)
}

// tumbling reports whether a slice is a window.
func (s *slicing) tumbling() bool { return s.size == s.slide }

// panes tells which slices hold data.
type panes interface {
	MinPane() (int64, bool)
	NextPane(from int64) (int64, bool)
}

// next returns the start of the first window behind the one that starts at
// after which has data.
func (s *slicing) next(after int64, p panes) (int64, bool) {
	if after == noWindow {
		slice, ok := p.MinPane()
		if !ok {
			return 0, false
		}
		return s.firstStart(slice), true
	}
	slice, ok := p.NextPane(after + s.slide)
	if !ok {
		return 0, false
	}
	return max(after+s.slide, s.firstStart(slice)), true
}
