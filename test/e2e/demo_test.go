package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// summary is the contract of demo --json.
type summary struct {
	RowsIn      *int64                         `json:"rows_in"`
	RowsOut     *int64                         `json:"rows_out"`
	Epochs      *int64                         `json:"epochs"`
	Latency     map[string]map[string]*float64 `json:"latency_ms"`
	ResumedFrom *int64                         `json:"resumed_from_epoch"`
	RowsUnread  map[string]*int64              `json:"rows_unread"`
	Drain       *float64                       `json:"drain_seconds"`
}

func TestDemo(t *testing.T) {
	long(t)
	p := &place{dir: t.TempDir()}
	t.Run("prints one object", func(t *testing.T) {
		s := demo(t, p)
		if *s.ResumedFrom != 0 {
			t.Errorf("a new demo has resumed from epoch %d", *s.ResumedFrom)
		}
	})
	t.Run("resumes", func(t *testing.T) {
		if s := demo(t, p); *s.ResumedFrom == 0 {
			t.Error("the second run has not resumed")
		}
	})
	t.Run("writes lines into a pipe and drains on Ctrl-C", func(t *testing.T) {
		x := p.start(t, "demo", "--rate", "2000")
		x.says(`resumed .* from epoch`)
		x.says(`t=\d+s in=\d+/s unread=\d+ .*expensive_bids: out=`)
		t.Run("alone in its directory", func(t *testing.T) {
			p.run(t, "demo", "--duration", "1s").ends(2, "is used by process", "--dir")
		})
		x.signal(os.Interrupt)
		x.ends(0)
		for _, want := range []string{"draining", "hot_items: final epoch", "bids published,"} {
			if !strings.Contains(x.out.String(), want) {
				t.Errorf("no %q in:\n%s", want, x.out.String())
			}
		}
		ls := p.run(t, "checkpoints", "ls", "streamd-demo")
		ls.ends(0)
		if !strings.Contains(ls.out.String(), "hot_items") {
			t.Errorf("checkpoints of the demo:\n%s", ls.out.String())
		}
		if strings.Contains(x.out.String(), "\x1b") {
			t.Error("escape sequences in a pipe")
		}
	})
}

// demo runs the demo for a moment and checks the form of its summary.
func demo(t *testing.T, p *place) summary {
	t.Helper()
	x := p.run(t, "demo", "--json", "--duration", "3s", "--rate", "2000")
	x.ends(0)
	var s summary
	if err := json.Unmarshal([]byte(x.out.String()), &s); err != nil || strings.Count(x.out.String(), "\n") != 1 {
		t.Fatalf("not one object: %v\n%s", err, x.out.String())
	}
	if s.RowsIn == nil || s.RowsOut == nil || s.Epochs == nil || s.ResumedFrom == nil || s.Drain == nil {
		t.Fatalf("fields are missing: %s", x.out.String())
	}
	if *s.RowsIn < 2000 || *s.RowsOut < 100 || *s.Epochs < 2 {
		t.Errorf("too little has happened: %s", x.out.String())
	}
	for _, q := range []string{"expensive_bids", "hot_items"} {
		if n := s.RowsUnread[q]; n == nil || *n < 0 {
			t.Errorf("what %s has not read is missing: %s", q, x.out.String())
		}
		var got []float64
		for _, k := range []string{"p50", "p90", "p99", "p999", "max"} {
			if v := s.Latency[q][k]; v != nil {
				got = append(got, *v)
			}
		}
		missing := len(got) == 0 && q == "hot_items" // no window need have closed: null
		if len(got) != 5 && !missing || !slices.IsSorted(got) || q == "expensive_bids" && got[0] <= 0 {
			t.Errorf("latency of %s: %v", q, got)
		}
	}
	return s
}
