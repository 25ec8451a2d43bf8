package expr

import (
	"math/rand/v2"
	"testing"

	"github.com/streamd-io/streamd/messages"
)

// bids is a batch of n rows of an auction stream with 10 % NULL bidders.
func bids(n int) (*messages.Schema, *messages.Batch) {
	s := messages.NewSchema(
		messages.Field{Name: "price", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "bidder", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "channel", Type: messages.T(messages.String)},
		messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)},
		messages.Field{Name: "amount", Type: messages.DecimalType(12, 2)},
	)
	rnd := rand.New(rand.NewPCG(1, 2))
	channels := []string{"Google", "Facebook", "Baidu", "Apple", "channel-12"}
	bl := messages.NewBuilder(s)
	for i := range n {
		bl.Column(0).AppendInt64(rnd.Int64N(10_000))
		if rnd.IntN(10) == 0 {
			bl.Column(1).AppendNull()
		} else {
			bl.Column(1).AppendInt64(rnd.Int64N(1000))
		}
		bl.Column(2).AppendString(channels[rnd.IntN(len(channels))])
		bl.Column(3).AppendInt64(1_700_000_000_000_000 + rnd.Int64N(1e12))
		bl.Column(4).AppendDecimal(decInt(rnd.Int64N(1_000_000)))
		bl.EndRow()
		bl.EndUnit(uint64(i), 0)
	}
	return s, bl.Finish()
}

// benchmarked are the expressions whose cost and allocations are watched.
var benchmarked = []struct{ name, text string }{
	{"arithmetic", "price * 0.908D + 10 > 5000"},
	{"decimal literal", "price * 0.908 + 10 > 5000"},
	{"upper like", "upper(channel) LIKE '%OO%'"},
	{"case", "CASE WHEN price > 5000 THEN price * 2 WHEN bidder IS NULL THEN -1 ELSE bidder END"},
	{"and", "price > 100 AND bidder < 500 AND channel <> 'Apple'"},
	{"in", "channel IN ('Apple', 'Google', 'Baidu')"},
	{"coalesce", "coalesce(bidder, price)"},
	{"concat", "concat(channel, '-', price)"},
	{"hour", "hour(ts)"},
	{"date_trunc", "date_trunc('minute', ts)"},
	{"decimal", "amount * 1.19"},
	{"cast", "CAST(price AS STRING)"},
	{"try cast", "TRY_CAST(channel AS INT) IS NULL"},
	{"substring", "substring(channel, 2, 3)"},
	{"date_format", "date_format(ts, 'yyyy-MM-dd HH:mm')"},
	{"struct", "named_struct('a', price, 'b', channel)"},
	{"nested", "array(price, bidder)[1]"},
}

func BenchmarkEval(b *testing.B) {
	for _, n := range []int{1, 256} {
		s, batch := bids(n)
		for _, c := range benchmarked {
			b.Run(c.name+"/"+map[int]string{1: "1 row", 256: "256 rows"}[n], func(b *testing.B) {
				e, err := Compile(Fold(resolveText(b, c.text, s), Options{}), Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := e.Eval(batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
			})
		}
	}
}

func TestEvaluationAllocatesNothingOnceWarm(t *testing.T) {
	s, batch := bids(256)
	half := messages.NewViewPool().View(batch)
	var sel []int32
	for i := int32(0); i < 256; i += 3 {
		sel = append(sel, i)
	}
	half.Select(sel)
	half.Publish()
	for _, c := range benchmarked {
		t.Run(c.name, func(t *testing.T) {
			e, err := Compile(Fold(resolveText(t, c.text, s), Options{}), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range []*messages.Batch{batch, half} {
				got := testing.AllocsPerRun(20, func() {
					if _, err := e.Eval(b); err != nil {
						t.Fatal(err)
					}
				})
				if got != 0 {
					t.Errorf("%s: %v allocations per batch of %d rows, want 0", c.text, got, b.Rows())
				}
			}
		})
	}
}
