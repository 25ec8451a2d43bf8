package messages

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkBuild is the cost of filling and recycling a batch of six columns.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			bl := NewBuilder(bidSchema)
			b.ReportAllocs()
			for b.Loop() {
				for i := range n {
					appendBid(bl, int64(i))
					bl.EndUnit(uint64(i), EventTime(i))
				}
				bl.Finish().Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
}

// BenchmarkAppend is the cost of one value per kind of append.
func BenchmarkAppend(b *testing.B) {
	const n = 1024
	for _, c := range []struct {
		name string
		typ  Type
		add  func(c *Column, i int)
	}{
		{"bigint", T(BigInt), func(c *Column, i int) { c.AppendInt64(int64(i)) }},
		{"decimal", DecimalType(30, 2), func(c *Column, i int) { c.AppendDecimal(Decimal128{Lo: uint64(i)}) }},
		{"boolean", T(Boolean), func(c *Column, i int) { c.AppendBool(i&1 == 0) }},
		{"string", T(String), func(c *Column, _ int) { c.AppendString("channel") }},
		{"null", T(BigInt), func(c *Column, _ int) { c.AppendNull() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var col Column
			for b.Loop() {
				col.Reset(c.typ)
				for i := range n {
					c.add(&col, i)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
		})
	}
	b.Run("bigint inlined", func(b *testing.B) {
		var col Column
		for b.Loop() {
			col.Reset(T(BigInt))
			for i := range int64(n) {
				col.AppendInt64(i)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
	})
	b.Run("bigint with NULLs", func(b *testing.B) {
		var col Column
		for b.Loop() {
			col.Reset(T(BigInt))
			col.AppendNull()
			for i := range int64(n) {
				col.AppendInt64(i)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
	})
}

// BenchmarkCompact copies selected rows of six columns.
func BenchmarkCompact(b *testing.B) {
	for _, percent := range []int{5, 25, 50, 100} {
		b.Run(fmt.Sprintf("selected=%d%%", percent), func(b *testing.B) {
			bl := NewBuilder(bidSchema)
			r := rand.New(rand.NewPCG(1, 2))
			var sel []int32
			for i := range 1024 {
				appendBid(bl, int64(i))
				bl.EndUnit(uint64(i), EventTime(i))
				if r.IntN(100) < percent {
					sel = append(sel, int32(i))
				}
			}
			v := NewViewPool().View(bl.Finish())
			v.Select(sel)
			v.Publish()
			pool := NewPool(bidSchema)
			b.ReportAllocs()
			for b.Loop() {
				v.Compact(pool).Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(sel)), "ns/row")
		})
	}
}

// BenchmarkView is the fixed cost of a filter's output.
func BenchmarkView(b *testing.B) {
	bl := NewBuilder(bidSchema)
	appendBid(bl, 1)
	src := bl.Finish()
	pool := NewViewPool()
	b.ReportAllocs()
	for b.Loop() {
		pool.View(src).Publish().Release()
	}
}
