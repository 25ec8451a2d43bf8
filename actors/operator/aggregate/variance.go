package aggregate

import (
	"math"

	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
)

// variances: variance, var_samp, var_pop, stddev, std, stddev_samp, stddev_pop
// over numbers, as double. The sample forms of one value and all forms of none
// are NULL.
func variances(name string, arg messages.Type) (function, messages.Type, bool) {
	if !arg.Kind.IsNumeric() || arg.Kind == messages.Decimal {
		return nil, messages.Type{}, false
	}
	v := variance{}
	switch name {
	case "variance", "var_samp":
		v.sample = 1
	case "var_pop":
	case "stddev", "std", "stddev_samp":
		v.sample, v.root = 1, true
	case "stddev_pop":
		v.root = true
	default:
		return nil, messages.Type{}, false
	}
	return v, messages.T(messages.Double), true
}

// variance keeps the number of values, their mean and the sum of the squares of
// their distances from it (Welford), which loses no precision to large means.
type variance struct {
	sample float64 // 1 for the sample forms
	root   bool
}

func (variance) size() (int, int) { return 3, 0 }

func (variance) update(c *cell, in *input) error {
	for i, r := range in.rows {
		s := in.entries[i].Slots()[c.word:]
		x := doubleOf(in.arg, int(r))
		s[0]++
		mean := math.Float64frombits(s[1])
		delta := x - mean
		mean += delta / float64(s[0])
		s[1] = math.Float64bits(mean)
		s[2] = math.Float64bits(math.Float64frombits(s[2]) + delta*(x-mean))
	}
	return nil
}

// merge is the pairwise form of Chan, Golub and LeVeque.
func (variance) merge(c *cell, dst, src state.Entry) error {
	a, b := dst.Slots()[c.word:], src.Slots()[c.word:]
	if b[0] == 0 {
		return nil
	}
	na, nb := float64(a[0]), float64(b[0])
	ma, mb := math.Float64frombits(a[1]), math.Float64frombits(b[1])
	delta := mb - ma
	n := na + nb
	a[0] += b[0]
	a[1] = math.Float64bits(ma + delta*nb/n)
	a[2] = math.Float64bits(math.Float64frombits(a[2]) + math.Float64frombits(b[2]) + delta*delta*na*nb/n)
	return nil
}

func (v variance) result(c *cell, e state.Entry, out *messages.Column) error {
	s := e.Slots()[c.word:]
	n := float64(s[0]) - v.sample
	if n <= 0 {
		out.AppendNull()
		return nil
	}
	x := math.Float64frombits(s[2]) / n
	if v.root {
		x = math.Sqrt(x)
	}
	out.AppendFloat64(x)
	return nil
}
