package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/runtime"
)

func TestWhatWasNotMeasuredIsNotZero(t *testing.T) {
	w := newWatcher("q", "S", expensiveDue)
	_, l := w.all()
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(b), `{"p50":null,"p90":null,"p99":null,"p999":null,"max":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := ms(l.P50); got != "-" {
		t.Errorf("got %q, want a dash", got)
	}
	if w.firstAfter(time.Now()) != nil {
		t.Error("a first result without any")
	}
	w.take([]byte(`{"ts":"` + time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano) + `"}`))
	if _, l = w.all(); l.Max == nil {
		t.Error("a result that came has no latency")
	}
}

func TestTheSummarySaysThatTheQueriesAreBehind(t *testing.T) {
	for _, c := range []struct {
		unread       int64
		drain        float64
		want, absent string
	}{
		{0, 0.1, "100 bids published, 7 results out", "not been read"},
		{900, 0.1, "900 bids have not been read yet; they are read", "keep up"},
		{1001, 2.5, "does not keep up with --rate 1000", ""},
		{0, 2.5, "draining took 2.5 s beyond --duration 5s", "not been read"},
	} {
		s := Summary{RowsIn: 100, RowsOut: 7, RatePerS: 1000, Drain: c.drain, unread: c.unread, behind: c.unread > 1000}
		got := s.Text(5 * time.Second)
		if !strings.Contains(got, c.want) || c.absent != "" && strings.Contains(got, c.absent) {
			t.Errorf("got %q, want %q in it and not %q", got, c.want, c.absent)
		}
	}
}

func TestAPositionFollowsEpochs(t *testing.T) {
	epoch := func(rows int64, next string) *runtime.Progress {
		return &runtime.Progress{NumInputRows: rows, Sources: []runtime.SourceProgress{{EndOffset: json.RawMessage(`{"":{"stream":"BIDS","next_seq":` + next + `}}`)}}}
	}
	var at position
	for i, step := range []struct {
		p        *runtime.Progress
		restarts int
		want     position
	}{
		{epoch(10, "111"), 0, position{read: 110, rows: 10}},
		{epoch(5, "116"), 0, position{read: 115, rows: 15}},
		{epoch(3, "119"), 1, position{read: 118, rows: 3, restarts: 1}}, // another attempt counts from 0
		{&runtime.Progress{}, 1, position{read: 118, rows: 3, restarts: 1}},
	} {
		if at = at.after(step.p, step.restarts); at != step.want {
			t.Errorf("step %d: got %+v, want %+v", i, at, step.want)
		}
	}
}

func TestWhatAnEarlierRunHasLeftIsNotALag(t *testing.T) {
	d := &Demo{cfg: Config{Rate: 100}, lag: &lag{before: 5000, at: map[string]position{}}}
	epoch := func(query, next string) {
		d.lag.epoch(query, &runtime.Progress{NumInputRows: 10, Sources: []runtime.SourceProgress{{EndOffset: json.RawMessage(`{"":{"next_seq":` + next + `}}`)}}}, 0)
	}
	epoch("fresh", "5011") // began at the end of the stream
	for unread, want := range map[int64]bool{100: false, 101: true} {
		if d.behind(unread) != want {
			t.Errorf("%d unread bids: behind is not %t", unread, want)
		}
	}
	epoch("resumed", "1011") // went on from bid 1000
	epoch("resumed", "1021")
	for unread, want := range map[int64]bool{4100: false, 4101: true} {
		if d.behind(unread) != want {
			t.Errorf("%d unread bids with 4000 left over: behind is not %t", unread, want)
		}
	}
}
