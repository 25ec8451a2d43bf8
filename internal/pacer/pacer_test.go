package pacer

import (
	"testing"
	"time"
)

func TestPacer(t *testing.T) {
	p, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // nothing was written
	start := time.Now()
	for range 20 {
		if err := p.Sleep(time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if got := time.Since(start); got < 20*time.Millisecond {
		t.Errorf("20 sleeps of 1 ms took %s", got)
	}
}
