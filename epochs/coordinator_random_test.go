package epochs_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// host plays everything around a coordinator, in any order a real host may, and
// holds the actions to the rules of the protocol.
type host struct {
	t    *rapid.T
	c    *epochs.Coordinator
	now  time.Duration
	subs int

	timer            time.Duration
	timerSet         bool
	checking         messages.Epoch // outstanding precheck
	blocked          bool
	acked            map[messages.Epoch][]bool
	ackedCount       map[messages.Epoch]int
	writing          messages.Epoch // outstanding record
	committing       messages.Epoch // outstanding sink commit
	injected         messages.Epoch // the last of each
	synced           messages.Epoch
	committed        messages.Epoch
	sourcesAcked     messages.Epoch
	first            messages.Epoch
	changed          bool // since the last injection
	requested        bool
	drain            bool
	final            messages.Epoch
	finished         bool
	allowed          bool // the last event was Ready without an error
	steps, epochsRun int
	flush            bool // every marker is to flush
}

func newHost(t *rapid.T) *host {
	cfg := epochs.CoordinatorConfig{
		Interval:  time.Duration(rapid.IntRange(1, 5).Draw(t, "interval")) * time.Second,
		Timeout:   1000 * time.Hour,
		Subtasks:  rapid.IntRange(0, 4).Draw(t, "subtasks"),
		Committed: messages.Epoch(rapid.IntRange(0, 3).Draw(t, "committed")),
		Flush:     rapid.Bool().Draw(t, "flush"),
	}
	cfg.Next = cfg.Committed + messages.Epoch(rapid.IntRange(1, 3).Draw(t, "skipped"))
	return &host{
		t: t, c: epochs.NewCoordinator(cfg), subs: cfg.Subtasks, flush: cfg.Flush,
		acked: map[messages.Epoch][]bool{}, ackedCount: map[messages.Epoch]int{},
		first: cfg.Next, injected: cfg.Next - 1, synced: cfg.Committed, committed: cfg.Next - 1, sourcesAcked: cfg.Next - 1,
	}
}

func (h *host) must(holds bool, format string, args ...any) {
	h.t.Helper()
	if !holds {
		h.t.Fatalf(format, args...)
	}
}

func (h *host) step(ev epochs.Event) {
	h.steps++
	switch ev := ev.(type) {
	case epochs.Changed:
		h.changed = true
	case epochs.EpochAsked:
		h.changed = true
	case epochs.EpochRequested:
		h.requested = true
	case epochs.DrainRequested:
		h.drain = true
	case epochs.TimerFired:
		h.timerSet = false
	case epochs.Ready:
		h.checking = 0
		h.allowed = ev.Err == nil
	case epochs.RecordSynced:
		if ev.Epoch == h.writing {
			h.writing, h.synced = 0, ev.Epoch
		}
	case epochs.SinksCommitted:
		if ev.Epoch == h.committing {
			h.committing, h.committed = 0, ev.Epoch
		}
	case epochs.Started, epochs.SubtaskAcked: // noted by the caller
	}
	for _, a := range h.c.Step(h.now, ev) {
		h.must(!h.finished, "%T after Finish", a)
		h.check(a)
	}
	h.allowed = false
}

// check holds one action to the rules and notes it.
func (h *host) check(a epochs.Action) {
	h.t.Helper()
	switch a := a.(type) {
	case epochs.SetTimer:
		h.must(a.At > h.now, "timer at %v set at %v", a.At, h.now)
		h.timer, h.timerSet = a.At, true
	case epochs.Precheck:
		h.must(h.checking == 0, "precheck of %d while that of %d is outstanding", a.Epoch, h.checking)
		h.must(a.Epoch == h.injected+1, "precheck of %d after injection of %d", a.Epoch, h.injected)
		h.gate(a.Epoch)
		h.checking = a.Epoch
	case epochs.Inject:
		h.checkInject(a.Marker)
	case epochs.WriteRecord:
		h.must(a.Epoch == h.injected && h.ackedCount[a.Epoch] == h.subs, "record %d after %d of %d acknowledgements of epoch %d", a.Epoch, h.ackedCount[a.Epoch], h.subs, h.injected)
		h.must(h.writing == 0 && a.Epoch > h.synced, "record %d while %d is written and %d is synced", a.Epoch, h.writing, h.synced)
		h.must(a.Prev == h.synced, "record %d follows %d, the newest is %d", a.Epoch, a.Prev, h.synced)
		h.writing = a.Epoch
	case epochs.CommitSinks:
		h.must(h.committing == 0 && a.Epoch == h.committed+1 && a.Epoch <= h.synced, "sink commit %d after %d, outstanding %d, record %d", a.Epoch, h.committed, h.committing, h.synced)
		h.committing = a.Epoch
	case epochs.AckSources:
		h.must(a.Epoch == h.sourcesAcked+1 && a.Epoch <= h.committed, "source acknowledgement %d after %d, sinks committed %d", a.Epoch, h.sourcesAcked, h.committed)
		h.sourcesAcked = a.Epoch
		h.epochsRun++
	case epochs.ReportBlocked:
		h.must(a.Err != nil || h.blocked, "report of an obstacle gone that was not there")
		h.blocked = a.Err != nil
	case epochs.Finish:
		h.must(a.Epoch == h.final && h.sourcesAcked == h.final, "finish %d, final epoch %d, sources acknowledged %d", a.Epoch, h.final, h.sourcesAcked)
		h.finished = true
	case epochs.Fail:
		h.t.Fatalf("fail: %v", a.Err)
	}
}

// gate: e may start when record e-1 is synced and the sinks have committed e-2.
func (h *host) gate(e messages.Epoch) {
	h.t.Helper()
	h.must(e == h.first || h.synced >= e-1, "epoch %d ahead of record %d", e, h.synced)
	h.must(h.committed+2 >= e, "epoch %d ahead of sink commit %d", e, h.committed)
}

func (h *host) checkInject(m messages.Marker) {
	h.t.Helper()
	h.must(h.allowed, "injection of %d without a positive precheck", m.Epoch)
	h.must(h.final == 0, "injection of %d after the final epoch %d", m.Epoch, h.final)
	h.must(m.Epoch == h.injected+1, "injection of %d after %d", m.Epoch, h.injected)
	h.gate(m.Epoch)
	h.must(h.changed || h.requested || h.drain, "injection of %d, but nothing changed and nobody asked", m.Epoch)
	h.must(m.Final == h.drain && m.Flush == (h.requested || h.drain || h.flush), "marker %+v, requested %v, drain %v", m, h.requested, h.drain)
	h.must(!h.blocked, "injection of %d while blocked", m.Epoch)
	h.injected, h.changed, h.requested = m.Epoch, false, false
	if m.Final {
		h.final = m.Epoch
	}
	h.acked[m.Epoch] = make([]bool, h.subs)
	delete(h.acked, m.Epoch-3)
}

// missing returns the subtasks that have not acknowledged the last epoch.
func (h *host) missing() []int {
	var list []int
	for i, acked := range h.acked[h.injected] {
		if !acked {
			list = append(list, i)
		}
	}
	return list
}

func (h *host) ack(sub int) {
	h.acked[h.injected][sub] = true
	h.ackedCount[h.injected]++
	h.step(epochs.SubtaskAcked{Subtask: sub, Epoch: h.injected})
}

func (h *host) fire() {
	h.now = max(h.now, h.timer)
	h.step(epochs.TimerFired{})
}

// random takes one step of those that are possible.
func (h *host) random() {
	draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(h.t, "choice") }
	h.now += time.Duration(draw(400)) * time.Millisecond
	switch pick := draw(20); {
	case pick < 4 && h.checking != 0:
		if draw(4) == 0 {
			h.step(epochs.Ready{Err: errors.New("no space")})
			return
		}
		h.step(epochs.Ready{})
	case pick < 9 && len(h.missing()) > 0:
		missing := h.missing()
		h.ack(missing[draw(len(missing))])
	case pick < 11 && h.writing != 0:
		h.step(epochs.RecordSynced{Epoch: h.writing})
	case pick < 13 && h.committing != 0:
		h.step(epochs.SinksCommitted{Epoch: h.committing})
	case pick < 15 && h.timerSet && h.timer <= h.now+time.Second:
		h.fire()
	case pick < 18:
		h.step(epochs.Changed{})
	case pick == 18:
		h.step(epochs.EpochRequested{})
	case pick == 19 && draw(2) == 0:
		h.step(epochs.EpochAsked{})
	default:
		h.repeat(draw(4))
	}
}

// repeat sends something again that was said before.
func (h *host) repeat(what int) {
	switch {
	case what == 0 && len(h.missing()) < h.subs:
		for sub, acked := range h.acked[h.injected] {
			if acked {
				h.step(epochs.SubtaskAcked{Subtask: sub, Epoch: h.injected})
				return
			}
		}
	case what == 3 && h.subs > 0 && h.synced >= h.first:
		h.step(epochs.SubtaskAcked{Subtask: 0, Epoch: h.synced})
	case what == 1 && h.synced >= h.first:
		h.step(epochs.RecordSynced{Epoch: h.synced})
	case what == 2 && h.committed >= h.first:
		h.step(epochs.SinksCommitted{Epoch: h.committed})
	default:
		h.step(epochs.TimerFired{})
	}
}

// settle answers everything at once until nothing is left to do but to wait for
// the timer, and reports whether there was something to answer.
func (h *host) settle() bool {
	missing := h.missing()
	switch {
	case h.checking != 0:
		h.step(epochs.Ready{})
	case len(missing) > 0:
		h.ack(missing[0])
	case h.writing != 0:
		h.step(epochs.RecordSynced{Epoch: h.writing})
	case h.committing != 0:
		h.step(epochs.SinksCommitted{Epoch: h.committing})
	default:
		return false
	}
	return true
}

func TestCoordinatorKeepsTheProtocolUnderARandomHost(t *testing.T) {
	steps, run := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := newHost(t)
		if rapid.Bool().Draw(t, "busy before start") {
			h.step(epochs.Changed{})
			h.step(epochs.EpochRequested{})
		}
		h.must(h.checking == 0 && !h.timerSet, "actions before Started")
		h.step(epochs.Started{})
		for range rapid.IntRange(1200, 3000).Draw(t, "steps") {
			h.random()
		}
		// A request is answered by an epoch of its own.
		for range 50 {
			if !h.settle() && h.timerSet {
				h.fire()
			}
		}
		before := h.injected
		h.step(epochs.EpochRequested{})
		for range 50 {
			if !h.settle() && h.timerSet {
				h.fire()
			}
		}
		h.must(h.sourcesAcked > before, "a request was not followed by an epoch: %d after %d", h.sourcesAcked, before)
		h.step(epochs.DrainRequested{})
		for i := 0; !h.finished; i++ {
			h.must(i < 100, "not finished %d steps after the drain", i)
			if !h.settle() {
				h.must(h.timerSet, "nothing to do and no timer, but not finished")
				h.fire()
			}
		}
		h.must(h.sourcesAcked == h.injected && h.synced == h.injected, "finished with epochs open")
		h.step(epochs.Changed{})
		h.step(epochs.TimerFired{})
		steps += h.steps
		run += h.epochsRun
	})
	t.Logf("%d steps, %d epochs", steps, run)
	if !t.Failed() && !testing.Short() && steps < 100_000 {
		t.Errorf("only %d steps", steps)
	}
}
