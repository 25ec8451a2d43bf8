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

var errCrashed = errors.New("injected: the process is dead")

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
	fired    int // in this attempt
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
	r.batch = 1 + rng.IntN(8)
	r.bytes = []int{0, 0, 1, 500}[rng.IntN(4)]
	span := time.Duration(10+rng.IntN(200)) * time.Millisecond
	r.keys = []int{3, 6, 40}[rng.IntN(3)]
	flaky := r.plan.grouped == stateless && !r.bounded && rng.IntN(4) == 0
	r.single = rng.IntN(4) == 0
	r.fastest = rng.IntN(8) == 0
	most := []int{10, 60, 60, 200}[rng.IntN(4)]
	for i := range r.plan.sources {
		s := &source{r: r, name: fmt.Sprint("src", i)}
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
	for range rng.IntN(10) {
		r.faults = append(r.faults, r.planFault())
	}
	return r
}

func (r *run) newSink(i int) model {
	k := sinkKind(r.rng.IntN(int(sinkKinds)))
	switch {
	case r.plan.grouped == changes:
		k = filesSink
	case k == lineageSink && !r.plan.identities:
		k = filesSink
	}
	r.kinds = append(r.kinds, k)
	if k == filesSink {
		return &files{r: r, name: r.sinkName(i)}
	}
	return &broker{r: r, name: r.sinkName(i), exact: k == lineageSink}
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
	r.fired, r.stopped, r.settle = 0, false, 0
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
	if len(stored) > 0 {
		if from, err = epochs.DecodeRecord(stored[0].Data); err != nil {
			r.fail("newest commit record: %v", err)
			return
		}
		if kept := min(epochs.Retain, len(r.records)); len(stored) < kept {
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
		Plan: epochs.Plan{MaxWatermark: r.fastest}, Incarnation: r.incarnation, EpochInterval: r.interval, Window: r.window, WindowBytes: r.bytes, BatchRows: r.batch,
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
	if r.opened != 0 {
		r.fail("%d readers, writers, committers and operators were left open: %v", r.opened, err)
	}
	if n := r.workers(); len(n) > 0 {
		r.fail("workers were left: %v", n)
	}
	if r.asked != 0 {
		r.fail("%d requests for an epoch were not answered", r.asked)
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
		if r.ending || r.bounded && r.complete() {
			r.over, r.armed = true, nil
			r.finalChecks()
		}
	case errors.Is(err, actors.ErrStopped):
		if !r.stopped {
			r.fail("the attempt stopped by itself: %v", err)
		}
	case !excused(err):
		if p, ok := errors.AsType[*fault.Panic](err); ok {
			r.log("%s", p.Stack)
		}
		r.fail("the attempt failed by itself: %v", err)
	}
	r.ending = false
}

// excused tells whether an error goes back to an injected one.
func excused(err error) bool {
	return strings.Contains(err.Error(), "injected") || strings.Contains(err.Error(), "its outcome is unknown")
}

func (r *run) workers() (names []string) {
	for _, k := range r.w.work {
		if !k.gone {
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
	if r.plan.grouped == changes && r.total() > 0 && !r.settled() {
		return
	}
	r.log("%v draining at the end", r.w.now)
	r.stopped, r.ending = true, true
	r.att.Drain()
}

// afterCrash is what remains of the world when the process has died.
func (r *run) afterCrash() {
	r.log("%v crash", r.w.now)
	r.crashed = false
	r.w.crash()
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
	}
	return r.point("store/" + op)
}

// Faults.

type effect uint8

const (
	fails effect = iota
	panics
	dies
	drains
	stops
	jumps
	stalls
)

func (e effect) String() string {
	return [...]string{"error", "panic", "crash", "drain", "stop", "clock jump", "stall"}[e]
}

// plannedFault strikes some steps after the one before it: at once, or the
// next time a point is passed.
type plannedFault struct {
	after  int
	effect effect
	point  string
	skip   int
	kind   fault.Kind
}

// starting tells whether the fault's point is passed when an attempt starts.
func (f *plannedFault) starting() bool {
	switch f.point {
	case "src/partitions", "src/open", "sink/open", "sink/recover", "sink/recover/done", "sink/writer", "op/open", "store/open", "store/committed", "store/load":
		return true
	}
	return false
}

var points = []string{
	"src/partitions", "src/open", "src/read", "src/ack",
	"sink/open", "sink/recover", "sink/recover/done", "sink/writer", "sink/write", "sink/write/done", "sink/cut",
	"sink/flush", "sink/flush/done", "sink/prepare", "sink/prepare/done", "sink/commit", "sink/commit/done",
	"op/open", "op/process",
	"store/open", "store/committed", "store/check", "store/put", "store/put/sync", "store/put/done",
	"store/commit", "store/commit/sync", "store/commit/done", "store/load", "store/drop",
}

func (r *run) planFault() plannedFault {
	f := plannedFault{after: r.rng.IntN(350), kind: []fault.Kind{fault.Restart, fault.Transient, fault.Internal}[r.rng.IntN(3)]}
	if r.rng.IntN(4) == 0 {
		f.after = r.rng.IntN(60) // often within the recovery from the one before
	}
	switch r.rng.IntN(13) {
	case 0, 1, 2:
		f.effect = dies
		return f
	case 3:
		f.effect = drains
		return f
	case 4:
		f.effect = []effect{stops, jumps}[r.rng.IntN(2)]
		return f
	case 5:
		f.effect = stalls
		return f
	case 6, 7, 8:
		f.effect = dies
	default:
		f.effect = fails
	}
	f.point = points[r.rng.IntN(len(points))]
	if f.effect == fails && !strings.HasPrefix(f.point, "store/") && r.rng.IntN(3) == 0 {
		f.effect = panics
	}
	f.skip = min(r.rng.IntN(4), r.rng.IntN(4))
	return f
}

// strike lets the next fault happen when its time has come.
func (r *run) strike() {
	r.since++
	if r.armed != nil || len(r.faults) == 0 || r.since < r.faults[0].after || r.crashed {
		if r.armed != nil && r.since > 400 {
			r.armed = nil // its point is not passed in this plan
		}
		return
	}
	f := r.faults[0]
	r.faults = r.faults[1:]
	r.since, r.settle = 0, 0
	if f.point != "" {
		r.armed = &f
		if f.starting() && r.att != nil && r.rng.IntN(4) > 0 {
			r.crashed = true // so that there is a start
		}
		return
	}
	r.count(f.effect.String())
	r.log("%v fault: %v", r.w.now, f.effect)
	switch f.effect {
	case dies:
		r.crashed = true
	case jumps:
		r.w.skew = time.Duration(r.rng.Int64N(int64(4*time.Hour))) - 2*time.Hour
	case stalls:
		r.stall()
	case drains, stops:
		if r.att == nil || r.stopped {
			return
		}
		r.stopped = true
		if f.effect == drains {
			r.att.Drain()
		} else {
			r.fired++
			r.att.Stop()
		}
	case fails, panics: // strike at a point
	}
}

// stall holds up a worker for longer than it takes a partition to be idle. A
// reader is spared: its partition would be idle and rows on time be late.
func (r *run) stall() {
	var able []*worker
	for _, k := range r.w.work {
		if !k.gone && !strings.HasPrefix(k.name, "read of ") {
			able = append(able, k)
		}
	}
	if r.rng.IntN(2) == 0 { // an outside system that does not answer
		until := r.w.now + time.Duration(r.rng.Int64N(int64(3*idleAfter)))
		for _, k := range able {
			if strings.HasPrefix(k.name, "writer of ") {
				k.until = until
			}
		}
		return
	}
	if len(able) > 0 {
		able[r.rng.IntN(len(able))].until = r.w.now + time.Duration(r.rng.Int64N(int64(3*idleAfter)))
	}
}

// point is passed by the models at each call and once more when the call has
// had its effect. It returns the error to return there.
func (r *run) point(name string) error {
	if r.crashed {
		return errCrashed
	}
	f := r.armed
	if f == nil || f.point != name {
		return nil
	}
	if f.skip > 0 {
		f.skip--
		return nil
	}
	r.armed, r.since = nil, 0
	r.fired++
	r.count(f.effect.String() + " at " + name)
	r.log("%v fault: %v at %s", r.w.now, f.effect, name)
	switch f.effect {
	case panics:
		panic("injected panic at " + name)
	case dies:
		r.crashed = true
		return errCrashed
	default:
		return fault.New(f.kind, "injected at %s", name)
	}
}
