package load

import (
	"testing"
)

// TestScheduleCountsWhatIsDue compares Passed with its definition: the number of
// events whose due time has come.
func TestScheduleCountsWhatIsDue(t *testing.T) {
	for _, rate := range []int64{1, 3, 7, 1_000, 9_999, 10_000, 123_457, 500_000, 999_999, 1_000_000} {
		s := Schedule{Start: 1_000, Rate: rate}
		n := uint64(0)
		for now := s.Start - 3; now < s.Start+20_000; now++ {
			for s.Due(n) <= now {
				n++
			}
			if got := s.Passed(now); got != n {
				t.Fatalf("rate %d: got %d events due at %d, want %d", rate, got, now, n)
			}
			first := n // event n is due after now, event n-1 may be due at now
			if n > 0 && s.Due(n-1) == now {
				for first = n - 1; first > 0 && s.Due(first-1) == now; {
					first--
				}
			}
			if got, want := s.FirstFrom(now), s.Due(first); got != want {
				t.Fatalf("rate %d: got %d as the first due time from %d, want %d", rate, got, now, want)
			}
		}
	}
}

// TestScheduleKeepsItsRate holds the due times far from the start against exact
// arithmetic.
func TestScheduleKeepsItsRate(t *testing.T) {
	s := Schedule{Rate: 7}
	for _, h := range []int64{1, 24, 24 * 365} {
		if got, want := s.Due(uint64(h*3600*7)), h*3600*1_000_000; got != want {
			t.Errorf("got %d µs for the first event of hour %d, want %d", got, h, want)
		}
	}
}
