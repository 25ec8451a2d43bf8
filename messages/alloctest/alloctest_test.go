package alloctest

import (
	"fmt"
	"testing"
)

// spy takes the errors of a test in place of the test.
type spy struct {
	testing.TB
	errors []string
}

func (s *spy) Helper() {}

func (s *spy) Errorf(format string, args ...any) {
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}

func TestWhatIsAllocatedIsSeen(t *testing.T) {
	var kept []byte
	for n, bad := range map[int]bool{100: false, 10 << 10: false, 1 << 20: true} {
		s := &spy{TB: t}
		Within(s, 10, 100, func() { kept = make([]byte, n) })
		if (len(s.errors) > 0) != bad {
			t.Errorf("%d bytes allocated: got errors %q, want some: %v", len(kept), s.errors, bad)
		}
	}
}
