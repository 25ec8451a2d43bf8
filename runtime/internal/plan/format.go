package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/streamd-io/streamd/runtime/internal/expr"
)

// Format writes a plan as text, one step a line, inputs below and indented.
func Format(n Node) string {
	var b strings.Builder
	writeNode(&b, n, 0)
	return b.String()
}

func writeNode(b *strings.Builder, n Node, depth int) {
	b.WriteString(strings.Repeat("  ", depth))
	b.WriteString(describe(n))
	b.WriteByte('\n')
	for _, in := range n.Inputs() {
		writeNode(b, in, depth+1)
	}
}

// describe writes one step without its inputs.
func describe(n Node) string {
	switch n := n.(type) {
	case *Scan:
		return describeScan(n)
	case *Values:
		return "Values: " + plural(len(n.Rows), "row")
	case *Watermark:
		return "Watermark: " + n.cols[n.Column].Name + " - " + n.Delay.String()
	case *Project:
		return "Project: " + strings.Join(describeColumns(n.Exprs, n.cols), ", ")
	case *Filter:
		if n.Having {
			return "Having: " + n.Cond.String()
		}
		return "Filter: " + n.Cond.String()
	case *Generate:
		return describeGenerate(n)
	case *Aggregate:
		return describeAggregate(n)
	case *Union:
		return "Union: " + plural(len(n.In), "input")
	case *Sort:
		return "Sort: " + describeKeys(n.Keys)
	case *Limit:
		s := "Limit: " + strconv.FormatInt(n.N, 10)
		if n.N < 0 {
			s = "Limit: all"
		}
		if n.Offset > 0 {
			s += " offset " + strconv.FormatInt(n.Offset, 10)
		}
		return s
	case *Distinct:
		return "Distinct"
	case *Join:
		s := "Join: " + strings.ToLower(n.Kind.String())
		if n.On != nil {
			s += " on " + n.On.String()
		}
		return s
	case *SetOperation:
		return "SetOperation: " + strings.ToLower(n.Op.String())
	case *Alias:
		return "Alias: " + n.Name
	}
	return fmt.Sprintf("%T", n)
}

func describeScan(n *Scan) string {
	kind := "static table"
	if n.Table.Streaming {
		kind = "stream"
	}
	var names []string
	for i, c := range n.cols {
		if n.Needed == nil || n.Needed[i] {
			names = append(names, c.Name)
		}
	}
	s := "Scan: " + kind + " " + n.Table.Name + " [" + strings.Join(names, ", ") + "]"
	if skipped := len(n.cols) - len(names); skipped > 0 {
		s += " (" + strconv.Itoa(skipped) + " skipped)"
	}
	return s
}

func describeColumns(exprs []expr.Node, cols []Column) []string {
	out := make([]string, len(exprs))
	for i, e := range exprs {
		out[i] = e.String()
		if out[i] != cols[i].Name {
			out[i] += " AS " + cols[i].Name
		}
	}
	return out
}

func describeGenerate(n *Generate) string {
	var names []string
	for _, c := range n.cols[n.kept():] {
		names = append(names, c.Name)
	}
	word := [...]string{"explode", "posexplode", "window"}[n.Kind]
	if n.Outer {
		word += "_outer"
	}
	arg := n.Arg.String()
	if n.Window != nil {
		arg += ", " + n.Window.String()
	}
	return "Generate: " + word + "(" + arg + ") AS " + strings.Join(names, ", ")
}

func describeAggregate(n *Aggregate) string {
	var groups []string
	for i, g := range n.Groups {
		text := g.Expr.String()
		if g.Window != nil {
			text = "window(" + text + ", " + g.Window.String() + ")"
		}
		if n.cols[i].Time != NotTime {
			text += " [event time]"
		}
		groups = append(groups, text)
	}
	var calls []string
	for i := range n.Calls {
		calls = append(calls, n.Calls[i].String())
	}
	return "Aggregate: by [" + strings.Join(groups, ", ") + "] compute [" + strings.Join(calls, ", ") + "]"
}

// String writes the call as SQL.
func (c *AggCall) String() string {
	var args []string
	for _, a := range c.Args {
		args = append(args, a.String())
	}
	if len(args) == 0 {
		args = []string{"*"}
	}
	s := c.Name + "("
	if c.Distinct {
		s += "DISTINCT "
	}
	s += strings.Join(args, ", ") + ")"
	if c.IgnoreNulls {
		s += " IGNORE NULLS"
	}
	if c.Filter != nil {
		s += " FILTER (WHERE " + c.Filter.String() + ")"
	}
	return s
}

func describeKeys(keys []SortKey) string {
	var out []string
	for _, k := range keys {
		s := k.Expr.String()
		if k.Desc {
			s += " DESC"
		}
		if k.NullsFirst == k.Desc {
			s += map[bool]string{true: " NULLS FIRST", false: " NULLS LAST"}[k.NullsFirst]
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// kept is how many columns of the input are passed on.
func (n *Generate) kept() int {
	if n.Keep != nil {
		return len(n.Keep)
	}
	return len(n.Input.Columns())
}
