//go:build fault

package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/messages/fault"
)

// inside are the fault points of the engine itself (fault.Inject), and whether a
// worker passes them; the others are passed by actors, whose calls cannot hang.
var inside = map[string]bool{
	"src/read": true, "src/ack": true, "rec/sink": true, "rec/restore": true, "epoch/persist": true, "sink/prepare": true,
	"epoch/commit.write": true, "epoch/commit.synced": true, "sink/commit": true, "sink/write": true, "sink/flush": true,
	"sink/stash": true, "rec/stash": true,
	"mark/inject": false, "op/freeze": false, "epoch/ack": false,
}

// TestFaultPoints lets faults strike at the fault points inside the engine. They
// are global, so the worlds run one after the other.
func TestFaultPoints(t *testing.T) {
	var now *run
	fault.SetHook(func(point string) error {
		if now == nil {
			return nil
		}
		return now.point("inject/" + point)
	})
	defer fault.SetHook(nil)
	names := make([]string, 0, len(inside))
	for p := range inside {
		names = append(names, p)
	}
	slices.Sort(names)
	h := &harness{}
	defer h.close()
	covered := map[string]int{}
	for seed := range uint64(2000) {
		r := newRun(seed, h.system(), &h.w)
		r.faults = nil
		for range 2 + r.rng.IntN(6) {
			f := r.planFault()
			f.point = ""
			for e := effect(r.rng.IntN(int(jumps) + 1)); f.point == ""; {
				if p := names[r.rng.IntN(len(names))]; e != hangs || inside[p] {
					f.effect, f.point = e, "inject/"+p
				}
			}
			r.faults = append(r.faults, f)
		}
		now = r
		r.simulate()
		now = nil
		if r.failure != "" {
			t.Fatalf("%s\n\t%s", r, r.failure)
		}
		for k, n := range r.covered {
			covered[k] += n
		}
	}
	var all []string
	may := func(e effect, p string) bool { return e != hangs || inside[strings.TrimPrefix(p, "inject/")] }
	for _, name := range names {
		p := "inject/" + name
		all = append(all, p)
		for e := fails; e <= jumps; e++ {
			if k := e.String() + " at " + p; may(e, p) && covered[k] == 0 {
				t.Errorf("it never happened: %s", k)
			}
		}
	}
	t.Logf("how often each fault struck at each fault point:\n%s", table(covered, all, may))
	for p := range fault.Hits() {
		if _, ok := inside[p]; !ok {
			t.Errorf("the fault point %q is not in the list of this test", p)
		}
	}
}
