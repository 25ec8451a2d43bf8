package aggregate

import (
	"math"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// moments: skewness and kurtosis (excess) of the population, as double. They are
// NULL without values and when all values are equal.
func moments(name string, arg messages.Type) (function, messages.Type, bool) {
	if !arg.Kind.IsNumeric() || arg.Kind == messages.Decimal || name != "skewness" && name != "kurtosis" {
		return nil, messages.Type{}, false
	}
	return moment{fourth: name == "kurtosis"}, messages.T(messages.Double), true
}

// moment keeps the number of values, their mean, and the sums of the second to
// fourth powers of their distances from it.
type moment struct{ fourth bool }

func (moment) size() (int, int) { return 5, 0 }

// spread is the accumulator unpacked.
type spread struct{ n, mean, m2, m3, m4 float64 }

func readSpread(s []uint64) spread {
	f := math.Float64frombits
	return spread{f(s[0]), f(s[1]), f(s[2]), f(s[3]), f(s[4])}
}

func (a spread) write(s []uint64) {
	for i, v := range [...]float64{a.n, a.mean, a.m2, a.m3, a.m4} {
		s[i] = math.Float64bits(v)
	}
}

// plus combines two sets of values (Pébay, "Formulas for robust, one-pass
// parallel computation of covariances and arbitrary-order statistical moments",
// 2008).
func (a spread) plus(b spread) spread {
	n := a.n + b.n
	if n == 0 {
		return a
	}
	d := b.mean - a.mean
	dn := d / n
	return spread{
		n:    n,
		mean: a.mean + b.n*dn,
		m2:   a.m2 + b.m2 + d*dn*a.n*b.n,
		m3:   a.m3 + b.m3 + d*dn*dn*a.n*b.n*(a.n-b.n) + 3*dn*(a.n*b.m2-b.n*a.m2),
		m4: a.m4 + b.m4 + d*dn*dn*dn*a.n*b.n*(a.n*a.n-a.n*b.n+b.n*b.n) +
			6*dn*dn*(a.n*a.n*b.m2+b.n*b.n*a.m2) + 4*dn*(a.n*b.m3-b.n*a.m3),
	}
}

func (moment) update(c *cell, in *input) error {
	for i, r := range in.rows {
		s := in.entries[i].Slots()[c.word:]
		readSpread(s).plus(spread{n: 1, mean: doubleOf(in.arg, int(r))}).write(s)
	}
	return nil
}

func (moment) merge(c *cell, dst, src state.Entry) error {
	s := dst.Slots()[c.word:]
	readSpread(s).plus(readSpread(src.Slots()[c.word:])).write(s)
	return nil
}

func (m moment) result(c *cell, e state.Entry, out *messages.Column) error {
	a := readSpread(e.Slots()[c.word:])
	switch {
	case a.n == 0 || a.m2 == 0:
		out.AppendNull()
	case m.fourth:
		out.AppendFloat64(a.n*a.m4/(a.m2*a.m2) - 3)
	default:
		out.AppendFloat64(math.Sqrt(a.n) * a.m3 / math.Sqrt(a.m2*a.m2*a.m2))
	}
	return nil
}
