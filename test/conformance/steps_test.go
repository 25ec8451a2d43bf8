package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// step carries out one step.
func (r *run) step(ctx context.Context, s step) error {
	if done, err := r.fileStep(ctx, s); done || err != nil {
		return err
	}
	if done, err := r.lifeStep(ctx, s); done || err != nil {
		return err
	}
	switch {
	case s.has("add"):
		return r.stepAdd(ctx, s)
	case s.has("expect"):
		return r.stepExpect(s)
	case s.has("expect_count"):
		return r.stepCount(s)
	case s.has("expect_watermark"):
		return r.stepWatermark(s)
	case s.has("expect_state_rows"):
		return r.stepStateRows(s)
	case s.has("expect_late_dropped"):
		return r.stepLate(s)
	case s.has("expect_query_failure"):
		if r.failure == nil {
			return fmt.Errorf("the query did not fail")
		}
		return nil
	case s.has("restart"):
		r.resumed = true
		if err := r.restart(ctx); err != nil || r.bounded() {
			return err
		}
		return r.settle(ctx)
	case s.has("stop"):
		r.held = true
		if !r.running {
			return nil
		}
		return r.stop(ctx)
	case s.has("start"):
		return r.stepStart(ctx)
	case s.has("advance_clock"):
		return r.stepClock(ctx, s)
	}
	return fmt.Errorf("runner: step %s is not supported", strings.Join(slices.Sorted(maps.Keys(s)), ", "))
}

// stepAdd adds rows and runs until idle. With a manual clock nothing happens
// until the clock moves; a query that was stopped takes them when it is started.
func (r *run) stepAdd(ctx context.Context, s step) error {
	if r.mode.restart && r.running {
		if err := r.restart(ctx); err != nil {
			return err
		}
	}
	stopped := !r.running && !r.bounded() || r.held
	if len(r.c.Sources) > 0 {
		r.unread, stopped = true, true // run when something is expected of it
	}
	if r.query != nil {
		if p := r.query.LastProgress(); p != nil {
			r.epoch = p.BatchID
		}
	}
	if err := r.add(s["add"]); err != nil {
		return err
	}
	switch {
	case stopped || r.clock != nil:
		return nil
	case r.bounded():
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	return r.settle(ctx)
}

func (r *run) stepStart(ctx context.Context) error {
	r.resumed, r.held, r.unread = true, false, false
	if err := r.restart(ctx); err != nil {
		return err
	}
	if r.bounded() {
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	return r.settle(ctx)
}

func (r *run) stepClock(ctx context.Context, s step) error {
	if r.clock == nil {
		return fmt.Errorf("runner: advance_clock needs a case that requires a manual clock")
	}
	d, err := duration(s.text("advance_clock"))
	if err != nil {
		return err
	}
	r.clock.Advance(d)
	return r.settle(ctx)
}

// duration reads "10 seconds".
func duration(text string) (time.Duration, error) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	units := map[string]time.Duration{
		"millisecond": time.Millisecond, "second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	}
	u, ok := units[strings.TrimSuffix(unit, "s")]
	if err != nil || !ok {
		return 0, fmt.Errorf("runner: %q is not a duration", text)
	}
	return time.Duration(n) * u, nil
}

// stepExpect compares rows of the sink.
func (r *run) stepExpect(s step) error {
	var raw [][]json.RawMessage
	if err := json.Unmarshal(s["expect"], &raw); err != nil {
		return fmt.Errorf("runner: expect: %w", err)
	}
	if r.result == nil {
		return fmt.Errorf("runner: rows are expected, and the case has no result schema")
	}
	want, err := expected(r.result, raw)
	if err != nil {
		return fmt.Errorf("runner: expect: %w", err)
	}
	if err := r.checkSchema(); err != nil {
		return err
	}
	got := r.rows(s.text("kind") == "all")
	if s.text("kind") == "new" && r.c.Timing != "" && r.c.OutputMode != "complete" {
		// When these rows come is left open: now or, if eager, later; and all that
		// counts in the end is that they came.
		r.wanted, r.got = append(r.wanted, want...), append(r.got, got...)
		return nil
	}
	if diff := compareRows(got, want, r.c.Ordered); diff != "" {
		return fmt.Errorf("expect: %s", diff)
	}
	return nil
}

// rows returns what the sink shows: everything, or what came since the last look.
func (r *run) rows(all bool) [][]any {
	log := r.sink.Log()
	fresh := log[r.seen:]
	r.seen = len(log)
	if r.c.OutputMode == "complete" {
		return r.sink.Rows()
	}
	if all {
		fresh = log
	}
	if r.c.OutputMode == "update" && r.c.UpdateKey != nil {
		return lastPerKey(fresh, r.c.UpdateKey)
	}
	return fresh
}

// checkSchema compares the names and types of the result.
func (r *run) checkSchema() error {
	s := r.sink.Schema()
	if s == nil {
		return fmt.Errorf("the sink has not been opened")
	}
	if !s.Equal(r.result) {
		return fmt.Errorf("result columns (%s), want (%s)", s, r.result)
	}
	return nil
}

// stepCount compares how many rows there are; which of them is left open.
func (r *run) stepCount(s step) error {
	var want int
	if err := json.Unmarshal(s["expect_count"], &want); err != nil {
		return fmt.Errorf("runner: expect_count: %w", err)
	}
	got := r.rows(s.text("kind") == "all")
	if len(got) != want {
		return fmt.Errorf("expect_count: got %d rows %s, want %d", len(got), show(got), want)
	}
	var column, op string
	var limit int64
	if _, err := fmt.Sscanf(s.text("each"), "%s %s %d", &column, &op, &limit); err != nil {
		return fmt.Errorf("runner: each %q: only column <= number is supported: %w", s.text("each"), err)
	}
	if op != "<=" {
		return fmt.Errorf("runner: each %q: only column <= number is supported", s.text("each"))
	}
	i := r.result.Index(column)
	for _, row := range got {
		if v, ok := row[i].(int32); !ok || int64(v) > limit {
			return fmt.Errorf("expect_count: row %s, want %s", show([][]any{row}), s.text("each"))
		}
	}
	return nil
}

// stepWatermark compares the watermark of the whole query in milliseconds. Where
// Spark has the start of 1970, none at all is as good.
func (r *run) stepWatermark(s step) error {
	want, err := time.Parse(time.RFC3339, s.text("expect_watermark"))
	if err != nil {
		return fmt.Errorf("runner: expect_watermark: %w", err)
	}
	got, ok := r.query.Watermark()
	if !ok && want.Equal(time.Unix(0, 0)) {
		return nil
	}
	if !ok || !got.Truncate(time.Millisecond).Equal(want) {
		return fmt.Errorf("watermark: got %v (there is one: %v), want %v", got.UTC(), ok, want)
	}
	return nil
}

// numbers reads a number or a list of numbers.
func numbers(raw json.RawMessage) (list []int64, one bool, err error) {
	var n int64
	if json.Unmarshal(raw, &n) == nil {
		return []int64{n}, true, nil
	}
	err = json.Unmarshal(raw, &list)
	return list, false, err
}

func sum(list []int64) int64 {
	var n int64
	for _, v := range list {
		n += v
	}
	return n
}

// stepStateRows compares the entries of stateful operators, from source to sink.
func (r *run) stepStateRows(s step) error {
	want, one, err := numbers(s["expect_state_rows"])
	if err != nil {
		return fmt.Errorf("runner: expect_state_rows: %w", err)
	}
	if r.c.Timing == "eager" {
		return nil // state that is released later is still there
	}
	got := r.query.StateRows()
	if one {
		got = []int64{sum(got)}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		return fmt.Errorf("state rows (-got +want):\n%s", diff)
	}
	return nil
}

// stepLate compares the late rows of the last addition, of each stateful operator
// from source to sink if the case lists them.
func (r *run) stepLate(s step) error {
	want, one, err := numbers(s["expect_late_dropped"])
	if err != nil {
		return fmt.Errorf("runner: expect_late_dropped: %w", err)
	}
	var got []int64
	for _, p := range r.query.RecentProgress() {
		if p.BatchID <= r.epoch {
			continue
		}
		for i, o := range p.StateOperators {
			if i == len(got) {
				got = append(got, 0)
			}
			got[i] += o.NumRowsDroppedByWatermark
		}
	}
	if one {
		got = []int64{sum(got)}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		return fmt.Errorf("late rows (-got +want):\n%s", diff)
	}
	return nil
}
