package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// mostSteps bounds a run: one that needs more makes no progress.
const mostSteps = 400_000

// idleAfter is longer than any gap between two arrivals, so that a partition is
// idle only when it has no more rows.
const idleAfter = 400 * time.Millisecond

// run is one simulated query with everything around it.
type run struct {
	seed uint64
	rng  *rand.Rand
	w    *world
	sys  *actors.System
	log  func(format string, args ...any)

	// Options of the run.
	plan        *plan
	kinds       []sinkKind
	idle        time.Duration
	bounded     bool
	delay       time.Duration
	size, slide int64
	keys        int
	grain       int64
	bytes       int  // of credit
	single      bool // sinks want one writer
	fastest     bool // the input that is ahead sets the watermark
	emit        time.Duration
	interval    time.Duration
	window      int
	batch       int

	sources     []*source
	parts       []*partition
	sinks       []model
	disk        *memstore.Disk
	store       epochs.Segments
	incarnation messages.ID128
	rewinds     bool  // starts may go back to an older epoch
	perSecond   int64 // rows that a source may read
	forgotten   int   // how many records were dropped before the latest rewind

	attempt  uint64
	att      *actors.Attempt
	from     *epochs.Record // what it goes on from
	asked    int            // requests for an epoch that have not been answered
	stopped  bool           // this attempt was told to stop or drain
	ending   bool           // the drain that ends the run
	settle   time.Duration  // when everything must have come out, 0: not waited for
	restart  time.Duration
	tries    int
	opened   int // readers, writers, committers and operators that are open
	faults   []plannedFault
	patience int // how many faults may be left at the end
	since    int // steps since the latest fault
	armed    *plannedFault
	fired    int           // in this attempt
	kind     fault.Kind    // of the latest error
	delayed  bool          // something took its time in this attempt
	ambush   bool          // the process dies behind the next commit record
	deaf     string        // the worker that does not return although the attempt ends
	timeout  time.Duration // of an epoch
	full     time.Duration // until when there is no space for another epoch
	noSpace  bool          // so the latest check in this attempt said
	blocked  bool          // the engine says so
	crashed  bool
	writing  []byte // the record in the hands of the store
	records  []*epochs.Record
	lastSink map[string]messages.Epoch
	over     bool
	failure  string
	covered  map[string]int // faults that struck, and other things that happened
}

// newRun draws everything a seed decides.
func newRun(seed uint64, sys *actors.System, w **world) *run {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := &run{
		seed: seed, rng: rng, w: newWorld(rand.New(rand.NewPCG(seed, 2))), sys: sys,
		log: func(string, ...any) {}, lastSink: map[string]messages.Epoch{}, covered: map[string]int{},
	}
	if *w != nil {
		r.w.fibers, (*w).fibers = (*w).fibers, nil
	}
	*w = r.w
	r.plan = &plans[rng.IntN(len(plans))]
	r.idle = []time.Duration{-1, idleAfter}[rng.IntN(2)]
	r.bounded = rng.IntN(8) == 0
	r.grain = []int64{1, 10}[rng.IntN(2)] // with 10, event times meet the ends of windows
	r.delay = time.Duration(10*(2+rng.IntN(20))) * time.Microsecond
	r.size = int64(50 + 10*rng.IntN(30))
	r.slide = r.size
	if rng.IntN(3) == 0 {
		r.slide = 10 * (1 + rng.Int64N(r.size/10))
	}
	r.emit = []time.Duration{0, time.Millisecond, time.Duration(1+rng.IntN(20)) * time.Millisecond}[rng.IntN(3)]
	r.interval = time.Duration(1+rng.IntN(50)) * time.Millisecond
	r.window = []int{1, 1, 2, 3, 4, 16}[rng.IntN(6)]
	r.timeout = []time.Duration{0, 2 * time.Second}[rng.IntN(2)]
	r.batch = 1 + rng.IntN(8)
	r.bytes = []int{0, 0, 1, 500}[rng.IntN(4)]
	span := time.Duration(10+rng.IntN(200)) * time.Millisecond
	r.keys = []int{3, 6, 40}[rng.IntN(3)]
	flaky := r.plan.grouped == stateless && !r.bounded && rng.IntN(4) == 0
	r.single = rng.IntN(4) == 0
	r.fastest = rng.IntN(8) == 0
	most := []int{10, 60, 60, 200}[rng.IntN(4)]
	if r.plan.grouped == tables {
		r.emit = max(r.emit, time.Millisecond) // without it, only an input that speaks shows a table again
	}
	for i := range r.plan.sources {
		s := &source{r: r, name: fmt.Sprint("src", i), queue: !flaky && rng.IntN(4) == 0}
		for range 1 + rng.IntN(3) {
			p := &partition{r: r, source: s.name, number: len(r.parts)}
			p.generate(rng.IntN(most), r.delay, span)
			r.w.events = append(r.w.events, p.arrive...)
			p.flaky = flaky && len(s.parts) > 0
			r.parts = append(r.parts, p)
			s.parts = append(s.parts, p)
		}
		r.sources = append(r.sources, s)
	}
	slices.Sort(r.w.events)
	for i := range r.plan.sinks {
		r.sinks = append(r.sinks, r.newSink(i))
	}
	r.incarnation = messages.ID128{Hi: rng.Uint64(), Lo: rng.Uint64()}
	r.disk = memstore.New(memstore.Options{Seed: seed, KeepUnsynced: rng.IntN(101), Fault: r.storeFault})
	r.patience = rng.IntN(4) * 3
	if rng.IntN(6) == 0 {
		r.perSecond = int64(300 + rng.IntN(5000))
	}
	r.rewinds = rng.IntN(3) == 0 && r.mayRewind()
	for range rng.IntN(10) {
		r.faults = append(r.faults, r.planFault())
	}
	return r
}

func (r *run) newSink(i int) model {
	kinds := []sinkKind{looseSink, filesSink, heldSink, wholeSink}
	switch {
	case r.plan.grouped == changes:
		kinds = []sinkKind{filesSink, upsertSink, heldSink, wholeSink}
	case r.plan.grouped == tables:
		kinds = []sinkKind{boardSink, heldSink, wholeSink}
	case r.plan.identities:
		kinds = append(kinds, lineageSink)
	}
	k := kinds[r.rng.IntN(len(kinds))]
	r.kinds = append(r.kinds, k)
	switch k {
	case filesSink:
		return &files{r: r, name: r.sinkName(i)}
	case heldSink, wholeSink:
		limit := []int64{1, 300, 2000, 0}[r.rng.IntN(4)]
		return &ledger{r: r, name: r.sinkName(i), whole: k == wholeSink, limit: limit, have: map[messages.ID128]bool{}}
	case boardSink:
		return &board{r: r, name: r.sinkName(i)}
	case upsertSink:
		return &broker{r: r, name: r.sinkName(i), latest: map[groupKey]int{}}
	default:
		return &broker{r: r, name: r.sinkName(i), exact: k == lineageSink}
	}
}

func (r *run) sinkName(i int) string { return fmt.Sprint("out", i) }

// String describes the run in one line.
func (r *run) String() string {
	rows := []string{}
	for _, p := range r.parts {
		rows = append(rows, strconv.Itoa(len(p.rows)))
	}
	return fmt.Sprintf("seed=%d plan=%q sinks=%v rows=%s policy=%d idle=%v bounded=%v delay=%v window=%d/%d emit=%v interval=%v credit=%d/%dB batch=%d fastest=%v slow=%d%% attempt=%d epoch=%d time=%v step=%d",
		r.seed, r.plan.name, r.kinds, strings.Join(rows, "+"), r.w.policy, r.idle, r.bounded, r.delay, r.size, r.slide, r.emit, r.interval, r.window, r.bytes, r.batch, r.fastest, r.w.slow,
		r.attempt, r.lastEpoch(), r.w.now, r.w.count)
}

// fail notes the first thing that is wrong.
func (r *run) fail(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
		r.over = true
	}
}

func (r *run) lastEpoch() messages.Epoch {
	if len(r.records) == 0 {
		return 0
	}
	return r.records[len(r.records)-1].Epoch
}

// durable is the offset of a partition in the newest record.
func (r *run) durable(p *partition) int { return offsetIn(r.newest(), p) }

func (r *run) newest() *epochs.Record {
	if len(r.records) == 0 {
		return &epochs.Record{}
	}
	return r.records[len(r.records)-1]
}

func offsetIn(rec *epochs.Record, p *partition) int {
	for _, s := range rec.Sources {
		if s.Source == p.source && s.Partition == p.name() && len(s.Offset) > 0 {
			n, err := strconv.Atoi(string(s.Offset))
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return 0
}

// simulate runs the query to its end.
func (r *run) simulate() {
	defer func() { // nothing of it remains
		r.crashed = true
		r.w.crash()
		r.covered["reorder at edges"] += r.w.reordered
	}()
	for !r.over {
		r.strike()
		switch {
		case r.crashed:
			r.afterCrash()
		case r.att == nil && r.w.now >= r.restart:
			r.startAttempt()
		case r.att != nil:
			select {
			case <-r.att.Done():
				r.attemptEnded()
			default:
				r.maybeEnd()
			}
		}
		for _, s := range r.sinks {
			s.tick()
		}
		r.ask()
		if !r.w.step() {
			if r.att != nil {
				r.fail("deadlock: nothing can happen any more")
			}
			r.w.now = max(r.w.now, r.restart)
		}
		if r.w.count > mostSteps {
			r.fail("no progress within %d steps", mostSteps)
		}
	}
	r.w.note(uint64(r.w.count))
}

// startAttempt does what a runner does: open the store, decode the newest commit
// record, go on from there.
func (r *run) startAttempt() {
	r.tries++
	if r.tries > 200 {
		r.fail("too many attempts")
		return
	}
	r.attempt++
	r.noSpace = false
	r.fired, r.stopped, r.settle, r.delayed, r.blocked, r.ambush = 0, false, 0, false, false, false
	ctx := context.Background()
	store, err := r.disk.Open()
	var stored []epochs.StoredRecord
	var highest messages.Epoch
	if err == nil {
		if stored, highest, err = store.Committed(ctx); err != nil {
			r.closeStore(store)
		}
	}
	if err != nil {
		r.startFailed(err)
		return
	}
	var from *epochs.Record
	if err := r.rewind(store, &stored); err != nil {
		r.closeStore(store)
		r.startFailed(err)
		return
	}
	if len(stored) > 0 {
		if from, err = epochs.DecodeRecord(stored[0].Data); err != nil {
			r.fail("newest commit record: %v", err)
			return
		}
		if kept := min(epochs.Retain, len(r.records)-r.forgotten); len(stored) < kept {
			r.fail("%d records are left of %d", len(stored), len(r.records))
		}
		if from.Epoch > r.lastEpoch() {
			r.onDurable(stored[0].Data) // written, and its outcome unknown until now
		}
	}
	if got, want := recordEpoch(from), r.lastEpoch(); got != want {
		r.fail("the newest record is that of epoch %d, %d was durable", got, want)
		return
	}
	r.from = from
	b := &builder{r: r, g: actors.NewGraph()}
	r.plan.build(b)
	r.store = &segments{Segments: store, r: r}
	r.att, err = r.sys.Start(ctx, actors.AttemptConfig{
		Graph: b.g, Query: "q", Attempt: r.attempt, Store: r.store, From: from, NextEpoch: highest + 1,
		Plan: epochs.Plan{MaxWatermark: r.fastest}, Incarnation: r.incarnation, EpochInterval: r.interval, EpochTimeout: r.timeout, OnStatus: r.status, Window: r.window, WindowBytes: r.bytes, BatchRows: r.batch,
		Witness: func(e messages.Epoch) error {
			if e > r.lastEpoch() {
				r.fail("witness of epoch %d before its record", e)
			}
			return nil
		},
	})
	if err != nil {
		r.fail("start: %v", err)
		return
	}
	r.log("%v attempt %d starts from epoch %d, next is %d", r.w.now, r.attempt, recordEpoch(from), highest+1)
	r.w.note(uint64(highest))
}

// mayRewind tells whether going back to an older epoch is allowed: sinks can take
// rows again, and sources still have theirs.
func (r *run) mayRewind() bool {
	return !slices.ContainsFunc(r.kinds, func(k sinkKind) bool { return k != lineageSink && k != looseSink && k != upsertSink }) &&
		!slices.ContainsFunc(r.sources, func(s *source) bool { return s.queue })
}

// rewind goes back to an older epoch from time to time, as an operator does who
// gives --restore-epoch.
func (r *run) rewind(store epochs.Segments, stored *[]epochs.StoredRecord) error {
	asked := r.armed != nil && r.armed.point == "store/rewind" && r.mayRewind() // so that there is a fault
	if len(*stored) < 2 || !asked && (!r.rewinds || r.rng.IntN(3) > 0) {
		return nil
	}
	n := 1 + r.rng.IntN(len(*stored)-1)
	if newest := (*stored)[0]; newest.Epoch > r.lastEpoch() {
		r.onDurable(newest.Data)
	}
	to := (*stored)[n].Epoch
	if err := store.Rewind(context.Background(), to); err != nil {
		return err
	}
	r.count("rewind")
	r.log("%v back to epoch %d", r.w.now, to)
	*stored = (*stored)[n:]
	r.records = r.records[:1+slices.IndexFunc(r.records, func(rec *epochs.Record) bool { return rec.Epoch == to })]
	r.forgotten = len(r.records) - len(*stored)
	for _, p := range r.parts {
		p.acked = min(p.acked, r.durable(p))
	}
	return nil
}

func recordEpoch(rec *epochs.Record) messages.Epoch {
	if rec == nil {
		return 0
	}
	return rec.Epoch
}

func (r *run) startFailed(err error) {
	if !strings.Contains(err.Error(), "injected") {
		r.fail("start: %v", err)
	}
	r.log("%v attempt %d cannot start: %v", r.w.now, r.attempt, err)
	r.restart = r.w.now + time.Duration(r.rng.IntN(30))*time.Millisecond
}

func (r *run) closeStore(s epochs.Segments) {
	if err := s.Close(); err != nil {
		r.fail("close the store: %v", err)
	}
}

// attemptEnded judges the end of an attempt.
func (r *run) attemptEnded() {
	err := r.att.Err()
	r.log("%v attempt %d ended at epoch %d, final %v: %v", r.w.now, r.attempt, r.att.Last(), r.att.Final(), err)
	if r.asked != 0 {
		r.fail("%d requests for an epoch were not answered", r.asked)
	}
	if r.deaf != "" {
		r.gaveUp(err)
		return
	}
	if r.opened != 0 {
		r.fail("%d readers, writers, committers and operators were left open: %v", r.opened, err)
	}
	if n := r.workers(); len(n) > 0 {
		r.fail("workers were left: %v", n)
	}
	r.closeStore(r.store)
	final := r.att.Final()
	r.att, r.store = nil, nil
	r.restart = r.w.now + time.Duration(r.rng.IntN(30))*time.Millisecond
	switch {
	case err == nil && !final:
		r.fail("the attempt ended well without a final epoch")
	case err == nil:
		r.count("drained")
		for _, p := range r.parts {
			if p.listed && r.fired == 0 && p.acked < r.durable(p) {
				r.fail("the source of %s was not told that %d is durable", p.name(), r.durable(p))
			}
		}
		// A drain may come after the last rows and before the end behind them: then
		// the next attempt finds it.
		if r.ending || r.bounded && r.complete() && !r.stopped {
			r.over, r.armed = true, nil
			r.finalChecks()
		}
	case errors.Is(err, actors.ErrStopped):
		if !r.stopped {
			r.fail("the attempt stopped by itself: %v", err)
		}
	case !r.excused(err):
		if p, ok := errors.AsType[*fault.Panic](err); ok {
			r.log("%s", p.Stack)
		}
		r.fail("the attempt failed by itself: %v", err)
	default:
		r.checkReaction(err)
	}
	r.ending = false
}

// excused tells whether an error goes back to an injected one.
func (r *run) excused(err error) bool {
	text := err.Error()
	late := strings.Contains(text, "not acknowledged after") || strings.Contains(text, "was not durable after") || strings.Contains(text, "the checks before it took longer")
	if late && r.delayed && r.timeout > 0 {
		r.count("epoch timed out")
		return true
	}
	return strings.Contains(text, "injected") || strings.Contains(text, "its outcome is unknown")
}

// gaveUp judges the end of an attempt in which a call never returned: the error
// names it, and only the end of the process helps.
func (r *run) gaveUp(err error) {
	name := strings.Replace(r.deaf, "flush of ", "writer of ", 1) // they are stopped together
	if strings.HasPrefix(name, "read of ") {
		name = "reader of "
	}
	if err != nil && !(strings.Contains(err.Error(), "did not stop within") && strings.Contains(err.Error(), name)) {
		r.fail("%q has not returned, the error is: %v", r.deaf, err)
	}
	r.count("gave up on a call")
	r.crashed = true
}

// status takes what the attempt says of itself.
func (r *run) status(s actors.StatusReport) {
	if s.Source != "" || s.Sink != "" {
		return
	}
	was := r.blocked
	if r.blocked = s.Blocked; r.blocked {
		r.count("blocked: no space")
	} else {
		if !was {
			r.fail("there is space again, and it was never missing")
		}
		r.count("goes on: there is space again")
	}
}

func (r *run) workers() (names []string) {
	for _, k := range r.w.work {
		if !k.gone || k.inside {
			names = append(names, k.name)
		}
	}
	return names
}

// complete reports whether the newest record covers all input.
func (r *run) complete() bool {
	for _, p := range r.parts {
		if r.durable(p) < len(p.rows) {
			return false
		}
	}
	return true
}

// total is the number of rows of the input.
func (r *run) total() (n int) {
	for _, p := range r.parts {
		n += len(p.rows)
	}
	return n
}

// ask requests an epoch from time to time. It must cover every row that has
// reached a sink by now.
func (r *run) ask() {
	if r.att == nil || r.rng.IntN(300) > 0 {
		return
	}
	reached := map[int64]int64{} // offset behind the last row, by partition
	for _, m := range r.sinks {
		if b, ok := m.(*broker); ok && r.plan.grouped == stateless {
			for _, e := range b.log {
				if e.attempt != r.attempt {
					continue
				}
				reached[e.row[colPartition]] = max(reached[e.row[colPartition]], e.row[colOffset]+1)
			}
		}
	}
	r.asked++
	attempt := r.attempt
	r.att.RequestEpoch(func(err error) {
		if attempt != r.attempt {
			r.fail("attempt %d answers in attempt %d", attempt, r.attempt)
		}
		r.asked--
		if err != nil {
			return
		}
		r.count("epoch on request")
		for _, p := range r.parts {
			if want := reached[int64(p.number)]; int64(r.durable(p)) < want {
				r.fail("%s had reached a sink up to %d, the requested epoch covers %d", p.name(), want, r.durable(p))
			}
		}
	})
}

// settled waits until output that is held back to coalesce must be out, and
// checks that it is without a drain.
func (r *run) settled() bool {
	if slices.ContainsFunc(r.w.work, func(k *worker) bool { return k.inside }) {
		r.settle = 0 // as long as a call hangs, nothing has to come out
		return false
	}
	if r.w.now < r.full || r.blocked {
		r.settle = 0 // what belongs to an epoch comes out when there is space for it
		return false
	}
	if r.settle == 0 {
		r.settle = r.w.now + 4*idleAfter // longer than any stall
	}
	if r.w.now < r.settle {
		return false
	}
	r.count("settled")
	r.finalGroups()
	return true
}

func (r *run) partNamed(name string) *partition {
	return r.parts[slices.IndexFunc(r.parts, func(p *partition) bool { return p.name() == name })]
}

// findPartitions starts a new attempt when only partitions that this one does
// not see have more rows.
func (r *run) findPartitions() {
	for _, p := range r.parts {
		if p.listed && r.durable(p) < len(p.rows) {
			return
		}
	}
	r.log("%v stopping to look for partitions", r.w.now)
	r.count("partition appears")
	r.stopped = true
	r.att.Stop()
}

// maybeEnd drains the query when everything has been read and, where partitions
// become idle, found to be so.
func (r *run) maybeEnd() {
	if r.stopped || r.bounded || len(r.faults) > r.patience || r.rng.IntN(60) > 0 {
		return // an attempt that is drained before it runs just stops
	}
	if !r.complete() {
		r.findPartitions()
		return
	}
	rec := r.newest()
	if r.total() == 0 {
		rec = &epochs.Record{} // there is nothing to commit
	}
	for _, s := range rec.Sources {
		if r.idle > 0 && !s.Idle && r.partNamed(s.Partition).listed {
			return
		}
	}
	for _, p := range r.parts {
		if p.listed && r.total() > 0 && sourceState(rec, p) == nil {
			return
		}
	}
	if (r.plan.grouped == changes || r.plan.grouped == tables) && r.total() > 0 && !r.settled() {
		return
	}
	r.log("%v draining at the end", r.w.now)
	r.stopped, r.ending = true, true
	r.att.Drain()
}

// afterCrash is what remains of the world when the process has died.
func (r *run) afterCrash() {
	r.log("%v crash", r.w.now)
	r.w.crash()
	r.crashed, r.deaf = false, ""
	r.disk.Crash()
	for _, s := range r.sinks {
		s.lose()
	}
	r.att, r.store, r.opened, r.ending, r.asked = nil, nil, 0, false, 0
	r.restart = r.w.now + time.Duration(r.rng.IntN(30))*time.Millisecond
}

func (r *run) count(what string) { r.covered[what]++ }

// segments notes the record that is being committed.
type segments struct {
	epochs.Segments
	r *run
}

func (s *segments) Commit(ctx context.Context, prev, e messages.Epoch, data []byte) error {
	s.r.writing = slices.Clone(data)
	return s.Segments.Commit(ctx, prev, e, data)
}

// storeFault is the hook of the simulated disk.
func (r *run) storeFault(op string) error {
	if op == memstore.OpCommitDone {
		r.onDurable(r.writing)
		r.afterRecord()
	}
	if r.noSpace && (op == memstore.OpPut || op == memstore.OpCommit) {
		r.fail("an epoch is stored after the check before it has found no space")
	}
	if op == memstore.OpCheck {
		r.noSpace = r.w.now < r.full
	}
	if r.noSpace && op == memstore.OpCheck {
		return fmt.Errorf("no room for another epoch: %w", epochs.ErrNoSpace)
	}
	return r.point("store/" + op)
}
