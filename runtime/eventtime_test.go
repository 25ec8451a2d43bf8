package runtime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

const perWindow = "INSERT INTO out SELECT window.start AS start, count(*) AS n FROM e GROUP BY window(ts, %s)"

// timed registers a source of times with the given delay.
func timed(t *testing.T, s *runtime.Session, name, delay string) *memory.Source {
	t.Helper()
	schema, err := runtime.ParseSchema("ts TIMESTAMP")
	if err != nil {
		t.Fatal(err)
	}
	src := memory.NewSource(schema)
	if err := s.Register(name, src, "ts", delay); err != nil {
		t.Fatal(err)
	}
	return src
}

// TestARowAtTheGreatestTimeIsNotLate adds the same time again and again, each in an
// epoch of its own and without any delay.
func TestARowAtTheGreatestTimeIsNotLate(t *testing.T) {
	s := open(t, runtime.Config{})
	src, out := timed(t, s, "e", "0 seconds"), sink(t, s, "out")
	exec(t, s, fmt.Sprintf(perWindow, "'5 seconds'"))
	q := s.Query("out")
	last := at(15).Add(-time.Microsecond) // the last instant of its window
	for range 100 {
		add(t, src, []any{last})
		settle(t, q)
	}
	add(t, src, []any{at(15)}) // the watermark is where the window ends
	settle(t, q)
	same(t, out.Rows(), [][]any{{at(10), int64(100)}})
	if n := q.LateRows(); n != 0 {
		t.Errorf("%d late rows, want none", n)
	}
}

// TestADelayCountsOnce walks around the bound: a window of 5 s is closed when the
// greatest time less the delay of 10 s is where it ends, and no microsecond before.
func TestADelayCountsOnce(t *testing.T) {
	end := at(105)
	for _, c := range []struct {
		greatest time.Time
		late     uint64
	}{
		{end.Add(-time.Microsecond), 0},
		{end.Add(10*time.Second - time.Microsecond), 0},
		{end.Add(10 * time.Second), 1},
		{end.Add(10*time.Second + time.Microsecond), 1},
	} {
		s := open(t, runtime.Config{})
		src, out := timed(t, s, "e", "10 seconds"), sink(t, s, "out")
		exec(t, s, fmt.Sprintf(perWindow, "'5 seconds'"))
		q := s.Query("out")
		add(t, src, []any{at(100)})
		add(t, src, []any{c.greatest})
		add(t, src, []any{at(101)})
		settle(t, q)
		if n := q.LateRows(); n != c.late {
			t.Errorf("behind %v: %d late rows, want %d", c.greatest, n, c.late)
		}
		if n := len(out.Rows()); n != int(c.late) {
			t.Errorf("behind %v: %d windows have closed, want %d", c.greatest, n, c.late)
		}
	}
}

// TestWindowsAreExactAtAnyTime has windows whose slide divides neither their length
// nor anything else, from before 1970 to the year 9999.
func TestWindowsAreExactAtAnyTime(t *testing.T) {
	const size, slide, start = 1600 * time.Millisecond, 700 * time.Millisecond, 300 * time.Millisecond
	s := open(t, runtime.Config{Defaults: map[string]string{"max_future_skew": "0s"}}) // the future moves the watermark
	src, out := timed(t, s, "e", "0 seconds"), sink(t, s, "out")
	exec(t, s, fmt.Sprintf(perWindow, "'1600 milliseconds', '700 milliseconds', '300 milliseconds'"))
	want := map[string]int64{}
	for _, year := range []int{1, 1582, 1969, 1970, 2026, 9999} {
		day := time.Date(year, 12, 31, 23, 59, 50, 0, time.UTC)
		for i := range 40 {
			ts := day.Add(time.Duration(i) * 233 * time.Millisecond)
			add(t, src, []any{ts})
			// In milliseconds, as the time since the year 1 is too long for a Duration.
			ms := ts.UnixMilli() - start.Milliseconds()
			k := ms / slide.Milliseconds()
			if ms%slide.Milliseconds() < 0 {
				k--
			}
			for ; k*slide.Milliseconds()+size.Milliseconds() > ms; k-- {
				want[time.UnixMilli(k*slide.Milliseconds()+start.Milliseconds()).UTC().String()]++
			}
		}
	}
	add(t, src, []any{time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC).Add(time.Hour)})
	settle(t, s.Query("out"))
	got := map[string]int64{}
	for _, r := range out.Rows() {
		got[r[0].(time.Time).UTC().String()] += r[1].(int64)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("windows (-want +got):\n%s", d)
	}
	if n := s.Query("out").LateRows(); n != 0 {
		t.Errorf("%d late rows, want none", n)
	}
}

// TestWindowsDoNotDependOnTheTimeZone: no zone, whatever its offset or its changes
// of the clock, loses rows or moves windows; a day of local time is asked for by the
// start of the windows.
func TestWindowsDoNotDependOnTheTimeZone(t *testing.T) {
	for _, zone := range []string{"UTC", "Asia/Kathmandu", "Europe/Moscow", "America/New_York", "Pacific/Apia"} {
		s := open(t, runtime.Config{Defaults: map[string]string{"time_zone": zone}})
		src, out := timed(t, s, "e", "0 seconds"), sink(t, s, "out")
		exec(t, s, fmt.Sprintf(perWindow, "'1 day', '1 day', '22 hours'"))
		first := time.Date(2011, 12, 20, 22, 0, 0, 0, time.UTC) // midnight two hours east of UTC
		for h := range 24 * 14 {
			add(t, src, []any{first.Add(time.Duration(h) * time.Hour)})
		}
		settle(t, s.Query("out"))
		var want [][]any
		for d := range 13 {
			want = append(want, []any{first.AddDate(0, 0, d), int64(24)})
		}
		same(t, out.Rows(), want)
	}
}

// TestASilentSourceKeepsItsWatermark reads two sources of which one says nothing
// for some epochs and for a restart. The other one alone moves nothing: what the
// silent one says afterwards is not late.
func TestASilentSourceKeepsItsWatermark(t *testing.T) {
	dir := t.TempDir()
	schema, err := runtime.ParseSchema("ts TIMESTAMP")
	if err != nil {
		t.Fatal(err)
	}
	loud, silent, out := memory.NewSource(schema), memory.NewSource(schema), memory.NewSink()
	start := func() *runtime.Session {
		s := open(t, runtime.Config{Dir: dir})
		for _, err := range []error{s.Register("loud", loud, "ts", "10 seconds"), s.Register("silent", silent, "ts", "10 seconds"), s.RegisterSink("out", out)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		exec(t, s, `CREATE QUERY q AS INSERT INTO out SELECT window.start AS start, count(*) AS n
			FROM (SELECT ts FROM loud UNION ALL SELECT ts FROM silent) e GROUP BY window(ts, '5 seconds')`)
		return s
	}
	s := start()
	add(t, silent, []any{at(110)})
	for i := range int64(4) {
		add(t, loud, []any{at(1000 + 100*i)})
		settle(t, s.Query("q"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start()
	for i := range int64(4) {
		add(t, loud, []any{at(2000 + 100*i)})
		settle(t, s.Query("q"))
	}
	same(t, out.Rows(), nil)
	if wm, ok := s.Query("q").Watermark(); !ok || !wm.Equal(at(100)) {
		t.Errorf("watermark %v, want that of the silent source, %v", wm, at(100))
	}
	add(t, silent, []any{at(101)}, []any{at(111)}, []any{at(125)})
	settle(t, s.Query("q"))
	if n := s.Query("q").LateRows(); n != 0 {
		t.Errorf("%d late rows, want none", n)
	}
	same(t, out.Rows(), [][]any{{at(100), int64(1)}, {at(110), int64(2)}})
}

// TestAGroupOfTheTimeItselfIsClosedAtThatTime: grouped by the event time, a row at the
// watermark belongs to a group that has been given out already.
func TestAGroupOfTheTimeItselfIsClosedAtThatTime(t *testing.T) {
	s := open(t, runtime.Config{})
	src, out := timed(t, s, "e", "1 second"), sink(t, s, "out")
	exec(t, s, "INSERT INTO out SELECT ts, count(*) AS n FROM e GROUP BY ts")
	q := s.Query("out")
	for _, ts := range []time.Time{at(10), at(10), at(11).Add(-time.Microsecond), at(10), at(11), at(10)} {
		add(t, src, []any{ts})
		settle(t, q)
	}
	same(t, out.Rows(), [][]any{{at(10), int64(3)}})
	if n := q.LateRows(); n != 1 {
		t.Errorf("%d late rows, want 1", n)
	}
}
