package plan

import (
	"slices"

	"github.com/streamd-io/streamd/runtime/internal/expr"
)

// prune leaves out columns that nobody reads, down to the scans.
func prune(n Node) Node {
	width := len(n.Columns())
	need := make([]bool, width)
	for i := range need {
		need[i] = true
	}
	out, to := pruned(n, need)
	if len(out.Columns()) == width && slices.Equal(to, upTo(width)) {
		return out
	}
	return pick(out, to, n.Columns())
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// pick is a projection that has column to[i] of n as column i.
func pick(n Node, to []int, cols []Column) *Project {
	p := &Project{Input: n, base: base{span: n.Loc()}}
	for i, at := range to {
		if at < 0 {
			continue
		}
		p.Exprs = append(p.Exprs, expr.NewColumn(at, cols[i].Name, cols[i].Type))
		p.cols = append(p.cols, cols[i])
	}
	return p
}

// reads marks the columns that expressions read.
func reads(need []bool, exprs ...expr.Node) {
	for _, e := range exprs {
		for _, i := range expr.Columns(e) {
			need[i] = true
		}
	}
}

// pruned returns n without columns that are not needed, as far as that is free,
// and where each old column now is: -1 if it is gone.
func pruned(n Node, need []bool) (Node, []int) {
	switch n := n.(type) {
	case *Scan:
		return pruneScan(n, need)
	case *Watermark:
		below := slices.Clone(need)
		below[n.Column] = true
		in, to := pruned(n.Input, below)
		c := *n
		c.Input, c.Column, c.cols = in, to[n.Column], moved(in, n.cols, to)
		return &c, to
	case *Project:
		return pruneProject(n, need)
	case *Filter:
		below := slices.Clone(need)
		reads(below, n.Cond)
		in, to := pruned(n.Input, below)
		c := *n
		c.Input, c.Cond, c.cols = in, renumber(n.Cond, to), in.Columns()
		return &c, to
	case *Sort:
		below := slices.Clone(need)
		reads(below, expressions(n)...)
		in, to := pruned(n.Input, below)
		c := mapExprs(n, func(e expr.Node) expr.Node { return renumber(e, to) })
		return withInputs(c, []Node{in}), to
	case *Limit:
		in, to := pruned(n.Input, need)
		return withInputs(n, []Node{in}), to
	case *Generate:
		return pruneGenerate(n, need)
	case *Aggregate:
		return pruneAggregate(n)
	case *Union:
		return pruneUnion(n, need)
	default:
	}
	return mapInputs(n, prune), upTo(len(n.Columns()))
}

// moved gives the columns of in the marks that cols had.
func moved(in Node, cols []Column, to []int) []Column {
	out := slices.Clone(in.Columns())
	for i, at := range to {
		if at >= 0 {
			out[at] = cols[i]
		}
	}
	return out
}

func pruneScan(n *Scan, need []bool) (Node, []int) {
	c := *n
	c.Needed = slices.Clone(need)
	if n.Needed != nil {
		for i, was := range n.Needed {
			c.Needed[i] = c.Needed[i] && was
		}
	}
	return &c, upTo(len(need))
}

func pruneProject(n *Project, need []bool) (Node, []int) {
	c := *n
	c.Exprs, c.cols = nil, nil
	to := make([]int, len(need))
	for i := range need {
		to[i] = -1
		if need[i] {
			to[i] = len(c.Exprs)
			c.Exprs = append(c.Exprs, n.Exprs[i])
			c.cols = append(c.cols, n.cols[i])
		}
	}
	below := make([]bool, len(n.Input.Columns()))
	reads(below, c.Exprs...)
	in, moves := pruned(n.Input, below)
	c.Input = in
	for i, e := range c.Exprs {
		c.Exprs[i] = renumber(e, moves)
	}
	return &c, to
}

// pruneGenerate keeps of the input only what is needed above: the operator copies
// those columns for every row it makes.
func pruneGenerate(n *Generate, need []bool) (Node, []int) {
	width := len(n.Input.Columns())
	below := slices.Clone(need[:width])
	reads(below, n.Arg)
	in, moves := pruned(n.Input, below)
	c := *n
	c.Input, c.Arg, c.Keep, c.cols = in, renumber(n.Arg, moves), []int{}, nil
	to := make([]int, len(need))
	for i := range width {
		to[i] = -1
		if need[i] {
			to[i] = len(c.Keep)
			c.Keep = append(c.Keep, moves[i])
			c.cols = append(c.cols, n.cols[i])
		}
	}
	for i := width; i < len(need); i++ {
		to[i] = len(c.cols)
		c.cols = append(c.cols, n.cols[i])
	}
	return &c, to
}

// pruneAggregate keeps all groups and calls: what is in the state depends on the
// aggregation alone, not on what is above it.
func pruneAggregate(n *Aggregate) (Node, []int) {
	below := make([]bool, len(n.Input.Columns()))
	for i := range below {
		below[i] = n.KeepInput
	}
	reads(below, expressions(n)...)
	in, moves := pruned(n.Input, below)
	c := mapExprs(n, func(e expr.Node) expr.Node { return renumber(e, moves) })
	return withInputs(c, []Node{in}), upTo(len(n.cols))
}

// pruneUnion brings all inputs to the same columns.
func pruneUnion(n *Union, need []bool) (Node, []int) {
	if !slices.Contains(need, true) {
		need = slices.Clone(need)
		need[0] = true // rows need a column to stand on
	}
	c := *n
	c.cols = nil
	to := make([]int, len(need))
	for i := range need {
		to[i] = -1
		if need[i] {
			to[i] = len(c.cols)
			c.cols = append(c.cols, n.cols[i])
		}
	}
	c.In = make([]Node, len(n.In))
	for k, in := range n.In {
		x, moves := pruned(in, need)
		for i := range moves {
			if !need[i] {
				moves[i] = -1
			}
		}
		if len(x.Columns()) != len(c.cols) || !slices.Equal(moves, to) {
			x = pick(x, moves, n.cols)
		}
		c.In[k] = x
	}
	return &c, to
}
