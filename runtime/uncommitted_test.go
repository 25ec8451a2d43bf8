package runtime

import (
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors"
)

func TestMaxUncommittedIsReadAsRowsBytesAndDuration(t *testing.T) {
	for text, want := range map[string]actors.Uncommitted{
		"":                 {},
		"500000":           {Rows: 500_000},
		"1000 rows":        {Rows: 1000},
		"64MB":             {Bytes: 64_000_000},
		"5 minutes":        {Time: 5 * time.Minute},
		"10 rows, 1 MB,2s": {Rows: 10, Bytes: 1_000_000, Time: 2 * time.Second},
	} {
		if got, err := parseUncommitted(text); err != nil || got != want {
			t.Errorf("%q: got %+v (%v), want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"many", "0", "-1", "0s", "1 rows, 2 rows", "rows"} {
		if got, err := parseUncommitted(text); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}
