package epochs_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// script plays a coordinator against a transcript. Time stands still between
// lines; "tick" moves it and fires the timer on its way like a real host.
type script struct {
	coordinator *epochs.Coordinator
	now         time.Duration
	timer       time.Duration // 0: not set
}

// TestCoordinatorTranscripts runs the stories in testdata/coordinator. A file
// starts with a "new" directive; each "run" directive lists events, and the
// expected output repeats them with the actions they led to.
func TestCoordinatorTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/coordinator", func(t *testing.T, path string) {
		var s script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				s = script{coordinator: epochs.NewCoordinator(scriptConfig(t, d))}
				return ""
			case "run":
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					s.line(t, &out, strings.TrimSpace(line))
				}
				return out.String()
			}
			d.Fatalf(t, "unknown directive %q", d.Cmd)
			return ""
		})
	})
}

func scriptConfig(t *testing.T, d *datadriven.TestData) epochs.CoordinatorConfig {
	var cfg epochs.CoordinatorConfig
	for _, arg := range d.CmdArgs {
		v := arg.Vals[0]
		switch arg.Key {
		case "interval":
			cfg.Interval = duration(t, v)
		case "timeout":
			cfg.Timeout = duration(t, v)
		case "subtasks":
			cfg.Subtasks = number(t, v)
		case "committed":
			cfg.Committed = messages.Epoch(number(t, v))
		case "next":
			cfg.Next = messages.Epoch(number(t, v))
		default:
			d.Fatalf(t, "unknown setting %q", arg.Key)
		}
	}
	return cfg
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// line plays one line of a transcript.
func (s *script) line(t *testing.T, out *strings.Builder, line string) {
	t.Helper()
	fmt.Fprintln(out, line)
	f := strings.Fields(line)
	if f[0] == "tick" {
		s.tick(out, duration(t, f[1]))
		return
	}
	s.step(out, scriptEvent(t, f))
}

// scriptEvent reads an event: "ack 0 e=3", "ready", "ready no space".
func scriptEvent(t *testing.T, f []string) epochs.Event {
	t.Helper()
	epoch := func() messages.Epoch {
		v, ok := strings.CutPrefix(f[len(f)-1], "e=")
		if !ok {
			t.Fatalf("%v: want e=EPOCH at the end", f)
		}
		return messages.Epoch(number(t, v))
	}
	switch f[0] {
	case "started":
		return epochs.Started{}
	case "fire":
		return epochs.TimerFired{}
	case "changed":
		return epochs.Changed{}
	case "request":
		return epochs.EpochRequested{}
	case "asked":
		return epochs.EpochAsked{}
	case "drain":
		return epochs.DrainRequested{}
	case "ready":
		if len(f) > 1 {
			return epochs.Ready{Err: errors.New(strings.Join(f[1:], " "))}
		}
		return epochs.Ready{}
	case "ack":
		return epochs.SubtaskAcked{Subtask: number(t, f[1]), Epoch: epoch()}
	case "synced":
		return epochs.RecordSynced{Epoch: epoch()}
	case "committed":
		return epochs.SinksCommitted{Epoch: epoch()}
	}
	t.Fatalf("unknown event %q", f[0])
	return nil
}

func (s *script) tick(out *strings.Builder, d time.Duration) {
	until := s.now + d
	for s.timer > 0 && s.timer <= until {
		s.now, s.timer = max(s.now, s.timer), 0
		fmt.Fprintf(out, "  %v: timer\n", s.now)
		s.step(out, epochs.TimerFired{})
	}
	s.now = until
}

func (s *script) step(out *strings.Builder, ev epochs.Event) {
	for _, a := range s.coordinator.Step(s.now, ev) {
		if timer, ok := a.(epochs.SetTimer); ok {
			s.timer = timer.At
		}
		fmt.Fprintf(out, "  -> %s\n", describe(a))
	}
}

func describe(a epochs.Action) string {
	switch a := a.(type) {
	case epochs.SetTimer:
		return fmt.Sprintf("set timer %v", a.At)
	case epochs.Precheck:
		return fmt.Sprintf("precheck e=%d", a.Epoch)
	case epochs.Inject:
		s := fmt.Sprintf("inject e=%d", a.Marker.Epoch)
		if a.Marker.Flush {
			s += " flush"
		}
		if a.Marker.Final {
			s += " final"
		}
		return s
	case epochs.WriteRecord:
		return fmt.Sprintf("write record e=%d prev=%d", a.Epoch, a.Prev)
	case epochs.CommitSinks:
		return fmt.Sprintf("commit sinks e=%d", a.Epoch)
	case epochs.AckSources:
		return fmt.Sprintf("ack sources e=%d", a.Epoch)
	case epochs.ReportBlocked:
		if a.Err == nil {
			return "report not blocked"
		}
		return fmt.Sprintf("report blocked: %v", a.Err)
	case epochs.Finish:
		return fmt.Sprintf("finish e=%d", a.Epoch)
	case epochs.Fail:
		return fmt.Sprintf("fail: %v", a.Err)
	}
	return fmt.Sprintf("%T", a)
}

func TestCoordinatorAllocatesOnlyForActions(t *testing.T) {
	const subtasks = 64
	c := epochs.NewCoordinator(epochs.CoordinatorConfig{Subtasks: subtasks})
	var changed, requested, started epochs.Event = epochs.Changed{}, epochs.EpochRequested{}, epochs.Started{}
	c.Step(0, started)
	if got := testing.AllocsPerRun(1000, func() { c.Step(time.Millisecond, changed) }); got != 0 {
		t.Errorf("a repeated Changed allocates %v times", got)
	}
	c.Step(time.Millisecond, requested)
	c.Step(time.Millisecond, epochs.Ready{})
	acks := make([]epochs.Event, subtasks)
	for i := range acks {
		acks[i] = epochs.SubtaskAcked{Subtask: i, Epoch: 1}
	}
	i := 0
	if got := testing.AllocsPerRun(subtasks-2, func() { c.Step(time.Millisecond, acks[i]); i++ }); got != 0 {
		t.Errorf("an acknowledgement that is not the last allocates %v times", got)
	}
}
