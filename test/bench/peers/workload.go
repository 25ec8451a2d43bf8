package main

import (
	"context"
	"strconv"
	"time"

	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/meter"
)

const keys = 1_000

// payload appends event i, about 120 bytes; both engines get it.
func payload(dst []byte, i uint64, due int64) []byte {
	h := load.Hash(i)
	dst = strconv.AppendUint(append(dst, `{"auction":`...), h%keys, 10)
	dst = strconv.AppendUint(append(dst, `,"bidder":`...), h>>40, 10)
	dst = strconv.AppendUint(append(dst, `,"price":`...), h>>20&0xfffff, 10)
	dst = append(dst, `,"url":"https://www.nexmark.com/item","extra":"abcdefghij"`...)
	dst = strconv.AppendInt(append(dst, `,"ts":`...), due, 10)
	return append(dst, '}')
}

// plan is the load of a round from now on. Flat out, event times follow the
// clock too: windows of benthos know no other time.
func plan(o options, j job) load.Run {
	rate := j.Rate
	if rate == 0 {
		rate = 200_000
	}
	s := load.StartingIn(20*time.Millisecond, rate)
	from := s.Start + o.warmup.Microseconds()
	return load.Run{Schedule: s, FlatOut: j.Rate == 0, From: from, Until: from + o.duration.Microseconds()}
}

// metered meters the measured time of a load that has begun.
func metered(ctx context.Context, o options, made func() uint64, failed <-chan error) (*result, error) {
	wait := func(at time.Time) error {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-t.C:
			return nil
		}
	}
	begin := time.Now().Add(20*time.Millisecond + o.warmup)
	if err := wait(begin); err != nil {
		return nil, err
	}
	before, err := meter.Read()
	if err != nil {
		return nil, err
	}
	rows := made()
	// A little before the end, which ends a paced load.
	if err := wait(begin.Add(o.duration - 20*time.Millisecond)); err != nil {
		return nil, err
	}
	after, err := meter.Read()
	if err != nil {
		return nil, err
	}
	rows = made() - rows
	_, peak, err := meter.Memory()
	if err != nil {
		return nil, err
	}
	u, n := after.Since(before), float64(rows)
	return &result{
		Rows: rows, CPU: u.CPU.Seconds(), GCShare: u.GCShare(), RSS: float64(peak) / (1 << 20),
		RowsPerS: n / u.Wall.Seconds(), RowsPerCPU: n / u.CPU.Seconds(), AllocsPerRow: float64(u.Objects) / n,
	}, nil
}

// latencies takes over percentiles, if there are any.
func (r *result) latencies(rec *load.Recorder) {
	if rec.Count() > 0 {
		r.P50, r.P99, r.P999, r.Max = rec.Millis(50), rec.Millis(99), rec.Millis(99.9), rec.MaxMillis()
	}
}
