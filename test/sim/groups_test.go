package sim

import (
	"context"
	"slices"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// groupKey is a window (start) and a key.
type groupKey struct{ start, key int64 }

// bounds are the least and the most rows of a group: what keeps the delay is in
// it, what is behind its own partition's watermark may be.
type bounds struct {
	must, may       int64
	mustSum, maySum int64
}

// naive computes the windows from the whole input, and the least and most rows
// that are late. With one partition everything is exact.
func (r *run) naive(upTo func(*partition) int) (groups map[groupKey]bounds, lateMust, lateMay int64) {
	groups = map[groupKey]bounds{}
	exact := len(r.parts) == 1
	for _, p := range r.parts {
		before, _ := p.watermarks(r.delay)
		for i, in := range p.rows[:upTo(p)] {
			if !r.kept(in) {
				continue
			}
			ts := in[colTime]
			open := 0
			for start := ts - ts%r.slide; start+r.size > ts; start -= r.slide {
				k := groupKey{start, in[colKey]}
				b := groups[k]
				switch {
				case !exact && r.fastest: // any row may be late
					b.may++
					b.maySum += in[colValue]
				case ts > before[i] || exact && start+r.size > before[i]:
					b.must++
					b.mustSum += in[colValue]
					open++
				case !exact:
					b.may++
					b.maySum += in[colValue]
				}
				groups[k] = b
			}
			if open == 0 {
				lateMay++
				if exact {
					lateMust++
				}
			}
		}
	}
	return groups, lateMust, lateMay
}

// kept tells whether a row passes the filter before the group.
func (r *run) kept(in row) bool { return thirds.keeps(in[colValue]) }

// finalWatermark is the watermark that the group must have reached.
func (r *run) finalWatermark() messages.EventTime {
	low, high := messages.MaxEventTime, messages.NoEventTime
	for _, p := range r.parts {
		_, last := p.watermarks(r.delay)
		low, high = min(low, messages.EventTime(last)), max(high, messages.EventTime(last))
	}
	if r.idle > 0 || r.bounded || r.fastest {
		return high
	}
	return low
}

func (r *run) finalGroups() {
	var c epochs.Counters
	for _, x := range r.newest().Counters {
		if x.Operator == "group" {
			c = x
		}
	}
	if want := r.finalWatermark(); c.Watermark != want {
		r.fail("the watermark of the group is %v, want %v", int64(c.Watermark), int64(want))
		return
	}
	switch r.plan.grouped {
	case tallies:
		r.finalTallies(c)
		return
	case tables:
		n := 0
		for _, p := range r.parts {
			for _, in := range p.rows {
				if r.kept(in) {
					n++
				}
			}
		}
		r.sameTable(r.sinks[0].rows(), n)
		return
	default:
	}
	groups, lateMust, lateMay := r.naive(func(p *partition) int { return len(p.rows) })
	if int64(c.Late) < lateMust || int64(c.Late) > lateMay {
		r.fail("%d rows were late, want %d to %d", c.Late, lateMust, lateMay)
	}
	got := map[groupKey][]row{}
	rows := r.sinks[0].rows()
	for _, x := range rows {
		k := groupKey{x[0], x[2]}
		if x[1] != x[0]+r.size {
			r.fail("window %v has not the size %d", x, r.size)
		}
		got[k] = append(got[k], x)
	}
	for k, versions := range got {
		b, ok := groups[k]
		if !ok {
			r.fail("window %v comes from nowhere", versions[0])
			continue
		}
		r.checkVersions(k, versions, b, int64(c.Watermark))
	}
	for k, b := range groups {
		closed := k.start+r.size <= int64(c.Watermark)
		if b.must > 0 && len(got[k]) == 0 && (closed || r.plan.grouped == changes) {
			r.fail("window %v with %d rows is missing; the watermark is %d", k, b.must, int64(c.Watermark))
		}
	}
	if r.kinds[0].perEpoch() && r.plan.grouped == windows && r.slide == r.size {
		r.checkSum(groups, rows, c)
	}
}

// checkChanges verifies that readers see the windows as they were when the epoch
// ended, where nothing is held back and nothing may be late or not.
func (r *run) checkChanges(m model, rec *epochs.Record) {
	if len(r.parts) > 1 || r.emit > 0 {
		return
	}
	groups, _, _ := r.naive(func(p *partition) int { return offsetIn(rec, p) })
	latest := map[groupKey]row{}
	for _, x := range m.rows() {
		latest[groupKey{x[0], x[2]}] = x
	}
	for k, b := range groups {
		if x := latest[k]; b.must > 0 && (x[3] != b.must || x[4] != b.mustSum) {
			r.fail("epoch %d: window %v has %d rows, sum %d; readers see %v", rec.Epoch, k, b.must, b.mustSum, x)
		}
	}
	if len(latest) > len(groups) {
		r.fail("epoch %d: there are %d windows, readers see %d", rec.Epoch, len(groups), len(latest))
	}
}

// checkTable verifies that what readers see is the whole table as it was at some
// time up to the epoch. With one partition the number of rows in it tells when.
func (r *run) checkTable(m model, rec *epochs.Record) {
	total := int64(0)
	for _, x := range m.rows() {
		total += x[1]
	}
	for _, c := range rec.Counters {
		if c.Operator == "group" && uint64(total) > c.In && r.kinds[0] != boardSink {
			r.fail("epoch %d: the table has %d rows of %d", rec.Epoch, total, c.In)
		}
	}
	if len(r.parts) == 1 {
		r.sameTable(m.rows(), int(total))
	}
}

// sameTable compares a complete table with the first n rows of the input that
// pass the filter, partition by partition.
func (r *run) sameTable(got []row, n int) {
	want := map[int64]row{}
	for _, p := range r.parts {
		for _, in := range p.rows {
			if !r.kept(in) || n == 0 {
				continue
			}
			n--
			k := in[colKey]
			want[k] = row{k, want[k][1] + 1, want[k][2] + in[colValue]}
		}
	}
	if n > 0 {
		r.fail("the table has %d rows more than the input", n)
	}
	for _, x := range got {
		if want[x[0]] != x {
			r.fail("the table says %v, want %v", x, want[x[0]])
		}
		delete(want, x[0])
	}
	for _, x := range want {
		r.fail("%v is missing in the table", x)
	}
}

// checkVersions checks the rows that a sink has for one window and key.
func (r *run) checkVersions(k groupKey, versions []row, b bounds, wm int64) {
	if r.plan.grouped == changes {
		versions = versions[len(versions)-1:]
	} else if k.start+r.size > wm {
		r.fail("window %v is out although the watermark is %d", versions[0], wm)
	}
	if len(versions) > 1 && r.kinds[0] != looseSink || len(versions) > int(r.attempt) {
		r.fail("window %v is there %d times", versions[0], len(versions))
	}
	for _, x := range versions {
		n, sum := x[3], x[4]
		if n < b.must || n > b.must+b.may || sum < b.mustSum || sum > b.mustSum+b.maySum {
			r.fail("window %v: want %d to %d rows, sum %d to %d", x, b.must, b.must+b.may, b.mustSum, b.mustSum+b.maySum)
		}
	}
}

// checkSum verifies that each row was counted once: in a window, in one that is
// still open, or as late.
func (r *run) checkSum(groups map[groupKey]bounds, rows []row, c epochs.Counters) {
	emitted := int64(0)
	for _, x := range rows {
		emitted += x[3]
	}
	var open bounds
	for k, b := range groups {
		if k.start+r.size > int64(c.Watermark) {
			open.must += b.must
			open.may += b.may
		}
	}
	rest := int64(c.In) - int64(c.Late) - emitted
	if rest < open.must || rest > open.must+open.may {
		r.fail("%d rows in, %d late, %d in windows: %d should be open, want %d to %d", c.In, c.Late, emitted, rest, open.must, open.must+open.may)
	}
}

// finalTallies restores the state of the newest record and adds it up with what
// was emitted.
func (r *run) finalTallies(c epochs.Counters) {
	cfg := tallyConfig
	cfg.UID = "group"
	st, err := state.New(cfg)
	if err != nil {
		panic(err)
	}
	store, err := r.disk.Open()
	if err != nil {
		r.fail("open the store: %v", err)
		return
	}
	defer r.closeStore(store)
	err = store.Load(context.Background(), epochs.LoadRange{Operator: "group", To: epochs.KeyGroups, UpTo: r.newest().Epoch}, st.Restore)
	if err != nil {
		r.fail("load the state: %v", err)
		return
	}
	left := int64(0)
	cursor := st.ScanAll()
	for e, ok := cursor.Next(); ok; e, ok = cursor.Next() {
		left += int64(e.Slots()[0])
		if at := e.Timer(); at <= c.Watermark {
			r.fail("key %d should have been emitted at %d, the watermark is %d", e.IntKey(), int64(at), int64(c.Watermark))
		}
	}
	emitted := int64(0)
	rows := r.sinks[0].rows()
	if r.kinds[0] == looseSink { // count each row once
		rows = slices.Compact(sortedRows(rows))
	}
	for _, x := range rows {
		emitted += x[1]
	}
	sum := emitted + left + int64(c.Late)
	if sum != int64(c.In) && (r.kinds[0] != looseSink || sum < int64(c.In)) {
		r.fail("%d rows in, %d late, %d emitted, %d in state", c.In, c.Late, emitted, left)
	}
}
