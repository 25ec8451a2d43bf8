package actors

import (
	"testing"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// TestAllIdleIsTheGreatestWatermark: once every partition is idle, the one that got
// furthest decides, whichever has fallen silent first.
func TestAllIdleIsTheGreatestWatermark(t *testing.T) {
	for first := range 2 {
		o := newOutage(t)
		tops := [2]int64{105, 205} // less the delay of 5: watermarks 100 and 200
		for p, top := range tops {
			o.row(p, top)
		}
		o.w.until(func() bool { return o.w.wms[0] == 100 })
		second := 1 - first
		o.src.says[second] <- saying{state: connectors.Retrying} // not idle for now
		for r := range o.status {
			if r.Retrying {
				break
			}
		}
		o.silent(messages.EventTime(tops[second] - 5)) // the other one alone decides
		o.src.says[second] <- saying{state: connectors.CaughtUp}
		o.silent(200)
		o.holds(200)
	}
}

// silent lets time pass until the watermark is where it should be.
func (o *outage) silent(want messages.EventTime) {
	o.t.Helper()
	if o.watermark() == want {
		o.holds(want)
		return
	}
	for range 1000 {
		o.clock.Advance(time.Minute)
		flush(o.t, o.a)
		if o.watermark() == want {
			return
		}
	}
	o.t.Fatalf("watermark %d, want %d", o.watermark(), want)
}
