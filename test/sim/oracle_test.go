package sim

import (
	"slices"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// onDurable checks a commit record against the one before it.
func (r *run) onDurable(data []byte) {
	rec, err := epochs.DecodeRecord(data)
	if err != nil {
		r.fail("commit record: %v", err)
		return
	}
	last := r.newest()
	switch {
	case rec.Prev != last.Epoch:
		r.fail("record %d follows %d, the newest was %d", rec.Epoch, rec.Prev, last.Epoch)
	case rec.Epoch <= last.Epoch:
		r.fail("record %d after %d", rec.Epoch, last.Epoch)
	case rec.Incarnation != r.incarnation:
		r.fail("record %d has another incarnation", rec.Epoch)
	case rec.Attempt > r.attempt || rec.Attempt < last.Attempt:
		r.fail("record %d is of attempt %d, the one before of %d, this is %d", rec.Epoch, rec.Attempt, last.Attempt, r.attempt)
	}
	for _, p := range r.parts {
		r.checkPartition(rec, last, p)
	}
	r.checkCounters(rec)
	r.checkAdvance(rec, last)
	r.records = append(r.records, rec)
	for _, b := range data {
		r.w.note(uint64(b))
	}
}

func sourceState(rec *epochs.Record, p *partition) *epochs.SourceState {
	for i := range rec.Sources {
		if s := &rec.Sources[i]; s.Source == p.source && s.Partition == p.name() {
			return s
		}
	}
	return nil
}

// notAgain checks that a written row is behind what the attempt goes on from.
func (r *run) notAgain(sink string, x row) {
	if r.plan.grouped == stateless && r.from != nil && x[colOffset] < int64(offsetIn(r.from, r.parts[x[colPartition]])) {
		r.fail("sink %s: row %v is written although epoch %d has it", sink, x, r.from.Epoch)
	}
}

// checkAdvance verifies that nothing an operator has counted is taken back.
func (r *run) checkAdvance(rec, last *epochs.Record) {
	for _, old := range last.Counters {
		i := slices.IndexFunc(rec.Counters, func(c epochs.Counters) bool { return c.Operator == old.Operator })
		switch {
		case i < 0 && old.Operator != "tail": // that one is not in all graphs
			r.fail("record %d has no counters of %q", rec.Epoch, old.Operator)
		case i < 0:
		case rec.Counters[i].Watermark < old.Watermark && old.Operator == "group": // others may be elsewhere in this graph
			r.fail("record %d: the watermark of %q goes back from %d to %d", rec.Epoch, old.Operator, int64(old.Watermark), int64(rec.Counters[i].Watermark))
		case rec.Counters[i].In < old.In || rec.Counters[i].Out < old.Out || rec.Counters[i].Late < old.Late:
			r.fail("record %d: %+v after %+v", rec.Epoch, rec.Counters[i], old)
		}
	}
}

func (r *run) checkPartition(rec, last *epochs.Record, p *partition) {
	s := sourceState(rec, p)
	if s == nil {
		if !p.known {
			return
		}
		if !p.listed && sourceState(last, p) == nil {
			return // it was seen, but nothing was committed
		}
		r.fail("record %d has no entry for %s", rec.Epoch, p.name())
		return
	}
	off := offsetIn(rec, p)
	if old := offsetIn(last, p); off < old {
		r.fail("record %d takes %s back from %d to %d", rec.Epoch, p.name(), old, off)
	}
	if s.Rows != p.good(off) {
		r.fail("record %d: %d rows of %s were read up to offset %d", rec.Epoch, s.Rows, p.name(), off)
	}
	want := messages.NoEventTime
	if off > 0 {
		for _, in := range p.rows[:off] {
			if !r.bad(in) {
				want = max(want, messages.EventTime(in[colTime]-r.delay.Microseconds()))
			}
		}
	}
	if s.Watermark != want {
		r.fail("record %d: the watermark of %s at offset %d is %d, want %d", rec.Epoch, p.name(), off, s.Watermark, want)
	}
	if s.Idle && off < p.here() && p.here() == len(p.rows) && p.arrive[off]+idleAfter/2 > r.w.now {
		r.fail("record %d: %s is idle at offset %d of %d", rec.Epoch, p.name(), off, p.here())
	}
}

// checkCounters verifies the equation of each operator and that operators pass
// on what they get.
func (r *run) checkCounters(rec *epochs.Record) {
	read := map[string]uint64{}
	for _, p := range r.parts {
		read[p.source] += p.good(offsetIn(rec, p))
	}
	by := map[string]epochs.Counters{}
	for _, c := range rec.Counters {
		by[c.Operator] = c
		var in uint64
		switch c.Operator {
		case "group":
			in = c.Late + c.Absorbed + c.Filtered + c.Bad
		case "repeat":
			in = c.In
		default:
			in = c.Out + c.Filtered + c.Bad
		}
		if c.In != in {
			r.fail("record %d: counters do not balance: %+v", rec.Epoch, c)
		}
	}
	for _, s := range r.sources {
		if got := by["time "+s.name].In; got != read[s.name] {
			r.fail("record %d: %d rows of %s were read, the watermark saw %d", rec.Epoch, read[s.name], s.name, got)
		}
	}
	total := uint64(0)
	for _, n := range read {
		total += n
	}
	if c, ok := by["union"]; ok && c.In != total {
		r.fail("record %d: %d rows were read, the union saw %d", rec.Epoch, total, c.In)
	}
	if c, ok := by["group"]; ok {
		want := by["keep"].Out + by["keep too"].Out
		if c.In != want {
			r.fail("record %d: the group saw %d rows of %d", rec.Epoch, c.In, want)
		}
	}
}

// expected computes the result of one sink of a plan without groups from the
// rows before the offsets.
func (r *run) expected(sink int, upTo func(*partition) int) []row {
	var out []row
	for _, p := range r.parts {
		for _, in := range p.rows[:upTo(p)] {
			out = append(out, r.plan.expect(r, sink, in)...)
		}
	}
	return out
}

func sortedRows(rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b row) int { return slices.Compare(a[:], b[:]) })
	return rows
}

// difference returns rows that are only in a and rows that are only in b, as
// multisets.
func difference(a, b []row) (onlyA, onlyB []row) {
	a, b = sortedRows(a), sortedRows(b)
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && slices.Compare(a[0][:], b[0][:]) < 0:
			onlyA, a = append(onlyA, a[0]), a[1:]
		case len(a) == 0 || slices.Compare(a[0][:], b[0][:]) > 0:
			onlyB, b = append(onlyB, b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return onlyA, onlyB
}

func few(rows []row) []row { return rows[:min(len(rows), 5)] }

// sinkCommitted checks a sink at the end of an epoch's commit.
func (r *run) sinkCommitted(m model, name string, e messages.Epoch) {
	if e <= r.lastSink[name] && r.lastSink[name] != 0 && e != r.lastSink[name] {
		r.fail("sink %s committed epoch %d after %d", name, e, r.lastSink[name])
	}
	if e == r.lastSink[name] {
		r.count("duplicate at sink/commit")
	}
	r.lastSink[name] = e
	i := slices.IndexFunc(r.records, func(rec *epochs.Record) bool { return rec.Epoch == e })
	if i < 0 {
		r.fail("sink %s was asked to commit epoch %d, which has no record", name, e)
		return
	}
	m.check()
	if r.total() < 100 || e%4 == 0 { // with many rows that would be most of the work
		r.checkVisible(m, r.records[i])
	}
}

// checkVisible compares what readers see with the record of the epoch that the
// sink has just committed.
func (r *run) checkVisible(m model, rec *epochs.Record) {
	switch {
	case r.plan.grouped == tables:
		r.checkTable(m, rec)
		return
	case r.plan.grouped != stateless:
		r.checkEmitted(m, rec)
		return
	}
	sink := slices.Index(r.sinks, m)
	got := m.rows()
	want := r.expected(sink, func(p *partition) int { return offsetIn(rec, p) })
	missing, extra := difference(want, got)
	if len(missing) > 0 {
		r.fail("epoch %d of %s: %d rows of committed epochs are missing: %v", rec.Epoch, r.sinkName(sink), len(missing), few(missing))
	}
	if r.kinds[sink].perEpoch() && len(extra) > 0 {
		r.fail("epoch %d of %s: %d rows of later epochs or twice: %v", rec.Epoch, r.sinkName(sink), len(extra), few(extra))
	}
}

// checkEmitted compares the rows of a sink behind a group with its counters.
func (r *run) checkEmitted(m model, rec *epochs.Record) {
	if !r.kinds[0].perEpoch() {
		return
	}
	if r.plan.grouped == changes {
		r.checkChanges(m, rec)
	}
	for _, c := range rec.Counters {
		if c.Operator == "group" && r.plan.grouped != changes && uint64(len(m.rows())) != c.Out {
			r.fail("epoch %d: %d rows are visible, %d were emitted", rec.Epoch, len(m.rows()), c.Out)
		}
	}
}

// finalChecks compares the whole output with the whole input.
func (r *run) finalChecks() {
	if !r.complete() {
		r.fail("the query ended before its input")
		return
	}
	if len(r.workers()) > 0 {
		r.fail("workers are left: %v", r.workers())
	}
	for i, m := range r.sinks {
		m.check()
		r.checkVisible(m, r.newest())
		if r.plan.grouped == stateless {
			r.finalRows(i, m)
			r.checkOrder(i, m)
		}
		if b, ok := m.(*broker); ok && b.adopted > 0 {
			r.count("rows adopted")
		}
		if b, ok := m.(*broker); ok && b.rejected > 0 {
			r.count("zombie rows rejected")
		}
		if f, ok := m.(*files); ok {
			f.finalFiles()
			if f.redone > 0 {
				r.count("sink commit redone")
			}
		}
		if k, ok := m.(*ledger); ok && k.again > 0 {
			r.count("row of an epoch published before")
		}
	}
	if r.plan.grouped != stateless {
		r.finalGroups()
	}
}

func (r *run) finalRows(i int, m model) {
	want := r.expected(i, func(p *partition) int { return len(p.rows) })
	missing, extra := difference(want, m.rows())
	if len(missing) > 0 {
		r.fail("%s: %d rows are missing: %v", r.sinkName(i), len(missing), few(missing))
	}
	if len(extra) == 0 {
		return
	}
	if r.kinds[i] != looseSink {
		r.fail("%s: %d rows too many: %v", r.sinkName(i), len(extra), few(extra))
	}
	// At least once: a row may come again in each attempt, but nothing else.
	count := map[row]int{}
	for _, x := range want {
		count[x]--
	}
	for _, x := range m.rows() {
		count[x]++
	}
	for _, x := range want {
		if n := count[x]; n > int(r.attempt) {
			r.fail("%s: row %v is there %d times too often", r.sinkName(i), x, n)
		}
	}
	for _, x := range extra {
		if _, ok := slices.BinarySearchFunc(sortedRows(want), x, func(a, b row) int { return slices.Compare(a[:], b[:]) }); !ok {
			r.fail("%s: row %v comes from nowhere", r.sinkName(i), x)
		}
	}
}

// checkOrder verifies that rows of one partition and key come in the order of
// their offsets. Behind a diamond that holds for each branch.
func (r *run) checkOrder(i int, m model) {
	type lane struct{ file, partition, key, branch int64 }
	seen := map[lane]row{}
	check := func(file int, x row) {
		l := lane{int64(file), x[colPartition], x[colKey], 0}
		if r.plan.name == "diamond" {
			l.branch = x[colValue] % 2
		}
		if last, ok := seen[l]; ok && slices.Compare(last[:2], x[:2]) > 0 {
			r.fail("%s: row %v comes after %v", r.sinkName(i), x, last)
		}
		seen[l] = x
	}
	switch m := m.(type) {
	case *files:
		for n, f := range m.all {
			for _, x := range f.content[:f.visible] {
				check(n, x)
			}
		}
	case *ledger:
		for _, p := range m.log {
			check(int(p.part), p.row)
		}
	case *broker:
		for _, e := range m.log {
			if m.exact {
				check(0, e.row)
			} else {
				check(e.socket, e.row)
			}
		}
	}
}
