package plan

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
)

// windowsByRule lists the windows around t by the definition: those of the form
// start + k*slide that hold t.
func windowsByRule(t, size, slide, start int64) [][2]int64 {
	var out [][2]int64
	first := (t-start)/slide + 2
	for k := first; k > first-size/slide-5; k-- {
		if from := start + k*slide; from <= t && t < from+size {
			out = append(out, [2]int64{from, from + size})
		}
	}
	return out
}

func windowsFor(t *testing.T, w WindowSpec, times []int64, selected []int32) [][][2]int64 {
	t.Helper()
	b := messages.NewBuilder(messages.NewSchema(messages.Field{Name: "ts", Type: messages.T(messages.Timestamp)}))
	for i, at := range times {
		if at == math.MinInt64 {
			b.Column(0).AppendNull()
		} else {
			b.Column(0).AppendInt64(at)
		}
		b.EndRow()
		b.EndUnit(uint64(i), 0)
	}
	batch := b.Finish()
	defer batch.Release()
	in := batch
	if selected != nil {
		in = messages.NewViewPool().View(batch)
		defer in.Release()
		in.Select(append(in.SelectBuffer(len(selected)), selected...))
	}
	e := newWindowsOf(operator.ColumnRef{Of: messages.T(messages.Timestamp)}, w)
	col, err := e.Eval(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := col.Check(); err != nil {
		t.Fatal(err)
	}
	if col.Len() != batch.Len() {
		t.Fatalf("%d values for %d rows", col.Len(), batch.Len())
	}
	var out [][][2]int64
	for i := range col.Len() {
		var list [][2]int64
		for j := col.Offsets()[i]; j < col.Offsets()[i+1]; j++ {
			s := col.Child(0)
			list = append(list, [2]int64{s.Child(0).Int64s()[j], s.Child(1).Int64s()[j]})
		}
		out = append(out, list)
	}
	return out
}

func TestWindowsOfFollowTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		size := 1 + r.Int64N(40)
		slide := 1 + r.Int64N(size)
		start := r.Int64N(2*slide-1) - (slide - 1)
		var times []int64
		for range 20 {
			times = append(times, r.Int64N(200)-100)
		}
		w := WindowSpec{Size: time.Duration(size) * time.Microsecond, Slide: time.Duration(slide) * time.Microsecond, Start: time.Duration(start) * time.Microsecond}
		for i, got := range windowsFor(t, w, times, nil) {
			want := windowsByRule(times[i], size, slide, start)
			if len(got) != len(want) {
				t.Fatalf("%v of %d: %v, want %v", w, times[i], got, want)
			}
			for k := range want {
				if got[k] != want[k] {
					t.Fatalf("%v of %d: %v, want %v", w, times[i], got, want)
				}
			}
		}
	}
}

func TestWindowsOfEdges(t *testing.T) {
	w := WindowSpec{Size: 10 * time.Second, Slide: 5 * time.Second}
	got := windowsFor(t, w, []int64{math.MinInt64, 7e6, 8e6, 9e6}, []int32{0, 2})
	if len(got[0]) != 0 || len(got[1]) != 0 || len(got[2]) != 2 || len(got[3]) != 0 {
		t.Errorf("NULL and rows that are not selected have windows: %v", got)
	}
	for _, at := range []int64{math.MinInt64 + 1, math.MaxInt64, math.MaxInt64 - 1} {
		for _, list := range windowsFor(t, w, []int64{at}, nil) {
			for _, x := range list {
				if x[0] > at || x[1] <= x[0] {
					t.Errorf("window %v of %d is not around it", x, at)
				}
			}
		}
	}
}
