package aggregate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// discard is an output that counts rows.
type discard struct{ rows int }

func (d *discard) Emit(b *messages.Batch) {
	d.rows += b.Rows()
	b.Release()
}

func open(tb testing.TB, cfg Config) *Operator {
	o, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	err = o.Open(&operator.Task{
		UID: "op", Parallelism: 1, To: epochs.KeyGroups, Counters: &epochs.Counters{},
		Now: func() time.Duration { return 0 }, SetTimer: func(operator.Domain, time.Duration) {},
	})
	if err != nil {
		tb.Fatal(err)
	}
	o.Start(messages.NoEventTime)
	return o
}

// run does a call to its end.
func run(tb testing.TB, o *Operator, out operator.Output, more bool, err error) {
	for more && err == nil {
		more, err = o.Resume(out)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// batches makes n batches of 256 rows over the given number of keys. Time
// advances by a millisecond per row.
func batches(n, keys int) []*messages.Batch {
	r := rand.New(rand.NewPCG(11, 12))
	bl := messages.NewBuilder(testSchema())
	var out []*messages.Batch
	for i := range n {
		for j := range 256 {
			bl.Column(colTime).AppendInt64(int64(i*256+j) * 1000)
			k := r.IntN(keys)
			bl.Column(colKeyInt).AppendInt64(int64(k))
			bl.Column(colKeyText).AppendString(fmt.Sprintf("customer-%d", k))
			bl.Column(colValue).AppendInt32(int32(r.IntN(1000)))
			bl.EndRow()
		}
		out = append(out, bl.Finish())
	}
	return out
}

func BenchmarkProcess(b *testing.B) {
	countSum := []Agg{{Func: "count", Arg: -1, Filter: -1}, {Func: "sum", Arg: colValue, Filter: -1}}
	second := int64(time.Second / time.Microsecond)
	for _, bm := range []struct {
		name string
		keys int
		cfg  Config
	}{
		{"count+sum by int/keys=10000", 10_000, Config{Keys: []int{colKeyInt}, EventTimeKey: -1, Mode: Update, EmitInterval: time.Hour}},
		{"count+sum by int/keys=1000000", 1_000_000, Config{Keys: []int{colKeyInt}, EventTimeKey: -1, Mode: Update, EmitInterval: time.Hour}},
		{"count+sum by string/keys=10000", 10_000, Config{Keys: []int{colKeyText}, EventTimeKey: -1, Mode: Update, EmitInterval: time.Hour}},
		{"count+sum by two/keys=10000", 10_000, Config{Keys: []int{colKeyInt, colKeyText}, EventTimeKey: -1, Mode: Update, EmitInterval: time.Hour}},
		{"tumbling 10s/keys=10000", 10_000, Config{Keys: []int{colKeyInt}, EventTimeKey: -1, Window: &Window{Column: colTime, Size: 10 * second}}},
		{"sliding 10s 2s/keys=10000", 10_000, Config{Keys: []int{colKeyInt}, EventTimeKey: -1, Window: &Window{Column: colTime, Size: 10 * second, Slide: 2 * second}}},
		{"update at once/keys=10000", 10_000, Config{Keys: []int{colKeyInt}, EventTimeKey: -1, Mode: Update}},
		{"update tumbling 10s at once/keys=10000", 10_000, Config{Keys: []int{colKeyInt}, EventTimeKey: -1, Mode: Update, Window: &Window{Column: colTime, Size: 10 * second}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			bm.cfg.Input, bm.cfg.Aggs = testSchema(), countSum
			o := open(b, bm.cfg)
			in := batches(1024, bm.keys)
			out := &discard{}
			for _, x := range in {
				more, err := o.Process(0, x, out)
				run(b, o, out, more, err)
			}
			b.ReportAllocs()
			rows := 0
			for i := 0; b.Loop(); i++ {
				x := in[i%len(in)]
				more, err := o.Process(0, x, out)
				run(b, o, out, more, err)
				rows += x.Rows()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
}

func BenchmarkEmitWindow(b *testing.B) {
	for _, slide := range []int64{10_000_000, 2_000_000} {
		b.Run(fmt.Sprintf("slide=%ds", slide/1_000_000), func(b *testing.B) {
			o := open(b, Config{
				Input: testSchema(), Keys: []int{colKeyInt}, EventTimeKey: -1,
				Aggs: []Agg{{Func: "count", Arg: -1, Filter: -1}}, Window: &Window{Column: colTime, Size: 10_000_000, Slide: slide},
			})
			out := &discard{}
			bl := messages.NewBuilder(testSchema())
			t := int64(0)
			for b.Loop() {
				for range 10_000 / 250 { // ten seconds of 1,000 rows each
					for range 250 {
						bl.Column(colTime).AppendInt64(t)
						bl.Column(colKeyInt).AppendInt64(t / 1000 % 10_000)
						bl.EndRow()
						t += 1000
					}
					x := bl.Finish()
					if _, err := o.Process(0, x, out); err != nil {
						b.Fatal(err)
					}
					x.Release()
				}
				more, err := o.Watermark(messages.EventTime(t), out)
				run(b, o, out, more, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(out.rows), "ns/row-out")
		})
	}
}
