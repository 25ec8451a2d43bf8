package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mutant is a bug, planted by replacing text of the sources in a build that
// exists for this test only. Some are bugs that the simulation has found.
type mutant struct {
	name  string
	edits []edit
	test  string // that finds it, if not TestSeeds
}

type edit struct{ file, old, new string }

const (
	queryGo   = "actors/query.go"
	recordsGo = "actors/query_epochs.go"
	sourceGo  = "actors/source.go"
	openGo    = "actors/open.go"
	inletGo   = "actors/inlet.go"
	sinkGo    = "actors/sink.go"
	stashGo   = "actors/stash.go"
	coordGo   = "epochs/coordinator.go"
	heldGo    = "connectors/held/held.go"
	holderGo  = "connectors/held/writer.go"
	stateDir  = "actors/operator/state/"
	brokerGo  = "test/sim/broker_test.go"
	ledgerGo  = "test/sim/ledger_test.go"
	inputGo   = "test/sim/input_test.go"
)

var mutants = []mutant{
	{"markers are not aligned", []edit{
		{"epochs/aligner.go", "{ return a.arrived[input] }", "{ return false }"},
	}, ""},
	{"sources are told that an epoch is durable before its record is", []edit{
		{recordsGo, "q.writeRecord(a.Epoch, a.Prev)", "q.toSources(&committedMsg{epoch: a.Epoch})\n\t\tq.writeRecord(a.Epoch, a.Prev)"},
	}, ""},
	{"a marker overtakes rows that wait for credit", []edit{
		{"actors/outlet.go", "if o.head == len(o.pending) && o.admits(el) {", "if _, rows := el.(*messages.Batch); !rows || o.head == len(o.pending) && o.admits(el) {"},
	}, ""},
	{"epoch numbers are used again", []edit{
		{"test/sim/run_test.go", "NextEpoch: highest + 1,", "NextEpoch: recordEpoch(from) + 1,"},
	}, ""},
	{"timers are lost when state is restored", []edit{
		{stateDir + "restore.go", "r.s.queueTimer(e.t, e.id, int64(timer^timerBias))", ""},
	}, ""},
	{"rows of a window that ends at the watermark are not late", []edit{
		{"actors/operator/aggregate/ingest.go", "o.slices.lastEnd(slice) <= int64(o.wm)", "o.slices.lastEnd(slice) < int64(o.wm)"},
	}, ""},
	{"entries that change while a snapshot is encoded miss the next one", []edit{
		{stateDir + "table.go", "		t.s.encodeEarly(t, id)\n", "		t.s.encodeEarly(t, id)\n\t\treturn\n"},
	}, "TestStateChangesWhileItIsSaved"},
	{"credit is only returned in pairs", []edit{
		{"actors/subtask.go", "if in.freedBatches*4 < s.cfg.Window && in.freedBytes*4 < s.cfg.WindowBytes && !in.empty() {", "if in.freedBatches < 2 {"},
	}, ""},
	{"a marker behind a batch keeps its credit", []edit{
		{"actors/subtask.go", "s.returnCredit(in, 0, 0) //", "_ = el //"},
		{"actors/subtask.go", "in.freedBytes*4 < s.cfg.WindowBytes && ", ""},
	}, ""},
	{"a source sends the marker before the rows of its chain", []edit{
		{"actors/barrier.go", "func (s *subtask) inject(m messages.Marker) { s.barrier.start(m) }", "func (s *subtask) inject(m messages.Marker) { s.barrier.start(m); s.broadcast(m) }"},
		{"actors/barrier.go", "	s.broadcast(b.marker)\n", "	if s.source == nil {\n\t\ts.broadcast(b.marker)\n\t}\n"},
	}, ""},
	{"offsets run ahead of processing", []edit{
		{sourceGo, "	src.ready = append(src.ready, m)\n", "	src.ready = append(src.ready, m)\n\tif len(m.slot.Next) > 0 {\n\t\tsrc.offset = append(src.offset[:0], m.slot.Next...)\n\t}\n"},
	}, ""},
	{"sinks commit before the record is written", []edit{
		{recordsGo, "	data, err := epochs.EncodeRecord(rec)\n", "	for _, s := range w.sinks {\n\t\tif err := s.committer.Commit(ctx, rec.Epoch, tokenOf(rec, s.node.name)); err != nil {\n\t\t\treturn 0, err\n\t\t}\n\t}\n\tdata, err := epochs.EncodeRecord(rec)\n"},
	}, ""},
	{"old attempts are not fenced", []edit{
		{brokerGo, "	k.fence = c.attempt\n", ""},
	}, ""},
	{"the adoption set is not saved", []edit{
		{brokerGo, "	t.Adopted = append(t.Adopted, left...)\n", ""},
	}, ""},
	{"recovery does not scan", []edit{
		{brokerGo, "range k.log[t.ScanFrom:] {", "range k.log[len(k.log):] {"},
	}, ""},
	{"the watermark of the last input is ignored", []edit{
		{inletGo, "	for _, in := range s.inlets {\n\t\tif s.cfg.FlushAtEnd", "	for _, in := range s.inlets[:max(1, len(s.inlets)-1)] {\n\t\tif s.cfg.FlushAtEnd"},
		{inletGo, "	for _, o := range s.inlets {\n", "	for _, o := range s.inlets[:max(1, len(s.inlets)-1)] {\n"},
	}, ""},
	{"a batch is not split where the watermark acts", []edit{
		{"actors/operator/chain_split.go", "if s.wmk == nil || s.cur.mark", "if true || s.cur.mark"},
	}, ""},
	{"counters of earlier attempts are forgotten", []edit{
		{recordsGo, "c.AddRows(q.base[c.Operator])", "_ = q"},
	}, ""},
	{"a sink commit that failed is not repeated", []edit{
		{recordsGo, "q.post(&retryCommit{epoch: e})", "_ = e"},
	}, ""},
	{"rows are written behind a failed write", []edit{
		{sinkGo, "k.broken = err != nil", "k.broken = false"},
	}, ""},
	{"the end overtakes the last rows", []edit{
		{sourceGo, "	src.ended, src.stopping = true, true\n", "	src.ended, src.stopping = true, true\n\ts.broadcast(messages.End{})\n"},
	}, ""},
	{"a source that is held up is never idle again", []edit{
		{sourceGo, "		s.armIdle(0) // held up", "		// held up"},
	}, "TestSourcesHeldUpBecomeIdle"},
	{"restored watermarks are not announced", []edit{
		{openGo, "		o.watermark(m.wm)\n", "		_ = o\n"},
	}, ""},
	{"old segments are dropped together with those of the epoch in flight", []edit{
		{recordsGo, "q.injected+1", "q.injected"},
	}, ""},
	{"a restored timer that fires before the start ends the attempt", []edit{
		{queryGo, "		if q.coord != nil {\n\t\t\tq.step(epochs.Changed{})", "		if true {\n\t\t\tq.step(epochs.Changed{})"},
	}, "TestTimersFireWhileOthersRestore"},
	{"rows held for a sink are not part of the commit record", []edit{
		{recordsGo, "		rec.Chains = append(rec.Chains, chains...)\n", "		_ = chains\n"},
	}, ""},
	{"rows held for a sink have no chain", []edit{
		{stashGo, "	s.put[k] = baseChain(seg)\n", ""},
	}, ""},
	{"both epochs that a sink may not have confirmed share a place in the checkpoint", []edit{
		{stashGo, "place := uint64(part)>>8<<1 | uint64(e)&1", "place := uint64(part) >> 8 << 1"},
	}, ""},
	{"rows held for an epoch that is not confirmed are given up", []edit{
		{stashGo, "if c.Base < unconfirmed && c.BaseBytes > 0 && (final || stale >= staleBytes) {", "if c.Base < e && c.BaseBytes > 0 {"},
	}, ""},
	{"rows of an epoch are published before it has committed", []edit{
		{ledgerGo, "	data, err := json.Marshal(ledgerToken{u})\n", "	if err := c.publish(ctx, e); err != nil {\n\t\treturn nil, err\n\t}\n\tdata, err := json.Marshal(ledgerToken{u})\n"},
		{ledgerGo, "Prepare(_ context.Context", "Prepare(ctx context.Context"},
	}, ""},
	{"a restart does not publish what the last epoch held", []edit{
		{ledgerGo, "	c.held.Recover(t.Rows)\n", "	_ = t\n"},
	}, ""},
	{"an epoch that was published is published again", []edit{
		{ledgerGo, "		if e > k.marker {", "		if true {"},
		{ledgerGo, "			if k.have[id] {", "			if false {"},
	}, ""},
	{"half an epoch that was published is published again", []edit{
		{ledgerGo, "			if k.have[id] {", "			if false {"},
	}, ""},
	{"a token forgets the epoch before, whose rows are not published", []edit{
		{heldGo, "	return slices.Clone(r.epochs), nil", "	return slices.Clone(r.epochs[max(0, len(r.epochs)-1):]), nil"},
	}, ""},
	{"the rows behind the cut are stashed with the epoch before", []edit{
		{holderGo, "	w.buf = buf.cut()\n", "	next := buf.cut()\n\tif next.empty() {\n\t\tnext = buf\n\t}\n\tw.buf = next\n"},
	}, ""},
	{"writers do not wait for confirmations to go on", []edit{
		{heldGo, "	close(r.confirmed)\n	r.confirmed = make(chan struct{})\n", ""},
		{ledgerGo, "p.c.confirmed > p.at || ", ""},
	}, ""},
	{"a record that a work queue delivers again is not dropped", []edit{
		{inputGo, "rd.deliver = rd.pos // all that came again is dropped", "rd.pos, n = rd.deliver, min(n, rd.pos-rd.deliver)"},
	}, ""},
	{"a token forgets files that were complete before", []edit{
		{"test/sim/files_test.go", "	all.Complete = append(all.Complete, c.complete...)\n", "	all.Complete, c.complete = append(all.Complete, c.complete...), nil\n"},
	}, ""},
	{"the adoption set is lost when it has been carried over once", []edit{
		{brokerGo, "		for _, id := range t.Adopted {\n			c.adopt(id)\n		}\n", ""},
	}, ""},
	{"an epoch that found no space is not tried again", []edit{
		{coordGo, "		if now >= c.retryAt {\n			c.precheck(now)\n		}\n", "		_ = c.retryAt\n"},
		{coordGo, "			want(c.retryAt)\n", "			want(c.due + 1<<40)\n"},
	}, ""},
	{"an epoch that found no space is started all the same", []edit{
		{coordGo, "		c.do(ReportBlocked{Err: err})\n		return\n", "		c.do(ReportBlocked{Err: err})\n"},
	}, ""},
	{"going back to an older epoch restores the state of the newest", []edit{
		{"epochs/memstore/store.go", "	d.remove(func(seg epochs.Segment) bool { return seg.Epoch > to })\n", ""},
	}, ""},
	{"bad records are sent behind the marker", []edit{
		{"actors/deadletter.go", "		s.addLetter(l)\n	}\n	s.sendLetters()\n}", "		s.addLetter(l)\n	}\n}"},
	}, ""},
	{"an epoch that hangs does not time out", []edit{
		{coordGo, "	if e == nil || now < e.commitBy {", "	if true || now < e.commitBy {"},
	}, ""},
	{"an attempt waits for a call that never returns", []edit{
		{queryGo, "	case *stopDeadline:\n		q.giveUp()\n", "	case *stopDeadline:\n"},
	}, ""},
	{"a stage has subtasks that nobody feeds", []edit{
		{"actors/stages.go", "s.parallelism = min(s.parallelism, s.fed())", "_ = s.fed()"},
	}, ""},
}

// apply writes the mutated files and the overlay for them, and returns its path.
func (m *mutant) apply(t *testing.T, root, dir string) string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(root, filepath.FromSlash(e.file))
		text, ok := files[path]
		if !ok {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if n := strings.Count(text, e.old); n != 1 {
			t.Fatalf("mutant %q: %s has %d times the text %q, want once; adapt it in mutants_test.go", m.name, e.file, n, e.old)
		}
		files[path] = strings.Replace(text, e.old, e.new, 1)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for path, text := range files {
		to := filepath.Join(dir, strconv.Itoa(len(overlay["Replace"]))+filepath.Base(path))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][path] = to
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var seedOf = regexp.MustCompile(`seed=(\d+) plan`)

// TestMutants verifies that the simulation finds each of the planted bugs. It
// builds the engine once per bug, so it runs only when SIM_MUTANTS is set; what
// always runs is that they can still be planted.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			overlay := m.apply(t, root, dir)
			if os.Getenv("SIM_MUTANTS") == "" {
				return
			}
			bin := filepath.Join(dir, "sim.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", bin, "-overlay", overlay, "./test/sim")
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			run := exec.CommandContext(t.Context(), bin, "-test.run", "^"+cmp.Or(m.test, "TestSeeds")+"$")
			run.Env = append(os.Environ(), "SIM_SEEDS=2000", "SIM_FAILURES=1", "SIM_SEED=")
			out, err := run.CombinedOutput()
			seed := seedOf.FindSubmatch(out)
			if err == nil || seed == nil {
				t.Fatalf("2000 seeds did not find it (%v)\n%s", err, out)
			}
			t.Logf("found by seed %s: %s", seed[1], firstFailure(string(out)))
		})
	}
}

func firstFailure(out string) string {
	lines := strings.Split(out, "\n")
	for i, l := range lines {
		if seedOf.MatchString(l) && i+1 < len(lines) {
			return strings.TrimSpace(lines[i+1])
		}
	}
	return fmt.Sprintf("%d lines", len(lines))
}
